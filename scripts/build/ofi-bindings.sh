#!/bin/sh
# ofi-bindings.sh BINDGEN: prints conduit-ofi/src/ffi/bindings.rs, made from the headers of the
# installed libfabric. Step prototypes compares; its version must be the one of Debian 12 (1.17).
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
structs='fid|fid_(fabric|domain|ep|av|cq|mr|nic)|fi_info|fi_ops(_(fabric|domain|ep|msg|rma|atomic|cm|av|cq|mr))?'
structs="$structs|fi_(av|cq|mr|device|link|bus)_attr|fi_mr_(raw_attr|map_raw)|fi_cq_(data|err)_entry"
structs="$structs|fi_(msg|msg_rma|rma_iov|rma_ioc|ioc|msg_atomic)"
consts='FI_(MSG|RMA|ATOMIC|READ|WRITE|RECV|SEND|REMOTE_READ|REMOTE_WRITE|MULTI_RECV|REMOTE_CQ_DATA|COMPLETION'
consts="$consts|INJECT|INJECT_COMPLETE|TRANSMIT_COMPLETE|DELIVERY_COMPLETE|LOCAL_COMM|REMOTE_COMM|HMEM|CONTEXT|CONTEXT2"
consts="$consts|MR_[A-Z_]*|E[A-Z0-9]*|OPT_[A-Z_0-9]*|SOCKADDR[A-Z_0-9]*|GETWAIT|GET_RAW_MR)"
enums='fi_(av_type|threading|progress|resource_mgmt|ep_type|wait_obj|cq_format|type|hmem_iface|datatype|op|mr_mode)'
exec "$root/scripts/build/bindgen.sh" "$1" conduit-ofi/src/ffi/headers.h \
    --allowlist-type "$structs" --allowlist-type "$enums" --allowlist-var "$consts" \
    --blocklist-type 'iovec' \
    --opaque-type 'fi_(eq|cntr|pep|poll|stx|wait|av_set|srx|collective).*' \
    --raw-line '// Made from the headers of libfabric by scripts/build/ofi-bindings.sh; not edited.' \
    --raw-line 'use libc::iovec;'
