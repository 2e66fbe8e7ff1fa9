#!/usr/bin/env python3
"""libibverbs.py FOLDER: puts the libibverbs of rdma-core 48, newer than Debian 12's, into FOLDER,
from a wheel on PyPI. It loads Debian's providers: RDMAV_DRIVERS names them by their paths."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Its wheel for Python 3.11, and the digest of that.
PACKAGE = "nixl-cu12==1.5.1"
SHA256 = "341d0dfa499f941c054614252f1d8047d1380e33f29c87707372ff5ec7d3779a"


def fetch(folder):
    """Fetches the files."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        wanted, made = Path(scratch, "wanted"), Path(scratch, "made")
        wanted.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n", encoding="ascii")
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        options = ["--python-version", "3.11", "--only-binary", ":all:", "--require-hashes", "-d", scratch]
        subprocess.run([*pip, *options, "-r", str(wanted)], check=True, stdin=subprocess.DEVNULL)
        made.mkdir(mode=0o755)
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            for member in wheel.namelist():
                name = member.rpartition("/")[2]
                if name.startswith("libibverbs-"):
                    # The loader finds the same file when it looks for what providers need.
                    made.joinpath("libibverbs.so.1").write_bytes(wheel.read(member))
                elif name.startswith("libnl-"):
                    made.joinpath(name).write_bytes(wheel.read(member))
        made.rename(folder)


if __name__ == "__main__":
    if not Path(sys.argv[1]).exists():
        fetch(Path(sys.argv[1]))
