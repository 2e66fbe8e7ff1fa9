#!/bin/sh
# setup.sh [all]: installs the Debian packages that building and testing need and that are missing; "all" adds what only `make check-all` needs.
# With all there it does nothing and uses no network. Rust itself must be there already (rustup, or any toolchain from the version in Cargo.toml on).
set -eu

missing=
# need COMMAND PACKAGE
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need gcc gcc
need g++ g++
need ld binutils
need clang clang
need pkg-config pkg-config
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
if [ "${1:-}" = all ]; then
    need dpkg-buildpackage dpkg-dev
    need dh debhelper
    need lintian lintian
    need fakeroot fakeroot
fi
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
# The header check also uses clang's sanitizers; its library lies in a folder that print-runtime-dir only guesses.
[ -n "$(find /usr/lib/llvm-* /usr/lib/clang -name 'libclang_rt.asan*.a' -print -quit 2>/dev/null)" ] || missing="$missing libclang-rt-dev"

if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: cargo is not on PATH; install Rust first (https://rustup.rs)" >&2
    exit 1
fi
# Formatting and linting are components of rustup toolchains.
if command -v rustup >/dev/null 2>&1; then
    for component in rustfmt clippy; do
        cargo "$(echo "$component" | sed 's/rustfmt/fmt/')" --version >/dev/null 2>&1 || rustup component add "$component"
    done
fi
[ -n "$missing" ] || exit 0

echo "setup: installing$missing"
if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1; then
    as_root=sudo
else
    echo "setup: needs root or sudo to install:$missing" >&2
    exit 1
fi
# Another package manager may be at work: wait for its lock, and begin again when it has emptied the folder of downloaded packages.
install() {
    # shellcheck disable=SC2086 # several words
    $as_root env DEBIAN_FRONTEND=noninteractive sh -c '
        apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 update &&
        apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 install --no-install-recommends "$@"' sh $missing
}
for attempt in 1 2 3; do
    install && exit 0
    echo "setup: apt-get failed (attempt $attempt of 3)" >&2
    sleep 5
done
exit 1
