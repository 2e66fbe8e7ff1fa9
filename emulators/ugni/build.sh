#!/bin/sh
# build.sh FOLDER: builds the emulator of uGNI into FOLDER, as libugni.so.0 with the link
# libugni.so.
set -eu
"$(dirname -- "$0")/../common/build.sh" ugni libugni.so.0 libugni.map "$1"
ln -sf libugni.so.0 "$1/libugni.so"
