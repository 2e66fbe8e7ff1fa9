"""Jobs in a bad environment, which must work or end with a message: invalid variables, limits, file
systems, plugins, the shared library opened by another language, a C++ unit under a C main."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import endings
import jobs
import pytest

HERE = Path(__file__).parent
# Without /dev/shm there is no emulator either.
pytestmark = pytest.mark.not_conduits(*jobs.EMULATORS)


@pytest.fixture(scope="module")
def fine(shop):
    """A program that works."""
    return shop.compile(HERE / "fine.c")


def test_fine(shop, fine):
    endings.expect(shop, 0, "^fine: 4 ranks", [fine], 4)


def test_two_units(shop):
    """A C++ unit under a C main."""
    main = shop.compile(HERE / "two_units_main.c", flags=["-c"])
    endings.expect(shop, 0, "", [shop.compile(HERE / "two_units.cc", flags=[main])], 2)


def test_plugin(shop):
    """The library comes with a plugin."""
    plugin, host = shop.compile(HERE / "plugin.c", flags=["-fPIC", "-shared"]), f"{shop.folder}/plugin_host"
    subprocess.run(["cc", "-o", host, HERE / "plugin_host.c", "-ldl"], check=True)
    endings.expect(shop, 0, "fine: 2 ranks", [host, plugin], 2)


def test_path_like_ours(shop, fine):
    folder = Path(shop.folder, "gasnet-comm-x (deleted)")
    folder.mkdir()
    endings.expect(shop, 0, "^fine: 2", [shutil.copy(fine, folder)], 2)


@pytest.mark.parametrize("value", ["0", "-1", "abc", "99999999", "1.5", pytest.param(" ", id="blank"), "4x"])
def test_number_of_ranks(shop, fine, value):
    endings.expect(shop, "bad", "GASNET_PSHM_NODES", [fine], value)


@pytest.mark.parametrize(
    "setting",
    [
        "GASNET_MAX_SEGSIZE=garbage",
        "GASNET_MAX_SEGSIZE=-5",
        "GASNET_MAX_SEGSIZE=99999T",
        "GASNET_MAX_SEGSIZE=0.85/Q",
        "GASNET_MAX_SEGSIZE=0",
        "GASNET_PSHM_NETWORK_DEPTH=0",
        "GASNET_PSHM_NETWORK_DEPTH=x",
        "GASNET_PSHM_NETWORK_DEPTH=999999999999999999999",
        "GASNET_PSHM_RING_SIZE=1",
        "GASNET_PSHM_RING_SIZE=lots",
        "GASNET_EXITTIMEOUT=soon",
        "GASNET_EXITTIMEOUT=-1",
        "GASNET_BARRIER=NONE",
        "GASNET_WAITMODE=fast",
        "GASNET_SMP_SPAWNER=pigeon",
        "GASNET_SUPERNODE_MAXSIZE=-2",
        "GASNET_BACKTRACE=maybe",
        "GASNET_TMPDIR=/nonexistent",
    ],
)
def test_setting(shop, fine, setting):
    name, value = setting.split("=", 1)
    endings.expect(shop, "handled", name, [fine], 2, {name: value})


@pytest.mark.parametrize(
    ("limit", "ranks", "wanted", "pattern"),
    [
        ("-v 600000", 4, "handled", "memory|address space|map"),
        ("-v 60000", 4, "handled", "memory|address space|map|thread"),
        ("-n 12", 8, "handled", "descriptor|open files|EMFILE|RLIMIT_NOFILE"),
        ("-l 0", 4, 0, "^fine: 4"),
        ("-f 16", 2, "bad", "ulimit -f"),
        ("-f 0", 2, "handled", "file size|memory|RLIMIT_FSIZE|ulimit"),
    ],
    ids=["address-space", "tiny-address-space", "descriptors", "locked-memory", "file-size", "file-size-none"],
)
def test_limit(shop, fine, limit, ranks, wanted, pattern):
    endings.expect(shop, wanted, pattern, ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", fine], ranks)


@pytest.mark.parametrize(("closed", "pattern"), [("<&-", ""), ("2>&-", "^fine")], ids=["stdin", "stderr"])
def test_closed_stream(shop, fine, closed, pattern):
    endings.expect(shop, 0, pattern, ["sh", "-c", f'exec "$@" {closed}', "sh", fine], 2)


# ---- surroundings that only root can prepare


@pytest.fixture(scope="module")
def root():
    if os.getuid() != 0:
        pytest.skip("needs root")


@pytest.fixture(scope="module")
def mounts(root):
    """Words that run a script, with its arguments, in a mount namespace of its own."""
    if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        pytest.skip("unshare is not permitted here")
    return ["unshare", "-m", "sh", "-c"]


def as_nobody(*command, user="65534"):
    """A command as a user without rights."""
    return ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", *command]


def test_unprivileged(shop, fine, root):
    endings.expect(shop, 0, "^fine: 4", as_nobody(fine), 4)


def test_no_capabilities(shop, fine, root):
    endings.expect(
        shop, 0, "^fine: 4", ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", fine], 4
    )


def test_limit_of_processes(shop, fine, root):
    endings.expect(shop, "bad", "process|fork", ["prlimit", "--nproc=3", *as_nobody(fine, user="65533")], 8)


@pytest.mark.parametrize("options", ["size=4k", "size=64m", "size=64m,ro", "size=4k,mode=000"])
def test_dev_shm(shop, fine, mounts, options):
    script = f'mount -t tmpfs -o {options} tmpfs /dev/shm || exit 90; exec "$@"'
    command, without = [*mounts, script, "sh", *as_nobody(fine)], None
    if shop.conduit == "ucx" and options != "size=64m":
        # UCX keeps queues there, unless a variable says that it does without.
        endings.expect(shop, "bad", r"UCX_TLS=\^posix", command, 4)
        without = {"UCX_TLS": "^posix"}
    endings.expect(shop, 0, "^fine: 4", command, 4, without)


def test_no_dev_shm(shop, fine, mounts):
    script = 'mount -t tmpfs tmpfs /dev && mknod -m 666 /dev/null c 1 3 || exit 90; exec "$@"'
    endings.expect(shop, 0, "^fine: 4", [*mounts, script, "sh", fine], 4)


def test_no_tmp(shop, fine, mounts):
    """An empty, read-only /tmp. TMPDIR was in the former one."""
    folder = Path(shop.folder, "mnt")
    folder.mkdir()
    shutil.copy(fine, folder / "fine")
    script = (
        'mount --bind "$1" /mnt && mount -t tmpfs -o ro tmpfs /tmp && cd / || exit 90; unset TMPDIR; exec /mnt/fine'
    )
    endings.expect(shop, 0, "^fine: 4", [*mounts, script, "sh", folder], 4)


def test_no_proc(shop, fine, mounts):
    script = 'mount -t tmpfs tmpfs /proc || exit 90; exec "$@"'
    endings.expect(shop, "handled", "/proc", [*mounts, script, "sh", fine], 2)


# ---- the shared library, opened by another language


def shared(shop, mode):
    """The shared library of a thread mode."""
    for folder in ("lib/gasnet-shared", "lib"):
        file = f"{shop.prefix}/{folder}/libgasnet-{shop.conduit}-{mode}.so"
        if os.path.exists(file):
            return file
    pytest.skip(f"needs the shared library of the thread mode {mode}")


def test_dlopen(shop):
    command = [sys.executable, HERE / "load.py", shared(shop, shop.mode)]
    endings.expect(shop, 0, "initialised 0 0", command, 1)


def test_two_libraries(shop):
    libraries = [shared(shop, mode) for mode in (shop.mode, "par" if shop.mode == "seq" else "seq")]
    endings.expect(shop, "bad", "two|second|another|already", [sys.executable, HERE / "load.py", *libraries], 1)
