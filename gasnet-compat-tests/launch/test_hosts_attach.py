"""gasnet_info --attach: at the root of a job on several hosts it shows all ranks, elsewhere those
of its host."""

import json
import os
import re
import signal
import time

import managers
import pytest
from bed import ANY, TIMEOUT, Wrong, blocks, inside

AGE = r"\d+(\.\d)? (s|min)"
LATE = (
    rf"ranks 0, 2-4 have waited {AGE}( to {AGE})? for an event \(a collective\); "
    "rank 1 has not begun as many collectives"
)


class View:
    """A job that gasnet_info is asked of; `root`: a process of its first host."""

    def __init__(self, bed, root):
        self.bed, self.root = bed, root

    def ask(self, pid, node=1, *options):
        """The output of gasnet_info on a host."""
        info = f"{self.bed.program.prefix}/bin/gasnet_info"
        return self.bed.hosts.check(node, [info, "--attach", str(pid), *options])

    def report(self, is_meant):
        """The first report at the root that is as it should be."""
        end, text = time.monotonic() + TIMEOUT, ""
        while time.monotonic() < end:
            try:
                text = self.ask(self.root, 1, "--json")
                if is_meant(json.loads(text)):
                    return json.loads(text)
            # A process that has only begun belongs to no job yet.
            except RuntimeError as e:
                text = str(e)
            time.sleep(0.2)
        raise Wrong(text[-2000:])


@pytest.mark.hosts("managers")
@pytest.mark.parametrize("manager", ["srun-pmi2", "srun-pmix"])
def test_process_manager(bed, manager):
    words, env = managers.command(bed, manager, 6, "--end=wait")
    with bed.start(words, {"TEST_WATCHDOG": "300", **env}) as job:
        ranks = job.await_ranks()
        report = View(bed, ranks[0].pid).report(lambda report: len(report["ranks"]) == 6)
        assert [rank["host"] for rank in report["ranks"]] == [rank.host for rank in ranks]
        bed.kill(1, ranks[0].pid, "TERM")
        job.over(ANY)


@pytest.mark.hosts("three", quick=True)
def test_all_hosts(bed):
    command = bed.launch(5, "event", client="info/stuck")
    with bed.start(command, {"TEST_WATCHDOG": "300", **bed.servers()}) as job:
        end = time.monotonic() + TIMEOUT
        while not any(p.command.startswith(command[-2]) for p in bed.hosts.strays()) and time.monotonic() < end:
            time.sleep(0.05)
        view = View(bed, bed.first_process(command[-2]))
        report = view.report(lambda report: any(re.fullmatch(LATE, wait) for wait in report["waits"]))
        assert [rank["host"] for rank in report["ranks"]] == blocks(5, bed.names())
        assert (report["size"], report["silent"], report["cycles"]) == (5, [], [])
        text = view.ask(view.root)
        assert text.startswith("Job of 5 ranks on 3 hosts\n"), text
        assert re.search(rf"^ *4 +node3 +{report['ranks'][4]['pid']} +wait: event ", text, re.M), text

        text = view.ask(report["ranks"][4]["pid"], 3)
        assert text.startswith("Job of 5 ranks, 1 of them on this host\n"), text

        here = [inside(p.pid) for p in bed.hosts.strays() if p.host == 3 and p.command.startswith(command[-2])]
        agent = next(pid for pid in here if pid != report["ranks"][4]["pid"])
        bed.kill(3, agent, "STOP")
        assert view.report(lambda report: report["silent"])["silent"] == [4]
        assert "\nNo answer from the hosts of rank 4\n" in view.ask(view.root)
        bed.kill(3, agent, "CONT")
        view.report(lambda report: not report["silent"])

        bed.kill(1, view.root, "STOP")
        assert view.report(lambda report: report["silent"])["silent"] == [2, 3, 4]
        # nsenter stops with its child.
        os.killpg(job.process.pid, signal.SIGCONT)
        bed.kill(1, view.root, "CONT")
        bed.kill(1, view.root, "TERM")
        job.over(ANY)
