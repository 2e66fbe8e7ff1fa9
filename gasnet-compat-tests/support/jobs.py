"""Compiles and runs client programs for the checks: flags from an installation's pkg-config file, a
job under a time limit, and the search for whatever the job left behind. Only the standard library
is used."""

import contextlib
import ctypes
import fcntl
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import mpis

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MARK = "GASNET_CHECK_JOB"
GRACE_SECONDS = 3.0
# Processes of a hanging job whose stacks are shown.
MOST_DESCRIBED = 8
NOBODY = 65534
# Environment variables: a mark of all processes that a check has started; the folder for its jobs.
RUN, FOLDER = "CHECK_RUN", "CHECK_FOLDER"
# Interfaces fix the parameters of handlers and threads.
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]


@contextlib.contextmanager
def scratch():
    """A folder for all files of this check and of the processes that it starts, which other users
    can read. When this process ends, in whatever way, SIGKILL included, a process of its own ends
    what the check has started, and removes the folder. To be entered before there are threads."""
    folder, mark = tempfile.mkdtemp(prefix="gasnet-check-", dir="/tmp"), uuid.uuid4().hex
    os.chmod(folder, 0o755)
    reader, writer = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        os.close(writer)
        clean_up_after(reader, folder, mark)
    os.close(reader)
    os.environ.update({RUN: mark, FOLDER: folder})
    try:
        yield folder
    finally:
        del os.environ[RUN], os.environ[FOLDER]
        os.close(writer)
        os.waitpid(watcher, 0)


def clean_up_after(reader, folder, mark):
    """Waits until nobody holds the other end of a pipe, and cleans up."""
    try:
        # The end of the check's session, and readers of its output, must not reach this process.
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        null = os.open("/dev/null", os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.read(reader, 1)
        kill_job(mark)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)


def missing(conduit):
    """Why the programs of a conduit cannot run on this machine; empty if they can."""
    if conduit == "ofi":
        try:
            ctypes.CDLL(os.environ.get("GASNET_OFI_LIBRARY", "libfabric.so.1"))
        except OSError as error:
            return f"libfabric cannot be loaded: {error}"
    if conduit == "ucx":
        try:
            ctypes.CDLL(os.environ.get("GASNET_UCX_LIBRARY", "libucp.so.0"))
        except OSError as error:
            return f"UCX cannot be loaded: {error}"
    if conduit == "mpi" and not mpis.installed():
        return "no MPI is installed (mpich or openmpi-bin)"
    return ""


# Variables of makefile fragments that were asked for, by prefix, conduit, thread mode and name.
VARIABLES = {}


class Installation:
    """One installed prefix, and how a client is compiled and started with it."""

    def __init__(self, prefix):
        self.prefix = os.path.abspath(prefix)

    def variable(self, conduit, mode, name, extra=""):
        """A variable of the makefile fragment. Modes `tools-seq` and `tools-par` mean the
        communication-free tools library. Conduit `any` is the universal library, which takes the
        mode from its client."""
        fragment = f"{self.prefix}/include/{conduit}-conduit/{conduit}-{mode}.mak"
        if conduit == "any":
            fragment = f"{self.prefix}/include/gasnet.mak"
            extra += f"\nMANUAL_DEFINES = -DGASNET_{mode.upper()}=1"
        if mode.startswith("tools-"):
            fragment = f"{self.prefix}/include/gasnet_{mode}.mak"
            name = name.replace("GASNET_CXXCPPFLAGS", "GASNET_CPPFLAGS").replace("GASNET_", "GASNETTOOLS_")
        text = f"include {fragment}\n{extra}\nshow:\n\t@echo $({name})\n"
        environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        result = subprocess.run(
            ["make", "-s", "-f", "-", "show", f"GASNET_PREFIX={self.prefix}"],
            input=text,
            capture_output=True,
            text=True,
            env=environment,
        )
        if result.returncode != 0:
            raise RuntimeError(f"{fragment}: {result.stderr.strip()}")
        return result.stdout.split()

    def has(self, conduit):
        """Whether libraries of this conduit are installed."""
        return os.path.exists(
            f"{self.prefix}/include/gasnet.mak" if conduit == "any" else f"{self.prefix}/include/{conduit}-conduit"
        )

    def compile(self, sources, output, conduit, mode, flags=(), link_flags=(), compiler=None, cxx=None):
        """Compiles and links a program, as C++ on request; returns whether that worked, and the
        compiler's messages."""
        named_cxx = any(s.endswith((".cc", ".cpp", ".cxx")) for s in sources)
        cxx = named_cxx if cxx is None else cxx
        if cxx and not named_cxx:
            sources = ["-x", "c++", *sources, "-x", "none"]
        names = (
            ("GASNET_CXX", "GASNET_CXXCPPFLAGS", "GASNET_CXXFLAGS")
            if cxx
            else ("GASNET_CC", "GASNET_CPPFLAGS", "GASNET_CFLAGS")
        )
        driver, cpp, cflags = (self.cached(conduit, mode, name) for name in names)
        command = list(compiler or driver) + cpp + cflags + list(flags) + list(sources) + ["-o", output]
        command += (
            self.cached(conduit, mode, "GASNET_LDFLAGS") + list(link_flags) + self.cached(conduit, mode, "GASNET_LIBS")
        )
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        return result.returncode == 0, result.stdout + result.stderr

    def cached(self, conduit, mode, name):
        """`variable`, asked once of each prefix."""
        key = (self.prefix, conduit, mode, name)
        if key not in VARIABLES:
            VARIABLES[key] = self.variable(conduit, mode, name)
        return VARIABLES[key]


