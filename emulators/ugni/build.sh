#!/bin/sh
# build.sh FOLDER: builds the emulator of uGNI into FOLDER, as libugni.so.0 with the link
# libugni.so. CC: the compiler; CARGO_TARGET_DIR: where cargo works.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../build/emulators/target}
cargo build --quiet --locked --manifest-path "$here/Cargo.toml" --target-dir "$target" --profile program --lib
mkdir -p "$1"
# shellcheck disable=SC2086 # CC may have options
${CC:-gcc} -shared -o "$1/.libugni.$$" -Wl,-soname,libugni.so.0 -Wl,-z,defs -Wl,--gc-sections \
    -Wl,--version-script="$here/libugni.map" \
    -Wl,--whole-archive "$target/program/libemulator_ugni.a" -Wl,--no-whole-archive -lgcc_s -lpthread -ldl -lm -lc
mv "$1/.libugni.$$" "$1/libugni.so.0"
ln -sf libugni.so.0 "$1/libugni.so"
