"""Recordings of the program traffic.c, and their replays: over every conduit, on fewer and on more
ranks, of the end of a job, and of one that was killed. Damaged files are refused, and a replay that
fails is reduced."""

import collections
import os
import re
import signal
import struct
import time
from pathlib import Path

import jobs
import pytest

# The program that replays is optimised in both flavours of the library.
pytestmark = pytest.mark.flavours("release")
RANKS, ROUNDS, BLOCKS = 3, 20, 3
HEADER, RECORD = 4096, 16
PUT, BARRIER, REQUEST_SHORT, RAN_REQUEST_SHORT, TIME, NO_PEER = 8, 23, 31, 37, 254, 65535
NETWORK = {"GASNET_SUPERNODE_MAXSIZE": "1"}
REPLAYED = r"replayed \d+ times on {} ranks: {} recorded ranks"


@pytest.fixture
def recorder(shop):
    """The program in mode PAR, and its recordings."""
    return Recorder(shop)


class Recorder:
    """Records jobs, and replays them, in the workshop's folder."""

    def __init__(self, shop):
        self.shop = shop
        self.program = shop.compile(Path(__file__).with_name("traffic.c"), "par")
        self.replayer = f"{shop.prefix}/bin/gasnet_replay"

    def path(self, name):
        """A recording."""
        return os.path.join(self.shop.folder, name)

    def record(self, name, *arguments, status=0, **variables):
        """Runs the program without shared memory, so that all of it goes over the network."""
        extra = {**NETWORK, "GASNET_RECORD": self.path(name), **variables}
        self.shop.expect([self.program, *arguments], status, ranks=RANKS, extra=extra)

    def command(self, name, *options, ranks=RANKS):
        """The command of a replay."""
        return [f"{self.shop.prefix}/bin/gasnetrun", "-n", str(ranks), self.replayer, *options, self.path(name)]

    def replay(self, name, *options, ranks=RANKS, conduit="", extra=None, status=0, patterns=None):
        """Replays a recording, and returns the output."""
        variables = {"GASNET_CONDUIT": conduit or self.shop.conduit, **NETWORK, **(extra or {})}
        if patterns is None:
            patterns = [REPLAYED.format(ranks, RANKS)]
        command = self.command(name, *options, ranks=ranks)
        return self.shop.expect(command, status, *patterns, extra=variables, timeout=150)

    def calls(self, name):
        """How often each kind of call is in a recording, by --show."""
        output = self.shop.expect([self.replayer, "--show", self.path(name)], 0)
        return collections.Counter(re.findall(r"^\d+:\d+ \d+\.\d{9} ([A-Z_]+)", output, re.MULTILINE))

    def members(self, name):
        """The members of teams in a recording, with their ranks there."""
        output = self.shop.expect([self.replayer, "--show", self.path(name)], 0)
        return sorted(re.findall(r" CREATE (rank=\d+ peer=\d+) ", output))


def test_contents(recorder):
    """A recording has every call of every thread, with its peer, size and place, 16 bytes each."""
    recorder.record("t-%")
    calls = recorder.calls("t-%")
    each = RANKS * BLOCKS * ROUNDS * 2
    for kind in [
        "REQUEST_SHORT",
        "REQUEST_MEDIUM",
        "REQUEST_LONG",
        "REPLY_SHORT",
        "REPLY_MEDIUM",
        "REPLY_LONG",
        "RAN_REQUEST_SHORT",
        "RAN_REQUEST_MEDIUM",
        "RAN_REQUEST_LONG",
        "RAN_REPLY_SHORT",
        "RAN_REPLY_MEDIUM",
        "RAN_REPLY_LONG",
        "PUT_NB",
        "PUT",
        "GET_NBI",
        "ATOMIC_NBI",
    ]:
        assert calls[kind] == each, (kind, calls)
    assert calls["BARRIER_NOTIFY"] == calls["BARRIER_WAIT"] == RANKS * BLOCKS
    assert calls["BARRIER_START"] == calls["BARRIER_DONE"] >= RANKS * BLOCKS
    output = recorder.shop.expect([recorder.replayer, "--show", recorder.path("t-%")], 0)
    assert re.search(r"^0:\d \S+ REQUEST_LONG peer=1 bytes=8 handler=152 nargs=1 offset=4096$", output, re.MULTILINE)
    assert re.search(r"^0:\d \S+ PUT peer=2 bytes=105 offset=12288$", output, re.MULTILINE)
    with open(recorder.path("t-0"), "rb") as file:
        header = file.read(HEADER)
    written = struct.unpack_from("=Q", header, 40)[0]
    assert written < 2 * sum(calls.values()) / RANKS, (written, calls)
    assert struct.unpack_from("=Q", header, 88)[0] == 1
    assert os.stat(recorder.path("t-0")).st_blocks * 512 < 1 << 20, "the unused part is freed"


