"""Compares gasnet_info with /proc, /sys and the limits of this process, also under changed limits,
without /sys, and as nobody. See run.sh."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = os.path.abspath(os.environ["PREFIX"])
PROGRAM = os.path.join(PREFIX, "bin", "gasnet_info")
CC = os.environ.get("CC") or "cc"
failed = False


def check(name, *problems):
    """Reports one test: it passed if no problem is a text."""
    global failed
    wrong = [p for p in problems if p]
    failed = failed or bool(wrong)
    print(
        f"FAIL info/{name}: {'; '.join(wrong)}" if wrong else f"PASS info/{name}",
        flush=True,
    )


def unless(condition, problem):
    """The problem, unless the condition holds."""
    return "" if condition else problem


def run(*options, before=(), environment=None, errors=subprocess.STDOUT):
    """(status, output) of gasnet_info behind the words `before`."""
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run(
        [*before, PROGRAM, *options],
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=variables,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def machine(before=(), environment=None):
    """The report about this machine, without the output of vendor libraries."""
    status, output = run(
        "--json",
        "-l",
        before=before,
        environment=environment,
        errors=subprocess.DEVNULL,
    )
    if status != 0:
        raise RuntimeError(f"status {status}: {output}")
    return json.loads(output)["machine"]


def meminfo(name):
    """Bytes of a row of /proc/meminfo."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(re.search(rf"^{name}:\s+(\d+)", file.read(), re.M).group(1)) * 1024


def near(a, b):
    """Equal, except for the work of other processes in between."""
    return a is not None and abs(a - b) <= max(a, b) * 0.25 + (64 << 20)


def test_forms():
    """Text and JSON, of every topic."""
    status, text = run()
    titles = [
        "Build",
        "Limits of the library",
        "Processors",
        "Memory",
        "Limits of a process",
        "Kernel",
        "Network interfaces",
        "RDMA devices",
        "Network and launcher libraries",
        "Accelerator libraries",
    ]
    check(
        "text",
        unless(status == 0, f"status {status}"),
        *[unless(f"\n{t}\n" in text, f"no section {t}") for t in titles],
        unless(
            re.search(r"^(No advice for|One line with|\d+ lines with)", text, re.M),
            "no summary",
        ),
    )
    status, output = run("--json", "-v", "-c", "-b", "-l", "-e")
    answer = json.loads(output)
    check(
        "json",
        unless(status == 0, f"status {status}"),
        unless(
            set(answer)
            == {
                "version",
                "conduits",
                "build",
                "library_limits",
                "machine",
                "variables",
            },
            f"members {sorted(answer)}",
        ),
        unless(list(answer["machine"]) == titles[2:], "sections differ"),
        unless(
            all(
                set(f) <= {"text", "number", "advice"} and f["text"]
                for s in answer["machine"].values()
                for f in s.values()
            ),
            "a fact has other members, or no text",
        ),
    )
    status, output = run("--nonsense")
    check("unknown-option", unless(status == 2 and "usage" in output, f"status {status}"))
    build = answer["build"]
    installed = [f"{row['conduit']}-{row['mode']}" for row in answer["conduits"]]
    flavour = "debug" if os.environ.get("FLAVOUR") == "debug" else "nodebug"
    check(
        "build",
        unless("rustc" in build["compiler (Rust)"], build["compiler (Rust)"]),
        unless(build["prefix"] == PREFIX, build["prefix"]),
        *[unless(f",{flavour}," in build.get(name, ""), f"{name}: {build.get(name)}") for name in installed],
        unless(
            answer["library_limits"]["smp: GASNET_MAXEPS"] == answer["library_limits"]["endpoints of a process"],
            "GASNET_MAXEPS differs",
        ),
    )


