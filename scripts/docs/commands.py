#!/usr/bin/env python3
"""Checks that each line of the shell blocks of all pages begins with a command that exists: on this
machine, in the tree, or among the programs of an installation, whose folder is the argument.
A block without a language is shell; other text is marked, as ```text."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILTIN = {"cd", "export", "for", "done", "if", "fi", "set", "ulimit", "unset"}
# Commands of sites, which this machine may lack.
ELSEWHERE = {"fi_info", "ibv_devinfo", "module", "rustup", "spack", "srun", "sudo"}


def blocks(page):
    """(number of the first line, language, lines) of each block."""
    start, language, lines = 0, "", []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"\s*```(\w*)", line)
        if not fence:
            lines.append(line)
        elif start:
            yield start, language, lines
            start, lines = 0, []
        else:
            start, language, lines = number + 1, fence[1], []


def commands(start, lines):
    """(line number, command) of each command, which may continue after a backslash or inside
    quotes."""
    text, first = "", start
    for number, line in enumerate(lines, start):
        if not text:
            first = number
        text += line + "\n"
        bare = re.sub(r"\\.|'[^']*'", "", text.rstrip("\n").replace("\\\n", " "), flags=re.S)
        if line.endswith("\\") or bare.count('"') % 2:
            continue
        yield first, text
        text = ""
    if text:
        yield first, text


def first_word(text):
    """The command of a line, without the variables before it; empty for a comment."""
    words = re.sub(r"^\s*(\w+=(\"[^\"]*\"|'[^']*'|\S*)\s+)*", "", text.strip() + " ").split()
    return words[0] if words and not words[0].startswith("#") and "=" not in words[0] else ""


def exists(word, folder, installed):
    """Whether there is such a command, in this folder."""
    name = os.path.basename(word)
    return (
        word in BUILTIN | ELSEWHERE
        or shutil.which(word) is not None
        or (folder / word).exists()
        or (name in installed and word in (name, f"/opt/gasnet/bin/{name}"))
        or word.startswith(("./a.out", "./hello", "build/emulators/pmi/", "build/flood"))
    )


def main():
    """Prints the unknown commands; exit status 1 if there are any."""
    installed = set(os.listdir(sys.argv[1])) if len(sys.argv) > 1 else set()
    pages = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    failed = 0
    for page in pages.stdout.split():
        for start, language, lines in blocks(ROOT / page):
            folder = ROOT
            for number, text in commands(start, lines) if language in ("", "sh") else ():
                word = first_word(text)
                if word == "cd":
                    folder = ROOT / text.split()[1]
                if word and not exists(word, folder, installed):
                    print(f"{page}:{number}: there is no command {word}")
                    failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
