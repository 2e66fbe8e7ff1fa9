#!/bin/sh
# setup.sh [build] [all] [cluster] [rdma]: installs the Debian packages that building and testing
# need and that are missing, ruff, which Debian 12 has no package of, in $BUILD/ruff, cbindgen in
# $BUILD/cbindgen, and bindgen in $BUILD/bindgen. "build" leaves out what only tests need, "all"
# adds what only `make check-all` needs (also cargo-deny in $BUILD/cargo-deny),
# "cluster" the ssh server and the process managers of scripts/cluster (20 MB to fetch, 83 MB on
# disk), "rdma" the virtual machine of scripts/rdma-vm. When nothing is missing it uses no network.
# Rust itself must be installed already (by rustup, or any toolchain from the version in Cargo.toml
# on).
set -eu

# The layout of Python differs between releases of ruff.
RUFF_VERSION=0.17.6
# Pinned, so that the check does not change with a release.
CBINDGEN_VERSION=0.29.2
BINDGEN_VERSION=0.71.1
CARGO_DENY_VERSION=0.18.3
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
BUILD=${BUILD:-$root/build}

# Daemons lie in folders that an ordinary user's PATH need not have.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
missing=
# need COMMAND PACKAGE
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need gcc gcc
need g++ g++
need ld binutils
need pkg-config pkg-config
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
tests=1 everything='' rdma=
for more; do
    case $more in
    build) tests= ;;
    all)
        everything=1
        need dpkg-buildpackage dpkg-dev
        need dh debhelper
        need lintian lintian
        need fakeroot fakeroot
        ;;
    cluster)
        need ip iproute2
        need nft nftables
        need ssh openssh-client
        need sshd openssh-server
        need munged munge
        need slurmctld slurmctld
        need slurmd slurmd
        need srun slurm-client
        need mpiexec.hydra mpich
        need mpirun.openmpi openmpi-bin
        need mpicc.mpich libmpich-dev
        need mpicc.openmpi libopenmpi-dev
        # Login shells that read a command line in other ways than sh does.
        need tcsh tcsh
        need fish fish
        # Slurm's plugin for PMIx loads the library by the name that only this package has.
        [ -n "$(find /usr/lib/*/pmix2/lib -name libpmix.so -print -quit 2>/dev/null)" ] ||
            missing="$missing libpmix-dev"
        ;;
    rdma)
        rdma=1
        need qemu-system-x86_64 qemu-system-x86
        need depmod kmod
        need xz xz-utils
        need rdma iproute2
        [ -n "$(find /usr/lib -path '*/libibverbs/librxe-*' -print -quit)" ] || missing="$missing ibverbs-providers"
        ;;
    *)
        echo "setup: '$more' is not known; build, all, cluster and rdma are" >&2
        exit 1
        ;;
    esac
