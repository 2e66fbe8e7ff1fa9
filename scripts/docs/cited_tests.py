#!/usr/bin/env python3
"""Checks that each test cited in docs/*-manual.md exists.

A citation is a code span like `c: name`; further names follow it in spans of their own, behind a
comma or "and". What precedes the colon says where the name is looked for:

    c         a check or plan of conduit-X/tests/conformance.rs, or a check of the conformance suite
    unit      a module of conduit-X/src, or of src/
    compat    a family or program of gasnet-compat-tests, or a test of its files
    step      a step of scripts/check.sh
    emulator  a program of emulators/X/tests
    others    a test of conduit-X/tests/OTHER, whose initial is enough

A span without a colon that begins a cell of a column "test" names a file of conduit-X/tests. Behind
the word "mutant" stands a definition of scripts/mutants."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPAN = re.compile(r"`([^`]+)`")
# Text between names of one citation.
BETWEEN = re.compile(r",?\s*(and\s+)?(mutant\s+)?")
COMPAT = ROOT / "gasnet-compat-tests"


def sources(place):
    """The text of a file, or of all files of a folder; empty if there is neither."""
    files = sorted(place.rglob("*")) if place.is_dir() else [place, place.with_suffix(".rs")]
    return "\n".join(path.read_text(encoding="utf-8") for path in files if path.is_file())


def defines(text, name):
    """Whether Rust or Python text has a test, a module or a row of a macro of this name."""
    return bool(re.search(rf"\b(fn|mod|def)\s+(test_)?{name}\b|^\s*{name}:|\"{name}\"", text, re.M))


def is_module(folder, name):
    """Whether a crate has a module whose path ends so."""
    return any([*folder.glob(f"**/{name}.rs"), *folder.glob(f"**/{name}/mod.rs"), *ROOT.glob(f"{name}.rs")])


def is_compat(name):
    """Whether gasnet-compat-tests has such a family, program or test."""
    family, _, program = name.rpartition("/")
    for path in (COMPAT / family).rglob("*"):
        if path.stem == program or path.suffix == ".py" and defines(path.read_text(encoding="utf-8"), program):
            return True
    return False


def exists(conduit, kind, name):
    """Whether there is such a test."""
    crate = ROOT / f"conduit-{conduit}"
    if kind == "mutant":
        return (ROOT / "scripts/mutants" / f"{name}.txt").exists()
    if kind == "unit":
        return is_module(crate / "src", name)
    if kind == "compat":
        return all(is_compat(word) for word in name.split())
    if kind == "step":
        return any((ROOT / "scripts/check").glob(f"[0-9]*-{name}.sh"))
    if kind == "emulator":
        return defines(sources(ROOT / "emulators" / conduit), name) or any(
            (ROOT / "emulators" / conduit).glob(f"tests/{name}.*")
        )
    if kind == "file":
        return bool(sources(crate / "tests" / name))
    if kind == "c":
        suite = "\n".join(map(sources, ROOT.glob("conduit/src/conformance*")))
        return defines(sources(crate / "tests/conformance.rs"), name) or defines(suite, name)
    files = {path.stem: path for path in (crate / "tests").iterdir()}
    files.update({stem[0]: path for stem, path in files.items() if kind == stem[0]})
    return kind in files and defines(sources(files[kind]), name)


def citations(text, in_tests):
    """(kind, name) of each test cited in a cell or paragraph; `in_tests`: in a column of tests."""
    kind, end = None, 0
    for span in SPAN.finditer(text):
        before = text[end : span.start()]
        words = re.fullmatch(r"(\w+): (.+)", span[1].replace("\n", " "))
        if re.search(r"\bmutant\s+$", before):
            yield "mutant", span[1]
        elif words:
            kind = words[1]
            yield kind, words[2]
        elif kind and BETWEEN.fullmatch(before) and re.fullmatch(r"[a-z0-9_/ ]+", span[1]):
            yield kind, span[1]
        elif in_tests and not before.strip(" ;,"):
            kind = "file"
            yield kind, span[1]
        else:
            kind = None
        end = span.end()


def parts(page):
    """(text, whether it is of a column of tests) of each cell and each paragraph."""
    paragraph, is_tested = "", False
    for line in [*page.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            cells = line.strip("| ").split(" | ")
            if cells[-1] in ("test", "variable", "here", "why") or is_tested is None:
                is_tested = cells[-1] == "test"
            for cell in cells[:-1]:
                yield cell, False
            yield cells[-1], is_tested
        elif line:
            paragraph += line + "\n"
        else:
            yield paragraph, False
            paragraph, is_tested = "", None


def main():
    """Prints each citation without a test."""
    failed = count = 0
    for page in sorted(ROOT.glob("docs/*-manual.md")):
        conduit = page.name.partition("-")[0]
        for text, in_tests in parts(page):
            # The legend of the page.
            if text.startswith("Tests: "):
                continue
            for kind, name in citations(text, in_tests):
                count += 1
                if not exists(conduit, kind, name):
                    failed = 1
                    print(f"{page.name}: there is no test `{kind}: {name}`")
    if count == 0:
        print("no page cites a test")
    return failed or int(count == 0)


if __name__ == "__main__":
    sys.exit(main())
