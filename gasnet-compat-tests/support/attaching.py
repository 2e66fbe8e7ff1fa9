"""Jobs of info/stuck.c, and what gasnet_info --attach reports of them."""

import json
import os
import re
import subprocess
import time

import jobs
import pytest

RANKS = 3
# Only ends a test that fails.
LIMIT = 100
AGE = r"\d+(\.\d)? (s|min)"


def attach(shop, pid, *options, before=()):
    """Runs gasnet_info: status, standard output and standard error."""
    done = subprocess.run(
        [*before, f"{shop.prefix}/bin/gasnet_info", "--attach", str(pid), *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


class Stuck:
    """A job that hangs, of which gasnet_info is asked until it reports what it should."""

    def __init__(self, shop, program):
        self.shop, self.program, self.mark = shop, program, os.urandom(12).hex()

    def reports(self, way, *patterns, words=(), **variables):
        """Starts the job, waits until every pattern matches a line, checks the text,
        and ends the job. Returns the last report."""
        # No thread of the conduit takes in what a rank does not.
        variables = {"GASNET_UDP_THREAD": "0", "TEST_WATCHDOG": str(2 * LIMIT), **variables}
        process = self.shop.start([*words, self.program, way], self.mark, RANKS, variables)
        try:
            report = self.wait_for(process, patterns)
            status, text, _ = attach(self.shop, process.pid)
            assert status == 0 and all(re.search(f"^  {p}$", text, re.M) for p in patterns), text
            assert all(re.search(rf"^ *{rank['rank']} +{rank['pid']} ", text, re.M) for rank in report["ranks"]), text
            # The node agent's number leads to the same job as a rank's.
            assert attach(self.shop, report["ranks"][-1]["pid"], "--json")[0] == 0
            return report
        finally:
            jobs.kill_job(self.mark)
            process.communicate()

    def wait_for(self, process, patterns):
        """The first report with all patterns."""
        deadline, report, errors = time.monotonic() + LIMIT, {}, ""
        while time.monotonic() < deadline and process.poll() is None:
            status, text, errors = attach(self.shop, process.pid, "--json")
            report = json.loads(text) if status == 0 else {}
            waits = report.get("waits", [])
            if all(any(re.fullmatch(pattern, wait) for wait in waits) for pattern in patterns):
                return report
            time.sleep(0.2)
        return pytest.fail(f"{process.poll()}: {json.dumps(report)[-2000:]} {errors}", pytrace=False)
