#!/bin/sh
# ibv-bindings.sh BINDGEN: prints conduit-ibv/abi/src/bindings.rs, made from the installed headers
# of libibverbs. Step prototypes compares; their version must be the one of Debian 12 (rdma-core
# 44).
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
structs='ibv_(gid|gid_entry|device|device_attr|device_attr_ex|context|context_ops|port_attr|async_event|pd|mr'
structs="$structs|ah|ah_attr|global_route|grh"
structs="$structs|srq|srq_attr|srq_init_attr|srq_init_attr_ex|xrcd|xrcd_init_attr|qp|qp_ex|qp_cap|qp_attr|qp_init_attr"
structs="$structs|qp_init_attr_ex|qp_open_attr|cq|cq_ex|cq_init_attr_ex|poll_cq_attr|modify_cq_attr|comp_channel|wc|sge"
structs="$structs|send_wr|recv_wr|data_buf|values_ex|ece|query_device_ex_input|td|td_init_attr|parent_domain_init_attr)"
enums='ibv_(gid_type|node_type|transport_type|device_cap_flags|atomic_cap|mtu|port_state|port_cap_flags|event_type'
enums="$enums|wc_status|wc_opcode|wc_flags|create_cq_wc_flags|access_flags|rereg_mr_flags|rate|srq_attr_mask"
enums="$enums|srq_type|srq_init_attr_mask"
enums="$enums|qp_type|qp_init_attr_mask|qp_create_send_ops_flags|qp_open_attr_mask|qp_attr_mask|qp_state|mig_state"
enums="$enums|wr_opcode|send_flags|xrcd_init_attr_mask|cq_init_attr_mask|create_cq_attr_flags|odp_general_caps"
enums="$enums|odp_transport_cap_bits|fork_status|values_mask|advise_mr_advice)"
exec "$root/scripts/build/bindgen.sh" "$1" conduit-ibv/abi/headers.h \
    --allowlist-type "$structs" --allowlist-type "$enums" --allowlist-type 'verbs_context' \
    --allowlist-var 'IBV_(LINK_LAYER|QPF|SYSFS|DEVICE|ACCESS|ADVISE)_[A-Z_0-9]*' \
    --blocklist-type '__atomic_wide_counter.*|pthread_.*|__pthread.*|timespec|__time_t|__syscall_slong_t' \
    --blocklist-type 'size_t|ssize_t' \
    --opaque-type 'ibv_(flow|flow_action|flow_attr|counters|wq|rwq_ind_table|dm|ops_wr|mw_bind_info|mw_bind|td)(_.*)?' \
    --raw-line '// Made from the headers of libibverbs by scripts/build/ibv-bindings.sh; not edited.' \
    --raw-line 'use libc::{pthread_cond_t, pthread_mutex_t, timespec};'
