#!/bin/sh
# build.sh FOLDER: builds the emulator of Elan into FOLDER, as libgasnet_elan_shim.so.
exec "$(dirname -- "$0")/../common/build.sh" elan libgasnet_elan_shim.so libgasnet_elan_shim.map "$1"
