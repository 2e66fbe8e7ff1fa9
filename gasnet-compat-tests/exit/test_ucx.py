"""Ends of jobs over UCX. It has exit handlers and destructors of its own, which run before or after
those of clients and of GASNet, by the order in which they were loaded. It also prints errors."""

import os

import exits
import pytest

pytestmark = pytest.mark.conduits("ucx")


@pytest.mark.parametrize("thread", ["0", "1"], ids=("", "thread"))
@pytest.mark.parametrize("end", ["return", "exit", "gasnet_exit"])
@pytest.mark.parametrize("first", ["client", "network"])
def test_order_of_exit_handlers(shop, first, end, thread):
    program = shop.compile(f"{os.path.dirname(__file__)}/around_ucx.c")
    extra = {"GASNET_SUPERNODE_MAXSIZE": "1", "GASNET_RCV_THREAD": thread}
    handlers = ("before UCX", "before GASNet", "after GASNet", "destructor")
    expected = [(f"^{name}$", 0 if end == "gasnet_exit" else 2) for name in handlers]
    shop.expect([program, first, end], 0, *expected, ranks=2, extra=extra, timeout=exits.LIMIT)


def test_short_job_prints_no_errors(shop):
    program = shop.compile(f"{os.path.dirname(__file__)}/one_way.c")
    extra = {"GASNET_SUPERNODE_MAXSIZE": "1", "UCX_TLS": "tcp,self"}
    shop.expect([program], 0, ("^noted$", 4), ("UCX +ERROR", 0), ranks=4, extra=extra, timeout=exits.LIMIT)
