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
QUICK = ("ibv damage=write:4096", "ibv lost-update=50", "ofi damage=put:4096")


def data_of(operation, size, class_=r"[^)]*"):
    """A failure that names the last byte of these data."""
    return rf"{operation}, {size} bytes \({class_}\), local memory: [a-z -]+{AFTER}byte {size - 1} is"


ATOMIC = rf"FADD of all ranks, 8 bytes \(U64, domain of additions and compare-and-swap\){AFTER}fetched \d+ after \d+"
PUT = "non-blocking put[a-zA-Z_ ]*"
# Conduit and fault, the tests that run, the one that fails, and a text of its failure.
FAULTS = [
    ("ibv damage=write:4096", "layout,put-nb,get-nb", "put-nb", data_of(PUT, 4096)),
    ("ibv damage=inline:31", "put-blocking,get-nb", "put-blocking", data_of("blocking put", 31)),
    ("ibv damage=read:4096", "put-nb,get-nb", "get-nb", data_of("non-blocking get", 4096)),
    ("ibv damage=send:300-600", "am-short,am-medium", "am-medium", r"Medium request[^,]*, \d+ bytes.*: byte \d+ is"),
    ("ibv lost-update=50", "atomic-i32,atomic-u64", "atomic-u64", ATOMIC),
    ("ibv stale-pages", "memory-shared,memory-remapped", "memory-remapped", "local memory: remapped" + AFTER),
    ("ibv stale-pages", "memory-shared,memory-forked", "memory-forked", "local memory: fork-touched" + AFTER),
    ("ibv relaxed delay=5000", "put-nb,order-flag", "order-flag", rf"wait for a flag after a put, \d+ bytes.*{AFTER}"),
    ("gni damage=fma-put:64", "put-nb,get-nb", "put-nb", data_of(PUT, 64)),
    ("gni damage=rdma-put:65536", "put-nb,get-nb", "put-nb", data_of(PUT, 65536)),
    # An RDMA get has whole words, so a longer one has a rest.
    ("gni damage=rdma-get:65536", "put-nb,get-nb", "get-nb", rf"non-blocking get, 6553\d bytes .*{AFTER}byte 65535 is"),
    ("gni lost-update=50", "layout,atomic-u64", "atomic-u64", ATOMIC),
    ("elan damage=put:4096", "put-nb,get-nb", "put-nb", data_of(PUT, 4096)),
    ("elan damage=get:4096", "put-nb,get-nb", "get-nb", data_of("non-blocking get", 4096)),
    ("ofi damage=put:4096", "layout,put-nb,get-nb", "put-nb", data_of(PUT, 4096)),
    ("ofi damage=get:4096", "put-nb,get-nb", "get-nb", data_of("non-blocking get", 4096)),
    ("ofi byte=200:7@9", "am-short,am-medium", "am-medium", r"Medium request[^,]*, \d+ bytes.*: byte \d+ is 0x07"),
    ("ofi lost_update=50", "layout,atomic-u64", "atomic-u64", ATOMIC),
    ("ofi stale_pages=1", "memory-shared,memory-remapped", "memory-remapped", "local memory: remapped" + AFTER),
]
# Nothing arrives any more: the operation that each rank waits for.
LOST = [("ibv lost-completion=write:300", "put"), ("gni lost-event=fma-put:50", "put"), ("ofi lost=put@300", "put")]
SURVIVED = [
    ("ibv early-completion late-visible", "put-nb,am-long,atomic-u64,order"),
    ("ibv relaxed", "put-nb,am-long,order-message"),
    ("ibv rnr=20 ud-loss=30 ud-dup=20", "storm,am-medium,flood-all"),
    ("gni early-event late reorder busy=20", "put-nb,am-long,atomic-u64,order"),
    ("elan late reorder", "put-nb,am-long,order"),
    ("ofi eagain=30 late=50 enokey=10", "put-nb,am-long,atomic-u64,order"),
]


def ids(cases):
    """Their faults and rows."""
    return [f"{fault} {row}".replace(" ", "-") for fault, _, row, *_ in cases]


