#!/usr/bin/env python3
"""Checks scripts/docs/clients.py with a page, an installation and clients of its own: builds once
where the recipe allows it, runs each configuration, keeps cells of other runs, reports failures."""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = """# Page

<!-- networks: written by scripts/docs/clients.py -->

| client | smp | udp | ofi | ibv | ucx | mpi |
|---|---|---|---|---|---|---|
| Fake++ 1.0, 2 ranks | – | – | 7 of 7; 9 s | – | – | – |

<!-- end of networks -->

## Fake++ 1.0

```bash
test -e source && ls /opt/gasnet/lib >listing && echo $CONDUIT >>built
```

```bash
echo "_ $RANKS of $(wc -l <built) tests passed. ${GASNET_SUPERNODE_MAXSIZE-0} tests were skipped _"
echo " 3 of 3 tests passed. 0 tests were skipped."
```

## Once 2

```bash
echo built >>../builds
```

```bash
test $RANKS = 2 || echo PASSED running 9 tests
test $(wc -l <../builds) = 1 && test $RANKS = 2 && echo '75% tests passed, 8 tests failed out of 32'
```
"""
WANTED = """| client | smp | udp | ofi | ibv | ucx | mpi |
|---|---|---|---|---|---|---|
| Fake++ 1.0, 2 ranks | 2 of 1; 0 s | 2 of 1; 0 s | 7 of 7; 9 s | – | – | – |
| Fake++ 1.0, 2 ranks, nbrhd 1 | – | 2 of 1 and 1 skipped; 0 s | – | – | – | – |
| Fake++ 1.0, 3 ranks | 3 of 1; 0 s | 3 of 1; 0 s | – | – | – | – |
| Fake++ 1.0, 3 ranks, nbrhd 1 | – | 3 of 1 and 1 skipped; 0 s | – | – | – | – |
| Once 2, 2 ranks | 24 of 32; 0 s | 24 of 32; 0 s | – | – | – | – |
| Once 2, 2 ranks, nbrhd 1 | – | 24 of 32; 0 s | – | – | – | – |
| Once 2, 3 ranks | 9 of 9, status 1; 0 s | 9 of 9, status 1; 0 s | – | – | – | – |
| Once 2, 3 ranks, nbrhd 1 | – | 9 of 9, status 1; 0 s | – | – | – | – |
"""


def step(folder, *words):
    """Runs the step in a folder."""
    command = [sys.executable, "-B", ROOT / "scripts/docs/clients.py", folder / "sources", "--page", folder / "page.md"]
    command += ["--prefix", folder / "prefix", "--work", folder / "work", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def seconds_gone(text):
    """A table without the times of its configurations, which may be longer than none."""
    return text.replace("; 1 s", "; 0 s").replace("; 2 s", "; 0 s")


def main():
    """Fails with the difference."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "page.md").write_text(PAGE, encoding="utf-8")
        for client in "fakexx", "once":
            (folder / "sources" / client).mkdir(parents=True)
        (folder / "sources/fakexx/source").touch()
        (folder / "prefix/lib/pkgconfig").mkdir(parents=True)
        for conduit in "smp", "udp":
            (folder / f"prefix/lib/pkgconfig/gasnet-{conduit}-par.pc").touch()
        done = step(folder, "--ranks", "2", "3", "--write")
        page = (folder / "page.md").read_text(encoding="utf-8")
        written = page.partition("clients.py -->\n\n")[2].partition("\n<!--")[0]
        assert done.returncode == 1, done
        assert seconds_gone(written) == WANTED, written
        assert "7 of 7" not in done.stdout and "24 of 32" in done.stdout, done.stdout
        assert step(folder, "--only", "fakexx", "--ranks", "2").returncode == 0
        (folder / "page.md").write_text(PAGE.replace("echo '75%", "echo '"), encoding="utf-8")
        done = step(folder, "--only", "once", "--ranks", "2", "--conduits", "udp")
        assert done.returncode == 1 and "no count; 0 s" in seconds_gone(done.stdout), done
        for words, message in [
            (["--only", "other"], "no recipe of 'other'"),
            (["--conduits", "ofi"], "no gasnet-ofi-par"),
        ]:
            done = step(folder, *words)
            assert done.returncode == 1 and message in done.stderr, done


if __name__ == "__main__":
    main()
