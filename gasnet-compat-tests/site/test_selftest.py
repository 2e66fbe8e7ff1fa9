"""gasnet_selftest, as a site runs it: its report, a rank that stops, corrupted data, and its exit
codes."""

import json
import os
import re
import shlex
import signal
import time

import jobs
import pytest
import workshop

# The program is optimised, and takes its time, in both flavours of the library.
pytestmark = pytest.mark.flavours("release")
FILES = ("gasnet_selftest.txt", "gasnet_selftest.json")


@pytest.fixture(scope="module")
def factor(pytestconfig):
    """By how much longer a slow machine may take: that of the option, and the share of a core that
    other processes leave."""
    busy = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    return pytestconfig.option.timeout_factor * max(1, busy)


def started(shop, ranks, *options):
    """The command of a job, whose report is written to the workshop's folder."""
    for name in FILES:
        path = os.path.join(shop.folder, name)
        if os.path.exists(path):
            os.remove(path)
    return [shop.launcher, "-n", str(ranks), f"{shop.prefix}/bin/gasnet_selftest", *options]


def report(shop):
    """The report of the last job: its text, and the JSON as an object."""
    text, data = (os.path.join(shop.folder, name) for name in FILES)
    with open(text, encoding="utf-8") as file, open(data, encoding="utf-8") as other:
        return file.read(), json.load(other)


def results(data):
    """Test: result."""
    return {row["test"]: row["result"] for row in data["tests"]}


def ranks_of(mark):
    """The processes of the ranks of a job."""
    return [p for p in jobs.job_processes(mark) if os.readlink(f"/proc/{p}/exe").endswith("/gasnet_selftest")]


@pytest.mark.conduits("smp", "udp", "ibv", "gni")
def test_quick(shop, factor):
    """All tests pass within a minute of four ranks on one core, networks without shared memory."""
    extra = {} if shop.conduit == "smp" else {"GASNET_SUPERNODE_MAXSIZE": "1"}
    core = str(min(os.sched_getaffinity(0)))
    began = time.monotonic()
    shop.expect(["taskset", "-c", core, *started(shop, 4, "--quick")], 0, extra=extra, timeout=200)
    seconds = time.monotonic() - began
    text, data = report(shop)
    assert data["complete"] and data["result"] == "PASS" and data["ranks"] == 4, text
    assert data["conduit"] == shop.conduit and data["settings"] and data["limits"]
    assert data["gasnet_info"]["version"] and "libgasnet" in text
    assert [host["ranks"] for host in data["hosts"]] == [4]
    assert set(results(data).values()) == {"PASS", "SKIP"}
    assert results(data)["uneven"] == "SKIP" and results(data)["put-nb"] == "PASS"
    assert all(row["cases"] > 0 for row in data["tests"] if row["result"] == "PASS")
    assert seconds < 60 * factor, f"{seconds:.0f} s"


def to_last_rank(shop, number):
    """What sends a signal to the last rank of a running job, or the one before: never rank 0."""

    def send(process):
        deadline = time.monotonic() + 60
        mark = None
        # A process whose exec is under way has no environment.
        while mark is None and time.monotonic() < deadline:
            with open(f"/proc/{process.pid}/environ", encoding="utf-8") as file:
                mark = re.search(rf"(?:^|\0){jobs.MARK}=([^\0]*)", file.read())
        while not os.path.exists(os.path.join(shop.folder, FILES[1])) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(max(ranks_of(mark[1])), number)

    return send


@pytest.mark.conduits("udp")
def test_a_rank_that_stops(shop):
    """The test under way fails, and the report names the ranks that wait and the one that does not
    answer."""
    command = started(shop, 3, "--quick", "--limit", "4", "put,get")
    extra = {"GASNET_SUPERNODE_MAXSIZE": "1", "GASNET_EXITTIMEOUT": "5"}
    shop.expect(
        command,
        1,
        r"no progress: .*, rank \d on .* in test ",
        "does not answer",
        extra=extra,
        timeout=180,
        during=to_last_rank(shop, signal.SIGSTOP),
    )
    text, data = report(shop)
    assert data["complete"] and data["result"] == "FAIL"
    failed = [row for row in data["tests"] if row["result"] == "FAIL"]
    assert len(failed) == 1 and len(failed[0]["texts"]) == 4, text
    assert sum("does not answer" in line for line in failed[0]["texts"]) == 1
    assert results(data)["get-nbi"] == "not run"


