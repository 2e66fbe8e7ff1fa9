#!/usr/bin/env python3
"""Runs gasnet_perf over several libraries in turns and compares them: NAME=PROGRAM words, of which
the first is divided by each other one.

  compare.py [--runs N] [--ranks N] [--fifo PRIORITY] [--least] NAME=PROGRAM...
             [-- options and tests of gasnet_perf]

Prints a table in Markdown: the median over the runs of each program's result (microseconds;
kibibytes where it is memory), half the distance of the quartiles in percent, and the median of the
ratios run by run. --least takes of each run the shortest block instead of the median: for
operations of one process on a busy machine. --fifo runs the programs with that real-time priority,
so that other work does not disturb them; with -p only, and no more ranks than cores."""

import argparse
import json
import os
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


def run(program, options, words):
    """The results of one run, by test and size."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "result.json")
        priority = ["chrt", "-f", str(options.fifo)] if options.fifo else []
        count = [str(options.ranks)] if options.count else []
        command = ["timeout", "-k", "5", str(options.limit), *priority, program, *count, "--json", file, *words]
        environment = dict(os.environ, GASNET_PSHM_NODES=str(options.ranks))
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            sys.exit(f"{program}: exit status {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
        with open(file, encoding="utf-8") as text:
            results = json.load(text)["results"]
    key = "us_least" if options.least else "us"
    # Of jobs that were started (--start) there are times and memory, for each number of ranks.
    return {(label(result), result["bytes"]): result.get(key) or result["kib"] for result in results}


def main():
    """See above."""
    words = sys.argv[1:]
    words, rest = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, choices=range(1, 1001), metavar="N", default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--fifo", type=int, default=0)
    parser.add_argument("--least", action="store_true")
    parser.add_argument(
        "--count", action="store_true", help="give programs the number of ranks as their first argument"
    )
    parser.add_argument("--limit", type=int, default=600, help="seconds for one run")
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    options = parser.parse_args(words)
    programs = [word.split("=", 1) for word in options.programs]
    runs = {name: [] for name, _ in programs}
    for _ in range(options.runs):
        for name, program in programs:
            runs[name].append(run(program, options, rest))
    first, others = programs[0][0], [name for name, _ in programs[1:]]
    titles = ["test", "bytes"] + [f"{name} µs | ±%" for name, _ in programs] + [f"{first} / {name}" for name in others]
    print("| " + " | ".join(titles) + " |")
    print("|---" * (2 + 2 * len(programs) + len(others)) + "|")
    for test in runs[first][0]:
        if not all(test in one for results in runs.values() for one in results):
            continue
        cells = [test[0], f"{test[1]:,}" if test[1] else ""]
        for name, _ in programs:
            times = [one[test] for one in runs[name]]
            cells.append(f"{statistics.median(times):.4g} | {spread(times):.0f}")
        for name in others:
            ratios = [ours[test] / theirs[test] for ours, theirs in zip(runs[first], runs[name])]
            cells.append(f"{statistics.median(ratios):.2f}")
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
