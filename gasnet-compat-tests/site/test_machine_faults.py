"""Faults of machines, planted in the doubles of their networks: gasnet_selftest fails in the row
that docs/first-contact.md names, with operation, size, path and ranks. What a conduit survives is
no failure."""

import dataclasses
import json
import os
import re

import jobs
import pytest
import workshop

# The universal library of the installation serves all conduits, so one configuration is enough.
pytestmark = [pytest.mark.flavours("release"), pytest.mark.conduits("smp")]
# Ranks that a failure names, and the path between them.
WHERE = r"rank \d on \S+ with rank \d on \S+ over the network"
AFTER = rf", alignment \d+ here and \d+ there, {WHERE}: "
# Seconds that a slow machine may need. The number of cases is the same.
LIMIT = 900


def data_of(operation, size):
    """A failure that names the last byte of these data."""
    return rf"{operation}, {size} bytes \([^)]*\), local memory: [a-z -]+{AFTER}byte {size - 1} is"


PUT = "non-blocking put[a-zA-Z_ ]*"
GET = "non-blocking get"
# With ofi a rank uses the NIC for its own memory, too.
ATOMIC = (
    r"F?ADD( of all ranks)?, 8 bytes \(U64, domain of additions and compare-and-swap\), .*rank \d on \S+ with "
    r"rank \d on \S+ (over the network|to itself): (fetched \d+ after|stored \d+ instead of|\d+ additions made) \d+"
)


def failed(data):
    """The failures by test."""
    return {row["test"]: row["texts"] for row in data["tests"] if row["result"] == "FAIL"}


def fails(text):
    """Whether the last of the tests alone fails, and names what is damaged."""

    def verify(tests, status, output, data):
        row = tests.split(",")[-1]
        assert status == 1 and data["complete"] and data["result"] == "FAIL", output
        found = failed(data)
        assert list(found) == [row], output
        assert any(re.search(text, line) for line in found[row]), "\n".join(found[row])

    return verify


def hangs(tests, status, output, data):
    """The test under way fails, and names the operation that each rank waits for."""
    assert status == 1 and data["complete"], output
    (texts,) = failed(data).values()
    assert len(texts) == 3 and texts[0].startswith("no progress within"), texts
    assert any(re.search(rf"put.*, \d+ bytes.*{WHERE}: for \d+ s, in test {tests}", line) for line in texts), texts


def ends(tests, status, output, data):
    """The library ends the job, and the program names the operation; the report has the test."""
    assert status not in (0, 1) and not data["complete"], output
    (test,) = failed(data)
    assert test.startswith(tests)
    assert re.search(rf"ends the job in test {test}: [a-zA-Z_ -]*put[a-zA-Z_ ]*, \d+ bytes.*{WHERE}", output), output


def survives(_tests, status, output, data):
    """Devices may be so: nothing fails."""
    assert status == 0 and data["result"] == "PASS", output


