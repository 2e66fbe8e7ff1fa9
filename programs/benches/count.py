#!/usr/bin/env python3
"""Counts the instructions of operations with callgrind, which no other work on the machine
disturbs. NAME=COMMAND words: a command starts programs/benches/count.c, linked with an archive, on
two ranks, and has %s where valgrind goes:

  count.py [--count N] [--bytes N] "ours=gasnetrun_ibv -n 2 %s ./count" [OPERATION...]

Prints a table in Markdown: for each operation and side that takes part, instructions of the program
with its library, and in brackets those of all other libraries."""

import argparse
import glob
import os
import re
import shlex
import tempfile

import compare

OPERATIONS = ["put", "get", "put-flood", "get-flood", "fadd", "short", "medium", "long", "poll", "barrier"]


def by_object(file):
    """Instructions of each object of a callgrind profile, without those of what it called."""
    names, current, counts, is_call = {}, "", {}, False
    with open(file, encoding="utf-8") as text:
        for line in text:
            if found := re.match(r"(c?ob)=\((\d+)\)(?: (.*))?$", line):
                if found[3]:
                    names[found[2]] = found[3]
                if found[1] == "ob":
                    current = names[found[2]]
            elif line.startswith("calls="):
                is_call = True
            elif re.match(r"[0-9+*-]", line):
                # The line after calls= has the cost of the callee.
                if not is_call:
                    counts[current] = counts.get(current, 0) + int(line.split()[1])
                is_call = False
    return counts


def measure(command, operation, options):
    """(program, others) of each rank that did something, the initiator first."""
    with tempfile.TemporaryDirectory() as folder:
        valgrind = (
            "valgrind -q --tool=callgrind --trace-children=yes --collect-atstart=no --toggle-collect=bench_* "
            f"--callgrind-out-file={folder}/profile.%p"
        )
        words = shlex.split(command.replace("%s", valgrind))
        compare.started([*words, operation, str(options.count), str(options.bytes)], ranks=2)
        program = os.path.realpath(shlex.split(command.partition("%s")[2])[0])
        sides = []
        for file in glob.glob(f"{folder}/profile.*"):
            counts = by_object(file)
            own = sum(count for name, count in counts.items() if os.path.realpath(name) == program)
            if own:
                sides.append((own / options.count, (sum(counts.values()) - own) / options.count))
        return sides


def main():
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--bytes", type=int, default=8)
    parser.add_argument("words", nargs="+", metavar="NAME=COMMAND|OPERATION")
    options = parser.parse_args()
    programs = [word.split("=", 1) for word in options.words if "=" in word]
    operations = [word for word in options.words if "=" not in word] or OPERATIONS
    titles = [f"{options.bytes} B", *(name for name, _ in programs)]
    print("| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|")
    for operation in operations:
        cells = [operation]
        for _, command in programs:
            sides = measure(command, operation, options)
            cells.append("; ".join(f"{own:,.0f} ({others:,.0f})" for own, others in sorted(sides)))
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
