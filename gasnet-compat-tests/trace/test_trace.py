"""Tracing, statistics and gasnet_trace. The program busy.c records its operations; every file that
the library writes, and every number that gasnet_trace shows, in text, in JSON and in a browser, is
compared with that."""

import collections
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time
import zlib
from pathlib import Path

import matrix
import pytest
import workshop

LINE = re.compile(r"(\d+):(\d+|\*) (\d+\.\d{9}) \[([^\]]*)\] \(([A-Z])\) ([A-Z_]+)(?: (.*))?$")
CLASSES = {"P": "put", "G": "get", "A": "am", "R": "atomic"}
# Kinds whose number depends on how often the program had to look.
UNCOUNTED = {"WAIT", "TEST", "BARRIER_TRY", "INTERNAL_SEND", "INTERNAL_RAN", "POLL", "REMARK", "START", "END"}


def parse(path):
    """The lines of a file as dictionaries: the words, and in capitals the fields before them."""
    out = []
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            found = LINE.match(text.rstrip("\n"))
            if not found:
                raise ValueError(f"{os.path.basename(path)}:{number}: not a line of a trace: {text!r}")
            rank, _, when, source, letter, name, rest = found.groups()
            words, _, note = (" " + (rest or "")).partition(" text=")
            values = dict(word.split("=", 1) for word in words.split())
            out.append(
                {
                    "RANK": int(rank),
                    "AT": float(when),
                    "SOURCE": source,
                    "LETTER": letter,
                    "EVENT": name,
                    "TEXT": note,
                    **values,
                }
            )
    return out


def tally(lines):
    """Count and bytes by kind."""
    kinds = collections.defaultdict(lambda: [0, 0])
    for line in lines:
        kinds[line["EVENT"]][0] += 1
        kinds[line["EVENT"]][1] += int(line.get("bytes", 0))
    return {name: tuple(sums) for name, sums in kinds.items()}


def cells_of(lines):
    """Count and bytes by class and peer."""
    cells = collections.defaultdict(lambda: [0, 0])
    for line in lines:
        if line["LETTER"] in CLASSES and "peer" in line and not line["EVENT"].startswith("RAN_"):
            cell = cells[CLASSES[line["LETTER"]], int(line["peer"])]
            cell[0] += 1
            cell[1] += int(line["bytes"])
    return {key: tuple(cell) for key, cell in cells.items()}


def pytest_generate_tests(metafunc):
    """Thread modes, and numbers of ranks on a page. A slice has one of each."""
    options = metafunc.config.option
    if "mode" in metafunc.fixturenames:
        chosen = options.modes.split() or matrix.MODES
        modes = [mode for mode in ("seq", "par") if mode in chosen] or chosen
        metafunc.parametrize("mode", modes[-1:] if options.slice else modes)
    if "pages" in metafunc.fixturenames:
        metafunc.parametrize("pages", [4] if options.slice else [1, 4], ids="np{}".format)


@pytest.fixture
def busy(shop, mode):
    """The program."""
    return Busy(shop, shop.compile(Path(__file__).with_name("busy.c"), mode))


class Busy:
    """The program in one thread mode, and its files."""

    def __init__(self, shop, program):
        self.shop, self.program, self.folder = shop, program, shop.folder

    def path(self, name):
        """A file in the scratch folder."""
        return os.path.join(self.folder, name)

    def clean(self):
        """Forgets the files of earlier jobs."""
        for name in os.listdir(self.folder):
            if name.startswith(("t-", "s-", "expect-", "page", "shared")):
                os.unlink(self.path(name))

    def job(self, ranks, *arguments, status=0, **variables):
        """Runs busy; returns its output. Wrong ends are errors."""
        self.clean()
        got, output, _, left = self.shop.run([self.program, *arguments], ranks, variables)
        assert got == status and not left, (
            f"exit status {got} instead of {status}, left behind: {left or 'nothing'}: {output[-300:]!r}"
        )
        return output

    def expected(self, rank):
        """The expectations that busy wrote: kinds, cells."""
        kinds, cells = {}, {}
        with open(self.path(f"expect-{rank}"), encoding="ascii") as file:
            for line in file:
                word, *rest = line.split()
                if word == "kind":
                    kinds[rest[0]] = (int(rest[1]), int(rest[2]))
                else:
                    cells[rest[0], int(rest[1])] = (int(rest[2]), int(rest[3]))
        return kinds, cells

    def tool(self, *arguments, status=0):
        """Runs gasnet_trace; returns standard output and standard error."""
        result = subprocess.run(
            [f"{self.shop.prefix}/bin/gasnet_trace", *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=60,
            check=False,
        )
        assert result.returncode == status, (
            f"gasnet_trace {arguments[:4]}: exit status {result.returncode}: {result.stderr[-300:]!r}"
        )
        return result.stdout, result.stderr

    def browser(self, *arguments):
        """Runs Chromium without a window; returns its output."""
        home = self.path("browser")
        os.makedirs(home, exist_ok=True)
        # No sandbox of its own: containers and unprivileged test users often may not make one. The
        # page is ours.
        command = [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={home}",
            "--window-size=1260,2400",
            *arguments,
        ]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=self.folder,
            env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home},
        )
        workshop.OWN.add(process.pid)
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            workshop.reap()
            shutil.rmtree(home, ignore_errors=True)
        return output.decode(errors="replace")