def test_numbers():
    """The numbers are those of the system."""
    report = machine()
    memory, cpus, limits = (
        report["Memory"],
        report["Processors"],
        report["Limits of a process"],
    )
    shm = shutil.disk_usage("/dev/shm") if os.path.isdir("/dev/shm") else None
    check(
        "memory",
        unless(memory["total"]["number"] == meminfo("MemTotal"), f"total {memory['total']}"),
        unless(
            near(memory["available"]["number"], meminfo("MemAvailable")),
            f"available {memory['available']}",
        ),
        unless(memory["page size"]["number"] == resource.getpagesize(), "page size"),
        unless(
            shm is None or memory["/dev/shm"]["number"] == shm.total,
            f"/dev/shm {memory['/dev/shm']}",
        ),
        unless(
            shm is None or near(memory["/dev/shm free"]["number"], shm.free),
            f"/dev/shm free {memory['/dev/shm free']}",
        ),
    )
    mine = len(os.sched_getaffinity(0))
    check(
        "cores",
        unless(
            cpus["cores in the affinity mask"]["number"] == mine,
            f"{cpus['cores in the affinity mask']}",
        ),
        unless(1 <= cpus["ranks that can run at once"]["number"] <= mine, "usable"),
    )
    wanted = {
        "locked memory": resource.RLIMIT_MEMLOCK,
        "open files": resource.RLIMIT_NOFILE,
        "processes": resource.RLIMIT_NPROC,
        "address space": resource.RLIMIT_AS,
        "file size": resource.RLIMIT_FSIZE,
        "stack": resource.RLIMIT_STACK,
        "core file": resource.RLIMIT_CORE,
    }
    check(
        "limits",
        *[
            unless(
                limits[name].get("number", resource.RLIM_INFINITY) == resource.getrlimit(which)[0],
                f"{name}: {limits[name]}",
            )
            for name, which in wanted.items()
        ],
    )
    cards = {name for name in os.listdir("/sys/class/net") if os.path.exists(f"/sys/class/net/{name}/operstate")}
    check(
        "cards",
        unless(
            set(report["Network interfaces"]) - {"interfaces to other hosts"} == cards,
            f"{list(report['Network interfaces'])}",
        ),
        unless(
            "lo" not in cards
            or "127.0.0.1" in report["Network interfaces"]["lo"]["text"]
            or not os.path.exists("/proc/net/fib_trie"),
            "no address of lo",
        ),
    )


def test_changed_limits():
    """Low limits are reported with advice, others without."""
    poor = machine(
        before=(
            "prlimit",
            "--memlock=65536:65536",
            "--nofile=128:4096",
            "--fsize=1048576",
            "--as=2147483648",
        )
    )["Limits of a process"]
    for name, number in (
        ("locked memory", 65536),
        ("open files", 128),
        ("file size", 1048576),
        ("address space", 2147483648),
    ):
        check(
            f"poor-{name.replace(' ', '-')}",
            unless(poor[name].get("number") == number, f"{poor[name]}"),
            unless("advice" in poor[name], "no advice"),
            unless(
                "ulimit" in poor[name].get("advice", ""),
                "the advice does not name ulimit",
            ),
        )
    good = machine(before=("prlimit", "--nofile=4096:4096"))["Limits of a process"]
    check(
        "good-open-files",
        unless("advice" not in good["open files"], f"{good['open files']}"),
    )
    core = str(min(os.sched_getaffinity(0)))
    bound = machine(before=("taskset", "-c", core))["Processors"]
    several = len(os.sched_getaffinity(0)) > 1
    check(
        "bound",
        unless(
            bound["cores in the affinity mask"]["number"] == 1 and bound["affinity mask"]["text"] == core,
            f"{bound}",
        ),
        unless("advice" in bound["cores in the affinity mask"] or not several, "no advice"),
    )


