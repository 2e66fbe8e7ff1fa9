#!/bin/sh
# build.sh FOLDER: builds the stand-ins for the device libraries into FOLDER, under the names of the
# vendors' libraries, and that for libnuma, under a name of its own: UCX needs the real one. CC: the
# compiler.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
for pair in cuda:libcuda.so.1 hip:libamdhip64.so ze:libze_loader.so.1 numa:libnuma_standin.so.1; do
    # shellcheck disable=SC2086 # CC may have options
    ${CC:-gcc} -std=gnu11 -O2 -g -Wall -Wextra -Werror -fPIC -shared -Wl,-soname,"${pair#*:}" -Wl,-z,defs \
        -o "$1/${pair#*:}" \
        "$here/${pair%%:*}.c" "$here/standin.c" -lpthread
done
