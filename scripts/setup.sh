#!/bin/sh
# setup.sh [build|check|lint|all] [cluster] [rdma]: installs the Debian packages that are missing:
# for building, for `make check` (the default), for `make lint`, for `make check-all`. "lint" and
# "all" also install ruff, which Debian 12 has no package of, in $BUILD/ruff, and "all" cbindgen,
# bindgen, cargo-deny, cargo-mutants, EasyBuild, rattler-build, four versions of libfabric and three
# MPIs likewise (430 MB to fetch, 640 MB on disk). "cluster" adds the ssh server and the process
# managers of gasnet-compat-tests/cluster (20 MB to fetch, 83 MB on disk), "rdma" the virtual
# machine of scripts/rdma-vm. When nothing is missing it uses no network. Rust itself must be
# installed already (by rustup, or any toolchain from the version in Cargo.toml on).
# SETUP=0: installs nothing, and names what is missing.
set -eu

# The layout of Python differs between releases of ruff.
RUFF_VERSION=0.17.6
# Pinned, so that the check does not change with a release.
CBINDGEN_VERSION=0.29.2
BINDGEN_VERSION=0.71.1
CARGO_DENY_VERSION=0.18.3
CARGO_MUTANTS_VERSION=25.3.1
EASYBUILD_VERSION=5.4.1
RATTLER_BUILD_VERSION=0.73.0
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
BUILD=${BUILD:-$root/build}

# Daemons are in folders that an ordinary user's PATH may lack.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
missing=
# need COMMAND PACKAGE
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
# need_file PACKAGE NAME FOLDER...: a file of this name in one of the folders.
need_file() {
    _package=$1 _name=$2
    shift 2
    [ -n "$(find "$@" -name "$_name" -print -quit 2>/dev/null)" ] || missing="$missing $_package"
}
build() {
    need gcc gcc
    need g++ g++
    need ld binutils
    need pkg-config pkg-config
    [ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
}
# The tests of the library.
check() {
    need cmake cmake
    need setpriv util-linux
    need python3 python3
    need pytest-3 python3-pytest
    need_file python3-pytest-xdist xdist /usr/lib/python3 /usr/local/lib
    need gdb gdb
    need ps procps
    need git git
    need mandoc mandoc
    need ibv_rc_pingpong ibverbs-utils
    # The headers of libibverbs for tests of its emulator, and its library to compare with.
    [ -e /usr/include/infiniband/verbs.h ] || missing="$missing libibverbs-dev"
    # libfabric's headers, for a program that attacks jobs.
    need_file libfabric1 libfabric.so.1 /usr/lib /usr/local/lib
    [ -e /usr/include/rdma/fabric.h ] || missing="$missing libfabric-dev"
    need_file libucx0 libucp.so.0 /usr/lib /usr/local/lib
    # An MPI, with its launcher.
    need mpiexec.hydra mpich
}
lint() {
    need python3 python3
    need git git
    need shellcheck shellcheck
    need clang-format clang-format
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
}
# Browsers, other compilers, packaging.
everything() {
    need clang clang
    need valgrind valgrind
    need chromium chromium
    # Programs that run on the emulated verbs.
    need ib_send_bw perftest
    need ucx_perftest ucx-utils
    # UCX's headers, with which the bindings of conduit-ucx are compared.
    [ -e /usr/include/ucp/api/ucp.h ] || missing="$missing libucx-dev"
    # MPIs, whose headers the tables of conduit-mpi are compared with.
    need mpicc.mpich libmpich-dev
    need mpirun.openmpi openmpi-bin
    need mpicc.openmpi libopenmpi-dev
    need dpkg-buildpackage dpkg-dev
    need dh debhelper
    need lintian lintian
    need fakeroot fakeroot
    # Tools of other systems, which read the recipes for them.
    need rpmbuild rpm
    need rpmlint rpmlint
    [ -x /usr/share/lmod/lmod/libexec/lmod ] || missing="$missing lmod"
    # The header check also uses clang's sanitizers; its library lies in a folder that
    # print-runtime-dir only guesses.
    need_file libclang-rt-dev 'libclang_rt.asan*.a' /usr/lib/llvm-* /usr/lib/clang
    # The header check compiles for AArch64.
    [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing="$missing libc6-dev-arm64-cross"
}
cluster() {
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
    # Login shells that parse a command line differently from sh.
    need tcsh tcsh
    need fish fish
    # Slurm's plugin for PMIx loads the library by the name that only this package has.
    need_file libpmix-dev libpmix.so /usr/lib/*/pmix2/lib
}
rdma() {
    need qemu-system-x86_64 qemu-system-x86
    need depmod kmod
    need xz xz-utils
    need rdma iproute2
    need_file ibverbs-providers 'librxe-*' /usr/lib/*/libibverbs
    [ -e /usr/include/infiniband/verbs.h ] || missing="$missing libibverbs-dev"
}
case " $* " in
*" build "* | *" check "* | *" lint "* | *" all "*) ;;
*) set -- check "$@" ;;
esac
build
for part; do
    case $part in
    build) ;;
    check | lint | cluster | rdma) "$part" ;;
    all) check && lint && everything ;;
    *) echo "setup: '$part' is not known; build, check, lint, all, cluster and rdma are" >&2; exit 2 ;;
    esac
