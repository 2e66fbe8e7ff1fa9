#!/bin/sh
# elan-bindings.sh BINDGEN: prints conduit-elan/abi/src/bindings.rs, made from conduit-elan/shim.h.
# Step prototypes compares.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
exec "$root/scripts/build/bindgen.sh" "$1" conduit-elan/shim.h --allowlist-type 'gasnet_elan.*' \
    --allowlist-var 'GASNET_ELAN.*' --blocklist-type 'size_t' --raw-line \
    '// Made from conduit-elan/shim.h by scripts/build/elan-bindings.sh; not edited.'
