"""Jobs of a program that shows how its ranks were started."""

import os
import shlex

import pytest

LIMIT = 60.0


class Launch:
    """Starts jobs of launch/show.c. Commands are lists, or texts with `{run}`, the launcher, and
    `{show}`, the program."""

    def __init__(self, shop):
        self.shop, self.show, self.run = shop, shop.compile(f"{os.path.dirname(__file__)}/show.c"), shop.launcher

    def words(self, command):
        """The words of a command."""
        return shlex.split(command.format(run=self.run, show=self.show)) if isinstance(command, str) else command

    def expect(self, command, status, *patterns, **options):
        """`Workshop.expect` with a time limit."""
        return self.shop.expect(self.words(command), status, *patterns, timeout=LIMIT, **options)

    def job(self, how, ranks, *arguments):
        """A command and the number of ranks in its environment: `how` is "directly" or
        "launcher"."""
        words = [self.show, *arguments]
        return (words, ranks) if how == "directly" else ([self.run, "-n", str(ranks), *words], 0)


@pytest.fixture
def launch(shop):
    """Starts jobs."""
    return Launch(shop)
