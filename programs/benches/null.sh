#!/bin/sh
# null.sh [PREFIX] [ROUNDS]: what the runtime itself adds to an operation of the network
# (programs/benches/null.c). PREFIX has an installation with conduit null, by default
# build/null:
#   make install CONDUITS=null PREFIX=$PWD/build/null
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
prefix=${1:-$root/build/null}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
# shellcheck disable=SC2046 # flags are words
${CC:-cc} -O2 $(pkg-config --cflags gasnet-null-par) -o "$work/null" "$root/programs/benches/null.c" \
    $(pkg-config --libs gasnet-null-par)
GASNET_SUPERNODE_MAXSIZE=1 "$prefix/bin/gasnetrun_null" -n 2 "$work/null" "${2:-20000}"
