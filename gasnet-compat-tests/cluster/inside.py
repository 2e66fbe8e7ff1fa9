#!/usr/bin/env python3
"""The inside of `hosts.py`: process 1 of the container, and the construction of the hosts in it.
Started by `hosts.py` in namespaces of its own (network, mounts, host name, IPC, processes);
everything that it makes ends with it: interfaces, mounts, files in /run, processes.

    inside.py PLAN LIFELINE CONTROL MARK

PLAN is JSON. LIFELINE is a descriptor of the process outside: when that has ended, or has closed
its end of the socket CONTROL, this one ends, and the kernel ends all others. Over CONTROL go
messages: {"host": n} from each host's process 1 (whose number outside comes with it), {"ready":
true}, or {"error": "…"}. MARK only makes the process findable by its command line."""

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import uuid

BASE = "/run/cluster"
LIBC = ctypes.CDLL(None, use_errno=True)
NEW_MOUNT, NEW_UTS, NEW_IPC, NEW_PID, NEW_NET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
NOSUID, NODEV, NOEXEC, BIND, MOVE, RECURSIVE = 2, 4, 8, 0x1000, 0x2000, 0x4000
START_SECONDS = 60
# The router's address on each cable, by "is IPv6".
ROUTER = {False: "169.254.1.1", True: "fe80::1"}


def call(name, *arguments):
    """A system call by its C name; failure is an OSError."""
    if getattr(LIBC, name)(*arguments) != 0:
        code = ctypes.get_errno()
        shown = ", ".join(a.decode() if isinstance(a, bytes) else str(a) for a in arguments)
        raise OSError(code, f"{name}({shown}): {os.strerror(code)}")


def mount(source, target, kind=None, flags=0, data=None):
    """mount(2)."""
    words = [None if w is None else os.fsencode(w) for w in (source, target, kind)]
    call("mount", *words, ctypes.c_ulong(flags), None if data is None else data.encode())


def bind_text(text, path, target):
    """Writes `text` to `path`, and mounts it over `target` if that exists."""
    write(path, text)
    if os.path.exists(target):
        mount(path, os.path.realpath(target), flags=BIND)


def write(path, text, mode=0o644, owner=0):
    """A file with this content."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    os.chown(path, owner, -1)


def command(words, text=None):
    """Runs a command; its failure is an error with its output."""
    result = subprocess.run(
        words, input=text, capture_output=True, text=True, stdin=None if text else subprocess.DEVNULL
    )
    if result.returncode != 0:
        raise RuntimeError(
            f"{' '.join(words)} ended with {result.returncode}: {(result.stderr or result.stdout).strip()}"
        )
    return result.stdout


def ip(*lines):
    """Several `ip` commands in the present network namespace."""
    command(["ip", "-batch", "-"], "\n".join(lines) + "\n")


def setting(name, value):
    """A kernel setting of this network namespace; one that the kernel lacks is left out."""
    path = "/proc/sys/net/" + name
    if os.path.exists(path):
        with open(path, "w", encoding="ascii") as file:
            file.write(str(value))


def tell(control, **message):
    """A message to the process outside."""
    control.send(json.dumps(message).encode())


def reap_until(watched):
    """Process 1's work: collects processes that ended, until one of the descriptors has something
    to say."""
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    poll = select.poll()
    for descriptor in [wake, *watched]:
        poll.register(descriptor, select.POLLIN)
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            pass
        ready = {descriptor for descriptor, _ in poll.poll()}
        if ready - {wake}:
            return
        os.read(wake, 4096)


def users(plan):
    """(name, number, home) of those who can log in: root, and the tests' user."""
    return [(name, number, f"{BASE}/home/{name}") for name, number in [["root", 0], plan["user"]]]


def accounts(plan):
    """The machine's accounts with homes of the container's own, a shell for the tests' user, and
    nobody locked."""
    homes = {name: home for name, _, home in users(plan)}
    passwd, shadow = [], []
    with open("/etc/passwd", encoding="utf-8") as file:
        for line in file.read().splitlines():
            fields = line.split(":")
            if fields[0] in homes:
                fields[5:] = [homes[fields[0]], "/bin/sh" if fields[0] != "root" else fields[6]]
            passwd.append(":".join(fields))
            shadow.append(f"{fields[0]}:*:19000:0:99999:7:::")
    bind_text("\n".join(passwd) + "\n", f"{BASE}/etc/passwd", "/etc/passwd")
    bind_text("\n".join(shadow) + "\n", f"{BASE}/etc/shadow", "/etc/shadow")
    os.chmod(f"{BASE}/etc/shadow", 0o600)


