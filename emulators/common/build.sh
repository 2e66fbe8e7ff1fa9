#!/bin/sh
# build.sh EMULATOR LIBRARY MAP FOLDER: builds an emulator into FOLDER as LIBRARY, with the exports
# of MAP in the emulator's folder. CC: the compiler; CARGO_TARGET_DIR: where cargo works. Rust's own
# list of exports would clash with the versions of a map, so the C compiler links.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")/../$1" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../build/emulators/target}
cargo build --quiet --locked --manifest-path "$here/Cargo.toml" --target-dir "$target" --profile program --lib
mkdir -p "$4"
# shellcheck disable=SC2086 # CC may have options
${CC:-gcc} -shared -o "$4/.$2.$$" -Wl,-soname,"$2" -Wl,-z,defs -Wl,--gc-sections -Wl,--version-script="$here/$3" \
    -Wl,--whole-archive "$target/program/libemulator_$1.a" -Wl,--no-whole-archive -lgcc_s -lpthread -ldl -lm -lc
mv "$4/.$2.$$" "$4/$2"
