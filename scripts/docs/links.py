#!/usr/bin/env python3
"""Checks the relative links of all pages (*.md) of a folder: links.py FOLDER. Each leads to a file
or folder that is there and, if it names a heading, to a page with that heading. Of a folder with a
.git, the pages are those that git knows. Prints the links that do not, and exits 1 if there are
any."""

import re
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def pages(folder):
    """The pages of a folder."""
    if (folder / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "*.md"], cwd=folder, capture_output=True, text=True, check=True)
        return [folder / name for name in listed.stdout.split()]
    return sorted(folder.rglob("*.md"))


def text_of(page):
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(page):
    """The names of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.M)
    plain = (re.sub(r"\]\([^)]*\)", "", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def dead(page):
    """The dead links of a page."""
    for path, heading in LINK.findall(re.sub(r"`[^`\n]*`", "", text_of(page))):
        if ":" in path:
            continue
        target = page.parent / path if path else page
        if not target.exists():
            yield path
        elif heading and heading not in anchors(target):
            yield f"{path}#{heading}"


def main():
    """Prints the dead links; exit status 1 if there are any."""
    folder = Path(sys.argv[1])
    found = pages(folder)
    wrong = [f"{page.relative_to(folder)}: {link} leads nowhere" for page in found for link in dead(page)]
    print("\n".join(wrong) if wrong else f"{len(found)} pages")
    return bool(wrong) or not found


if __name__ == "__main__":
    sys.exit(main())
