#!/bin/sh
# ibv-bindings.sh BINDGEN: prints conduit-ibv/abi/src/bindings.rs, made from the installed headers
# of libibverbs. Step prototypes compares; their version must be the one of Debian 12 (rdma-core
# 44).
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
structs='ibv_(gid|gid_entry|device|device_attr|device_attr_ex|context|context_ops|port_attr|async_event|pd|mr'
structs="$structs|ah|ah_attr|global_route|grh"
structs="$structs|srq|srq_attr|srq_init_attr|srq_init_attr_ex|xrcd|xrcd_init_attr|qp|qp_ex|qp_cap|qp_attr|qp_init_attr"
structs="$structs|qp_init_attr_ex|qp_open_attr|cq|cq_ex|cq_init_attr_ex|poll_cq_attr|comp_channel|wc|sge|send_wr"
structs="$structs|recv_wr|data_buf|values_ex|ece|query_device_ex_input)"
enums='ibv_(gid_type|node_type|transport_type|device_cap_flags|atomic_cap|mtu|port_state|port_cap_flags|event_type'
enums="$enums|wc_status|wc_opcode|wc_flags|access_flags|rereg_mr_flags|rate|srq_attr_mask"
enums="$enums|srq_type|srq_init_attr_mask"
enums="$enums|qp_type|qp_init_attr_mask|qp_open_attr_mask|qp_attr_mask|qp_state|mig_state"
enums="$enums|wr_opcode|send_flags|qp_create_send_ops_flags|create_cq_wc_flags|xrcd_init_attr_mask|cq_init_attr_mask"
enums="$enums|odp_general_caps|odp_transport_cap_bits|fork_status|values_mask)"
# Behind pointers that neither the conduit nor the emulator uses.
hidden='ibv_(flow(_action(_esp_attr)?|_attr)?|counters(_init_attr)?|counter_attach_attr|wq((_init)?_attr)?|dm'
hidden="$hidden|rwq_ind_table(_init_attr)?|alloc_dm_attr|mw|mw_bind|td|td_init_attr|parent_domain_init_attr"
hidden="$hidden|modify_cq_attr|moderate_cq|qp_rate_limit_attr|ops_wr(__.*)?)|ib_uverbs_.*"
exec "$root/scripts/build/bindgen.sh" "$1" conduit-ibv/abi/headers.h \
    --allowlist-type "$structs" --allowlist-type "$enums" --allowlist-type 'verbs_context' \
    --allowlist-var 'IBV_(LINK_LAYER|QPF|ACCESS)_[A-Z_0-9]*' \
    --blocklist-type '__atomic_wide_counter.*|pthread_.*|__pthread.*|timespec|__time_t|__syscall_slong_t' \
    --blocklist-type 'size_t|ssize_t' --blocklist-type "$hidden" \
    --opaque-type 'ibv_mw_bind_info' \
    --raw-line '// Made from the headers of libibverbs by scripts/build/ibv-bindings.sh; not edited.' \
    --raw-line 'use libc::{c_uint as ib_uverbs_advise_mr_advice, c_void as ibv_wq_init_attr};' \
    --raw-line 'use libc::{c_void as ibv_ops_wr, c_void as ibv_parent_domain_init_attr};' \
    --raw-line 'use libc::{c_void as ibv_qp_rate_limit_attr, c_void as ibv_rwq_ind_table};' \
    --raw-line 'use libc::{c_void as ibv_wq, c_void as ibv_wq_attr};' \
    --raw-line 'use libc::{c_void as ibv_alloc_dm_attr, c_void as ibv_counter_attach_attr, c_void as ibv_counters};' \
    --raw-line 'use libc::{c_void as ibv_counters_init_attr, c_void as ibv_dm, c_void as ibv_flow};' \
    --raw-line 'use libc::{c_void as ibv_flow_action, c_void as ibv_flow_action_esp_attr, c_void as ibv_flow_attr};' \
    --raw-line 'use libc::{c_void as ibv_modify_cq_attr, c_void as ibv_mw, c_void as ibv_mw_bind};' \
    --raw-line 'use libc::{c_void as ibv_rwq_ind_table_init_attr, c_void as ibv_td, c_void as ibv_td_init_attr};' \
    --raw-line 'use libc::{pthread_cond_t, pthread_mutex_t, timespec};'
