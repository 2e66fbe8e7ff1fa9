"""Recordings of clients, in clients/*.tar.xz, replayed without the clients, on as many ranks as
they had and on one; and the likenesses of large runtimes (--model)."""

import tarfile
from pathlib import Path

import pytest

# The program that replays is optimised in both flavours of the library.
pytestmark = pytest.mark.flavours("release")
CLIENTS = Path(__file__).with_name("clients")
MODELS = ("legion", "upcxx", "chapel")


def replay(shop, ranks, *words):
    """Replays by the conduit of the test, without shared memory."""
    extra = {"GASNET_CONDUIT": shop.conduit, "GASNET_SUPERNODE_MAXSIZE": "1"}
    command = [f"{shop.prefix}/bin/gasnetrun", "-n", str(ranks), f"{shop.prefix}/bin/gasnet_replay", *words]
    return shop.expect(command, 0, f"replayed 1 times on {ranks} ranks: ", extra=extra, timeout=150)


@pytest.mark.parametrize("name", sorted(path.name.removesuffix(".tar.xz") for path in CLIENTS.iterdir()))
def test_client(shop, name):
    """A client's calls, in a tenth of its time, and with pauses by chance."""
    folder = Path(shop.folder, name)
    with tarfile.open(CLIENTS / f"{name}.tar.xz") as archive:
        archive.extractall(folder)
    ranks = len(list(folder.iterdir()))
    replay(shop, ranks, "--speed", "10", f"{folder}/%")
    replay(shop, 1, "--speed", "0", "--jitter", "3", f"{folder}/%")


@pytest.mark.parametrize("model", MODELS)
def test_model(shop, model):
    """Traffic by chance: the seed decides, and each rank has as many calls as the others expect."""
    replay(shop, 3, "--model", model, "--calls", "8000", "--jitter", "1", "--seed", "5")
    command = [f"{shop.prefix}/bin/gasnet_replay", "--model", model, "--show", "--seed"]
    first, again, other = (shop.expect([*command, seed], 0) for seed in "112")
    assert first == again != other


@pytest.mark.conduits("smp")
def test_options_of_a_model(shop):
    """Unknown models and numbers are refused; a model is reduced like a recording."""
    replayer = f"{shop.prefix}/bin/gasnet_replay"
    for words, message in (["mpi"], "no model 'mpi'"), (["legion", "--ranks", "2000"], "at most 1000 ranks"):
        shop.expect([replayer, "--model", *words, "--show"], 2, message)
    script = 'for last; do :; done; n=$("$1" --show "$last" | grep -c " PUT "); test "$n" -lt 3'
    command = [replayer, "--reduce", f"{shop.folder}/less-%", "--model", "upcxx", "--ranks", "2", "--calls", "400"]
    shop.expect([*command, "--", "sh", "-c", script, "%n"], 0, "3 of [0-9]+ operations are in", timeout=150)
