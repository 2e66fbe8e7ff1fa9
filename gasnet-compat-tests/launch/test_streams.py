"""Standard input goes to rank 0, output is as it comes, labels on request; terminals."""

import os
import pty
import select
import signal
import time

import pytest
import workshop

LIMIT = 60.0


def test_standard_input(launch):
    data = bytes(range(256)) * 4096
    patterns = (r"^rank [1-3] read 0 bytes", 3), rf"^rank 0 read {len(data)} bytes"
    launch.expect("{show} input", 0, *patterns, ranks=4, stdin=data)


def test_no_standard_input(launch):
    launch.expect("sh -c '\"$0\" input <&-' {show}", 0, ("read 0 bytes", 3), ranks=3)


LABELS = {
    "streams": (
        "{run} -n 3 --label {show} streams",
        0,
        [(r"^\[(\d)\] (first|second) line of \1$", 6), r"^\[\d\] error line of \d$", r"^\[2\] no end$"],
    ),
    "many-ranks": ("{run} -n 40 -l {show}", 0, [(r"^\[(\d+)\] rank \1 of 40$", 40)]),
    "failure": ("{run} -n 2 -l {show} rank 7", 7, [(r"^\[\d\] rank \d of 2$", 2)]),
}


@pytest.mark.parametrize("command, status, patterns", LABELS.values(), ids=LABELS)
def test_labels(launch, command, status, patterns):
    launch.expect(command, status, *patterns)


def test_descriptors(launch, shop):
    """Descriptors do not leak."""
    if shop.conduit == "ofi" and shop.configuration.size:
        pytest.skip("libfabric's descriptors are not closed on exec")
    launch.expect("{show} descriptors", 0, "^4$", ranks=3)


def in_terminal(shop, command, keys=b""):
    """Runs 3 ranks in a terminal of their own; types `keys` when all wait. Returns the output and
    the status."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(shop.environment("terminal", 3, {}))
        try:
            os.execv(command[0], command)
        finally:
            os._exit(127)
    workshop.OWN.add(pid)
    output, typed, deadline = b"", False, time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        output += piece
        if keys and not typed and output.count(b"waits") == 3:
            typed = True
            os.write(terminal, keys)
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return output.decode(errors="replace"), os.waitstatus_to_exitcode(status)


def test_terminal(launch, shop):
    """A terminal stays one."""
    output, _ = in_terminal(shop, [launch.show, "terminal"])
    assert {"rank 0: 1 1 1", "rank 1: 0 1 1", "rank 2: 0 1 1"} <= set(output.split("\r\n"))


def test_control_c(launch, shop):
    """Ctrl-C ends the job once."""
    output, status = in_terminal(shop, [launch.show, "wait"], b"\x03")
    assert status == 130, output


def test_stopped_and_continued(launch):
    """A job that was stopped and continued as a group works on."""

    def pause(process):
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGTSTP)
        time.sleep(1.5)
        os.killpg(process.pid, signal.SIGCONT)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGTERM)

    launch.expect("{show} wait", 143, ranks=3, extra={"GASNET_EXITTIMEOUT": "0.5"}, during=pause)
