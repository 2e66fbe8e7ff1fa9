#!/usr/bin/env python3
"""Compares the manual pages with the headers: man.py --include FOLDER [--pages FOLDER] [--cc gcc]
[--api docs/api.md].

Every implemented function and macro with arguments that the specifications name (docs/api.md), and
every exported name of ours, is in the synopsis of a page; every name in a synopsis exists; every
prototype there is that of the header (a compiler judges); every page that a page refers to exists;
every name in a synopsis has an installed page (--pages, share/man of an installation), which is
that of its family or a .so line that names it. Prints what is wrong and exits 1, or a line with
numbers."""

import argparse
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADERS = ["gasnet.h", "gasnet_coll.h", "gasnet_vis.h", "gasnet_ratomic.h", "gasnet_mk.h", "gasnet_tools.h"]
TYPES = {"I32": "int32_t", "U32": "uint32_t", "I64": "int64_t", "U64": "uint64_t", "FLT": "float", "DBL": "double"}
PUBLIC = re.compile(r"(?:gex|gasnetx?|gasnett)_\w+")
CALLED = re.compile(r"\((\w+)\)")
# Public names that only the headers use, or that a synopsis shows as declarations.
NOT_FUNCTIONS = re.compile(r"gasnett?_needs_(?:debug|release)_library_\w+")


def documented():
    """Names of the synopses, with their pages."""
    text = subprocess.run(
        [f"{ROOT}/scripts/docs/man-names.sh", "all"], capture_output=True, text=True, check=True
    ).stdout
    return {name: page for page, name in (line.split() for line in text.splitlines())}


def declarations():
    """Variables that are declared in a synopsis as C text."""
    names = set()
    for path in glob.glob(f"{ROOT}/docs/man/man3/*.3"):
        with open(path) as file:
            synopsis = file.read().split(".Sh SYNOPSIS")[1].split("\n.Sh ")[0]
        names.update(re.findall(r"^extern .*?\b(\w+)\)?(?:\([^)]*\))?;$", synopsis, re.M))
    return names


def wanted(api):
    """Names that some page must have."""
    names = set()
    with open(api) as file:
        for line in file:
            fields = [field.strip() for field in line.split("|")]
            if len(fields) < 6 or fields[4] != "yes" or not fields[2].startswith(("function", "macro", "variable")):
                continue
            first, *last = re.findall(r"`(\w+)`", fields[1])
            names.update(numbered(first, last[0]) if last else [first])
    for path in ("libraries/exports/exports.txt", "libraries/exports/gasnet1.txt", "base/tools/exports.txt"):
        with open(f"{ROOT}/{path}") as file:
            names.update(name for name in file.read().split() if PUBLIC.fullmatch(name))
    return {name for name in names if not NOT_FUNCTIONS.fullmatch(name)}


def numbered(first, last):
    """name0 … name16, also where the number is not at the end."""
    for match in re.finditer(r"\d+", first):
        head, tail = first[: match.start()], first[match.end() :]
        if last.startswith(head) and last.endswith(tail):
            numbers = range(int(match[0]), int(last[len(head) : len(last) - len(tail)]) + 1)
            return [f"{head}{n}{tail}" for n in numbers]
    raise ValueError(f"{first} … {last}")


def prototypes():
    """The synopses' prototypes as C; macros and families of the tools' atomics have none."""
    for path in sorted(glob.glob(f"{ROOT}/docs/man/man3/*.3")):
        kind, name, arguments, inside = "", "", [], False
        with open(path) as file:
            for line in file.read().splitlines():
                if line.startswith(".Sh "):
                    inside = line == ".Sh SYNOPSIS"
                elif not inside:
                    continue
                elif line.startswith(".Ft "):
                    kind = line[4:].strip('"')
                elif line.startswith(".Fo "):
                    name, arguments = line[4:], []
                elif line.startswith(".Fa "):
                    arguments.append(line[4:].strip('"'))
                elif line == ".Fc":
                    if kind and name.startswith("g"):
                        yield from expanded(kind, name, arguments)
                    kind = ""


def expanded(kind, name, arguments):
    """One prototype; of a family with [M] the one without arguments, of one with [T] all."""
    if "[M]" in name:
        name, arguments = name.replace("[M]", "0"), arguments[:-2]
    for suffix, ctype in TYPES.items() if "[T]" in name else [("", "")]:
        yield f"{kind} ({name.replace('[T]', suffix)})({', '.join(a.replace('[type]', ctype) for a in arguments)});"


def references():
    """Pages that are referred to and do not exist."""
    pages = {os.path.basename(path) for path in glob.glob(f"{ROOT}/docs/man/man*/*")} | {
        "gasnet_env.7",
        "exit.3",
        "printf.3",
    }
    pages |= {f"{name}.3" for name in documented()}
    for path in sorted(glob.glob(f"{ROOT}/docs/man/man*/*")):
        with open(path) as file:
            for name, section in re.findall(r"^\.(?:It )?(?:Xr|BR) (\S+) \(?(\d)\)?", file.read(), re.M):
                if f"{name}.{section}" not in pages:
                    yield f"{os.path.basename(path)} refers to {name}({section})"


def uninstalled(names, folder):
    """Names without an installed page, or with one that leads elsewhere."""
    for name, page in sorted(names.items()):
        try:
            with open(f"{folder}/man3/{name}.3") as file:
                first = file.readline().strip()
        except FileNotFoundError:
            yield f"{name} has no installed page"
            continue
        if name != page and first != f".so man3/{page}.3":
            yield f"the installed page of {name} is not that of {page}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", required=True, help="installed headers")
    parser.add_argument("--pages", help="installed manual pages")
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--api", default=f"{ROOT}/docs/api.md")
    options = parser.parse_args()

    names, variables, must = documented(), declarations(), wanted(options.api)
    wrong = [f"no page has {name}" for name in sorted(must - set(names) - variables)]
    wrong += sorted(references())
    if options.pages:
        wrong += uninstalled(names, options.pages)

    # A compiler checks that all names exist and the prototypes agree. Macros of the same names are
    # undefined first.
    functions = list(prototypes())
    code = "".join(f"#include <{header}>\n" for header in HEADERS)
    code += "".join(
        f"#ifndef {name}\nconst void *use_{name}(void) {{ return (const void *)&{name}; }}\n#endif\n"
        for name in sorted(names)
        if not re.search(r"_(?:strong)?atomic(?:32|64)?_init$", name)
    )
    for line in functions:
        code += f"#undef {CALLED.search(line)[1]}\n{line}\n"
    command = [
        options.cc.split()[0],
        "-std=gnu11",
        "-fsyntax-only",
        "-w",
        "-Werror=implicit-function-declaration",
        "-D_GNU_SOURCE=1",
        "-DGASNET_PAR",
        "-DGASNET_DEBUG=1",
    ]
    command += [f"-I{options.include}", f"-I{options.include}/smp-conduit", "-x", "c", "-"]
    run = subprocess.run(command, input=code, capture_output=True, text=True)
    if run.returncode != 0:
        wrong += [line for line in run.stderr.splitlines() if "error:" in line] or [run.stderr]
    for line in wrong:
        print(f"manual pages: {line}")
    if wrong:
        sys.exit(1)
    print(f"manual pages: {len(names)} names, {len(functions)} prototypes")


if __name__ == "__main__":
    main()