class Result:
    """Outcome of a job: its status (None: ran out of time), its output, and what it left behind."""

    def __init__(self, status, output, leftovers, seconds):
        self.status, self.output, self.leftovers, self.seconds = status, output, leftovers, seconds


def job_processes(mark):
    """Processes whose initial environment carries this job's mark, whatever the variable's name."""
    needle = f"={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if needle not in file.read():
                    continue
            with open(f"/proc/{entry}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] in ("Z", "X"):
                    continue
        except OSError:
            continue
        found.append(int(entry))
    return found


def stacks(mark):
    """Text about the processes of a job that hangs: threads with their states, and the ends of
    their stacks where there is a debugger."""
    described = []
    for process in job_processes(mark)[:MOST_DESCRIBED]:
        command = ["ps", "-L", "-o", "pid,lwp,stat,wchan:20,args", "-p", str(process)]
        described.append(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
        if not shutil.which("gdb"):
            continue
        command = ["gdb", "-q", "-batch", "-nx", "-p", str(process), "-ex", "thread apply all backtrace 12"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            shown = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
            described += [line for line in shown.stdout.splitlines() if line.startswith(("Thread ", "#"))]
    return "\n".join(described)


def kill_job(mark):
    """Ends every process of a job."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        processes = job_processes(mark)
        if not processes:
            return
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.05)


def is_private(path):
    """Whether other users cannot reach a file: that of a clone in root's home."""
    folders = Path(path).resolve().parents if os.path.isabs(path) else ()
    return any(not os.stat(folder).st_mode & stat.S_IXOTH for folder in folders)


def run(command, timeout, environment=None, unprivileged=True, stdin=None):
    """Runs a job in an empty folder of its own that is also its TMPDIR. An unprivileged job runs as
    nobody."""
    mark = uuid.uuid4().hex
    folder = tempfile.mkdtemp(prefix="gasnet-job-", dir=os.environ.get(FOLDER, "/tmp"))
    temporary = os.path.join(folder, "tmp")
    os.mkdir(temporary)
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("GASNET_", "MAKE", "MFLAGS"))}
    variables.update({MARK: mark, "TMPDIR": temporary, "HOME": folder})
    variables.update(environment or {})
    if unprivileged and os.geteuid() == 0:
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"] + list(command)
        os.chown(folder, NOBODY, NOBODY)
        os.chown(temporary, NOBODY, NOBODY)
    started = time.monotonic()
    status, leftovers, hung = None, [], ""
    with tempfile.TemporaryFile() as captured:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdout=captured,
            stderr=subprocess.STDOUT,
            stdin=stdin or subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            hung = stacks(mark)
            kill_job(mark)
            process.wait()
        else:
            deadline = time.monotonic() + GRACE_SECONDS
            while job_processes(mark) and time.monotonic() < deadline:
                time.sleep(0.02)
            left = job_processes(mark)
            if left:
                leftovers.append(f"{len(left)} processes")
                kill_job(mark)
            leftovers += [f"TMPDIR/{name}" for name in os.listdir(temporary)]
        captured.seek(0)
        output = captured.read().decode(errors="replace") + hung
    shutil.rmtree(folder, ignore_errors=True)
    return Result(status, output, leftovers, time.monotonic() - started)


@contextlib.contextmanager
def built_once(folder):
    """Holds a lock, and yields whether this folder or file is missing: several processes of a check
    may need it. It is made when the block has ended without an exception."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(f"{folder}.lock", "a+", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        yield not lock.read()
        lock.write("made ")


def stand_ins(folder):
    """Builds the stand-ins for device libraries (emulators/devices) into a folder, and returns the
    environment that makes programs use them."""
    with built_once(folder) as missing_yet:
        if missing_yet:
            subprocess.run([f"{ROOT}/emulators/devices/build.sh", folder], check=True, stdin=subprocess.DEVNULL)
            os.chmod(folder, 0o755)
    return {"LD_LIBRARY_PATH": folder}


# The emulators of conduits without hardware.
EMULATORS = {"ibv": "verbs", "gni": "ugni", "elan": "elan"}


def of_cargo():
    """The environment for builds of doubles."""
    build = os.path.join(os.environ.get("BUILD") or f"{ROOT}/build", "emulators", "target")
    return {**os.environ, "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", build)}


def strict_provider(folder):
    """Builds the strict provider of libfabric (conduit-ofi/strict) into a folder, and returns the
    library."""
    name, environment = "libgasnet_ofi_strict.so", of_cargo()
    with built_once(folder) as missing_yet:
        if missing_yet:
            manifest = f"{ROOT}/conduit-ofi/strict/Cargo.toml"
            command = ["cargo", "build", "--quiet", "--locked", "--manifest-path", manifest, "--profile", "program"]
            subprocess.run([*command, "--lib"], check=True, stdin=subprocess.DEVNULL, env=environment)
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, 0o755)
            shutil.copy(os.path.join(environment["CARGO_TARGET_DIR"], "program", name), folder)
    return os.path.join(folder, name)


def emulator(name, folder):
    """Builds an emulator into a folder of its own in this folder, and returns that."""
    library = os.path.join(folder, name)
    with built_once(library) as missing_yet:
        if missing_yet:
            subprocess.run(
                [f"{ROOT}/emulators/{name}/build.sh", library], check=True, stdin=subprocess.DEVNULL, env=of_cargo()
            )
            os.chmod(folder, 0o755)
            shutil.copy(f"{ROOT}/scripts/with-emulator", folder)
    return library


def emulated(conduit, folder, options=()):
    """The words that run a command on the stand-in for the hardware of a conduit, if anything does:
    its emulator, with these options, which is built into a folder."""
    name = EMULATORS.get(conduit)
    if not name:
        return []
    emulator(name, folder)
    # yield: for more processes than cores.
    return ["env", f"EMULATORS={folder}", f"{folder}/with-emulator", name, "--faults", "yield=10", *options]


def wants_stand_ins(found):
    """Whether a program with these directives runs with stand-ins for device libraries."""
    return "DEVICES" in found and not os.environ.get("REAL_DEVICES")


# The directives of test programs, with the words that those which select cases may have.
CONDUITS = "any elan gni ibv loop mpi ofi smp sock ucx udp"
DIRECTIVES = {
    "ARGS": "",
    "CONDUITS": CONDUITS,
    "DEVICES": "yes",
    "ENV": "",
    "FLAGS": "",
    "FLAVOURS": "debug release",
    "LANGUAGE": "c++",
    "MODES": "par parsync seq",
    "NP": "",
    "SEGMENTS": "everything fast large",
    "TIMEOUT": "",
}


def check_directive(source, word, value):
    """Refuses one that nothing reads: its program would silently run elsewhere, or nowhere."""
    if word not in DIRECTIVES:
        raise ValueError(f"{source}: there is no directive {word}; known: {', '.join(DIRECTIVES)}, VARIANT")
    known = DIRECTIVES[word].split()
    if wrong := [part for part in value.split() if known and part not in known]:
        raise ValueError(f"{source}: {word} has no '{wrong[0]}'; known: {', '.join(known)}")


def variants(source):
    """The directives of a test program, `// NAME: value` lines in its first comment: those of the
    program itself under the name "", and under its own name those of each `// VARIANT: name`, whose
    lines take the place of the program's."""
    found = {"": {}}
    name = ""
    with open(source, errors="replace") as file:
        for line in file:
            if not line.startswith("//"):
                break
            match = re.match(r"//\s*([A-Z]+):\s*(.*?)\s*$", line)
            if match and match.group(1) == "VARIANT":
                name = match.group(2).split()[0]
                found[name] = {}
            elif match:
                word, value = match.groups()
                check_directive(source, word, value)
                found[name][word] = f"{found[name][word]} {value}" if word in found[name] else value
    return {name: {**found[""], **own} for name, own in found.items()}


def directives(source):
    """Those of the program itself."""
    return variants(source)[""]
