#!/bin/sh
# build.sh FOLDER: builds the emulator of Elan into FOLDER, as libgasnet_elan_shim.so. CC: the
# compiler; CARGO_TARGET_DIR: where cargo works.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../build/emulators/target}
cargo build --quiet --locked --manifest-path "$here/Cargo.toml" --target-dir "$target" --profile program --lib
mkdir -p "$1"
# shellcheck disable=SC2086 # CC may have options
${CC:-gcc} -shared -o "$1/.libgasnet_elan_shim.$$" -Wl,-soname,libgasnet_elan_shim.so -Wl,-z,defs -Wl,--gc-sections \
    -Wl,--version-script="$here/libgasnet_elan_shim.map" \
    -Wl,--whole-archive "$target/program/libemulator_elan.a" -Wl,--no-whole-archive -lgcc_s -lpthread -ldl -lm -lc
mv "$1/.libgasnet_elan_shim.$$" "$1/libgasnet_elan_shim.so"