done
# has PART: whether this part was requested.
has() { case " $parts " in *" $1 "*) ;; *) return 1 ;; esac; }
parts=$*
# Two parts may need the same package.
# shellcheck disable=SC2086 # several words
missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
missing=${missing% }

if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: cargo is not on PATH; install Rust first (https://rustup.rs)" >&2
    exit 1
fi
if [ "${SETUP:-1}" = 0 ]; then
    for package in gcc g++ binutils libc6-dev python3; do
        case " $missing " in
        *" $package "*) echo "setup: without $package nothing can be built and tested" >&2; exit 1 ;;
        esac
    done
    [ -z "$missing" ] || echo "setup: missing, so some tests are skipped: $missing"
    exit 0
fi
# Formatting and linting are components of rustup toolchains.
if { has lint || has all; } && command -v rustup >/dev/null 2>&1; then
    for component in rustfmt clippy; do
        cargo "$(echo "$component" | sed 's/rustfmt/fmt/')" --version >/dev/null 2>&1 ||
            rustup component add "$component"
    done
fi
# install_python PACKAGE VERSION STEP: from PyPI, in $BUILD/PACKAGE. Only that step needs it, so
# without a network the rest continues.
install_python() {
    _name=$(echo "$1" | tr - _)-$2.dist-info
    [ -z "$(find "$BUILD/$1/lib" -path "*/site-packages/$_name" -print -quit 2>/dev/null)" ] || return 0
    echo "setup: installing $1 $2 in $BUILD/$1"
    { python3 -m venv "$BUILD/$1" && "$BUILD/$1/bin/pip" install -q --disable-pip-version-check "$1==$2"; } ||
        echo "setup: without $1 $2 from PyPI the step $3" >&2
}
# install_crate PACKAGE COMMAND VERSION STEP: in $BUILD/COMMAND. Only that step needs it. Without
# optimisation it compiles in a quarter of the time.
install_crate() {
    "$BUILD/$2/bin/$2" --version 2>/dev/null | grep -qx "$2 $3" && return
    echo "setup: installing $2 $3 in $BUILD/$2 (a minute or two)"
    CARGO_TARGET_DIR=$BUILD/$2/target cargo install --quiet --locked --debug --root "$BUILD/$2" \
        --version "$3" "$1" ||
        echo "setup: without $2 $3 from crates.io the step $4 fails" >&2
    rm -rf "$BUILD/$2/target"
}
install_tools() {
    if has lint || has all; then install_python ruff "$RUFF_VERSION" "lint fails"; fi
    if has all; then
        install_python easybuild "$EASYBUILD_VERSION" "packages skips the easyconfig"
        install_python py-rattler-build "$RATTLER_BUILD_VERSION" "packages skips the recipe for conda"
        env BUILD="$BUILD" "$BUILD/ruff/bin/python" -B "$root/gasnet-compat-tests/support/libfabrics.py" ||
            echo "setup: without these packages of PyPI the step providers skips tests" >&2
        env BUILD="$BUILD" "$BUILD/ruff/bin/python" -B "$root/gasnet-compat-tests/support/mpis.py" ||
            echo "setup: without these packages of PyPI the step mpi skips tests" >&2
        install_crate cbindgen cbindgen "$CBINDGEN_VERSION" prototypes
        install_crate bindgen-cli bindgen "$BINDGEN_VERSION" prototypes
        install_crate cargo-deny cargo-deny "$CARGO_DENY_VERSION" lint
        # It reads the manifests of all platforms' crates, of which a build fetches one platform's.
        cargo fetch --quiet --locked --manifest-path "$root/Cargo.toml" ||
            echo "setup: without all crates of Cargo.lock the step lint fails" >&2
        install_crate cargo-mutants cargo-mutants "$CARGO_MUTANTS_VERSION" mutants
    fi
    if has rdma; then
        "$root/scripts/rdma-vm/setup.sh"
        # Debian's Python may lack pip.
        _python=$BUILD/ruff/bin/python
        [ -x "$_python" ] || _python=python3
        "$_python" -B "$root/scripts/rdma-vm/libibverbs.py" "$BUILD/rdma-vm/libibverbs" ||
            echo "setup: without this package of PyPI the step rdma skips a later libibverbs" >&2
    fi
}
if [ -z "$missing" ]; then
    install_tools
    exit 0
fi

echo "setup: installing $missing"
if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1; then
    as_root=sudo
else
    echo "setup: needs root or sudo to install: $missing" >&2
    exit 1
fi
# Another package manager may be running: wait for its lock, and retry if it has emptied the folder
# of downloaded packages. Tests start their own daemons. Those of the packages start neither now
# (policy-rc.d, removed afterwards) nor at boot.
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