def compare(what, got, wanted):
    """Both dictionaries are equal."""
    differ = [key for key in sorted(set(got) | set(wanted)) if got.get(key) != wanted.get(key)]
    text = ", ".join(f"{key} is {got.get(key)}, not {wanted.get(key)}" for key in differ[:6])
    assert not differ, f"{what}: {text}"


# ---- what the library writes


@pytest.mark.parametrize("ranks", [1, 2, 4], ids="np{}".format)
def test_counts(busy, ranks):
    """Every kind with the right number and bytes, in the trace and in the statistics."""
    busy.job(ranks, GASNET_TRACEFILE="t-%", GASNET_STATSFILE="s-%")
    letters = set()
    for rank in range(ranks):
        kinds, cells = busy.expected(rank)
        lines = parse(busy.path(f"t-{rank}"))
        letters |= {line["LETTER"] for line in lines}
        got = tally(lines)
        compare(f"trace of rank {rank}", {k: v for k, v in got.items() if k not in UNCOUNTED}, kinds)
        compare(f"cells of rank {rank}", cells_of(lines), cells)
        polls = [line for line in lines if line["EVENT"] == "POLL"]
        assert len(polls) == 1 and polls[0]["count"] == "10", f"polls of rank {rank}: {polls}"
        implicit = sum(1 for line in lines if line["EVENT"] == "WAIT" and line["what"] == "implicit")
        everything = sum(1 for line in lines if line["EVENT"] == "WAIT" and line["what"] == "all")
        assert (implicit, everything) == (3, 2), f"waits of rank {rank}: {implicit} implicit, {everything} for arrays"
        check_forms(lines, rank)
        check_statistics(busy, rank, kinds, cells)
    wanted = set("GPRSWBLAXOHU") | (set("C") if busy.shop.configuration.size == 1 and ranks > 1 else set())
    assert wanted <= letters, f"categories {sorted(wanted - letters)} do not occur"


def check_forms(lines, rank):
    """Times, source lines and words of single lines."""
    assert lines[0]["EVENT"] == "START" and lines[-1]["EVENT"] == "END" and lines[-1]["lost"] == "0", (
        f"trace of rank {rank} begins with {lines[0]} and ends with {lines[-1]}"
    )
    assert not any(line["RANK"] != rank or line["AT"] > 60 for line in lines), (
        f"trace of rank {rank} has another's line, or an odd time"
    )
    long_put = [line for line in lines if line.get("bytes") == "100000" and line["EVENT"] == "PUT"]
    assert (
        len(long_put) == 2
        and long_put[0]["SOURCE"] == "src/transfers.c:10"
        and int(long_put[0]["ns"]) > 0
        and "remote" in long_put[0]
    ), f"the long put is {long_put}"
    notes = {line["EVENT"]: line for line in lines if line["EVENT"].startswith("NOTE")}
    assert (
        notes["NOTE"]["TEXT"] == f"a note of {rank}: two\\nlines" and notes["NOTE_FORCED"]["SOURCE"] == "src/notes.c:70"
    ), f"notes are {notes}"
    pairs = collections.defaultdict(list)
    for line in lines:
        if line["EVENT"].startswith(("COLL_", "BARRIER_START", "BARRIER_DONE")):
            pairs[line["id"]].append(line)
    for number, pair in pairs.items():
        pair.sort(key=lambda line: line["EVENT"], reverse=True)
        assert len(pair) == 2 and pair[0]["AT"] <= pair[1]["AT"] and pair[0]["SOURCE"] == pair[1]["SOURCE"], (
            f"number {number} has the lines {pair}"
        )
    wait = [line for line in lines if line["EVENT"] == "BARRIER_WAIT"]
    assert [line["id"] for line in wait] == ["0", "1"] and not any(int(line["since"]) < 0 for line in wait), (
        f"barrier waits are {wait}"
    )


