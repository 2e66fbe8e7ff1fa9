#!/usr/bin/env python3
"""configure_options.py [--check | --against FILE | --try CONFIGURE]: the options of the reference's
`configure`, from scripts/build/configure-options.txt.

Writes their table in docs/compat.md, between two comments. --check fails where it is another one.
--against: fails unless the list has every option in FILE, the output of a `configure --help`.
--try: fails unless CONFIGURE treats each option as the list says."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST, PAGE = ROOT / "scripts/build/configure-options.txt", ROOT / "docs/compat.md"
BEGIN, END = "<!-- options: written by scripts/docs/configure_options.py -->", "<!-- end of options -->"
CLASSES = {
    "used": "These have the effect that they have there, or set a site's default of a variable:",
    "always": "These ask for what is so in every build, or is found out at run time:",
    "unused": "These have no effect. One warning names those that are given:",
}
# Spellings of help texts for which the list has others, or which every configure has.
GENERAL = {"help", "version", "no-create", "enable-FEATURE", "disable-FEATURE", "with-PACKAGE", "without-PACKAGE"}
GENERAL |= {"host", "target"}


def rows():
    """Class, options with their sample values, and text of each line."""
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            kind, options, text = line.split(" | ")
            yield kind, options.split(), text


def name(option):
    """Without its value. configure takes one dash for two."""
    return option.partition("=")[0]


def shown(option):
    """As users write it."""
    return f"`{name(option).removeprefix('-') if len(name(option)) == 3 else name(option)}`"


def table():
    """All of it, in three parts."""
    parts = []
    for kind, title in CLASSES.items():
        lines = [title, "", "| options | here |", "|---|---|"]
        for row, options, text in rows():
            if row == kind:
                lines.append(f"| {', '.join(map(shown, options))} | {text} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def check(write):
    """Whether the page has this table, or makes it so."""
    old = PAGE.read_text(encoding="utf-8")
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE.name}: {BEGIN} or {END} is missing")
    new = f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"
    if write:
        PAGE.write_text(new, encoding="utf-8")
    elif new != old:
        print(f"{PAGE.name}: its table of options is stale: run scripts/docs/configure_options.py")
        return 1
    return 0


def against(text):
    """Options of a help text that the list lacks."""
    listed = {name(option).lstrip("-") for _, options, _ in rows() for option in options} | GENERAL
    missing = set()
    for option in re.findall(r"^ +(?:-\w, )?--((?:\(en\|dis\))?[\w-]+)", text, re.M):
        both = option.startswith("(en|dis)able-")
        forms = [option.replace("(en|dis)", form) for form in ("en", "dis")] if both else [option]
        missing |= {form for form in forms if form not in listed}
    for option in sorted(missing):
        print(f"--{option}: in the help text, not in {LIST.name}")
    return len(missing)


def settings(configure, *options):
    """What configure would write with these options, and its warnings."""
    words = [configure, "--no-create", "CC=true", "CXX=true", "--enable-smp", *options]
    with tempfile.TemporaryDirectory() as folder:
        # A machine on which ofi is built unasked.
        environment = os.environ | {"CRAYPE_NETWORK_TARGET": "ofi", "HARDWARE_ROOT": folder}
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: {done.stderr}")
        # The folder, and the options themselves.
        lines = [line.replace(folder, "") for line in done.stdout.splitlines() if not line.startswith("CONFIGURE_ARGS")]
    return lines, [line for line in done.stderr.splitlines() if "WARNING" in line]


def attempt(configure):
    """Whether configure treats the options as the list says."""
    wrong = []
    given = {kind: [option for row, options, _ in rows() for option in options if row == kind] for kind in CLASSES}
    default = settings(configure)[0]
    for option in given["used"]:
        lines, warnings = settings(configure, option)
        if lines == default or warnings:
            wrong.append(f"{option}: listed as used, but changes no setting, or has a warning: {warnings}")
    lines, warnings = settings(configure, *given["always"])
    if lines != default or warnings:
        wrong.append(f"options listed as always: settings differ, or a warning: {warnings}")
    lines, warnings = settings(configure, *given["unused"])
    named = warnings[0].split() if len(warnings) == 1 else []
    silent = [option for option in given["unused"] if option not in named]
    if lines != default or silent:
        wrong.append(f"options listed as unused: not named in one warning: {' '.join(silent)}")
    print("\n".join(wrong))
    return len(wrong)


def main():
    """Everything."""
    option, *file = [*sys.argv[1:], ""]
    if option in ("", "--check"):
        return check(write=not option)
    if option == "--against" and file[0]:
        return against(Path(file[0]).read_text(encoding="utf-8"))
    if option == "--try" and file[0]:
        return attempt(file[0])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
