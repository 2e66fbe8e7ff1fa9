#!/bin/sh
# ofi-bindings.sh BINDGEN: prints conduit-ofi/src/ffi/bindings.rs, made from the headers of the
# installed libfabric. Step prototypes compares; its version must be the one of Debian 12 (1.17).
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
structs='fid|fid_(fabric|domain|ep|av|cq|mr|nic)|fi_info|fi_ops(_(fabric|domain|ep|msg|rma|atomic|cm|av|cq|mr))?'
structs="$structs|fi_(av|cq|mr|bus)_attr|fi_mr_(raw_attr|map_raw)|fi_cq_(data|err)_entry|fi_(msg|msg_rma|rma_iov)"
consts='FI_(MSG|RMA|ATOMIC|READ|WRITE|RECV|SEND|REMOTE_READ|REMOTE_WRITE|MULTI_RECV|REMOTE_CQ_DATA|COMPLETION'
consts="$consts|INJECT|DELIVERY_COMPLETE|LOCAL_COMM|REMOTE_COMM|HMEM|CONTEXT|CONTEXT2"
consts="$consts|MR_(LOCAL|RAW|VIRT_ADDR|ALLOCATED|PROV_KEY|ENDPOINT|HMEM)|OPT_(ENDPOINT|MIN_MULTI_RECV)|SOCKADDR"
consts="$consts|GETWAIT|E(AGAIN|AVAIL|CANCELED|FAULT|INVAL|IO|KEYREJECTED|NODATA|NOMEM|NOTCONN|OPNOTSUPP))"
enums='fi_(av_type|threading|progress|resource_mgmt|ep_type|wait_obj|cq_format|type|hmem_iface|datatype|op)'
# Behind pointers that the conduit does not use.
hidden='fi_(eq|cntr|wait|poll|av_set|atomic|collective|device|link)_attr|fid_(eq|cntr|wait|poll|pep|stx|mc|av_set)'
hidden="$hidden|fi_((rma_)?ioc|msg_atomic|eq_err_entry|cntr_events)|fi_ops_(tagged|collective)"
exec "$root/scripts/build/bindgen.sh" "$1" conduit-ofi/src/ffi/headers.h \
    --allowlist-type "$structs" --allowlist-type "$enums" --allowlist-var "$consts" \
    --blocklist-type "iovec|$hidden" \
    --raw-line '// Made from the headers of libfabric by scripts/build/ofi-bindings.sh; not edited.' \
    --raw-line 'use libc::{c_void as fi_poll_attr, c_void as fi_wait_attr};' \
    --raw-line 'use libc::{c_void as fi_atomic_attr, c_void as fi_av_set_attr, c_void as fi_cntr_attr};' \
    --raw-line 'use libc::{c_void as fi_collective_attr, c_void as fi_device_attr, c_void as fi_eq_attr};' \
    --raw-line 'use libc::{c_void as fi_eq_err_entry, c_void as fi_ioc, c_void as fi_link_attr};' \
    --raw-line 'use libc::{c_void as fi_msg_atomic, c_void as fi_ops_collective, c_void as fi_ops_tagged};' \
    --raw-line 'use libc::{c_void as fid_av_set, c_void as fid_cntr, c_void as fid_eq, c_void as fid_mc};' \
    --raw-line 'use libc::{c_void as fid_pep, c_void as fid_poll, c_void as fid_stx, c_void as fid_wait, iovec};'