def check_statistics(busy, rank, kinds, cells):
    """The statistics of a rank agree with the program."""
    lines = parse(busy.path(f"s-{rank}"))
    got = {line["kind"]: (int(line["count"]), int(line.get("bytes", 0))) for line in lines if line["EVENT"] == "STAT"}
    notes = ("NOTE", "NOTE_FORCED")
    wanted = {k: v for k, v in kinds.items() if k not in notes}
    compare(
        f"statistics of rank {rank}", {k: v for k, v in got.items() if k not in UNCOUNTED and k not in notes}, wanted
    )
    assert got["POLL"][0] == 10, f"polls of rank {rank}: {got['POLL']}"
    peers = {
        (line["class"], int(line["peer"])): (int(line["count"]), int(line["bytes"]))
        for line in lines
        if line["EVENT"] == "PEER"
    }
    compare(f"peers of rank {rank}", peers, cells)
    for line in lines:
        if line["EVENT"] == "SIZES":
            total = sum(int(pair.split(":")[1]) for pair in line["counts"].split(","))
            want = sum(count for (name, _), (count, _) in cells.items() if name == line["class"])
            assert total == want, f"sizes of rank {rank}: {line} has {total}, not {want}"
    texts = [line["TEXT"] for line in lines if line["EVENT"].startswith("NOTE")]
    assert texts == ["for the statistics 6", "forced for the statistics 7"], f"notes of rank {rank}: {texts}"


@pytest.mark.parametrize(
    ("mask", "allowed"), [("PB", "PB"), ("pd", "PD"), ("AN", "AN"), ("^GPRSWLAXIOCDNH", "B"), ("^X", "GPRSWBLAIOCDNH")]
)
def test_mask(busy, mask, allowed):
    """Only the categories of a mask, and lines that no mask suppresses."""
    busy.job(2, GASNET_TRACEFILE="t-%", GASNET_TRACEMASK=mask, GASNET_STATSFILE="s-%", GASNET_STATSMASK=mask)
    lines = parse(busy.path("t-1"))
    got = {line["LETTER"] for line in lines}
    assert got <= set(allowed + "U") and set(allowed) & got, f"mask {mask} gives {sorted(got)}"
    if {"P", "R"} & got:
        assert any("remote" in line for line in lines) == ("D" in allowed), f"mask {mask}: addresses"
    assert any(line["SOURCE"] != "-" for line in lines) == ("N" in allowed), (
        f"mask {mask}: source lines are not as N says"
    )
    stats = {line["LETTER"] for line in parse(busy.path("s-1")) if line["EVENT"] == "STAT"}
    assert stats <= set(allowed + "U"), f"mask {mask} gives statistics of {sorted(stats)}"


def test_masks_that_change(busy):
    """Masks that the program changes, TRACELOCAL, and dumps of statistics."""
    busy.job(2, "masks", GASNET_TRACEFILE="t-%", GASNET_TRACEMASK="p", GASNET_STATSFILE="s-%", GASNET_STATSMASK="P")
    for rank in range(2):
        sizes = [line["bytes"] for line in parse(busy.path(f"t-{rank}")) if line["LETTER"] != "U"]
        assert sizes == ["1", "4", "8"], f"puts in the trace: {sizes}"
        dumps = []
        for line in parse(busy.path(f"s-{rank}")):
            if line["EVENT"] == "DUMP":
                dumps.append([line["reset"], 0, 0])
            if line["EVENT"] == "STAT":
                dumps[-1][1:] = [int(line["count"]), int(line["bytes"])]
        assert dumps == [["1", 4, 10], ["0", 1, 8], ["0", 1, 8]], f"dumps: {dumps}"
    # Over a reset, the sums add up.
    out, _ = busy.tool("-report", "PUT", "t-0")
    assert re.search(r"GLOBAL +3 +1 +4\.3 +8 +13$", out, re.M), f"table of puts: {out!r}"


