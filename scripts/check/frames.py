#!/usr/bin/env python3
"""frames.py ARCHIVE…: stack frames of the functions in release libraries, for x86-64. Clients whose
tasks have small stacks call the library on them, so a function that they reach while they
communicate has at most LIMIT bytes. Prints each that has more, and exits with 1 if there is one."""

import re
import subprocess
import sys
import tempfile

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


# Instructions that enlarge a frame, as bytes, with the place of their operand: `sub $…,%rsp`, and
# `lea -…(%rsp),%r11`, with which a large frame begins, whose pages a loop then probes.
SUBTRACTS = re.compile(rb"\x48(?:\x81\xec(....)|\x83\xec(.))", re.DOTALL)
PROBES = re.compile(rb"\x4c\x8d\x9c\x24(....)", re.DOTALL)
PAGE = 4096


def size(code):
    """Bytes of the frame of a function. Looks for the instructions without disassembling, which
    takes minutes for a library; other bytes hardly look like them."""
    ends = [int.from_bytes(far, "little", signed=True) for far in PROBES.findall(code)]
    probed = sum(-end for end in ends if end < 0)
    steps = [int.from_bytes(far or near, "little", signed=True) for far, near in SUBTRACTS.findall(code)]
    return probed + sum(step for step in steps if step > 0 and not (probed and step == PAGE))


def output(*words):
    """The output of a command, in bytes."""
    return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout


def frames(archive):
    """(function, bytes) of the functions with large frames in an archive of one object."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(output("ar", "p", archive))
        file.flush()
        sections = re.findall(r"^ *\[ *(\d+)\] \S+ +\w+ +[0-9a-f]+ ([0-9a-f]+) ", listed("-S", file.name), re.M)
        symbols = re.findall(r"^ *\d+: ([0-9a-f]+) +(\S+) FUNC +\w+ +\w+ +(\d+) (\S+)$", listed("-s", file.name), re.M)
        file.seek(0)
        data = file.read()
    starts = {index: int(offset, 16) for index, offset in sections}
    sizes = {}
    for value, length, index, name in symbols:
        start = starts[index] + int(value, 16)
        sizes[name] = size(data[start : start + int(length, 0)])
    large = [name for name, bytes_of in sizes.items() if bytes_of > LIMIT]
    plain = output("c++filt", *large).decode().splitlines() if large else []
    # Without hashes, as one reads them.
    return [
        (re.sub(r"::h[0-9a-f]{16}$|\[[0-9a-f]{16}\]", "", name), sizes[symbol]) for name, symbol in zip(plain, large)
    ]


def listed(option, path):
    """What readelf lists of a file."""
    return output("readelf", "-W", option, path).decode()


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
