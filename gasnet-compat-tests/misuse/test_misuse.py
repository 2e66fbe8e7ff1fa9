"""Erroneous calls by the specification, and the messages of the library: each must end the job,
unless a warning is enough, and leave nothing behind."""

import ast
import os
import re
import subprocess
from collections import namedtuple
from pathlib import Path

import endings
import jobs
import pytest

HERE = Path(__file__).parent
CHECKS = HERE.parent.parent / "docs" / "checks.md"
Case = namedtuple("Case", "program name flavour ranks environment pattern")
STRINGS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
ROW = re.compile(rf"\{{\s*{STRINGS},\s*{STRINGS},\s*(\d+),\s*{STRINGS},\s*{STRINGS},\s*\w+\s*\}}")


def table(source):
    """The cases of a program that includes misuse.h."""
    text = source.read_text(encoding="utf-8")
    if '"misuse.h"' not in text:
        return
    # Only macros are to be expanded.
    text = re.sub(r"^#\s*include.*", "", text, flags=re.M)
    command = [*(os.environ.get("CC") or "cc").split(), "-E", "-P", "-x", "c", "-"]
    text = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = text[text.index("misuse_cases[] = {") :].partition("{NULL")[0]
    for row in ROW.findall(rows):
        name, flavour, ranks, environment, pattern = (ast.literal_eval(f"({word})") for word in row)
        settings = dict(word.split("=", 1) for word in environment.split())
        yield Case(source.stem, name, flavour, ranks, settings, pattern)
    assert '"' not in ROW.sub("", rows), f"{source}: rows of another form"


def documented(case):
    """Whether docs/checks.md has the case. An installation is without the page."""
    return not CHECKS.exists() or f"`misuse/{case.name}`" in CHECKS.read_text(encoding="utf-8")


def parameter(case, name, *marks):
    """The parameter of a test that only the flavours have that check this."""
    flavours = ["release", "debug"] if case.flavour == "any" else [case.flavour.partition("-")[0]]
    return pytest.param(case, id=name, marks=[pytest.mark.flavours(*flavours), *marks])


def expect(shop, case, program, environment, **options):
    """Runs a case."""
    wanted, pattern = (0, case.pattern[1:]) if case.pattern.startswith("=") else ("bad", case.pattern)
    endings.expect(shop, wanted, pattern, [program, case.name], case.ranks, environment, **options)


@pytest.mark.parametrize(
    "case", [parameter(case, case.name) for source in sorted(HERE.glob("*.c")) for case in table(source)]
)
def test_message(shop, case):
    """A program of misuse.h."""
    mode = case.flavour.partition("-")[2] or shop.mode
    if mode not in shop.modes:
        pytest.skip(f"thread mode {mode} is not chosen")
    program = shop.compile(HERE / f"{case.program}.c", mode)
    expect(shop, case, program, case.environment, flags=re.S)
    assert documented(case), "docs/checks.md does not name it"


# Calls by program and flavour, and the text of the output. They end well where it begins with "=".
CALLS = {
    ("bad_vis", "any"): {
        "segment": "outside outside-strided before-strided",
        "more bytes": "too-many",
        "PeerCompletion": "payload handler",
        "201": "unregistered",
    },
    ("bad_vis", "debug"): {
        "the same": "length indexed-length",
        "null": "null-list null-local",
        "destination twice": "twice",
        "rank": "rank",
        "PeerCompletion": "in-get in-immediate",
    },
    ("bad_mk", "any"): {
        "=^fine: 2": "fine",
        "local range.*CUDA device 0": "local-host local-end medium-host",
        "remote range.*segment": "remote-end own-end",
        "collectives move host memory": "collective",
        "NO_SCRATCH": "scratch",
        "remote atomics work on host memory": "atomic atomic-own",
        "still exists": "kind-in-use",
        "GEX_MK_INVALID": "kind-invalid",
        "not a memory kind": "kind-twice",
        r"cannot copy.*CUDA_ERROR_ILLEGAL_ADDRESS \(an illegal": "copy-here copy-there sync-here",
        r"cannot copy.*CUDA_ERROR_INVALID_VALUE \(invalid argument": "freed",
        "SIGSEGV|signal 11|Segmentation": "touch",
    },
    ("bad_mk", "debug"): {"inside AM handler 200": "handler"},
}


def calls():
    """Their cases, which have names such as vis-rank."""
    for (program, flavour), texts in CALLS.items():
        for pattern, names in texts.items():
            for name in names.split():
                case = Case(program, name, flavour, 2, {}, pattern)
                # The NIC of loop reaches device memory, so that nothing is copied.
                marks = [pytest.mark.not_conduits("loop")] if "ILLEGAL_ADDRESS" in pattern else []
                yield parameter(case, f"{program[4:]}-{name}", *marks)


@pytest.fixture(scope="module")
def devices(shop):
    """Stand-ins for the vendors' device libraries, beside an emulated network."""
    folder = jobs.stand_ins(os.path.join(os.environ[jobs.FOLDER], "devices", "all"))["LD_LIBRARY_PATH"]
    others = shop.environment("", 0, {}).get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": f"{folder}:{others}" if others else folder}


@pytest.mark.parametrize("case", calls())
def test_call(shop, case, request):
    """A call of the programs bad_vis and bad_mk."""
    environment = dict(request.getfixturevalue("devices")) if case.program == "bad_mk" else {}
    if "cannot copy" in case.pattern and "EMU_VERBS" in shop.network:
        # An HCA that reaches device memory copies nothing.
        environment["EMU_VERBS"] = shop.network["EMU_VERBS"] + " no-dmabuf"
    expect(shop, case, shop.compile(HERE / f"{case.program}.c", flags=[f"-I{HERE}/../common"]), environment)


@pytest.mark.parametrize("arguments", [[], ["reply"]], ids=["request", "reply"])
def test_throw(shop, arguments):
    """A C++ exception leaves a handler."""
    endings.expect(shop, "bad", "the_throwing_handler", [shop.compile(HERE / "throws.cc"), *arguments], 3)
