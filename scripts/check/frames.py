#!/usr/bin/env python3
"""frames.py ARCHIVE…: stack frames of the functions in release libraries, for x86-64. Clients whose
tasks have small stacks call the library on them, so a function that they reach while they
communicate has at most LIMIT bytes. Prints each that has more, and exits with 1 if there is one."""

import re
import subprocess
import sys

LIMIT = 2048
# A message of QsNet has 2 KiB, and is assembled on the stack (docs/elan.md).
LIMIT_OF_ELAN = 2560
# Start, attach and exit, where no client computes; node agents and launchers, which are processes
# of their own; messages of fatal errors, backtraces and statistics.
ELSEWHERE = (
    r"<?gasnet_job::",
    r"gasnet::(init|select|diagnose|abi::compat::diagnose)::",
    r"gasnet::trace::(stats|log)::",
    r"<?\[?<?gasnet_tools::",
    r"gasnett_fatalerror",
    r"gasnet_sys::subprocess",
    r"gasnet_conduit::config",
    r"<?(std|core|alloc|addr2line|gimli|miniz_oxide|object|rustc_demangle)\b",
    r"note$",
    # Of a conduit: opening and closing it.
    r"<gasnet_conduit_[a-z]+::[A-Za-z]+ as gasnet_conduit::conduit::(Conduit|Network)>::"
    r"(start|stop|providers)$",
    r"<?gasnet_conduit_[a-z]+::(net|start|open|ports|provider|select|inspect)\b.*::"
    r"(open|try_open|run|start|drop|providers)$",
)
STARTS_ELSEWHERE = re.compile("|".join(ELSEWHERE))


def limit(name):
    """Maximum bytes of the frame of a function; sys.maxsize if it is not limited."""
    if STARTS_ELSEWHERE.match(name):
        return sys.maxsize
    return LIMIT_OF_ELAN if "gasnet_conduit_elan::" in name else LIMIT


def frames(archive):
    """(function, bytes) of all functions: the amounts that they subtract from the stack pointer, in
    steps of a page where large frames are probed."""
    words = ["objdump", "-d", "-C", "--no-show-raw-insn", archive]
    text = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    name, size, probed = None, 0, False
    for line in text.splitlines():
        if start := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            if name:
                yield name, size
            name, size, probed = start[1], 0, False
        elif probe := re.search(r"\blea +-0x([0-9a-f]+)\(%rsp\),%r11", line):
            size, probed = size + int(probe[1], 16), True
        elif step := re.search(r"\bsub +\$0x([0-9a-f]+),%rsp", line):
            # The loop over the pages of a large frame, which the probe has counted.
            size += 0 if probed and step[1] == "1000" else int(step[1], 16)
    if name:
        yield name, size


def main():
    """Prints functions with large frames; exit status 1 if there are any."""
    failed = False
    for archive in sys.argv[1:]:
        for name, size in sorted(set(frames(archive)), key=lambda frame: -frame[1]):
            if size > limit(name):
                print(f"{archive}: {name} has a frame of {size} bytes, more than {limit(name)}")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
