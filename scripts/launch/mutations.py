"""Intruders whose bytes are altered below libfabric: launch/ofi_mutate.c lies between libfabric and
its sockets. The bytes depend on a seed alone, so that MUTATE_SEEDS=7,12 repeats the named seeds."""

import os
import re

from bed import Wrong
from cases import case
from flood import await_rounds
from intruders import compiled, disturbed, intruder

SEEDS, QUICK = 200, 1
WORKS = ("data", "rma")
# Seconds that the operations on a port may take: many never end.
LIMIT = "0.2"
DROPPED = re.compile(r"rank (\d+) dropped (\d+) messages and errors of unauthenticated peers")


class Mutations:
    """Intruders over one provider, one for each seed. `spared`: the bytes at the start of each
    message that stay as they are, because libfabric itself does not survive others there."""

    def __init__(self, bed, provider, share, spared):
        self.bed, self.provider, self.spared, self.mutations = bed, provider, spared, 0
        chosen = os.environ.get("MUTATE_SEEDS")
        seeds = [int(seed) for seed in chosen.split(",")] if chosen else share
        self.seeds = seeds if bed.thorough or chosen else seeds[:QUICK]

    def of(self, seed):
        """The intruder of a seed, and what the job does afterwards."""

        def intrude(job, address, ports):
            # ofi_rxm fetches messages above 16 KiB, by a header of its own.
            works = WORKS if "ofi_rxm" in self.provider else (*WORKS, "messages", "long")
            rogue, library = intruder(self.bed), compiled(self.bed, "ofi_mutate", "-shared", "-fPIC")
            command = [rogue, self.provider, works[seed // 3 % len(works)], address, *ports]
            words = {"LD_PRELOAD": library, "INTRUDER_SECONDS": LIMIT, "MUTATE_SEED": seed, "MUTATE_FROM": self.spared}
            # It may crash by what the job answers, or wait for ever. psm leaves files of crashes.
            words |= {"HFI_NO_BACKTRACE": 1, "IPATH_NO_BACKTRACE": 1}
            words = [f"{name}={value}" for name, value in words.items()]
            done = self.bed.hosts.run(1, ["env", *words, *command], timeout=20)
            self.mutations += done.stderr.count("mutated socket")
            try:
                await_rounds(job, 5)
            except Wrong as wrong:
                raise Wrong(f"MUTATE_SEEDS={seed}, {self.provider}: {wrong}") from None
            if seed == self.seeds[-1]:
                self.report(job)

        return intrude

    def report(self, job):
        """Prints the numbers."""
        dropped = dict(DROPPED.findall(job.text()[1]))
        text = f"{len(self.seeds)} seeds over {self.provider}, {self.mutations} mutations; dropped by rank: {dropped}"
        print(f"     {text}", flush=True)
        if self.mutations < len(self.seeds) or not dropped:
            raise Wrong(f"too few mutations: {text}")


def mutated(bed, provider, share, spared=0, **variables):
    """A job disturbed by the intruders of so many seeds."""
    mutations = Mutations(bed, provider, list(share), spared)
    works = [mutations.of(seed) for seed in mutations.seeds]
    disturbed(bed, provider, works, GASNET_VERBOSEENV="1", TEST_WATCHDOG="1800", **variables)


@case("intruders: mutated bytes, provider net", "one", quick=True, conduits=("ofi",))
def _(bed):
    mutated(bed, "net", range(0, SEEDS, 3))


# 48 bytes are the headers of tcp and the control header of ofi_rxm (docs/ofi.md).
@case("intruders: mutated bytes, provider tcp;ofi_rxm", "one", quick=True, conduits=("ofi",))
def _(bed):
    mutated(bed, "tcp;ofi_rxm", range(1, SEEDS, 3), 48, GASNET_OFI_RECEIVE_BUFF_SIZE="recv")


# 96 bytes are the headers of ofi_rxd.
@case("intruders: mutated bytes, provider udp;ofi_rxd", "one", quick=True, conduits=("ofi",))
def _(bed):
    mutated(bed, "udp;ofi_rxd", range(2, SEEDS, 3), 96)
