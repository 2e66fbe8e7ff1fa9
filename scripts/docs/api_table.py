#!/usr/bin/env python3
"""Prints docs/api.md: every public name, where it is specified, whether it is implemented, and what
tests it; or, with --check, compares that page with what would be printed. See api-table.sh."""

import argparse
import collections
import difflib
import fnmatch
import glob
import os
import re
import subprocess
import sys

PUBLIC = re.compile(r"\b(?:gex|gasnet|gasnett|GEX|GASNET|GASNETT|PLATFORM|SIZEOF_GEX|SIZEOF_GASNET)_\w+")
PASTED = re.compile(r"\b((?:gex|gasnett?)_\w+) ?##")
PASTED_END = re.compile(r"## ?(_\w+)")
MODES = (["-DGASNET_SEQ"], ["-DGASNET_PARSYNC"], ["-DGASNET_PAR"], ["-DGASNET_PAR", "-DGASNET_DEBUG"])
TOOLS_MODES = (["-DGASNETT_THREAD_SINGLE"], ["-DGASNETT_THREAD_SAFE"])
HEADERS = [
    "gasnetex.h",
    "gasnet.h",
    "gasnet_coll.h",
    "gasnet_vis.h",
    "gasnet_ratomic.h",
    "gasnet_mk.h",
    "gasnet_tools.h",
]

Row = collections.namedtuple("Row", "name where issue")


def expand(text):
    """{a,b} and {0..16}, as a shell expands them."""
    found = re.search(r"\{([^{}]*)\}", text)
    if not found:
        return [text]
    numbers = re.fullmatch(r"(\d+)\.\.(\d+)", found.group(1))
    words = [str(n) for n in range(int(numbers[1]), int(numbers[2]) + 1)] if numbers else found.group(1).split(",")
    return [rest for word in words for rest in expand(text[: found.start()] + word + text[found.end() :])]


def specification(path):
    """Sections of rows, in the order of the list."""
    sections = []
    with open(path) as file:
        lines = [line.rstrip("\n") for line in file]
    for before, line in zip([""] + lines, lines):
        if line.startswith("# ") and before == "#":
            sections.append((line[2:], []))
        elif line and not line.startswith("#"):
            fields = line.split("\t") + [""]
            sections[-1][1].extend(Row(name, fields[1], fields[2]) for name in expand(fields[0]))
    return sections


class Headers:
    """The public names of the headers, as a compiler sees them in every mode."""

    def __init__(self, include, conduit, cc):
        self.macros = {}
        self.inline = set()
        self.declared = set()
        self.data = set()
        paths = [f"-I{include}", f"-I{include}/{conduit}-conduit"]
        for header in HEADERS:
            if not os.path.exists(f"{include}/{header}"):
                continue
            for mode in TOOLS_MODES if header == "gasnet_tools.h" else MODES:
                self.read([cc, "-E", *paths, *mode], header)

    def read(self, command, header):
        """One header in one mode."""
        text = f"#include <{header}>\n"

        def run(option):
            return subprocess.run([*command, option, "-x", "c", "-"], input=text, capture_output=True, text=True)

        macros, code = run("-dM"), run("-P")
        if code.returncode != 0:
            sys.exit(f"api_table.py: {header} does not preprocess with {' '.join(command)}:\n{code.stderr}")
        for name, arguments in re.findall(r"^#define (\w+)(\()?", macros.stdout, re.M):
            if PUBLIC.fullmatch(name) and not name.endswith("_H"):
                self.macros[name] = "macro" if arguments else "constant"
        self.declared.update(
            name for name in PUBLIC.findall(re.sub(r'"[^"\n]*"', "", code.stdout)) if not name.endswith("_")
        )
        self.data.update(re.findall(r"\(\*\s*(\w+)\)\s*\([^;{}]*\)\s*;", code.stdout))
        self.data.update(re.findall(r"\bextern\b[^;{}()]*?(\w+)\s*;", code.stdout))
        self.inline.update(re.findall(r"\bstatic\b[^;{}()]*?\b((?:gex|gasnett?)_\w+)\s*\(", code.stdout))

    def names(self):
        """All of them, without struct fields."""
        fields = {
            n
            for n in self.declared
            if n not in self.macros and re.fullmatch(r"gex_[a-z_]+", n) and not n.endswith("_t")
        }
        return (self.declared - fields) | set(self.macros)

    def kind(self, name, exported):
        """The kind of a name."""
        if name.endswith("_t") and name not in exported:
            return "type"
        if name in exported:
            if name in self.data:
                return "variable"
            return "function, inline form" if name in self.inline or name in self.macros else "function"
        if name in self.inline:
            return "inline function"
        return self.macros.get(name, "constant" if name.isupper() else "declaration")


class Tests:
    """The programs that use a name, by their texts."""

    def __init__(self, root):
        self.written, self.pasted = collections.defaultdict(set), collections.defaultdict(set)
        self.programs = set()
        for path in sorted(glob.glob(f"{root}/**/*", recursive=True)):
            if path.endswith((".c", ".cc", ".cpp")):
                program = os.path.splitext(os.path.basename(path))[0]
                self.programs.add(program)
                with open(path, errors="replace") as file:
                    text = file.read()
                names = set(PUBLIC.findall(text))
                for name in names.union(name + end for name in names for end in set(PASTED_END.findall(text))):
                    self.written[name].add(program)
                for front in set(PASTED.findall(text)):
                    self.pasted[front].add(program)

    def of(self, name):
        """Programs that test a name; a numbered function counts as used where its macro is, and a
        name that is pasted together (`gex_AD_OpNB_##type`, `family##_swap`) where its parts are."""
        unnumbered = re.sub(r"\d+(_v2)?$", "", name) if name.startswith("gex_AM_") else name
        fronts = [front for front in self.pasted if name.startswith(front)]
        return set().union(self.written[name], self.written[unnumbered], *(self.pasted[front] for front in fronts))