def test_some_ranks(busy):
    """Some ranks only."""
    busy.job(4, GASNET_TRACEFILE="t-%", GASNET_TRACENODES="1,3", GASNET_STATSFILE="s-%", GASNET_STATSNODES="0-1")
    files = sorted(name for name in os.listdir(busy.folder) if name.startswith(("t-", "s-")))
    assert files == ["s-0", "s-1", "t-1", "t-3"], f"files are {files}"
    kinds, _ = busy.expected(3)
    compare("trace of rank 3", {k: v for k, v in tally(parse(busy.path("t-3"))).items() if k not in UNCOUNTED}, kinds)
    _, warnings = busy.tool("t-1", "t-3")
    assert not warnings, f"warnings: {warnings}"


def test_tracelocal(busy):
    """The trace omits puts and gets of a rank to itself; the statistics count them."""
    busy.job(2, GASNET_TRACEFILE="t-%", GASNET_TRACELOCAL="0", GASNET_STATSFILE="s-%")
    for rank in range(2):
        kinds, cells = busy.expected(rank)
        remote = {key: cell for key, cell in cells.items() if key[0] not in ("put", "get") or key[1] != rank}
        compare(f"cells of rank {rank}", cells_of(parse(busy.path(f"t-{rank}"))), remote)
        check_statistics(busy, rank, kinds, cells)


def test_one_file_for_all(busy):
    """One file for all ranks, and standard streams."""
    with open(busy.path("shared-old"), "w", encoding="ascii") as file:
        file.write("old\n")
    shutil.copy(busy.path("shared-old"), busy.path("t-old"))
    for name in ("t-shared", "stdout", "stderr", "-"):
        output = busy.job(3, GASNET_TRACEFILE=name)
        path = busy.path("t-shared")
        if name != "t-shared":
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in output.splitlines() if LINE.match(line))
        lines = parse(path)
        for rank in range(3):
            kinds, _ = busy.expected(rank)
            got = tally(line for line in lines if line["RANK"] == rank)
            compare(f"{name}, rank {rank}", {k: v for k, v in got.items() if k not in UNCOUNTED}, kinds)


def test_old_files(busy):
    """A file of an earlier job is emptied, also one that ranks share."""
    for name, ranks in (("t-%", 2), ("t-all", 2)):
        busy.clean()
        for rank in range(ranks):
            with open(busy.path(name.replace("%", str(rank))), "w", encoding="ascii") as file:
                file.write("old\n" * 1000)
        got, output, _, _ = busy.shop.run([busy.program], ranks, {"GASNET_TRACEFILE": name, "GASNET_TRACEMASK": "B"})
        assert got == 0, output[-300:]
        for rank in range(ranks):
            parse(busy.path(name.replace("%", str(rank))))


def test_off(busy):
    """Without a file nothing is written, whatever the masks are."""
    output = busy.job(2, GASNET_TRACEMASK="P", GASNET_STATSMASK="P", GASNET_TRACEFILE="", GASNET_STATSFILE="")
    assert (
        "(P)" not in output
        and "START" not in output
        and not any(n.startswith(("t-", "s-")) for n in os.listdir(busy.folder))
    ), f"something was written: {output[-300:]!r}"


def test_no_such_folder(busy):
    """One message, and no job."""
    for variable in ("GASNET_TRACEFILE", "GASNET_STATSFILE"):
        output = busy.job(3, status=1, **{variable: "no/such/folder/t-%"})
        assert output.count(f"{variable}=no/such/folder/t-%: ") == 1 and "No such file or directory" in output, (
            f"output: {output[-400:]!r}"
        )


def test_full_device(busy):
    """A full device: a warning, and the job continues."""
    output = busy.job(1, GASNET_TRACEFILE="/dev/full")
    assert output.count("writing to /dev/full failed") == 1 and "PASS" in output, f"output: {output[-400:]!r}"


# ---- jobs that do not end normally


