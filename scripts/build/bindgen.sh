#!/bin/sh
# bindgen.sh BINDGEN HEADER [OPTION...]: prints Rust bindings of what the options allow of a C
# header: types of plain data, constants, no functions.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
bindgen=$1 header=$2
shift 2
exec "$bindgen" --no-layout-tests --no-doc-comments --no-prepend-enum-name --use-core --ctypes-prefix libc \
    --default-enum-style consts --rust-target 1.82 --formatter rustfmt \
    --rustfmt-configuration-file "$root/rustfmt.toml" --allowlist-function 'none' "$@" "$root/$header"
