#!/bin/sh
# ucx-bindings.sh BINDGEN: prints conduit-ucx/src/ffi/bindings.rs, made from the headers of the
# installed UCX. Step prototypes compares; its version must be the one of Debian 12 (1.13).
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
structs='ucp_(params|context_attr|worker_params|worker_attr|ep_params|mem_map_params|am_handler_param|am_recv_param)_t'
structs="$structs|ucp_(request_param|am_recv_callback|send_nbx_callback|err_handler|err_handler_cb)_t"
structs="$structs|ucp_(ep|worker|context|mem|rkey)_h|ucp_(address|config)_t|ucs_status_(t|ptr_t)"
enums='ucp_(params|context_attr|worker_params|worker_attr|ep_params|mem_map_params|am_handler_param)_field|ucp_feature'
enums="$enums|ucp_worker_flags_t|ucp_send_am_flags|ucp_am_recv_attr_t|ucp_op_attr_t|ucp_atomic_op_t|ucp_dt_type"
exec "$root/scripts/build/bindgen.sh" "$1" conduit-ucx/src/ffi/headers.h \
    --allowlist-type "$structs" --allowlist-type "$enums" --allowlist-var 'none' \
    --blocklist-type 'sockaddr|sa_family_t|__socklen_t|socklen_t' \
    --raw-line '// Made from the headers of UCX by scripts/build/ucx-bindings.sh; not edited.' \
    --raw-line 'use libc::{sockaddr, socklen_t};'
