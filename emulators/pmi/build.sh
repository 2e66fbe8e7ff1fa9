#!/bin/sh
# build.sh FOLDER: builds the emulator of Cray's PMI into FOLDER: libpmi.so.0 with the link
# libpmi.so, and the launcher aprun with the links srun, prun and rinfo (which nobody runs: it shows
# gasnetrun that prun is RMS's). CARGO_TARGET_DIR: where cargo works.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../build/emulators/target}
cargo build --quiet --locked --manifest-path "$here/Cargo.toml" --target-dir "$target" --profile program
mkdir -p "$1"
for file in libemulator_pmi.so:libpmi.so.0 aprun:aprun; do
    cp "$target/program/${file%:*}" "$1/.${file#*:}.$$"
    mv "$1/.${file#*:}.$$" "$1/${file#*:}"
done
ln -sf libpmi.so.0 "$1/libpmi.so"
for name in srun prun rinfo; do ln -sf aprun "$1/$name"; done