@pytest.mark.conduits("udp")
def test_a_rank_that_dies(shop):
    """The job ends, and leaves a report that names the test under way."""
    during = to_last_rank(shop, signal.SIGKILL)
    status, output, _, left = shop.run(started(shop, 3, "--quick", "put,get"), 0, timeout=60, during=during)
    text, data = report(shop)
    assert status not in (0, None) and not left, output
    assert not data["complete"] and data["result"] == "FAIL"
    assert [row["result"] for row in data["tests"]].count("FAIL") == 1 and "the job ended during" in text


@pytest.mark.conduits("gni")
def test_corrupted_data(configuration, quick):
    """A put whose first word arrives with other bits fails its row. Some of these puts
    carry no data of the program, and end the connection instead."""
    for number in range(80, 400, 10):
        with workshop.network_of("gni", ["--faults", f"forge=data:{number}:0xff"]) as network:
            shop = workshop.Workshop(configuration, network, ["par"], quick)
            try:
                command = started(shop, 2, "--quick", "layout,am-lon")
                status, output, _, left = shop.run(command, 0, {"GASNET_SUPERNODE_MAXSIZE": "1"}, 180)
                text, data = report(shop)
            finally:
                shop.close()
        assert not left and status is not None, output
        if status == 1 and data["complete"]:
            failed = [name for name, result in results(data).items() if result == "FAIL"]
            assert failed and all(name.startswith("am-long") for name in failed), text
            assert data["result"] == "FAIL"
            assert re.search(r"FAIL .*\n +.*Long .*bytes.*alignment.*rank . on .* over the network: byte \d+ is", text)
            return
    pytest.fail("no fault has altered data")


@pytest.mark.conduits("gni")
def test_damaged_sums(configuration, quick):
    """The program's own sums over all ranks are damaged as well: that neither skips nor passes a
    test."""
    with workshop.network_of("gni", ["--faults", "damage=fma-put:60-99"]) as network:
        shop = workshop.Workshop(configuration, network, ["par"], quick)
        try:
            command = started(shop, 2, "--quick", "layout,put-nb")
            status, output, _, left = shop.run(command, 0, {"GASNET_SUPERNODE_MAXSIZE": "1"}, 180)
            text, data = report(shop)
        finally:
            shop.close()
    assert status == 1 and not left, output
    assert data["result"] == "FAIL" and results(data)["put-nb"] == "FAIL", text
    assert "SKIP" not in results(data).values() and "sums over all ranks" in text, text


@pytest.mark.conduits("smp")
def test_a_name_is_one_test(shop):
    """A name that begins others, too, is one test. Settings are printable, and no secrets."""
    extra = {"GASNET_AUTH": "hush", "GASNET_FOO": b"\xff\xe9", "FI_PSM2_UUID": "hush"}
    shop.expect(started(shop, 2, "--quick", "put-nb"), 0, extra=extra, timeout=60)
    text, data = report(shop)
    assert list(results(data)) == ["start", "put-nb"], text
    assert data["settings"]["GASNET_FOO"] == "??" and "hush" not in text, text


@pytest.mark.conduits("smp")
def test_terminal(shop):
    """A terminal shows the test under way, and colours unless NO_COLOR is set; a pipe gets
    neither."""
    job = started(shop, 2, "--quick", "--time", "2", "put-nb")
    terminal = ["script", "-qec", shlex.join(job), "/dev/null"]
    shop.expect(terminal, 0, r"\[ 1/1\] \.\.\.\. put-nb", "\033\\[32mPASS", timeout=60)
    shop.expect(terminal, 0, r"\.\.\.\. put-nb", "!\033\\[32m", extra={"NO_COLOR": "1"}, timeout=60)
    shop.expect(job, 0, r"^\[ 1/1\] PASS put-nb", "!\033", r"!\.\.\.\.", timeout=60)


@pytest.mark.conduits("smp", "udp")
def test_exit_codes(shop):
    """--exit ends the job with its code, wrong options with 2, a report without a file with 1."""
    shop.expect(started(shop, 2, "--exit", "37"), 37, timeout=60)
    for words in (["--limit", "2"], ["-x"], ["nothing"], ["put-nb,nothing"], ["put", "get"], ["--seed"]):
        shop.expect([f"{shop.prefix}/bin/gasnet_selftest", *words], 2, "^gasnet_selftest: ")
    shop.expect(started(shop, 2, "-o", "/proc/none", "layout"), 1, "cannot write", timeout=60)
    shop.expect([f"{shop.prefix}/bin/gasnet_selftest", "--list"], 0, "^storm ", "^put-nb ", "^sleep ")