@pytest.mark.parametrize(
    ("what", "status", "flush"), [("kill", 137, "1"), ("abort", 134, "0"), ("fatal", 134, "0"), ("exit", 7, "0")]
)
def test_end(busy, what, status, flush):
    """Events from before a rank is killed, aborts or exits are recorded."""
    variables = {"GASNET_TRACEFILE": "t-%", "GASNET_TRACEFLUSH": flush}
    busy.clean()
    got, output, _, left = busy.shop.run([busy.program, what], 2, variables)
    assert got == status and not left, f"exit status {got}, not {status}; left: {left}: {output[-300:]!r}"
    lines = parse(busy.path("t-1"))
    kinds, _ = busy.expected(1)
    # The two barriers at the end are not reached.
    kinds = {
        name: (count - 2 * (name in ("BARRIER_START", "BARRIER_DONE")), size) for name, (count, size) in kinds.items()
    }
    got = {k: v for k, v in tally(lines).items() if k not in UNCOUNTED and k != "FATAL"}
    if what != "exit":
        compare(f"trace of the rank that is lost ({what})", got, kinds)
        assert lines[-1]["EVENT"] != "END" and (what != "kill") == (lines[-1]["EVENT"] == "FATAL"), (
            f"the last line is {lines[-1]}"
        )
    if what == "exit":
        assert lines[-1]["EVENT"] == "END", f"the last line is {lines[-1]}"
    out, _ = busy.tool("t-0", "t-1")
    note = {
        "kill": "rank 1 has no END line",
        "abort": "rank 1 ended with an error",
        "fatal": "rank 1 ended with an error",
    }
    assert note.get(what, "") in out, f"gasnet_trace does not report the loss of rank 1: {out[:300]!r}"


def test_backtraces(busy):
    """A backtrace that is printed is in the trace, line by line, and the tables are made all
    the same."""
    output = busy.job(
        2, "fatal", status=134, GASNET_TRACEFILE="t-%", GASNET_BACKTRACE="1", GASNET_BACKTRACE_TYPE="EXECINFO"
    )
    lines = [line for line in parse(busy.path("t-1")) if line["EVENT"] in ("FATAL", "BACKTRACE")]
    texts = [line["TEXT"] for line in lines if line["EVENT"] == "BACKTRACE"]
    assert (
        lines[0]["EVENT"] == "FATAL"
        and len(texts) >= 3
        and texts[0].startswith("*** Backtrace by EXECINFO (proc 1)")
        and "[0x" in texts[1]
    ), f"the trace has {lines[:4]}"
    assert not any(text not in output for text in texts), f"the trace has {texts}, standard error {output[-2000:]!r}"
    out, _ = busy.tool("t-0", "t-1")
    assert "rank 1 ended with an error" in out and "PUT REPORT" in out, f"tables: {out[:300]!r}"


@pytest.mark.flavours("debug")
def test_reports_of_the_debug_allocator(busy):
    """Tables of the debug allocator's reports: totals, and what was in use by the line that
    asked for it."""
    busy.job(2, "heap", GASNET_MALLOCFILE="t-heap-%", GASNET_TRACEFILE="t-%")
    files = [f"t-heap-{rank}" for rank in range(2)]
    out, warnings = busy.tool(*files)
    rows = re.findall(r"^busy\.c:(\d+) +IN_USE +(\d+) +(\d+) +([\d.]+) +(\d+) +(\d+)$", out, re.M)
    assert not warnings and [row[1:] for row in rows] == [("6", "1000", "1001.5", "1003", "6009")], (
        f"rows {rows}, warnings {warnings!r}: {out!r}"
    )
    totals = re.findall(r"^ +(\d) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) .*busy", out, re.M)
    assert len(totals) == 2 and not any(
        int(row[1]) != int(row[3]) + int(row[5]) or int(row[2]) != int(row[4]) + int(row[6]) for row in totals
    ), f"totals {totals}: {out!r}"
    out, _ = busy.tool("-t", "-report", "MALLOC", "t-0", "t-1", *files)
    assert "PUT REPORT" not in out and len(re.findall(r"^busy\.c:\d+ +IN_USE +[01] +3 ", out, re.M)) == 2, (
        f"by rank: {out!r}"
    )
    busy.tool("-html", "page.html", files[0], status=1)


