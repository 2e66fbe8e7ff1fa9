#!/bin/sh
# build.sh FOLDER: builds the emulator of verbs into FOLDER, as libibverbs.so.1. CC: the compiler;
# CARGO_TARGET_DIR: where cargo works. Rust's own list of exports would clash with the versions of
# libibverbs.map, so the C compiler links.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../build/emulators/target}
cargo build --quiet --locked --manifest-path "$here/Cargo.toml" --target-dir "$target" --profile program --lib
mkdir -p "$1"
# shellcheck disable=SC2086 # CC may have options
${CC:-gcc} -shared -o "$1/.libibverbs.$$" -Wl,-soname,libibverbs.so.1 -Wl,-z,defs -Wl,--gc-sections \
    -Wl,--version-script="$here/libibverbs.map" \
    -Wl,--whole-archive "$target/program/libemulator_verbs.a" -Wl,--no-whole-archive -lgcc_s -lpthread -ldl -lc
mv "$1/.libibverbs.$$" "$1/libibverbs.so.1"