def test_surroundings():
    """Without /sys, without /proc, and as nobody."""
    if os.getuid() != 0:
        print("SKIP info/surroundings needs root")
        return
    report = machine(before=("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"))
    check(
        "unprivileged",
        unless(
            report["Memory"]["total"]["number"] == meminfo("MemTotal"),
            f"{report['Memory']['total']}",
        ),
    )
    if subprocess.run(["unshare", "-m", "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        print("SKIP info/without-sys unshare is not permitted here")
        return
    without = machine(
        before=(
            "unshare",
            "-m",
            "sh",
            "-c",
            'mount -t tmpfs tmpfs /sys && exec "$@"',
            "sh",
        )
    )
    check(
        "without-sys",
        unless(
            without["Network interfaces"]["interfaces to other hosts"]["text"] == "unknown",
            f"{without['Network interfaces']}",
        ),
        unless(without["RDMA devices"]["devices"]["text"] == "none", "RDMA devices"),
        unless(without["Processors"]["cores online"]["text"] == "unknown", "cores online"),
    )
    blind = machine(
        before=(
            "unshare",
            "-m",
            "sh",
            "-c",
            'mount -t tmpfs tmpfs /proc && exec "$@"',
            "sh",
        )
    )["Processors"]
    check(
        "without-proc",
        unless(blind["affinity mask"]["text"] == "unknown", f"{blind['affinity mask']}"),
        unless(
            "advice" not in blind["cores in the affinity mask"],
            "advice about a mask that is not known",
        ),
    )
    small = machine(
        before=(
            "unshare",
            "-m",
            "sh",
            "-c",
            'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"',
            "sh",
        )
    )["Memory"]
    check(
        "small-dev-shm",
        unless(small["/dev/shm"]["number"] == 65536, f"{small['/dev/shm']}"),
    )


def test_full_device():
    """A write error is reported and fails; a closed pipe is a success."""
    problems = []
    for options in ([], ["--json"], ["-h"], ["-e"]):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run(
                [PROGRAM, *options],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=120,
                check=False,
            )
        problems += [
            unless(
                done.returncode == 1 and "gasnet_info: cannot write to standard output: No space left" in done.stderr,
                f"{options}: status {done.returncode}, {done.stderr!r}",
            )
        ]
    check("full-device", *problems)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [PROGRAM],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(writer)
    check(
        "closed-pipe",
        unless(
            done.returncode == 0 and not done.stderr,
            f"status {done.returncode}, {done.stderr!r}",
        ),
    )


def test_libraries():
    """Stand-ins for vendor libraries are found and described."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("OUT") or None) as folder:
        for name in (
            "libfabric.so.1",
            "libibverbs.so.1",
            "libcuda.so.1",
            "libze_loader.so.1",
        ):
            command = [
                *CC.split(),
                "-shared",
                "-fPIC",
                "-o",
                os.path.join(folder, name),
                os.path.join(HERE, "fabric.c"),
            ]
            subprocess.run(command, check=True)
        report = machine(environment={"LD_LIBRARY_PATH": folder})
    networks, accelerators = (
        report["Network and launcher libraries"],
        report["Accelerator libraries"],
    )
    check(
        "libraries",
        unless(
            networks["libfabric"]["text"] == "libfabric.so.1: version 1.21",
            networks["libfabric"]["text"],
        ),
        unless(
            networks["libibverbs"]["text"] == "libibverbs.so.1: devices standin_0",
            networks["libibverbs"]["text"],
        ),
        unless(
            accelerators["CUDA driver library"]["text"].endswith("/libcuda.so.1"),
            accelerators["CUDA driver library"]["text"],
        ),
        unless(
            accelerators["HIP runtime library"]["text"].startswith("none: "),
            accelerators["HIP runtime library"]["text"],
        ),
        unless(
            accelerators["Level Zero loader library"]["text"].endswith("/libze_loader.so.1"),
            accelerators["Level Zero loader library"]["text"],
        ),
    )


def providers(**environment):
    """The providers of libfabric as the conduit ofi would use them: name, facts."""
    status, output = run("--json", "-p", environment=environment, errors=subprocess.DEVNULL)
    if status != 0:
        raise RuntimeError(f"status {status}: {output}")
    return json.loads(output)["providers"].get("ofi", {})


def test_providers():
    """The facts about providers follow the environment, as the conduit does."""
    tcp, shm = "tcp;ofi_rxm", "shm"
    plain = providers()
    if not plain:
        print("SKIP info/providers: gasnet_info is built without conduit ofi")
        return
    if plain.get(tcp, {}).get("threading") is None:
        print(f"SKIP info/providers: libfabric has no {tcp}: {plain}")
        return
    labels = list(plain[tcp])
    check(
        "providers",
        *[
            unless(list(facts) in (labels, ["use"]), f"{name} has the labels {list(facts)}")
            for name, facts in plain.items()
        ],
        unless(
            [facts["use"] for facts in plain.values()].count("chosen") == 1,
            f"chosen: {[(name, facts['use']) for name, facts in plain.items()]}",
        ),
        unless(
            plain["tcp"] == {"use": "impossible: it has no reliable connectionless endpoints (FI_EP_RDM)"},
            f"{plain['tcp']}",
        ),
        unless(plain[shm]["use"] == "excluded: GASNET_OFI_PROVIDER_EXCLUDE has it", f"{plain[shm]}"),
        unless(plain[shm]["atomics"] == "provider", f"{plain[shm]}"),
        unless(plain[tcp]["atomics"] == "Active Messages (the provider uses sockets)", f"{plain[tcp]}"),
    )
    # Per variable: provider, label, text.
    effects = [
        ({"GASNET_OFI_PROVIDER": shm}, shm, "use", "chosen"),
        ({"GASNET_OFI_PROVIDER": shm}, tcp, "use", "possible: GASNET_OFI_PROVIDER names another one"),
        ({"GASNET_OFI_PROVIDER_INCLUDE": "sockets,shm"}, tcp, "use", "excluded: GASNET_OFI_PROVIDER_INCLUDE lacks it"),
        ({"GASNET_OFI_PROVIDER_EXCLUDE": "tcp"}, tcp, "use", "excluded: GASNET_OFI_PROVIDER_EXCLUDE has it"),
        ({"FI_PROVIDER": shm}, shm, "use", "chosen"),
        ({"GASNET_OFI_DEVICE": "lo"}, tcp, "device", "lo"),
        ({"GASNET_OFI_DEVICE_TYPE": "JRank", "GASNET_OFI_DEVICE_0": "lo"}, tcp, "device", "lo"),
        (
            {"GASNET_OFI_RECEIVE_BUFF_SIZE": "recv"},
            tcp,
            "Active Messages",
            "a receive buffer per message (GASNET_OFI_RECEIVE_BUFF_SIZE=recv)",
        ),
        ({"GASNET_OFI_ATOMICS": "0"}, shm, "atomics", "Active Messages (GASNET_OFI_ATOMICS=0)"),
        (
            {"GASNET_OFI_AM_INJECT_LIMIT": "48", "GASNET_OFI_RMA_INJECT_LIMIT": "16"},
            tcp,
            "injected",
            "messages of 48 bytes, puts of 16 bytes",
        ),
    ]
    for environment, name, label, text in effects:
        facts = providers(**environment)[name]
        check(
            f"providers-{next(reversed(environment)).removeprefix('GASNET_OFI_').lower()}-of-{name}",
            unless(facts.get(label) == text, f"{environment}: {facts}"),
        )
    unknown = providers(GASNET_OFI_DEVICE="nic9")[tcp]["use"]
    check(
        "providers-unknown-device",
        unless("GASNET_OFI_DEVICE=nic9: no such device. libfabric has " in unknown, unknown),
        unless(f"lo ({tcp})" in unknown, unknown),
    )
    status, text = run("-p")
    check("providers-text", unless(status == 0 and f"\n{tcp}\n  use " in text, f"status {status}: {text}"))


def main():
    """Everything."""
    for test in (
        test_forms,
        test_numbers,
        test_changed_limits,
        test_surroundings,
        test_full_device,
        test_libraries,
        test_providers,
    ):
        try:
            test()
        except (
            OSError,
            RuntimeError,
            KeyError,
            ValueError,
            subprocess.SubprocessError,
        ) as error:
            check(test.__name__.removeprefix("test_"), f"{type(error).__name__}: {error}")
    sys.exit(1 if failed else 0)


main()