def keys(plan):
    """Homes; one key pair that opens every host to its users; a host key each, all known to
    everybody."""
    for _, number, home in users(plan):
        os.makedirs(f"{home}/.ssh", mode=0o700)
        for folder in (home, f"{home}/.ssh"):
            os.chown(folder, number, -1)
    if not plan["ssh"]:
        return
    generate = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "cluster", "-f"]
    os.makedirs(f"{BASE}/ssh")
    command([*generate, f"{BASE}/ssh/id"])
    known = ""
    for host in plan["hosts"]:
        key = f"{BASE}/ssh/{host['name']}"
        command([*generate, key])
        with open(key + ".pub", encoding="ascii") as file:
            known += f"{','.join([host['name'], *host['addresses']])} {' '.join(file.read().split()[:2])}\n"
    for _, number, home in users(plan):
        with open(f"{BASE}/ssh/id", encoding="ascii") as file:
            write(f"{home}/.ssh/id_ed25519", file.read(), 0o600, number)
        write(f"{home}/.ssh/known_hosts", known, 0o600, number)
        write(f"{home}/.ssh/config", "BatchMode yes\n", 0o600, number)
    bind_text("", f"{BASE}/ssh/ssh_config", "/etc/ssh/ssh_config")


def sshd_configuration(host):
    """Keys only, no questions, no records on the machine, as many connections at a time as a job
    opens."""
    return f"""Port 22
HostKey {BASE}/ssh/{host["name"]}
PidFile none
AuthorizedKeysFile {BASE}/ssh/id.pub
AuthenticationMethods publickey
PermitRootLogin prohibit-password
PermitUserEnvironment no
UsePAM no
UseDNS no
PrintLastLog no
PrintMotd no
MaxStartups 1000
MaxSessions 1000
SetEnv TMPDIR={BASE}/tmp
"""


def private_folders(plan, host):
    """Gives this host's mount namespace what a machine has of its own: /run, a folder for temporary
    files, shared memory, logs, the network's part of /sys, names and identity. BASE itself is the
    same folder on all hosts, as a file server's would be."""
    stage = f"{BASE}/stage/{host['name']}"
    os.makedirs(stage)
    mount("tmpfs", stage, "tmpfs", NOSUID | NODEV, "mode=755")
    os.makedirs(stage + BASE[len("/run") :])
    os.mkdir(stage + "/sshd", 0o755)
    mount(BASE, stage + BASE[len("/run") :], flags=BIND)
    mount(stage, "/run", flags=MOVE)
    for target, mode in ((f"{BASE}/tmp", "1777"), (os.path.realpath("/dev/shm"), "1777"), ("/var/log", "755")):
        mount("tmpfs", target, "tmpfs", NOSUID | NODEV, f"mode={mode}")
    mount("/sys/fs/cgroup", stage, flags=BIND | RECURSIVE)
    mount("sysfs", "/sys", "sysfs", NOSUID | NODEV | NOEXEC)
    mount(stage, "/sys/fs/cgroup", flags=MOVE)
    own = f"{BASE}/etc/{host['name']}"
    names = plan["names"]
    if plan["own_name_is_loopback"]:
        others = (line for line in names.splitlines() if line.split()[1] != host["name"])
        names = f"127.0.1.1 {host['name']}.cluster {host['name']}\n" + "".join(
            f"{line} {line.split()[1]}.cluster\n" for line in others
        )
    bind_text("127.0.0.1 localhost\n::1 localhost ip6-localhost\n" + names, f"{own}/hosts", "/etc/hosts")
    bind_text(host["name"] + "\n", f"{own}/hostname", "/etc/hostname")
    if plan["own_identity"]:
        bind_text(uuid.uuid4().hex + "\n", f"{own}/machine-id", "/etc/machine-id")


def connect_host(plan, host):
    """This network namespace's interfaces: loopback, and one cable to each of the container's
    bridges (in the namespace of process 1)."""
    for part in ("all", "default"):
        # No waiting until an address is proved to be unique; addresses stay when a link goes.
        for name, value in (("accept_dad", 0), ("keep_addr_on_down", 1), ("disable_ipv6", 0 if plan["ipv6"] else 1)):
            setting(f"ipv6/conf/{part}/{name}", value)
    lines = ["link set lo up"]
    for number in range(plan["networks"]):
        lines.append(
            f"link add eth{number} mtu {plan['mtu']} type veth "
            f"peer name {host['name']}-{number} mtu {plan['mtu']} netns 1"
        )
        lines.append(f"link set eth{number} up")
        for address in host["networks"][number]:
            six = ":" in address
            length = (128 if six else 32) if plan["routed"] else (64 if six else 16)
            lines.append(f"address add {address}/{length} dev eth{number}" + " nodad" * six)
            if plan["routed"]:
                lines.append(f"route add {net(number, six)} via {ROUTER[six]} dev eth{number} onlink")
    ip(*lines)


