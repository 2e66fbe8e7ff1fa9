#!/usr/bin/env python3
"""Compiles every C or C++ program of a folder against an installed libgasnet, runs it at several
rank counts, and writes a table.

A program passes when it exits 0, its last line matches the closing pattern, and no line reports an
error or a warning of the library: many test programs exit 0 whatever they found. A program whose
sources refuse this thread mode (#error), or that says at the end that it was skipped, does not
count. Thread modes tools-seq and tools-par mean the communication-free tools library."""

import argparse
import os
import re
import sys

import jobs

BAD_LINE = re.compile(r"\bERROR\b|^\s*(\*\*\*\s*)?(gasnet|libgasnet|GASNet)\b.*\b(warning|WARNING)\b")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", required=True, help="folder with the programs; also an include folder")
    parser.add_argument("--prefix", required=True, help="installation to use")
    parser.add_argument("--np", default="1 2 3 4 7 16", help="rank counts")
    parser.add_argument("--conduit", default="smp")
    parser.add_argument("--mode", default="par", help="thread modes, separated by spaces")
    parser.add_argument("--tests", default="", help="only these programs (names without suffix)")
    parser.add_argument("--skip", default="", help="not these programs")
    parser.add_argument("--timeout", type=float, default=120, help="seconds per run")
    parser.add_argument("--extra", default="", help='companion sources: "name=file.c name2=file2.c"')
    parser.add_argument("--args", default="", help='arguments: "name=a,b name2=c"')
    parser.add_argument("--done", default=r"done|PASS", help="pattern of the closing line, case does not matter")
    parser.add_argument(
        "--closing", default="", help='closing patterns of single programs: "name=pattern name2=pattern"'
    )
    parser.add_argument(
        "--env",
        default="",
        help='environment of the jobs: "NAME=value NAME2=value2"; other GASNET_* variables do not reach them',
    )
    parser.add_argument(
        "--emulator", default="", help="options of scripts/with-emulator for ibv, for example --link roce"
    )
    parser.add_argument("--flags", default="", help="further compiler flags")
    parser.add_argument("--launch", default="direct", choices=("direct", "launcher"))
    parser.add_argument("--table", default="", help="Markdown file to write")
    parser.add_argument("--flavour", default="release", help="named in the table")
    return parser.parse_args()


def has_main(path):
    """Whether a source file has a main function, or includes another source file that may."""
    with open(path, errors="replace") as file:
        return re.search(r'\bmain\s*\(|#\s*include\s+"[^"]*\.(c|cc|cpp)"', file.read()) is not None


def pairs(text):
    """name=value words as a dictionary."""
    return dict(word.split("=", 1) for word in text.split())


def judge(result, done):
    """The outcome in a word for the table, and its reason."""
    lines = [line for line in result.output.splitlines() if line.strip()]
    bad = [line for line in lines if BAD_LINE.search(line)]
    if result.status is None:
        return "TIMEOUT", lines[-1] if lines else "no output"
    if result.status != 0:
        return f"exit {result.status}", (bad or lines or ["no output"])[-1]
    if bad:
        return "ERROR", bad[0]
    if result.leftovers:
        return "LEFT", ", ".join(result.leftovers)
    ending = "\n".join(lines[-3:])
    if re.search(r"\bskipp(ed|ing)\b", ending, re.IGNORECASE):
        return "skip", lines[-1]
    if not re.search(done, ending, re.IGNORECASE):
        return "no end", lines[-1] if lines else "no output"
    return "pass", ""


def main():
    """Runs the whole table; exit status 1 when something failed."""
    options = arguments()
    installation = jobs.Installation(options.prefix)
    folder = os.path.abspath(options.dir)
    counts = [int(n) for n in options.np.split()]
    extra, program_arguments = pairs(options.extra), pairs(options.args)
    closing = pairs(options.closing)
    wanted, unwanted = options.tests.split(), options.skip.split()
    sources = sorted(
        f for f in os.listdir(folder) if f.endswith((".c", ".cc", ".cpp")) and has_main(os.path.join(folder, f))
    )
    if wanted:
        sources = [f for f in sources if os.path.splitext(f)[0] in wanted]
    sources = [f for f in sources if os.path.splitext(f)[0] not in unwanted]
    rows, reasons, failed, passed = [], [], 0, 0
    with jobs.scratch() as work:
        network = jobs.emulated(options.conduit, os.path.join(work, "emulators"), options.emulator.split())
        for source in sources:
            name = os.path.splitext(source)[0]
            for mode in options.mode.split():
                files = [os.path.join(folder, source)]
                companions = os.path.join(folder, name + ".lst")
                if os.path.exists(companions):
                    with open(companions) as file:
                        files += [os.path.join(folder, f) for f in file.read().split()]
                if name in extra:
                    files += [os.path.join(folder, f) for f in extra[name].split(",")]
                if "*" in extra:
                    files += [os.path.join(folder, f) for f in extra["*"].split(",")]
                program = os.path.join(work, f"{name}-{mode}")
                built, messages = installation.compile(
                    files, program, options.conduit, mode, ["-I" + folder] + options.flags.split()
                )
                if not built:
                    refused = re.search(r"#error.*", messages)
                    errors = re.findall(r".*(?:error|undefined reference).*", messages)
                    cells = ["n/a" if refused else "no build"] * len(counts)
                    reasons.append(f"{name} {mode}: {refused.group(0) if refused else (errors or ['?'])[0]}")
                    failed += 0 if refused else 1
                    print(f"{name:20} {mode:8} {cells[0]}: {reasons[-1]}", flush=True)
                    rows.append((name, mode, cells))
                    continue
                cells = []
                for count in counts:
                    if mode.startswith("tools-") and count != counts[0]:
                        cells.append("")
                        continue
                    command, environment = [program], pairs(options.env)
                    if options.launch == "launcher":
                        command = [f"{installation.prefix}/bin/gasnetrun_{options.conduit}", "-n", str(count), program]
                    else:
                        environment["GASNET_PSHM_NODES"] = str(count)
                    command += [a for a in program_arguments.get(name, "").split(",") if a]
                    result = jobs.run(network + command, options.timeout, environment)
                    word, why = judge(result, closing.get(name, options.done))
                    cells.append(word)
                    print(f"{name:20} {mode:8} np {count:3} {word:8} {result.seconds:7.2f} s {why}", flush=True)
                    if word == "pass":
                        passed += 1
                    else:
                        failed += word != "skip"
                        reasons.append(f"{name} {mode} np {count}: {word}: {why}")
                os.unlink(program)
                rows.append((name, mode, cells))
    if options.table:
        with open(options.table, "w") as file:
            file.write(f"# {options.conduit}, {options.flavour}: {passed} runs passed, {failed} failed\n\n")
            file.write("| program | mode | " + " | ".join(f"np {n}" for n in counts) + " |\n")
            file.write("|---|---|" + "---|" * len(counts) + "\n")
            for name, mode, cells in rows:
                file.write(f"| {name} | {mode} | " + " | ".join(cells) + " |\n")
            if reasons:
                file.write("\n" + "\n".join(f"- {r}" for r in reasons) + "\n")
    print(f"{passed} runs passed, {failed} failed")
    if not passed and not failed:
        print(f"programs: no program of {options.dir} has run", file=sys.stderr)
        return 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
