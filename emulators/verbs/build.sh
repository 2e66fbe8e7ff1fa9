#!/bin/sh
# build.sh FOLDER: builds the emulator of verbs into FOLDER, as libibverbs.so.1.
exec "$(dirname -- "$0")/../common/build.sh" verbs libibverbs.so.1 libibverbs.map "$1"
