#!/usr/bin/env python3
"""Runs the commands of the pages' shell blocks that need no cluster, no network, no package and no
long build, page by page as a reader would type them, with the installation and the emulators of a
check. Arguments: the prefix of the installation, and the folder of the build."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from commands import ROOT, blocks, commands, first_word

# Commands that install, build for minutes, test, or need root's network namespaces.
LEFT_OUT = {"cargo", "cd", "dpkg-buildpackage", "make", "mkdir", "pytest-3", "rustup", "spack", "sudo"}
LEFT_OUT |= {"ibv_devinfo", "module", "srun"}
FOLDERS = ("cluster/", "scripts/check", "scripts/docs/", "scripts/rdma-vm/")
# Parts of commands that need other hosts or machines, a vendor's network, a failure, or what
# another command has built.
ELSEWHERE = (
    "GASNET_SSH_SERVERS=",
    "-hostfile",
    "GASNET_CONNECTFILE",
    "-n 64 ",
    " -N 2 gasnet_selftest",
    " -N 2 ./hello",
    "=1 gasnetrun_ibv",
    "aarch64",
    "-lelan",
    "target/debug/",
    "STRICT_PLAN=",
    "program.c",
    "--reduce",
    "--until-fail",
)
# Tools that the machine may lack; the commands that give ranks to nodes need root.
TOOLS = ("ibv_devinfo", "ib_write_lat", "fi_info")
NODES = "build/emulators/pmi"
# Programs of a reader's on the pages; here the example client, on the universal library.
PROGRAMS = ("prog", "program")
LIMIT = 300
# The page whose blocks of C make one program, and that program.
TUTORIAL, GROWING = "docs/tutorial.md", "hello.c"


def is_run(text):
    """Whether a command is run: not a comment, not an assignment alone, and possible here."""
    word = first_word(text)
    return (
        word != ""
        and word not in LEFT_OUT
        and not word.startswith(FOLDERS)
        and not any(part in text for part in ELSEWHERE)
        and not any(tool in text and not shutil.which(tool) for tool in TOOLS)
        and not (NODES in text and os.geteuid() != 0)
    )


def folder_of(prefix, build):
    """A folder that looks like the tree, and can be written to."""
    folder = Path(tempfile.mkdtemp(prefix="gasnet-pages-", dir="/tmp"))
    folder.chmod(0o755)
    for entry in ROOT.iterdir():
        if entry.name not in ("build", ".git"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").symlink_to(build)
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "gasnet"],
        env={**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    for program in PROGRAMS:
        subprocess.run(["cc", "-o", folder / program, ROOT / "examples/client/hello.c", *flags], check=True)
    return folder


def grown(program, block):
    """The lines of a program, of which a block replaces those from its first line to its last."""
    if not program:
        return block
    first = program.index(block[0])
    return program[:first] + block + program[program.index(block[-1], first) + 1 :]


def script_of(page, prefix):
    """The commands of a page as a script that shows where it is; empty if none is run."""
    lines, program = [], []
    for start, language, block in blocks(ROOT / page):
        if page == TUTORIAL and language == "c":
            program = grown(program, block)
            lines += [f"cat >{GROWING} <<'END'", *program, "END"]
        for number, text in commands(start, block) if language in ("", "sh") else ():
            if is_run(text):
                lines += [f"echo '+ {page}:{number}'", re.sub(r"(/opt|\$HOME)/gasnet\b", prefix, text)]
    return "\n".join(lines)


def main():
    """Prints the pages' failures; exit status 1 if there are any."""
    prefix, build = sys.argv[1], os.path.abspath(sys.argv[2])
    pages = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("GASNET_", "PKG_CONFIG"))}
    variables.update({"PATH": f"{prefix}/bin:{os.environ['PATH']}", "BUILD": build})
    # Open MPI runs nothing as root, and no more ranks than cores, unless it is allowed to.
    variables.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    variables["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
    failed = run = 0
    for page in pages.stdout.split():
        script = script_of(page, prefix)
        if not script:
            continue
        folder = folder_of(prefix, build)
        try:
            done = subprocess.run(
                ["timeout", str(LIMIT), "bash", "-euo", "pipefail", "-c", script],
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        finally:
            shutil.rmtree(folder)
        run += script.count("echo '+ ")
        if done.returncode != 0:
            print(f"{page}: exit status {done.returncode}\n{done.stdout}")
            failed = 1
    print(f"{run} commands")
    return failed or run == 0


if __name__ == "__main__":
    sys.exit(main())
