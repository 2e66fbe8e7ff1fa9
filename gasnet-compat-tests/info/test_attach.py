"""gasnet_info --attach: jobs of stuck.c, which hang in known ways, and processes of no job."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import jobs
import pytest
from attaching import AGE, LIMIT, RANKS, Stuck, attach

pytestmark = pytest.mark.conduits("smp", "udp")


@pytest.fixture
def stuck(shop):
    return Stuck(shop, shop.compile(Path(__file__).with_name("stuck.c")))


def test_handler(stuck):
    """A handler that runs for long, and the rank that fills its queue."""
    report = stuck.reports(
        "handler",
        rf"rank 0 has run handler 200 for {AGE}, a request of rank 1",
        rf"rank 1 has waited {AGE} for room to send a request to rank 0",
        rf"rank 2 has not polled for {AGE}",
    )
    assert report["size"] == RANKS and report["cycles"] == []
    sender, receiver = report["ranks"][1]["threads"][0], report["ranks"][0]["threads"][0]
    assert sender["sent"]["request_short"] > receiver["received"]["request_short"] >= 1
    assert sender["waits"]["request room"] >= 1
    assert report["ranks"][0]["memory"].keys() == {"comm", "control", "host", "segment"}


def peers(rank):
    """The traffic of a rank by peer."""
    return {peer["ranks"][0]: peer for peer in rank["peers"] if peer["ranks"][0] == peer["ranks"][1]}


@pytest.fixture
def held(shop, stuck):
    """A job with a rank in a handler, and a report of it."""
    variables = {"GASNET_UDP_THREAD": "0", "TEST_WATCHDOG": str(2 * LIMIT)}
    process = shop.start([stuck.program, "handler"], stuck.mark, RANKS, variables)
    patterns = [
        rf"rank 0 has run handler 200 for {AGE}, a request of rank 1",
        rf"rank 1 has waited {AGE} for room to send a request to rank 0",
    ]
    try:
        report = stuck.wait_for(process, patterns)
        # Until no buffer on the way has room.
        while (later := json.loads(attach(shop, process.pid, "--json")[1]))["unhandled"] != report["unhandled"]:
            report = later
        yield process, later
    finally:
        jobs.kill_job(stuck.mark)
        process.communicate()


def test_peers(shop, held):
    """Traffic is counted by peer, messages not handled are known, and the time is sampled."""
    process, report = held
    receiver, sender, third = (peers(rank) for rank in report["ranks"])
    sent, handled = sender[0]["sent"]["request_short"], receiver[1]["received"]["request_short"]
    assert sum(sender[0]["sent"].values()) == sent > handled == sum(receiver[1]["received"].values())
    assert {"from": 1, "to": 0, "messages": sent - handled} in report["unhandled"]
    assert (third[1]["sent"]["request_medium"], third[1]["sent_bytes"]) == (3, {"medium": 300, "long": 0})
    assert (sender[2]["received"]["request_medium"], sender[2]["received_bytes"]["medium"]) == (3, 300)
    assert 2 not in receiver and 0 not in third
    # A node agent looks once a second.
    deadline, seen = time.monotonic() + LIMIT, [0, 0]
    while min(seen) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
        ranks = json.loads(attach(shop, process.pid, "--json")[1])["ranks"]
        samples = [rank["threads"][0]["samples"] for rank in ranks]
        seen = [samples[0]["handler"], samples[1]["wait"]]
    assert min(seen) >= 2 and samples[2]["handler"] == 0, samples
    text = attach(shop, process.pid)[1]
    assert f"\nMessages sent and not yet handled\n  rank 1 -> rank 0: {sent - handled}\n" in text, text


def test_page(shop, held):
    """The page has the numbers of the report."""
    process, report = held
    status, page, _ = attach(shop, process.pid, "--html")
    assert status == 0 and page.startswith("<!doctype html>") and "<title>running job of 3 ranks</title>" in page
    data, _ = json.JSONDecoder().raw_decode(page.partition("ranks: [] }, ")[2])
    messages = data["classes"].index("am")
    sent = peers(report["ranks"][1])[0]["sent"]["request_short"]
    assert [messages, 1, 0, sent, 0] in data["matrix"] and [messages, 2, 1, 3, 300] in data["matrix"]
    assert data["waits"] == [[1, 0]] and data["group"] == 1
    assert [row[0] for row in data["ranks"]] == ["0", "1", "2"]
    assert len(data["waitLines"]) == RANKS and len(data["columns"]) == len(data["ranks"][0])


def test_metrics(shop, held):
    """The metrics are those of the report."""
    process, report = held
    status, text, _ = attach(shop, process.pid, "--prometheus")
    assert status == 0
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    labels = f'rank="0",host="{report["ranks"][0]["host"]}"'
    received = f'gasnet_received_total{{{labels},kind="request_short"}}'
    assert int(found[received]) == report["ranks"][0]["threads"][0]["received"]["request_short"]
    assert f'gasnet_state_seconds{{{labels},state="handler 200"}}' in found
    sent = peers(report["ranks"][1])[0]["sent"]["request_short"]
    labels = labels.replace('rank="0"', 'rank="1"')
    assert int(found[f'gasnet_peer_sent_total{{{labels},peer="0"}}']) == sent
    assert f'gasnet_state_seconds{{{labels},state="wait: request room"}}' in found
    assert int(found[f'gasnet_memory_bytes{{{labels},use="control"}}']) >= report["ranks"][1]["memory"]["control"]
    form = r"gasnet_[a-z_]+\{rank=.*\} \d+|# (HELP|TYPE) gasnet_.*"
    assert all(re.fullmatch(form, line) for line in text.splitlines())


def test_event(stuck):
    """A collective that a rank has not begun, and an event."""
    stuck.reports(
        "event",
        rf"ranks 0, 2 have waited {AGE}( to {AGE})? for an event \(a collective\); rank 1 has not begun as many "
        "collectives",
        rf"rank 1 has not polled for {AGE}",
    )


def test_barrier(stuck):
    """A barrier that a rank has not entered, which polls."""
    stuck.reports(
        "barrier",
        rf"ranks 0, 2 have waited {AGE}( to {AGE})? in gasnet_barrier_wait; rank 1 has not entered the barrier",
        rf"rank 1 has polled in vain( for {AGE})?",
    )


def test_stopped(stuck):
    """A rank that a signal has stopped."""
    stuck.reports("stop", "rank 1 has been stopped by a signal or a debugger")


@pytest.mark.conduits("udp")
def test_access(stuck):
    """Puts and gets whose peer a signal has stopped."""
    report = stuck.reports(
        "access",
        rf"rank 0 has waited {AGE} for its implicit operations \(puts with (rank 1|several ranks)\)",
        "rank 1 has been stopped by a signal or a debugger",
        rf"rank 2 has waited {AGE} for an event \(gets with rank 1\)",
        GASNET_SUPERNODE_MAXSIZE="1",
    )
    assert report["ranks"][2]["states"][0]["waits_for"] == [1]


def test_attach_of_segments(stuck):
    """A rank that is late in a collective call that has no network yet."""
    stuck.reports(
        "attach",
        rf"ranks 0, 2 have waited {AGE}( to {AGE})? in the start of the job or the attachment of segments; rank 1 has "
        "not come as far",
    )


def test_launcher(stuck):
    """The process that the user has started is above the job, and watching ends with the job."""
    stuck.reports("stop", "rank 1 has been stopped by a signal or a debugger", words=["sh", "-c", '"$@"; exit 3', "sh"])


def test_program(shop, stuck):
    """The name of a program leads to its job, if there is one, and to the processes of several."""
    program, variables = Path(shop.folder, f"alone-{stuck.mark}"), {"TEST_WATCHDOG": str(2 * LIMIT)}
    shutil.copy(stuck.program, program)
    started = [shop.start([program, "barrier"], stuck.mark, RANKS, variables)]
    try:
        known = [
            rank["pid"] for rank in stuck.wait_for(started[0], [rf"rank 1 has polled in vain( for {AGE})?"])["ranks"]
        ]
        status, text, errors = attach(shop, f"./{program.name}", "--json")
        assert status == 0 and [rank["pid"] for rank in json.loads(text)["ranks"]] == known, errors
        started.append(shop.start([program, "barrier"], stuck.mark, RANKS, variables))
        stuck.wait_for(started[1], [rf"rank 1 has polled in vain( for {AGE})?"])
        status, _, errors = attach(shop, program.name)
        assert status == 1 and f"2 jobs run {program.name}. Give the number of one of these" in errors, errors
    finally:
        jobs.kill_job(stuck.mark)
        for process in started:
            process.communicate()


def test_off(stuck):
    """Without counters there are processes."""
    report = stuck.reports("barrier", r"ranks 0-2 have no counters \(GASNET_COUNTERS=0\)", GASNET_COUNTERS="0")
    assert all(rank["threads"] == [] for rank in report["ranks"])


def test_watch(shop, stuck):
    """Reports follow each other until the job ends."""
    process = shop.start([stuck.program, "barrier"], stuck.mark, RANKS, {"TEST_WATCHDOG": str(2 * LIMIT)})
    try:
        stuck.wait_for(process, [rf"rank 1 has polled in vain( for {AGE})?"])
        command = [f"{shop.prefix}/bin/gasnet_info", "--attach", str(process.pid), "--watch", "0.1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
            titles = 0
            while titles < 3:
                titles += watching.stdout.readline().startswith("Job of")
            jobs.kill_job(stuck.mark)
            rest = watching.stdout.read()
            assert watching.wait() == 0 and "ranks 0-2 have ended" in rest, rest[-2000:]
    finally:
        jobs.kill_job(stuck.mark)
        process.communicate()


@pytest.mark.conduits("smp")
def test_no_job(shop):
    """Processes that are no job's, and users that may not ask."""
    with subprocess.Popen(["sleep", "100"]) as process:
        status, text, errors = attach(shop, process.pid)
        assert (status, text) == (1, "")
        assert f"neither process {process.pid} (sleep) nor a child of it belongs to a GASNet job" in errors
        if os.getuid() == 0:
            nobody = ["setpriv", "--reuid", str(jobs.NOBODY), "--regid", str(jobs.NOBODY), "--clear-groups"]
            status, _, errors = attach(shop, process.pid, before=nobody)
            assert status == 1 and "of user 0: Permission denied" in errors, errors
        process.kill()
    status, _, errors = attach(shop, process.pid)
    assert status == 1 and f"there is no process {process.pid}" in errors
    status, _, errors = attach(shop, "./no-such-program")
    assert status == 1 and "no GASNet job of this user runs no-such-program on this host" in errors
    for words in (["x/"], ["0"], ["1", "--watch", "x"], ["1", "--watch", "0"]):
        assert attach(shop, *words)[0] == 2
    for option in ("--watch", "--prometheus", "--html"):
        info = [f"{shop.prefix}/bin/gasnet_info", option]
        alone = subprocess.run(info, capture_output=True, text=True, check=False)
        assert alone.returncode == 2 and f"{option} needs --attach PID" in alone.stderr