done
if [ -n "$tests" ]; then
    need clang clang
    need valgrind valgrind
    need cmake cmake
    need abidiff abigail-tools
    need setpriv util-linux
    need python3 python3
    need gdb gdb
    need ps procps
    need git git
    need chromium chromium
    need mandoc mandoc
    need shellcheck shellcheck
    need ibv_rc_pingpong ibverbs-utils
    need clang-format clang-format
    # libfabric for tests of the ofi conduit; its headers for the check of the bindings.
    [ -n "$(find /usr/lib /usr/local/lib -name 'libfabric.so.1' -print -quit 2>/dev/null)" ] ||
        missing="$missing libfabric1"
    [ -e /usr/include/rdma/fabric.h ] || missing="$missing libfabric-dev"
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
    # The header check also uses clang's sanitizers; its library lies in a folder that
    # print-runtime-dir only guesses.
    [ -n "$(find /usr/lib/llvm-* /usr/lib/clang -name 'libclang_rt.asan*.a' -print -quit 2>/dev/null)" ] ||
        missing="$missing libclang-rt-dev"
    # The header check compiles for AArch64.
    [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing="$missing libc6-dev-arm64-cross"
fi
# The headers of libibverbs for tests of its emulator, on SoftRoCE and of the bindings, and its
# library to compare with.
[ -z "$tests$rdma" ] || [ -e /usr/include/infiniband/verbs.h ] || missing="$missing libibverbs-dev"

if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: cargo is not on PATH; install Rust first (https://rustup.rs)" >&2
    exit 1
fi
# Formatting and linting are components of rustup toolchains.
if [ -n "$tests" ] && command -v rustup >/dev/null 2>&1; then
    for component in rustfmt clippy; do
        cargo "$(echo "$component" | sed 's/rustfmt/fmt/')" --version >/dev/null 2>&1 ||
            rustup component add "$component"
    done
fi
# Only lint needs it: without a network all else goes on.
install_ruff() {
    [ -n "$tests" ] || return 0
    "$BUILD/ruff/bin/ruff" --version 2>/dev/null | grep -qx "ruff $RUFF_VERSION" && return
    echo "setup: installing ruff $RUFF_VERSION in $BUILD/ruff"
    { python3 -m venv "$BUILD/ruff" &&
        "$BUILD/ruff/bin/pip" install -q --disable-pip-version-check "ruff==$RUFF_VERSION"; } ||
        echo "setup: without ruff $RUFF_VERSION from PyPI the step lint fails" >&2
}
# install_crate PACKAGE COMMAND VERSION STEP: in $BUILD/COMMAND. Only that step needs it. Without
# optimisation it compiles in a quarter of the time.
install_crate() {
    [ -n "$tests" ] || return 0
    "$BUILD/$2/bin/$2" --version 2>/dev/null | grep -qx "$2 $3" && return
    echo "setup: installing $2 $3 in $BUILD/$2 (a minute or two)"
    CARGO_TARGET_DIR=$BUILD/$2/target cargo install --quiet --locked --debug --root "$BUILD/$2" \
        --version "$3" "$1" ||
        echo "setup: without $2 $3 from crates.io the step $4 fails" >&2
    rm -rf "$BUILD/$2/target"
}
install_tools() {
    install_ruff
    install_crate cbindgen cbindgen "$CBINDGEN_VERSION" prototypes
    install_crate bindgen-cli bindgen "$BINDGEN_VERSION" prototypes
    [ -z "$everything" ] || install_crate cargo-deny cargo-deny "$CARGO_DENY_VERSION" lint
    [ -z "$rdma" ] || "$root/scripts/rdma-vm/setup.sh"
}
if [ -z "$missing" ]; then
    install_tools
    exit 0
fi

echo "setup: installing$missing"
if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1; then
    as_root=sudo
else
    echo "setup: needs root or sudo to install:$missing" >&2
    exit 1
fi
# Another package manager may be at work: wait for its lock, and begin again when it has emptied the
# folder of downloaded packages.
# Tests start daemons of their own: those of the packages run neither now (policy-rc.d, which we
# take away again) nor when the machine starts.
install() {
    # shellcheck disable=SC2086 # several words
    $as_root env DEBIAN_FRONTEND=noninteractive sh -c '
        policy=/usr/sbin/policy-rc.d
        case " $* " in *" openssh-server "* | *" munge "* | *" slurmd "* | *" slurmctld "*)
            if [ ! -e $policy ] || grep -q "scripts/setup.sh" $policy; then
                trap "rm -f $policy" EXIT
                trap "exit 1" HUP INT TERM
                printf "#!/bin/sh\n# Written by scripts/setup.sh of libgasnet, which should have removed it.\nexit 101\n" >$policy
                chmod 755 $policy
            fi
            ;;
        esac
        apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 update &&
        apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 install --no-install-recommends "$@" || exit
        for package; do
            case $package in
            openssh-server) unit=ssh ;;
            munge | slurmd | slurmctld) unit=$package ;;
            *) continue ;;
            esac
            ! command -v systemctl >/dev/null || systemctl --quiet disable $unit || exit
        done' sh $missing
}
for attempt in 1 2 3; do
    if install; then
        install_tools
        exit 0
    fi
    echo "setup: apt-get failed (attempt $attempt of 3)" >&2
    sleep 5
done
exit 1
