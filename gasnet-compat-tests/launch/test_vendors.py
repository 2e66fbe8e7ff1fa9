"""Jobs that the launchers of a vendor start on simulated nodes (emulators/pmi): aprun and srun of a
Cray with gni, prun of RMS and srun, with Slurm's plugin switch/elan, of a QsNet with elan. Directly
and by gasnetrun, and how such jobs end."""

import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path

import exits
import jobs
import programs
import pytest

# Vendor: conduit and its emulator.
VENDORS = {"cray": ("gni", "ugni"), "quadrics": ("elan", "elan")}
# Output of the last rank.
GOOD = "rank 3 of 4"
RUN = "{prefix}/bin/gasnetrun_"
# Per vendor: a name, the exit status, a text of the output, and the command.
JOBS = {
    "cray": [
        ("aprun", 0, GOOD, "aprun -n 4 -N 2 {place}"),
        ("aprun-spread", 0, GOOD, "aprun -n 4 -N 1 {place}"),
        ("aprun-one-rank", 0, "rank 0 of 1", "aprun -n 1 {place}"),
        ("aprun-lists-of-credentials", 0, GOOD, "env EMU_PMI='seed=7 colon-lists' aprun -n 4 -N 3 {place}"),
        ("aprun-no-device", 0, GOOD, "env EMU_PMI=no-dev-id aprun -n 4 -N 2 {place}"),
        ("srun", 0, GOOD, "srun -K0 -W60 -v -mblock -n 4 -N 2 {place}"),
        ("srun-cyclic-only-cookies", 0, GOOD, "env EMU_PMI=cookies-only srun -mcyclic -n 4 -N 2 {place}"),
        ("gasnetrun", 0, GOOD, RUN + "gni -n 4 -N 2 {place}"),
        ("PMIRUN_CMD", 0, GOOD, "env PMIRUN_CMD='srun -K0 -W60 %V -mblock -n %N %C' " + RUN + "gni -n 4 {place}"),
        ("gasnetrun_aries", 0, GOOD, RUN + "aries -spawner=pmi -n 4 -N 2 {place}"),
        ("gasnetrun-without-launcher", 0, GOOD, RUN + "gni -spawner=fork -n 4 {place}"),
        ("end-exit", 5, "exit codes: 5", "aprun -n 4 -N 2 {place} --end=exit:5"),
        ("end-return", 6, "exit codes: 6", "aprun -n 4 -N 2 {place} --end=return:6"),
        ("end-one", 7, "exit codes: 7", "aprun -n 4 -N 2 {place} --end=one:7"),
        ("end-poll", 8, "Exited with exit code 8", "srun -n 4 -N 2 {place} --end=poll:8"),
        ("end-kill", 137, "was killed by signal 9", "aprun -n 4 -N 2 {place} --end=kill"),
        ("end-abort", 137, "was killed by signal 6", "aprun -n 4 -N 2 {place} --end=abort"),
        ("end-stop", 137, "was killed by signal 9", "env GASNET_EXITTIMEOUT=1 aprun -n 4 -N 2 {place} --end=stop"),
        ("other-detection", 1, "only conduit is possible", "env GASNET_HOST_DETECT=hostname aprun -n 2 {place}"),
        (
            "no-library",
            1,
            "cannot open the PMI library of Cray",
            "env GASNET_GNI_PMI_LIBRARY=/nowhere aprun -n 2 {place}",
        ),
    ],
    "quadrics": [
        ("prun", 0, GOOD, "prun -n 4 -N 2 {place}"),
        ("prun-spread", 0, GOOD, "prun -n 4 -N 4 {place}"),
        ("prun-cyclic", 0, GOOD, "prun -n 4 -N 2 -m cyclic {place}"),
        ("prun-one-rank", 0, "rank 0 of 1", "prun -n 1 {place}"),
        ("srun", 0, GOOD, "srun -n 4 -N 2 {place}"),
        ("gasnetrun", 0, GOOD, RUN + "elan -n 4 -N 2 {place}"),
        ("command", 0, "running: .* prun -v -n 4 -N 2 -c 1 ", RUN + "elan -v -n 4 -N 2 -c 1 {place}"),
        ("in-Slurm", 0, "running: .* srun -n 4 -N 2 ", "env SLURM_JOB_ID=7 " + RUN + "elan -v -n 4 -N 2 {place}"),
        ("PMIRUN_CMD", 0, GOOD, "env PMIRUN_CMD='prun -n %N -m cyclic %C' " + RUN + "elan -n 4 {place}"),
        ("gasnetrun-without-RMS", 0, GOOD, RUN + "elan -spawner=fork -n 4 {place}"),
        # PRRTE has a prun too, but no rinfo.
        ("another-prun", 0, GOOD, "env PATH={other}:/usr/bin:/bin " + RUN + "elan -n 4 {place}"),
        ("end-exit", 5, GOOD, "prun -n 4 -N 2 {place} --end=exit:5"),
        ("end-one", 7, GOOD, "prun -n 4 -N 2 {place} --end=one:7"),
        ("end-poll", 8, "Exited with exit code 8", "srun -n 4 -N 2 {place} --end=poll:8"),
        ("end-kill", 137, "was killed by signal 9", "prun -n 4 -N 2 {place} --end=kill"),
        ("end-abort", 137, "was killed by signal 6", "prun -n 4 -N 2 {place} --end=abort"),
        ("end-stop", 137, "was killed by signal 9", "env GASNET_EXITTIMEOUT=1 prun -n 4 -N 2 {place} --end=stop"),
        ("no-shim", 1, "cannot open the shim", "env GASNET_ELAN_SHIM=/nowhere prun -n 2 {place}"),
    ],
}
# They report an abort as a kill.
for name, code in [(name, exits.simplest(name).status) for name in exits.UNDER_LAUNCHERS] + [("abort", 137)]:
    JOBS["cray"].append((f"exit-{name}", code, f"exit codes: {code}", f"aprun -n 4 -N 2 {{exit}} {name}"))
    JOBS["quadrics"].append((f"exit-{name}", code, "", f"prun -n 4 -N 2 {{exit}} {name}"))