def test_wait_without_end(busy):
    """A wait that never ends: its trace is written meanwhile."""
    seen = []

    def during(process):
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline and not seen:
            time.sleep(0.05)
            try:
                lines = parse(busy.path("t-0"))
            except (OSError, ValueError):
                continue
            seen.extend(
                line
                for line in lines
                if line["EVENT"] == "BARRIER_NOTIFY" and line["flags"] == "0" and lines[-1] is line
            )
        os.killpg(process.pid, signal.SIGKILL)

    busy.clean()
    busy.shop.run([busy.program, "hang"], 2, {"GASNET_TRACEFILE": "t-%"}, during=during)
    assert seen, "the barrier that nobody else enters is not in the file"


# ---- gasnet_trace


def test_tables(busy):
    """Tables have the sums of the program's operations."""
    ranks = 4
    busy.job(ranks, GASNET_TRACEFILE="t-%", GASNET_STATSFILE="s-%")
    files = [f"t-{rank}" for rank in range(ranks)]
    all_cells = collections.Counter()
    kinds = collections.Counter()
    for rank in range(ranks):
        own, cells = busy.expected(rank)
        for name, (count, _) in own.items():
            kinds[name] += count
        for (name, peer), (count, size) in cells.items():
            where = "LOCAL" if peer == rank else "GLOBAL"
            all_cells[name, where, "count"] += count
            all_cells[name, where, "bytes"] += size
    out, warnings = busy.tool("-i", *files)
    assert not warnings, f"warnings: {warnings}"
    sums = collections.Counter()
    section = ""
    for line in out.splitlines():
        if line.endswith(")") and " REPORT " in line:
            section = line.split()[0]
        words = line.split()
        if section in ("PUT", "GET") and len(words) == 7 and words[1] in ("LOCAL", "GLOBAL"):
            sums[section.lower(), words[1], "count"] += int(words[2])
            sums[section.lower(), words[1], "bytes"] += int(words[6])
    wanted = {key: value for key, value in all_cells.items() if key[0] in ("put", "get") and value}
    compare("tables of puts and gets", {k: v for k, v in sums.items() if v}, wanted)
    total = sum(int(m) for m in re.findall(r"^\S+ +TEAM +(\d+) ", out, re.M))
    assert total == kinds["BARRIER_DONE"], f"{total} team barriers, not {kinds['BARRIER_DONE']}"
    check_options(busy, files, ranks)
    check_statistics_alone(busy, ranks, kinds)


def check_statistics_alone(busy, ranks, kinds):
    """Statistics alone give tables by kind; beside the traces of the same ranks they add
    nothing."""
    files = [f"s-{rank}" for rank in range(ranks)]
    out, warnings = busy.tool(*files)
    got = {name: int(count) for name, count in re.findall(r"^\(none\) +([A-Z_]+) +(\d+) ", out, re.M)}
    wanted = {
        name: count
        for name, count in kinds.items()
        if name.startswith(("PUT", "GET", "REQUEST", "REPLY", "RAN_", "ATOMIC", "COLL_DONE", "LOCK"))
    }
    compare("tables from statistics", {name: got.get(name) for name in wanted}, wanted)
    assert not warnings and "source line" not in out, f"{warnings!r}: {out!r}"
    traces = [f"t-{rank}" for rank in range(ranks)]
    rows = [busy.tool("-i", "-t", *names)[0].split("REPORT", 1)[1] for names in (traces, traces + files)]
    assert rows[0] == rows[1], "statistics beside traces change the tables"
    _, why = busy.tool("-o", "page.txt", nothing(busy))
    assert "no events for the tables" in why, f"no reason for no table: {why!r}"


def nothing(busy):
    """A trace without an event that has a table."""
    with open(busy.path("t-0"), encoding="utf-8") as file, open(busy.path("page-none"), "w", encoding="utf-8") as none:
        none.writelines(line for line in file if "] (U) START" in line or "] (U) END" in line)
    return "page-none"


