"""Lines of a check (`--lines`): `PASS name`, `FAIL name why`, `SKIP name reason`, as each step of
scripts/check.sh prints them, in the place of pytest's report."""

import re

import pytest


class Lines:
    """Prints a line for each test when it has ended, and its failure below it."""

    def __init__(self, prefix):
        self.prefix = prefix

    def show(self, verdict, name, detail="", text=""):
        """One line, and a text below it. With --dist loadgroup the name of a group follows that of
        the test."""
        name = re.sub(r"(?<=\])@.*", "", name)
        print(f"{verdict} {self.prefix}{name}{' ' + detail if detail else ''}", flush=True)
        for line in text.splitlines():
            print("    | " + line, flush=True)

    def pytest_runtest_logreport(self, report):
        properties = " ".join(f"{name}={value}" for name, value in report.user_properties if value)
        if report.failed:
            # To a plain text, longreprtext adds the worker of xdist.
            text = report.longrepr if isinstance(report.longrepr, str) else report.longreprtext
            first, _, rest = text.partition("\n")
            if "\n>" in f"\n{text}":  # Python's own, whose last lines say what was wrong
                first, rest = f"in {report.when}", "\n".join(text.splitlines()[-25:])
            self.show("FAIL", report.nodeid, first.strip(), rest)
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.show("SKIP", report.nodeid, reason.removeprefix("Skipped: "))
        elif report.when == "call":
            self.show("PASS", report.nodeid, f"{properties} ({report.duration:.1f} s)".strip())

    def pytest_collectreport(self, report):
        if report.failed:
            self.show("FAIL", report.nodeid or "collection", "cannot be collected", report.longreprtext)

    def pytest_sessionfinish(self, exitstatus):
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            self.show("FAIL", "pytest", "no test is chosen, or a path does not exist")

    def pytest_internalerror(self, excrepr):
        self.show("FAIL", "pytest", "internal error", str(excrepr))


def install(config, prefix):
    """Replaces pytest's own reporter."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal:
        config.pluginmanager.unregister(terminal)
    config.pluginmanager.register(Lines(prefix), "lines")