def prefix_of(config, vendor):
    """The release installation with a vendor's conduit, if the command line chooses one. A slice
    has these tests, too."""
    chosen = config.stash[programs.CHOICE].configurations
    return next((c.prefix for c in chosen if (c.flavour, c.conduit) == ("release", VENDORS[vendor][0])), None)


def pytest_generate_tests(metafunc):
    rows = [
        pytest.param(vendor, *row, id=f"{vendor}-{name}")
        for vendor, table in JOBS.items()
        if prefix_of(metafunc.config, vendor)
        for name, *row in table
    ]
    metafunc.parametrize(("site", "status", "text", "command"), rows, indirect=["site"], scope="module")


class Site:
    """Emulated nodes of a vendor, and the programs."""

    def __init__(self, vendor, prefix, folder):
        self.vendor, self.prefix, self.other = vendor, prefix, folder / "other"
        conduit, _ = VENDORS[vendor]
        emulators = os.path.join(os.environ[jobs.FOLDER], "emulators")
        self.network = jobs.emulated(conduit, emulators)
        self.path = f"{jobs.emulator('pmi', emulators)}:{os.environ['PATH']}"
        self.place = self.compile("launch/launch_place.c", folder / "place", conduit, "seq")
        self.exit = self.compile("exit/exit_cases.c", folder / "exit", conduit, "par")
        self.other.mkdir()
        shutil.copy("/bin/false", self.other / "prun")

    def compile(self, source, output, *library):
        """A program."""
        built, messages = jobs.Installation(self.prefix).compile(
            [f"{programs.TESTS}/{source}"], str(output), *library, jobs.WARNINGS
        )
        assert built, f"{source} does not compile\n{messages}"
        return output

    def run(self, command):
        """A job."""
        words = shlex.split(command.format(**vars(self)))
        return jobs.run([*self.network, *words], 120, {"PATH": self.path}, unprivileged=False)


@pytest.fixture(scope="module")
def site(request):
    # launch_place compares names of hosts, which the emulator's nodes have for root only.
    if os.getuid() != 0:
        pytest.skip("needs root")
    folder = tempfile.mkdtemp(dir=os.environ[jobs.FOLDER])
    return Site(request.param, prefix_of(request.config, request.param), Path(folder))


@pytest.mark.vendors
def test_job(site, status, text, command):
    job = site.run(command)
    if job.status != status or job.leftovers or not re.search(text, job.output):
        why = f"exit status {job.status} instead of {status}, or no '{text}', or left: {job.leftovers}"
        pytest.fail(f"{why}\n{programs.indented(job.output, 25)}", pytrace=False)