# Conduit and fault, the tests that run, and what is expected.
FAULTS = [
    ("ibv damage=write:4096", "layout,get-nb,put-nb", fails(data_of(PUT, 4096))),
    ("ibv damage=inline:31", "get-nb,put-blocking", fails(data_of("blocking put", 31))),
    ("ibv damage=read:4096", "put-nb,get-nb", fails(data_of(GET, 4096))),
    ("ibv damage=send:300-600", "am-short,am-medium", fails(r"Medium request[^,]*, \d+ bytes.*: byte \d+ is")),
    ("ibv lost-update=50", "atomic-i32,atomic-u64", fails(ATOMIC)),
    ("ibv stale-pages", "memory-shared,memory-remapped", fails("local memory: remapped" + AFTER)),
    ("ibv stale-pages", "memory-shared,memory-forked", fails("local memory: fork-touched" + AFTER)),
    ("ibv relaxed delay=200000", "layout,order-flag", fails(rf"wait for a flag after a put, \d+ bytes.*{AFTER}")),
    ("gni damage=fma-put:64", "get-nb,put-nb", fails(data_of(PUT, 64))),
    ("gni damage=rdma-put:65536", "get-nb,put-nb", fails(data_of(PUT, 65536))),
    # An RDMA get has whole words, so a longer one has a rest.
    ("gni damage=rdma-get:65536", "put-nb,get-nb", fails(rf"{GET}, 6553\d bytes .*{AFTER}byte 65535 is")),
    ("gni lost-update=50", "layout,atomic-u64", fails(ATOMIC)),
    ("elan damage=put:4096", "get-nb,put-nb", fails(data_of(PUT, 4096))),
    ("elan damage=get:4096", "put-nb,get-nb", fails(data_of(GET, 4096))),
    ("ofi damage=put:4096", "layout,get-nb,put-nb", fails(data_of(PUT, 4096))),
    ("ofi damage=get:4096", "put-nb,get-nb", fails(data_of(GET, 4096))),
    ("ofi byte=200:7@9", "am-short,am-medium", fails(r"Medium request[^,]*, \d+ bytes.*: byte \d+ is 0x07")),
    ("ofi lost_update=50", "layout,atomic-u64", fails(ATOMIC)),
    ("ofi stale_pages=1", "memory-shared,memory-remapped", fails("local memory: remapped" + AFTER)),
    ("ibv lost-completion=write:300", "put", hangs),
    ("gni lost-event=rdma-put:10", "put", hangs),
    ("ofi lost=put@300", "put", hangs),
    ("ibv cqe-error=write:300:rem_access", "put-nb", ends),
    ("ibv early-completion late-visible", "put-nb,am-long,atomic-u64,order", survives),
    ("ibv relaxed", "put-nb,am-long,order-message", survives),
    ("ibv rnr=20 ud-loss=30 ud-dup=20", "storm,am-medium,flood-all", survives),
    ("gni early-event late reorder busy=20", "put-nb,am-long,atomic-u64,order", survives),
    ("elan late reorder", "put-nb,am-long,order", survives),
    ("ofi eagain=30 late=50 enokey=10", "put-nb,am-long,atomic-u64,order", survives),
]
QUICK = ("ibv damage=write:4096", "ibv lost-update=50", "ofi damage=put:4096")


def pytest_generate_tests(metafunc):
    """All faults, or a few of them for a slice."""
    cases = [case for case in FAULTS if not metafunc.config.option.slice or case[0] in QUICK]
    names = [f"{fault} {tests.split(',')[-1]}".replace(" ", "-") for fault, tests, _ in cases]
    metafunc.parametrize("fault, tests, verify", cases, ids=names)


def run(shop, tests, verify, extra):
    """The exit status, output and report of a job of two ranks."""
    # A hang is one after a while, in which a slow machine does much.
    options = ["--limit", "20"] if verify is hangs else []
    program = [f"{shop.prefix}/bin/gasnet_selftest", "-q", "--time", str(LIMIT), *options, tests]
    status, output, _, left = shop.run([shop.launcher, "-n", "2", *program], 0, extra, LIMIT)
    assert status is not None and not left, (output, left)
    with open(os.path.join(shop.folder, "gasnet_selftest.json"), encoding="utf-8") as file:
        return status, output, json.load(file)


def test_fault(configuration, quick, fault, tests, verify):
    """The program finds it, or the conduit survives."""
    conduit, words = fault.split(" ", 1)
    if not jobs.Installation(configuration.prefix).has(conduit):
        pytest.skip(f"conduit {conduit} is not installed")
    if missing := jobs.missing(conduit):
        pytest.skip(missing)
    if words.startswith("stale") and os.geteuid() != 0:
        pytest.skip("only root sees the frames of pages")
    # Messages of ibv by sends alone.
    extra = {"GASNET_SUPERNODE_MAXSIZE": "1", "GASNET_AMRDMA_MAX_PEERS": "0"}
    if conduit == "ofi":
        library = jobs.strict_provider(os.path.join(os.environ[jobs.FOLDER], "strict"))
        extra.update(GASNET_OFI_LIBRARY=library, GASNET_OFI_PROVIDER="tcp;ofi_rxm", STRICT_PLAN=words)
        # Providers over sockets are not asked for them.
        extra["GASNET_OFI_ATOMICS"] = "1"
    own = dataclasses.replace(configuration, conduit=conduit)
    with workshop.network_of(conduit, ["--faults", words]) as network:
        shop = workshop.Workshop(own, network, ["par"], quick)
        try:
            verify(tests, *run(shop, tests, verify, extra))
        finally:
            shop.close()