def check_options(busy, files, ranks):
    """Reports, sorting, filters, peers, ranks, files."""
    out, _ = busy.tool("-report", "PUT", *files)
    assert "GET REPORT" not in out and "PUT REPORT" in out and "src/" not in out, f"-report PUT: {out!r}"
    places = re.findall(r"^(\w+\.c:\d+) ", out, re.M)
    assert (
        places == sorted(places, key=lambda p: (p.split(":")[0], int(p.split(":")[1]))) and "transfers.c:9" in places
    ), f"source lines are {places}"
    out, _ = busy.tool("-report=put", "--sort=TOTAL", "-full", *files)
    totals = [int(t) for t in re.findall(r"^src/.* (\d+)$", out, re.M)]
    assert len(totals) >= 2 and totals == sorted(totals, reverse=True), f"-sort TOTAL: {totals}"
    out, _ = busy.tool("-filter", "LOCAL,WAITNOTIFY", *files)
    assert " LOCAL " not in out and " WAITNOTIFY " not in out and " WAIT " in out, (
        "-filter leaves types in, or too much out"
    )
    out, _ = busy.tool("-t", "-report", "PUT", *files)
    assert {int(rank) for rank in re.findall(r"(?:LOCAL|GLOBAL) +(\d+) ", out)} == set(range(ranks)), f"-t: {out!r}"
    out, _ = busy.tool("-p", "-report", "PUT", "t-0")
    assert {int(peer) for peer in re.findall(r"(?:LOCAL|GLOBAL) +(\d+) ", out)} == {0, 1 % ranks}, f"-p: {out!r}"
    busy.tool("-o", "page.txt", *files)
    plain, _ = busy.tool(*files)
    with open(busy.path("page.txt"), encoding="utf-8") as file:
        assert file.read() == plain, "-o writes something else"
    for wrong in (["-bogus", "t-0"], ["-report", "MEMORIES", "t-0"], []):
        busy.tool(*wrong, status=2)
    busy.tool("nothing-there", status=1)


def test_damaged_files(busy):
    """Malformed lines are reported with file and number; the others count."""
    busy.job(1, GASNET_TRACEFILE="t-%", GASNET_TRACEMASK="P")
    with open(busy.path("t-0"), "rb") as file:
        good = file.read().splitlines(keepends=True)
    kinds, _ = busy.expected(0)
    puts = sum(count for name, (count, _) in kinds.items() if name.startswith("PUT"))
    with open(busy.path("t-0"), "wb") as file:
        file.write(
            b"".join(good[:3])
            + b"garbage \xff\x00\n"
            + b"0:0 1.0 [x] (P) PUT peer=1\n"
            + b"0:0 0.000000001 [x] (P) PUT bytes=q\n"
        )
        file.write(b"".join(good[3:-1]) + good[-1][:-9])
    out, warnings = busy.tool("-report", "PUT", "t-0")
    numbers = re.findall(r"t-0:(\d+): ", warnings)
    assert numbers == ["4", "5", "6", str(len(good) + 3)], f"warnings: {warnings!r}"
    total = sum(int(n) for n in re.findall(r"(?:LOCAL|GLOBAL) +(\d+) ", out))
    assert total == puts, f"{total} puts, not {puts}"


