#!/usr/bin/env python3
"""Writes the table of variables in the page of each conduit from docs/env.md, which gasnet_info
writes from the declarations. It stands between two comments of the page. With --check, fails
where a page has another table."""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- variables: written by scripts/docs/variable_tables.py -->", "<!-- end of variables -->"


def table(conduit):
    """The table of a conduit."""
    section = (DOCS / "env.md").read_text(encoding="utf-8").partition(f"## Network: {conduit}\n")[2]
    rows = re.findall(r"^\| (`.*) \|$", section.partition("\n## ")[0], re.M)
    lines, unused = ["| variable | meaning | default |", "|---|---|---|"], []
    for row in rows:
        name, meaning, _, default, _, status, _ = re.split(r" \| ", row)
        if status.startswith("accepted"):
            unused.append(name)
        else:
            lines.append(f"| {name} | {meaning} | {default} |")
    if unused:
        lines += ["", *wrapped(f"Accepted without effect: {', '.join(unused)}.")]
    return "\n".join(lines)


def wrapped(text):
    """Lines of at most 100 columns."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + 1 + len(word) > 100:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def main():
    """Everything."""
    failed = 0
    for page in sorted(DOCS.glob("*.md")):
        old = page.read_text(encoding="utf-8")
        if BEGIN not in old:
            continue
        before, _, rest = old.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not end:
            sys.exit(f"{page.name}: {END} is missing")
        new = f"{before}{BEGIN}\n\n{table(page.stem)}\n\n{END}{after}"
        if sys.argv[1:] != ["--check"]:
            page.write_text(new, encoding="utf-8")
        elif new != old:
            failed = 1
            print(f"{page.name}: its table of variables is stale: run scripts/check/env-doc.sh --write")
    return failed


if __name__ == "__main__":
    sys.exit(main())