def fnv(data):
    """The checksum of a record: FNV-1a of 64 bits."""
    checksum = 0xCBF29CE484222325
    for byte in data:
        checksum = (checksum ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{checksum:016x}"


def test_payload(recorder):
    """On request a recording has the arguments and payloads of messages and of puts, of any size,
    as the handler got them; and the payload of each run is one that was sent."""
    recorder.record("t-%", GASNET_RECORD_PAYLOAD="all")
    output = recorder.shop.expect([recorder.replayer, "--contents", recorder.path("t-%")], 0)
    for thread in 0, 1:
        data = bytes((i * 7 + thread) % 256 for i in range(4096))
        arguments = struct.pack("=i", thread)
        for peer, size in (1, 8), (2, 105), (0, 202), (1, 299):
            put = rf"^0:\d \S+ PUT peer={peer} bytes={size} .*checksum={fnv(data[:size])} payload={data[:size].hex()}$"
            shown = f"checksum={fnv(arguments + data[:size])} args={thread} payload={data[:size].hex()}$"
            sent = rf"^0:\d \S+ REQUEST_(MEDIUM|LONG) peer={peer} bytes={size} .*{shown}"
            ran = rf"^{peer}:\d \S+ RAN_REQUEST_(MEDIUM|LONG) peer=0 bytes={size} .*{shown}"
            for pattern, least in (put, 1), (sent, 2), (ran, 2):
                assert len(re.findall(pattern, output, re.MULTILINE)) >= least, pattern
        assert re.search(rf"PUT_NB peer=1 bytes=4096 .*payload={data.hex()}$", output, re.MULTILINE)
        assert re.search(rf"REQUEST_SHORT .*checksum={fnv(arguments)} args={thread}$", output, re.MULTILINE)
    recorder.shop.expect([recorder.replayer, "--compare", recorder.path("t-%")], 0, "3 ranks have 0 differences")
    recorder.replay("t-%", "--speed", "0")


def test_checksums(recorder):
    """A handler that runs for another payload than was sent is found by checksums; a recording
    without them, or without its beginning, cannot be compared."""
    recorder.record("t-%", GASNET_RECORD_PAYLOAD="checksum")
    compare = [recorder.replayer, "--compare", recorder.path("t-%")]
    output = recorder.shop.expect(compare, 0, "3 ranks have 0 differences")
    messages = sum(count for kind, count in recorder.calls("t-%").items() if re.search("REQUEST|REPLY", kind))
    assert f": {messages} messages and runs" in output, (messages, output)
    with open(recorder.path("t-1"), "r+b") as file:
        data = file.read()
        # The second run of a Medium request of rank 0, and its checksum.
        runs = [
            at
            for at in range(HEADER, len(data), RECORD)
            if struct.unpack_from("=BB2xH", data, at) == (RAN_REQUEST_SHORT + 1, 151, 0)
        ]
        file.seek(runs[1] - 8)
        file.write(bytes([data[runs[1] - 8] ^ 4]))
    ran = "handler 151 of rank 1 ran 1 times for a request that rank 0 did not send: [0-9]+ bytes"
    sent = "rank 0 sent rank 1 a request 1 times for which handler 151 did not run: [0-9]+ bytes"
    recorder.shop.expect(compare, 1, ran, sent, "3 ranks have 2 differences")
    recorder.record("t-%", GASNET_RECORD_PAYLOAD="all", GASNET_RECORD_SIZE="32K")
    recorder.shop.expect(compare, 2, "rank 0 lacks the beginning of its recording")
    recorder.record("t-%")
    recorder.shop.expect(compare, 2, "there are no checksums")
    extra = {"GASNET_RECORD": recorder.path("t-%"), "GASNET_RECORD_PAYLOAD": "some"}
    recorder.shop.expect([recorder.program], 1, "GASNET_RECORD_PAYLOAD=some.*none.*checksum.*all", ranks=2, extra=extra)


def test_replays(recorder):
    """A recording of one conduit is replayed over each installed one, at any speed, repeatedly, on
    fewer ranks and on a multiple."""
    recorder.record("t-%")
    recorder.replay("t-%")
    for conduit in sorted({"smp", "udp", recorder.shop.conduit}):
        recorder.replay("t-%", "--speed", "0", "--repeat", "3", "--limit", "100", conduit=conduit)
    recorder.replay("t-%", "--speed", "10", "--jitter", "3")
    for ranks in (1, 2, 2 * RANKS):
        recorder.replay("t-%", "--speed", "0", ranks=ranks)
    recorder.replay("t-%", ranks=4, status=2, patterns=["start as many, fewer, or a multiple, not 4"])


def test_teams(recorder):
    """Teams are made again with the same members, and their collectives are called with as many
    ranks or a multiple; with fewer ranks they are left out."""
    recorder.program = recorder.shop.compile(Path(__file__).with_name("teams.c"), "par")
    recorder.record("t-%")
    calls = recorder.calls("t-%")
    rounds = 10
    assert calls["COLL_START"] == calls["COLL_DONE"] == 3 * RANKS * rounds
    assert calls["BARRIER_START"] == calls["BARRIER_DONE"] >= 2 * RANKS * rounds
    assert calls["CREATE"] == 2 * RANKS
    output = recorder.shop.expect([recorder.replayer, "--show", recorder.path("t-%")], 0)
    assert re.search(r"^2:0 \S+ CREATE rank=1 peer=0 team=20000000\d( |$)", output, re.MULTILINE)
    assert re.search(r"COLL_START number=2 op=broadcast bytes=1000 peer=0 team=20000000\d( |$)", output, re.MULTILINE)
    assert re.search(r"COLL_START number=\d+ op=reduce-to-one bytes=40 peer=2( |$)", output, re.MULTILINE)
    for ranks in (RANKS, 2 * RANKS, 1):
        extra = {"GASNET_RECORD": recorder.path("again-%"), "GASNET_RECORD_PAYLOAD": "none"}
        recorder.replay("t-%", "--speed", "0", "--repeat", "3", ranks=ranks, extra=extra)
        again = recorder.calls("again-%")
        # Each replay ends with the sum of the failures.
        sums = 3 * ranks
        left = 0 if ranks < RANKS else ranks // RANKS * calls["COLL_START"] * 3
        assert again["COLL_START"] == left + sums, (ranks, again)
        made = recorder.members("again-%")
        assert bool(made) == (ranks >= RANKS), (ranks, made)
        assert ranks != RANKS or made == recorder.members("t-%"), made
    recorder.replay("t-%", "--jitter", "3")


def test_end_of_a_job(recorder):
    """A ring keeps the last calls, and their replay ends."""
    recorder.record("t-%", "200", GASNET_RECORD_SIZE="32K")
    calls = recorder.calls("t-%")
    assert 0 < sum(calls.values()) <= RANKS * 2048
    whole = REPLAYED.format(RANKS, RANKS) + ", whose beginnings are missing"
    recorder.replay("t-%", "--speed", "0", "--repeat", "2", patterns=[whole])


def write(path, rank, capacity, written, records, is_cut=False):
    """Writes the recording of one of two ranks: (kind, handler, thread, peer, gap, bytes)."""
    header = struct.pack("=8s6I4Q", b"GASNETRC", 2, HEADER, RECORD, is_cut, rank, 2, capacity, written, 0, 0)
    with open(path, "wb") as file:
        file.write(header.ljust(HEADER, b"\0"))
        file.writelines(
            struct.pack("=4B2HQ", kind, handler, (kind not in (TIME, PUT)), thread, peer, gap, number)
            for kind, handler, thread, peer, gap, number in records
        )


@pytest.mark.conduits("smp")
def test_lost_causes(recorder):
    """Two ranks wait for each other, since the message that one of them waits for was lost with the
    beginning: only such a wait is given up."""
    for is_cut, status, message in (True, 0, "beginnings are missing"), (False, 1, "waits for run 1 of handler 14"):
        for rank in 0, 1:
            calls = [(RAN_REQUEST_SHORT, 140 + rank, 0, 1 - rank, 0, 0), (REQUEST_SHORT, 141 - rank, 0, 1 - rank, 0, 0)]
            write(recorder.path(f"t-{rank}"), rank, 2, 2, calls, is_cut)
        recorder.replay("t-%", "--limit", "3", ranks=2, status=status, patterns=[message])


@pytest.mark.conduits("smp")
def test_replaced_blocks(recorder):
    """Where the ring has replaced a block of a thread, records of others are dropped up to its
    last one; the rest are in the order of their times."""
    put, unused = (PUT, 0, 0, 0, 10, 8), (0, 0, 0, 0, 0, 0)
    blocks = [
        [(TIME, 0, 0, NO_PEER, 0, 100), *[put] * 8, *[unused] * 55],
        [(TIME, 0, 1, NO_PEER, 0, 150), (PUT, 0, 1, 0, 15, 8), *[unused] * 62],
    ]
    for rank in 0, 1:
        write(recorder.path(f"t-{rank}"), rank, 128, 256, [*blocks[0], *blocks[1]])
    output = recorder.shop.expect([recorder.replayer, "--show", recorder.path("t-%")], 0)
    times = [(thread, int(at) // 16) for thread, at in re.findall(r"^0:(\d) 0\.(\d{9}) PUT ", output, re.MULTILINE)]
    assert times == [("0", 160), ("1", 165), ("0", 170), ("0", 180)], output


def test_killed_job(recorder):
    """A rank that is killed leaves its recording, which is replayed as far as it goes."""
    extra = {**NETWORK, "GASNET_RECORD": recorder.path("t-%")}
    status, output, _, left = recorder.shop.run([recorder.program, "20", "kill"], RANKS, extra)
    assert status not in (0, None) and not left, output
    assert recorder.calls("t-%")["REQUEST_SHORT"] > 0
    recorder.replay("t-%", "--speed", "0")


def test_names(recorder):
    """Ranks do not share a file, and a name that cannot be created is an error."""
    recorder.record("shared", status=1)
    extra = {"GASNET_RECORD": recorder.path("none/t-%")}
    recorder.shop.expect([recorder.program], 1, "cannot create .*none/t-0", ranks=2, extra=extra)
    extra = {"GASNET_RECORD": recorder.path("t-%"), "GASNET_RECORD_SIZE": "100"}
    recorder.shop.expect([recorder.program], 1, "GASNET_RECORD_SIZE", ranks=2, extra=extra)


@pytest.mark.conduits("smp")
def test_damaged_files(recorder):
    """Foreign, truncated and damaged files are refused, with their names."""
    recorder.record("t-%")
    path = recorder.path("t-1")
    with open(path, "rb") as file:
        good = file.read()
    written = struct.unpack_from("=Q", good, 40)[0]
    end = HEADER + written * RECORD

    def changed(at, data):
        return good[:at] + data + good[at + len(data) :]

    cases = [
        (b"", "is not a recording"),
        (b"x" * 5000, "is not a recording"),
        (good[:4000], "is not a recording"),
        (changed(8, struct.pack("=I", 1)), "format 1"),
        (good[: end - 8], "is truncated"),
        (changed(28, struct.pack("=I", 0)), "header is not valid"),
        (changed(32, struct.pack("=Q", 3)), "header is not valid"),
        (changed(24, struct.pack("=I", 2)), "is the recording of rank 2"),
        (changed(HEADER + 32, b"\xc8"), "record 2 is not valid"),
        (changed(HEADER + 32, struct.pack("=4B2HQ", BARRIER, 0, 0, 0, NO_PEER, 0, 0)), "record 2 is not valid"),
    ]
    for contents, message in cases:
        with open(path, "wb") as file:
            file.write(contents)
        recorder.replay("t-%", status=2, patterns=[message])
    os.unlink(path)
    recorder.replay("t-%", status=2, patterns=["cannot open .*t-1"])
    os.mkfifo(path)
    recorder.replay("t-%", status=2, patterns=["t-1 is not a file"])
    os.unlink(path)
    for options, message in (["--speed", "x"], "a number is expected"), (["--jiter"], "an unknown option"):
        recorder.replay("t-%", *options, status=2, patterns=[message])


@pytest.mark.conduits("smp")
def test_reduction(recorder):
    """A stand-in for a launcher fails while a certain Long and a certain barrier are there: these
    two operations remain of thousands, on two of three ranks, and their replay ends."""
    recorder.record("t-%")
    script = recorder.path("launcher")
    with open(script, "w", encoding="utf-8") as file:
        file.write(
            """calls=$("$2" --show "$7") || exit 2
            has() { printf '%s\\n' "$calls" | grep -q "$1"; }
            if has ' REQUEST_LONG peer=. bytes=299 ' && has 'BARRIER_NOTIFY number=2'; then exit 1; fi"""
        )
    command = [recorder.replayer, "--reduce", recorder.path("small-%"), recorder.path("t-%"), "--", "sh", script, "%n"]
    output = recorder.shop.expect(command, 0, "2 of [0-9]{4} operations are in .*small-%", timeout=150)
    assert output.count("operations of 2 ranks fail") > 3, output
    calls = recorder.calls("small-%")
    assert calls["REQUEST_LONG"] == calls["RAN_REQUEST_LONG"] == calls["REPLY_SHORT"] == 1, calls
    assert calls["BARRIER_NOTIFY"] == 2 and sum(calls.values()) < 12, calls
    recorder.replay("small-%", ranks=2, patterns=[REPLAYED.format(2, 2)])
    assert not [name for name in os.listdir(recorder.shop.folder) if name.endswith(".try")]
    with open(script, "w", encoding="utf-8") as file:
        file.write("exit 0")
    recorder.shop.expect(command, 2, "does not fail")


@pytest.mark.conduits("smp")
def test_runs_of_a_reduction(recorder):
    """A run has the options of the replay. One that does not end has not failed with --until-fail,
    and is ended with the reduction."""
    recorder.record("t-%")
    script = 'echo "$@" >begun; exec sleep 1000'
    launcher = ["--", "sh", "-c", script, "%n"]
    command = [recorder.replayer, "--reduce", recorder.path("small-%")]
    options = ["--until-fail", "--run-limit", "1", "--speed", "3"]
    recorder.shop.expect([*command, *options, recorder.path("t-%"), *launcher], 2, "does not fail")
    words = Path(recorder.path("begun")).read_text(encoding="utf-8").split()
    assert "--speed=3" in words and "--until-fail" in words, words
    os.unlink(recorder.path("begun"))
    # A command that always fails is no replay that fails; %n may be a part of a word.
    launcher = ["--", "sh", "-c", 'echo "$0" >ranks; exit 1', "-n%n"]
    recorder.shop.expect([*command, recorder.path("t-%"), *launcher], 2, "fails without any operation")
    assert Path(recorder.path("ranks")).read_text(encoding="utf-8") == f"-n{RANKS}\n"
    launcher = ["--", "sh", "-c", script, "%n"]

    def interrupt(process):
        deadline = time.monotonic() + 60
        while not os.path.exists(recorder.path("begun")) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)

    recorder.shop.expect([*command, recorder.path("t-%"), *launcher], -signal.SIGINT, during=interrupt)
    assert not [name for name in os.listdir(recorder.shop.folder) if name.endswith(".try")]


def stop_a_rank(process):
    """Stops the last rank of a running job that replays."""
    deadline = time.monotonic() + 60
    mark, ranks = None, []
    # A process whose exec is under way has no environment.
    while mark is None and time.monotonic() < deadline:
        with open(f"/proc/{process.pid}/environ", encoding="utf-8") as file:
            mark = re.search(rf"(?:^|\0){jobs.MARK}=([^\0]*)", file.read())
    while len(ranks) <= RANKS and time.monotonic() < deadline:
        time.sleep(0.2)
        ranks = [p for p in jobs.job_processes(mark[1]) if os.readlink(f"/proc/{p}/exe").endswith("/gasnet_replay")]
    time.sleep(1)
    os.kill(max(ranks), signal.SIGSTOP)


@pytest.mark.conduits("udp")
def test_no_progress(recorder):
    """A replay that hangs ends, and names the calls of its threads and the messages that lack."""
    recorder.record("t-%")
    command = recorder.command("t-%", "--speed", "0", "--repeat", "1000000", "--limit", "10")
    recorder.shop.expect(
        command,
        1,
        r"no progress for 10 s: rank \d thread 0 ",
        r"rank \d: \d+ of \d+ (requests|replies) of rank \d for handler \d+ have arrived",
        extra={"GASNET_CONDUIT": "udp", "GASNET_EXITTIMEOUT": "5", **NETWORK},
        timeout=150,
        during=stop_a_rank,
    )