def test_perfetto(busy):
    """The JSON parses, its events pair, and none is missing."""
    ranks = 2
    busy.job(ranks, GASNET_TRACEFILE="t-%")
    busy.tool("--perfetto", "page.json", *[f"t-{rank}" for rank in range(ranks)])
    with open(busy.path("page.json"), encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    phases = collections.Counter(event["ph"] for event in events)
    open_ones = {}
    for event in events:
        key = (event.get("cat"), event.get("id"))
        if event["ph"] == "b":
            assert key not in open_ones, f"{key} begins twice"
            open_ones[key] = event
        elif event["ph"] == "e":
            begin = open_ones.pop(key)
            assert begin["ts"] <= event["ts"] and begin["name"] == event["name"] and begin["pid"] == event["pid"], (
                f"{begin} does not go with {event}"
            )
        elif event["ph"] == "X":
            assert event["dur"] >= 0, f"{event} ends before it begins"
    kinds = collections.Counter()
    for rank in range(ranks):
        for name, (count, _) in busy.expected(rank)[0].items():
            kinds[name] += count
    assert (
        not open_ones and phases["b"] == kinds["BARRIER_START"] + kinds["COLL_START"] and phases["e"] == phases["b"]
    ), f"{len(open_ones)} events do not end; phases are {phases}"
    puts = sum(1 for event in events if event["ph"] == "X" and event["name"].startswith("PUT"))
    assert puts == sum(count for name, count in kinds.items() if name.startswith("PUT")), f"{puts} puts"


def test_json(busy):
    """-json has the page's data: the matrix is that of the program."""
    ranks = 2
    busy.job(ranks, GASNET_TRACEFILE="t-%")
    busy.tool("-json", "data.json", *[f"t-{rank}" for rank in range(ranks)])
    with open(busy.path("data.json"), encoding="utf-8") as file:
        data = json.load(file)
    got, wanted = collections.Counter(), collections.Counter()
    for kind, source, target, count, _ in data["matrix"]:
        got[data["classes"][kind], source, target] += count
    for rank in range(ranks):
        for (name, peer), (count, _) in busy.expected(rank)[1].items():
            wanted[name, rank, peer] += count
    compare("cells of the matrix", dict(got), dict(wanted))
    assert data["size"] == ranks


# ---- the page in a browser


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium here; scripts/setup.sh all installs it")
def test_page_in_a_browser(busy, pages):
    """The cells and bars that the browser has drawn have the numbers of the program."""
    ranks = pages
    busy.job(ranks, GASNET_TRACEFILE="t-%", GASNET_STATSFILE="s-%")
    files = [f"t-{rank}" for rank in range(ranks)]
    cells, bars = collections.defaultdict(lambda: [0, 0]), collections.Counter()
    for rank in range(ranks):
        for (name, peer), (count, size) in busy.expected(rank)[1].items():
            cells[rank, peer][0] += count
            cells[rank, peer][1] += size
            bars[name] += count
    wanted = {key: tuple(cell) for key, cell in cells.items()}
    for inputs in (files, [f"s-{rank}" for rank in range(ranks)]):
        busy.tool("-html", "page.html", *inputs)
        dom = busy.browser("--dump-dom", f"file://{busy.path('page.html')}")
        got = {}
        for tag in re.findall(r'<rect class="cell"[^>]*>', dom):
            values = dict(re.findall(r'data-(\w+)="([^"]*)"', tag))
            cell = (int(values["count"]), int(values["bytes"]))
            if cell != (0, 0):
                got[int(values["from"]), int(values["to"])] = cell
        compare(f"cells of the matrix from {inputs[0]}", got, wanted)
        drawn = collections.Counter()
        for name, count in re.findall(r'<rect class="bar-(\w+)"[^>]*data-count="(\d+)"', dom):
            drawn[name] += int(count)
        compare(f"bars from {inputs[0]}", dict(drawn), dict(bars))
        shares = {(int(r), s) for r, s in re.findall(r'class="share"[^>]*data-rank="(\d+)" data-state="(\w+)"', dom)}
        if inputs is files:
            assert {(rank, "barrier") for rank in range(ranks)} | {(0, "put"), (0, "get")} <= shares
            assert dom.count('class="slice"') >= ranks, "the timeline"
            assert "gex_Coll_BroadcastNB" in dom and "src/transfers.c:9" in dom
    busy.tool("-html", "page.html", *files)
    busy.browser(f"--screenshot={busy.path('page.png')}", f"file://{busy.path('page.html')}")
    colours = png_colours(busy.path("page.png"))
    assert len(colours) >= 20, f"the picture of the page has {len(colours)} colours only"


def png_colours(path):
    """The colours of a PNG file of eight bits without interlace."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("no PNG file")
    at, packed, header = 8, b"", None
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    width, height, depth, colour_type = header[:4]
    pixel = {2: 3, 6: 4}[colour_type]
    if depth != 8:
        raise ValueError(f"{depth} bits")
    raw, row, colours = zlib.decompress(packed), bytearray(width * pixel), set()
    for y in range(height):
        start = y * (width * pixel + 1)
        how, line = raw[start], bytearray(raw[start + 1 : start + 1 + width * pixel])
        for i in range(len(line)):
            left = line[i - pixel] if i >= pixel else 0
            corner = row[i - pixel] if i >= pixel else 0
            above = row[i]
            if how == 1:
                line[i] = (line[i] + left) & 255
            elif how == 2:
                line[i] = (line[i] + above) & 255
            elif how == 3:
                line[i] = (line[i] + (left + above) // 2) & 255
            elif how == 4:
                guess = left + above - corner
                best = min(
                    (abs(guess - left), 0, left), (abs(guess - above), 1, above), (abs(guess - corner), 2, corner)
                )[2]
                line[i] = (line[i] + best) & 255
        row = line
        if y % 8 == 0:
            colours |= {bytes(line[x : x + 3]) for x in range(0, len(line), pixel)}
    return colours
