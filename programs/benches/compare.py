#!/usr/bin/env python3
"""Runs gasnet_perf over several libraries in turns and compares them: NAME=COMMAND words, of which
the first is divided by each other one. A command is a program, or how it is started:
`ofi=gasnetrun_ofi -n 2 ./perf`.

  compare.py [--runs N] [--ranks N] [--fifo PRIORITY] [--least] [--by-size] NAME=COMMAND...
             [-- options and tests of gasnet_perf]

Prints a table in Markdown: the median over the runs of each program's result (microseconds;
kibibytes where it is memory), half the distance of the quartiles in percent, and the median of the
ratios run by run. --by-size has a line for each test and a column for each size instead, with the
time of the first program and the ratios. --least takes of each run the shortest block instead of
the median: for operations of one process on a busy machine. --fifo runs the programs with that
real-time priority, so that other work does not disturb them; with -p only, and no more ranks than
cores. --ranks is for programs that start without a launcher (GASNET_PSHM_NODES)."""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile


def spread(values):
    """Half the distance of the quartiles in percent of the median."""
    if len(values) < 4:
        return 50 * (max(values) - min(values)) / statistics.median(values)
    low, _, high = statistics.quantiles(values, n=4)
    return 50 * (high - low) / statistics.median(values)


def label(result):
    """What a result is about, without its size."""
    return result["test"] if "threads" in result else f"{result['test']}, {result['ranks']} ranks"


def started(words, ranks):
    """Runs a command. Ends this program with the end of its output if it fails."""
    done = subprocess.run(
        words,
        env=dict(os.environ, GASNET_PSHM_NODES=str(ranks)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit status {done.returncode}: {(done.stdout + done.stderr)[-600:]}")


def run(command, options, words):
    """The results of one run, by test and size."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "result.json")
        priority = ["chrt", "-f", str(options.fifo)] if options.fifo else []
        limit = ["timeout", "-k", "5", str(options.limit)]
        started([*limit, *priority, *shlex.split(command), "--json", file, *words], options.ranks)
        with open(file, encoding="utf-8") as text:
            results = json.load(text)["results"]
    key = "us_least" if options.least else "us"
    # Of jobs that were started (--start) there are times and memory, for each number of ranks.
    return {(label(result), result["bytes"]): result.get(key) or result["kib"] for result in results}


def table(titles, lines):
    """A table in Markdown."""
    print("| " + " | ".join(titles) + " |")
    print("|---" * len(titles) + "|")
    for cells in lines:
        print("| " + " | ".join(cells) + " |")


def ratios(runs, test):
    """The first program's result divided by each other one's, medians over the runs."""
    first, *others = runs.values()
    return [
        f"{statistics.median(ours[test] / theirs[test] for ours, theirs in zip(first, other)):.2f}" for other in others
    ]


def size(number):
    """A size in words; none for tests without one."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor:
            return f"{number // factor} {unit}"
    return f"{number} B" if number else ""


def by_test(runs, tests):
    """A line for each test and size."""
    names = list(runs)
    lines = []
    for test in tests:
        cells = [test[0], f"{test[1]:,}" if test[1] else ""]
        for results in runs.values():
            times = [one[test] for one in results]
            cells.append(f"{statistics.median(times):.4g} | {spread(times):.0f}")
        lines.append(cells + ratios(runs, test))
    quotients = [f"{names[0]} / {name}" for name in names[1:]]
    table(["test", "bytes", *(f"{name} µs | ±%" for name in names), *quotients], lines)


def by_size(runs, tests):
    """A line for each test, a column for each size."""
    sizes = sorted({number for _, number in tests if number > 8})
    lines = {}
    for test in tests:
        name, number = test
        cells = lines.setdefault(name, [name] + [""] * (1 + len(sizes)))
        times = [one[test] for one in next(iter(runs.values()))]
        column = 2 + sizes.index(number) if number > 8 else 1
        cells[column] = "; ".join([f"{statistics.median(times):.3g}", *ratios(runs, test)])
    table(["test", "8 B or none", *map(size, sizes)], lines.values())


def main():
    """See above."""
    words = sys.argv[1:]
    words, rest = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, choices=range(1, 1001), metavar="N", default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--fifo", type=int, default=0)
    parser.add_argument("--least", action="store_true")
    parser.add_argument("--by-size", action="store_true")
    parser.add_argument(
        "--sizes", type=lambda text: text.split(","), default=[None], help="-m of gasnet_perf: 8:8,4k:4k"
    )
    parser.add_argument("--limit", type=int, default=600, help="seconds for one run")
    parser.add_argument("programs", nargs="+", metavar="NAME=COMMAND")
    options = parser.parse_args(words)
    programs = [word.split("=", 1) for word in options.programs]
    runs = {name: [] for name, _ in programs}
    for _ in range(options.runs):
        for name, command in programs:
            results = {}
            for sizes in options.sizes:
                results |= run(command, options, [*(["-m", sizes] if sizes else []), *rest])
            runs[name].append(results)
    every = [one for results in runs.values() for one in results]
    tests = [test for test in every[0] if all(test in one for one in every)]
    (by_size if options.by_size else by_test)(runs, tests)


if __name__ == "__main__":
    main()
