#!/bin/sh
# target.sh MACHINE: Rust's target for a machine with Linux, named as autotools and the packages of
# its compiler do it (aarch64-linux-gnu). That of this machine, if the processor is the same: names
# like x86_64-cnl-linux-gnu, for the compute nodes of a Cray, are not Rust's.
# target.sh --machine TARGET: the other way round; nothing, if the processor is this machine's.
set -eu

if [ "$1" = --machine ]; then
    processor=${2%%-*}
    [ "$processor" != "$(uname -m)" ] || exit 0
    [ "$processor" != riscv64gc ] || processor=riscv64
    echo "$processor-linux-${2##*-}"
    exit 0
fi
fail() { echo "CROSS, --host or --target is $machine: $*" >&2; exit 1; }
machine=$1 rustc=${RUSTC:-rustc}
case $machine in
*-*linux*) ;;
*) fail "a machine with Linux is expected, such as x86_64-linux-gnu" ;;
esac
processor=${machine%%-*}
case $processor in
amd64) processor=x86_64 ;;
arm64) processor=aarch64 ;;
ppc64le) processor=powerpc64le ;;
riscv64) processor=riscv64gc ;;
esac
target=$processor-unknown-linux-gnu
host=$("$rustc" -vV | sed -n 's/^host: //p')
[ "$processor" != "${host%%-*}" ] || target=$host
"$rustc" --print target-list | grep -qx "$target" ||
    fail "Rust has no target $target; name one with CARGO_BUILD_TARGET"
"$rustc" --print cfg --target "$target" | grep -qx 'target_pointer_width="64"' ||
    fail "libgasnet needs a machine of 64 bits"
echo "$target"