@pytest.fixture
def selftest(configuration, quick):
    """Runs tests with a fault between two ranks: the exit status, output, and the report as an
    object."""

    def run(fault, tests, *options):
        conduit, words = fault.split(" ", 1)
        if not jobs.Installation(configuration.prefix).has(conduit):
            pytest.skip(f"conduit {conduit} is not installed")
        if missing := jobs.missing(conduit):
            pytest.skip(missing)
        # Messages of ibv by sends alone.
        extra = {"GASNET_SUPERNODE_MAXSIZE": "1", "GASNET_AMRDMA_MAX_PEERS": "0"}
        if conduit == "ofi":
            library = jobs.strict_provider(os.path.join(os.environ[jobs.FOLDER], "strict"))
            extra.update(GASNET_OFI_LIBRARY=library, GASNET_OFI_PROVIDER="tcp;ofi_rxm", STRICT_PLAN=words)
            # Where the provider uses sockets, it is not asked for them.
            extra["GASNET_OFI_ATOMICS"] = "1"
        own = dataclasses.replace(configuration, conduit=conduit)
        with workshop.network_of(conduit, ["--faults", words]) as network:
            shop = workshop.Workshop(own, network, ["par"], quick)
            try:
                program = [f"{shop.prefix}/bin/gasnet_selftest", "-q", "--time", str(LIMIT), *options, tests]
                status, output, _, left = shop.run([shop.launcher, "-n", "2", *program], 0, extra, LIMIT)
                assert status is not None and not left, (output, left)
                with open(os.path.join(shop.folder, "gasnet_selftest.json"), encoding="utf-8") as file:
                    return status, output, json.load(file)
            finally:
                shop.close()

    return run


def failed(data):
    """The failures by test."""
    return {row["test"]: row["texts"] for row in data["tests"] if row["result"] == "FAIL"}


@pytest.mark.parametrize("fault, tests, row, text", FAULTS, ids=ids(FAULTS))
def test_the_row_that_finds_it(selftest, quick, fault, tests, row, text):
    """The fault fails one test, which names what it has damaged."""
    if quick and fault not in QUICK:
        pytest.skip("one of a kind is enough")
    if "stale" in fault and os.geteuid() != 0:
        pytest.skip("only root sees the frames of pages")
    status, output, data = selftest(fault, tests)
    assert status == 1 and data["complete"] and data["result"] == "FAIL", output
    found = failed(data)
    # A prefix of names: put-nb and put-nbi.
    assert row in found and all(name.startswith(row) for name in found), output
    assert any(re.search(text, line) for line in found[row]), "\n".join(found[row])


@pytest.mark.parametrize("fault, operation", LOST, ids=[fault for fault, _ in LOST])
def test_what_never_completes(selftest, quick, fault, operation):
    """The test under way fails, and names the operation that each rank waits for."""
    if quick:
        pytest.skip("waits for the limit")
    status, output, data = selftest(fault, operation, "--limit", "20")
    assert status == 1 and data["complete"], output
    (texts,) = failed(data).values()
    assert len(texts) == 3 and texts[0].startswith("no progress within"), texts
    assert any(re.search(rf"put.*, \d+ bytes.*{WHERE}: for \d+ s, in test put", line) for line in texts), texts


def test_an_error_of_the_device(selftest, quick):
    """The library ends the job, and the program names the operation; the report has the test."""
    if quick:
        pytest.skip("a part is enough")
    status, output, data = selftest("ibv cqe-error=write:300:rem_access", "put-nb")
    assert status not in (0, 1) and not data["complete"], output
    (test,) = failed(data)
    assert test.startswith("put-nb")
    assert re.search(rf"ends the job in test put-nbi?: [a-zA-Z_ -]*put[a-zA-Z_ ]*, \d+ bytes.*{WHERE}", output), output


@pytest.mark.parametrize("fault, tests", SURVIVED, ids=[fault.replace(" ", "-") for fault, _ in SURVIVED])
def test_what_a_conduit_survives(selftest, quick, fault, tests):
    """Devices may be so: nothing fails."""
    if quick:
        pytest.skip("the conformance suites of the conduits have these")
    status, output, data = selftest(fault, tests)
    assert status == 0 and data["result"] == "PASS", output
