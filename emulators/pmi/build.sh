#!/bin/sh
# build.sh FOLDER: builds the emulator of Cray's PMI into FOLDER, as libpmi.so.0, with the launcher
# aprun, which is srun, too. CC: the compiler.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
# shellcheck disable=SC2086 # CC may have options
${CC:-gcc} -O2 -Wall -Wextra -shared -fPIC -I"$here/include" -Wl,-soname,libpmi.so.0 -o "$1/.libpmi.$$" "$here/pmi.c"
mv "$1/.libpmi.$$" "$1/libpmi.so.0"
ln -sf libpmi.so.0 "$1/libpmi.so"
cp "$here/aprun" "$1/aprun"
ln -sf aprun "$1/srun"