def table_row(names, where, kind, state, programs):
    """One line; a family of numbered names is one line."""
    shown = f"`{names[0]}`" if len(names) == 1 else f"`{names[0]}` … `{names[-1]}`"
    listed = sorted(programs)
    tested = ", ".join(listed[:4]) + (" and others" if len(listed) > 4 else "")
    return f"| {shown} | {kind} | {where} | {state} | {tested or '–'} |"


def families(rows):
    """Merges neighbouring rows that differ in a number only."""
    groups = []
    for row in rows:
        stem = re.sub(r"\d+(?=$|_v2$)", "#", row.name)
        if groups and "#" in stem and groups[-1][0] == (stem, row.where, row.issue):
            groups[-1][1].append(row)
        else:
            groups.append(((stem, row.where, row.issue), [row]))
    return [group for _, group in groups]


def differences(page, fresh, programs):
    """The defects of a page. Its last column may lack programs that were added since; it must not
    name one that is gone."""
    tested = {}
    for line in fresh:
        tested[line.partition(" | ")[0]] = line.rpartition(" | ")[2] != "– |"
    for line in page:
        name, last = line.partition(" | ")[0], line.rpartition(" | ")[2]
        if not name.startswith("| `") or last == "– |":
            continue
        gone = [p for p in last.removesuffix(" |").removesuffix(" and others").split(", ") if p not in programs]
        if gone or not tested.get(name, True):
            yield f"{name}: " + (f"there is no program {' '.join(gone)}" if gone else "no program tests it any more")

    def comparable(lines):
        return [
            re.sub(r"\d+ of these tested", "", line.rpartition(" | ")[0] if line.startswith("| `") else line)
            for line in lines
        ]

    yield from difflib.unified_diff(comparable(page), comparable(fresh), "docs/api.md", "now", n=0, lineterm="")


def main():
    """The page on standard output, or the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--headers", required=True, help="include tree")
    parser.add_argument("--conduit", default="smp")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--exports", required=True, help="file with the exported names")
    parser.add_argument("--spec", default="scripts/docs/api-spec.tsv")
    parser.add_argument("--tests", default="gasnet-compat-tests")
    parser.add_argument("--check", default="", help="a page to compare instead of printing one")
    arguments = parser.parse_args()

    headers = Headers(arguments.headers, arguments.conduit, arguments.cc)
    with open(arguments.exports) as file:
        exported = set(file.read().split())
    tests = Tests(arguments.tests)
    present = {name for name in headers.names() if headers.kind(name, exported) != "declaration"} | exported
    count = collections.Counter()
    body, seen = [], set()

    def state_of(name, issue):
        count["specified"] += 1
        if name in present:
            count["implemented"] += 1
            count["tested"] += bool(tests.of(name))
            return "yes"
        count["missing"] += not issue
        count["optional"] += issue == "optional"
        return {"": "**missing**", "later": "later", "optional": "not in this configuration"}.get(
            issue, f"issue {issue}"
        )

    for title, rows in specification(arguments.spec):
        body += [f"\n## {title}\n", "| name | kind | specified | implemented | tested by |", "|---|---|---|---|---|"]
        for group in families(rows):
            names = [row.name for row in group]
            if "*" in names[0]:
                members = sorted(fnmatch.filter(present, names[0]))
                programs = set().union(*(tests.of(n) for n in members))
                state = f"{len(members)} of them" if members else "later"
                body.append(table_row(names, group[0].where, "family", state, programs))
                seen.update(members)
                continue
            states = [state_of(row.name, row.issue) for row in group]
            programs = set().union(*(tests.of(n) for n in names))
            state = states[0] if len(set(states)) == 1 else f"{states.count('yes')} of {len(states)}"
            kind = headers.kind(names[0], exported) if names[0] in present else "–"
            body.append(table_row(names, group[0].where, kind, state, programs))
            seen.update(names)

    others = sorted(name for name in present if PUBLIC.fullmatch(name) and name not in seen)
    body += [
        "\n## Further names of the headers\n",
        "| name | kind | specified | implemented | tested by |",
        "|---|---|---|---|---|",
    ]
    for group in families([Row(name, "–", "") for name in others]):
        names = [row.name for row in group]
        programs = set().union(*(tests.of(n) for n in names))
        body.append(table_row(names, "–", headers.kind(names[0], exported), "yes", programs))
    internal = sorted(name for name in exported if not PUBLIC.fullmatch(name))
    body += ["\n## Exported names that only the headers use\n", ", ".join(f"`{name}`" for name in internal) or "None."]

    head = f"""# The public API

This page is generated by `scripts/docs/api-table.sh`; do not edit it. EX is the GASNet-EX
specification 0.19, G1 the GASNet specification 1.8, T the GASNet tools specification 1.20, ID the
implementation-defined documentation of GASNet-EX.
"Tested by" names programs of gasnet-compat-tests whose text has the name.

{count["specified"]} names are specified; {count["implemented"]} are implemented, {count["tested"]} of these tested.
{count["missing"]} are missing; {count["optional"]} are options that smp does not have."""
    page = "\n".join([head, *body]).splitlines()
    if not arguments.check:
        print("\n".join(page))
        return 0
    with open(arguments.check) as file:
        wrong = list(differences(file.read().splitlines(), page, tests.programs))
    if count["missing"]:
        wrong.append(f"{count['missing']} specified names are missing")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