def net(number, six):
    """All addresses of a network."""
    return f"fd{77 + number}::/64" if six else f"10.{77 + number}.0.0/16"


def bridges(plan):
    """Makes the switches that join the hosts: a bridge for each network. The other ends of the
    cables need no address on it."""
    setting("ipv6/conf/default/disable_ipv6", 1)
    ip(
        "link set lo up",
        *(
            line
            for n in range(plan["networks"])
            for line in (
                f"link add bridge{n} mtu {plan['mtu']} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                f"link set bridge{n} up",
            )
        ),
    )


def router(plan):
    """Makes the router that joins the hosts. It has an address of its own, from which it
    reports."""
    for name, value in (("ipv4/ip_forward", 1), ("ipv6/conf/default/accept_dad", 0), ("ipv6/conf/all/forwarding", 1)):
        setting(name, value)
    own = ["10.77.255.254/32"] + ["fd77::ffff/128 nodad"] * plan["ipv6"]
    ip("link set lo up", *(f"address add {address} dev lo" for address in own))


def plug(plan):
    """Plugs the cables in."""
    lines = []
    for host in plan["hosts"]:
        for number in range(plan["networks"]):
            port = f"{host['name']}-{number}"
            if not plan["routed"]:
                lines.append(f"link set {port} master bridge{number} up")
                continue
            lines.append(f"link set {port} up")
            for six in {":" in address for address in host["networks"][number]}:
                lines.append(f"address add {ROUTER[six]}{'/64 nodad' if six else '/32'} dev {port}")
            lines += [f"route add {address} dev {port}" for address in host["networks"][number]]
    ip(*lines)


def start_sshd(host):
    """An ssh server; returns once it listens."""
    path = f"{BASE}/etc/{host['name']}/sshd_config"
    write(path, sshd_configuration(host))
    log = f"/var/log/sshd-{host['name']}.log"
    process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", path, "-E", log], stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", 22)) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            with open(log, encoding="utf-8", errors="replace") as file:
                raise RuntimeError(f"sshd on {host['name']} does not listen: {file.read().strip()}")
        time.sleep(0.01)


def host_process(plan, host, control):
    """Process 1 of one host: never returns."""
    mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
    if plan["own_identity"]:
        bind_text(f"{uuid.uuid4()}\n", f"{BASE}/etc/{host['name']}/boot_id", "/proc/sys/kernel/random/boot_id")
    if plan["ssh"]:
        start_sshd(host)
    tell(control, host=host["number"])
    reap_until([])


def build_host(plan, host, control):
    """In a process of its own: makes the host's namespaces, its network and folders, and its
    process 1. The namespace of processes comes last, since `ip` names the bridges' namespace by a
    process of this one."""
    call("unshare", NEW_MOUNT | NEW_UTS | NEW_IPC | NEW_NET)
    socket.sethostname(host["name"])
    connect_host(plan, host)
    private_folders(plan, host)
    call("unshare", NEW_PID)
    if os.fork() == 0:
        guarded(control, host_process, plan, host, control)


def guarded(control, work, *arguments):
    """Runs `work` in a forked process, which then ends; reports its errors."""
    try:
        work(*arguments)
    except BaseException as error:  # whatever it was: the process must end here
        tell(control, error=f"{type(error).__name__}: {error}")
        os._exit(1)
    os._exit(0)


def build(plan, control):
    """The container: its /run and accounts, the bridges, all hosts at a time, their cables plugged
    in."""
    mount("tmpfs", "/run", "tmpfs", NOSUID | NODEV, "mode=755")
    for folder in (BASE, f"{BASE}/tmp", f"{BASE}/stage"):
        os.mkdir(folder)
    accounts(plan)
    keys(plan)
    if os.path.exists("/etc/resolv.conf"):
        bind_text("", f"{BASE}/etc/resolv.conf", "/etc/resolv.conf")
    (router if plan["routed"] else bridges)(plan)
    builders = []
    for host in plan["hosts"]:
        pid = os.fork()
        if pid == 0:
            guarded(control, build_host, plan, host, control)
        builders.append(pid)
    if any(os.waitpid(pid, 0)[1] != 0 for pid in builders):
        raise RuntimeError("not all hosts could be made")
    plug(plan)
    tell(control, ready=True)


def main():
    """Process 1."""
    plan, lifeline = json.loads(sys.argv[1]), int(sys.argv[2])
    control = socket.socket(fileno=int(sys.argv[3]))
    for descriptor in (lifeline, control.fileno()):
        os.set_inheritable(descriptor, False)
    mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
    if os.fork() == 0:
        guarded(control, build, plan, control)
    reap_until([lifeline, control.fileno()])


if __name__ == "__main__":
    main()
