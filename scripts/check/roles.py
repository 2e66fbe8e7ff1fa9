#!/usr/bin/env python3
"""Compares the table of roles in ARCHITECTURE.md with the modules of the conduits: each module has
its role in the table, and each conduit has the modules that the table names for it."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Modules that every crate has or may have.
COMMON = {"lib", "tests", "fuzz"}


def table():
    """The modules of each conduit, from the page."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Files of a conduit")[2]
    found = {}
    for row in re.findall(r"^\| (`.*) \|$", text.partition("\n## ")[0], re.M):
        modules, _, conduits = row.split(" | ")
        modules = re.findall(r"`(\w+)`", modules)
        # One list of conduits for each module, or one for all.
        lists = conduits.split("; ")
        for place, module in enumerate(modules):
            for conduit in lists[min(place, len(lists) - 1)].split():
                found.setdefault(conduit, set()).add(module)
    return found


def main():
    """Prints the differences; exit status 1 if there are any."""
    failed = 0
    for conduit, named in sorted(table().items()):
        source = ROOT / f"conduit-{conduit}" / "src"
        if not source.is_dir():
            source = ROOT / "conduit" / conduit / "src"
        there = {path.stem for path in source.iterdir()} - COMMON
        for module in sorted(there - named):
            print(f"roles: ARCHITECTURE.md has no role for {module} of conduit-{conduit}")
        for module in sorted(named - there):
            print(f"roles: conduit-{conduit} has no {module}, which ARCHITECTURE.md names")
        failed |= there != named
    for source in sorted(ROOT.glob("conduit-*/src")):
        conduit = source.parent.name.removeprefix("conduit-")
        if conduit not in table():
            print(f"roles: ARCHITECTURE.md has no role for the files of conduit-{conduit}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
