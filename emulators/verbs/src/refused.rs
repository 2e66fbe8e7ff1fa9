//! Functions of the library that fail: those that are not emulated, or that no program calls, and
//! those between rdma-core's own libraries.

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicBool;

use crate::handle::null;

/// A variable of the library that drivers may set.
#[no_mangle]
#[allow(non_upper_case_globals)]
pub static verbs_allow_disassociate_destroy: AtomicBool = AtomicBool::new(false);

macro_rules! refused {
    ($result:ty = $value:expr; $($name:ident)*) => { $(
        /// Ignores its arguments, so they are not declared.
        #[no_mangle]
        extern "C" fn $name() -> $result {
            null::<u8>(libc::EOPNOTSUPP);
            $value
        }
    )* };
}

refused! { *mut c_void = std::ptr::null_mut();
    ibv_create_ah_from_wc
    ibv_import_device
    ibv_import_dm
    ibv_import_mr
    ibv_import_pd
}

refused! { isize = -1;
    _ibv_query_gid_table
    ibv_get_pkey_index
    ibv_init_ah_from_wc
    ibv_rate_to_mbps
    ibv_rate_to_mult
    ibv_rereg_mr
    ibv_resolve_eth_l2_from_gid
    mbps_to_ibv_rate
    mult_to_ibv_rate
}

refused! { c_int = libc::EOPNOTSUPP;
    ibv_attach_mcast
    ibv_copy_ah_attr_from_kern
    ibv_copy_path_rec_from_kern
    ibv_copy_path_rec_to_kern
    ibv_copy_qp_attr_from_kern
    ibv_detach_mcast
    ibv_dofork_range
    ibv_dontfork_range
    ibv_modify_srq
    ibv_query_ece
    ibv_query_srq
    ibv_resize_cq
    ibv_set_ece
    ibv_unimport_dm
    ibv_unimport_mr
    ibv_unimport_pd
}

// libmlx5, libefa and librdmacm, which perftest links, need these to load. Their drivers find no
// device, so nobody calls them.
refused! { c_int = libc::EOPNOTSUPP;
    __ioctl_final_num_attrs
    __verbs_log
    _verbs_init_and_alloc_context
    execute_ioctl
    ibv_cmd_advise_mr
    ibv_cmd_alloc_dm
    ibv_cmd_alloc_mw
    ibv_cmd_alloc_pd
    ibv_cmd_attach_mcast
    ibv_cmd_close_xrcd
    ibv_cmd_create_ah
    ibv_cmd_create_counters
    ibv_cmd_create_cq
    ibv_cmd_create_cq_ex
    ibv_cmd_create_flow
    ibv_cmd_create_flow_action_esp
    ibv_cmd_create_qp
    ibv_cmd_create_qp_ex
    ibv_cmd_create_qp_ex2
    ibv_cmd_create_rwq_ind_table
    ibv_cmd_create_srq
    ibv_cmd_create_srq_ex
    ibv_cmd_create_wq
    ibv_cmd_dealloc_mw
    ibv_cmd_dealloc_pd
    ibv_cmd_dereg_mr
    ibv_cmd_destroy_ah
    ibv_cmd_destroy_counters
    ibv_cmd_destroy_cq
    ibv_cmd_destroy_flow
    ibv_cmd_destroy_flow_action
    ibv_cmd_destroy_qp
    ibv_cmd_destroy_rwq_ind_table
    ibv_cmd_destroy_srq
    ibv_cmd_destroy_wq
    ibv_cmd_detach_mcast
    ibv_cmd_free_dm
    ibv_cmd_get_context
    ibv_cmd_modify_cq
    ibv_cmd_modify_flow_action_esp
    ibv_cmd_modify_qp
    ibv_cmd_modify_qp_ex
    ibv_cmd_modify_srq
    ibv_cmd_modify_wq
    ibv_cmd_open_qp
    ibv_cmd_open_xrcd
    ibv_cmd_poll_cq
    ibv_cmd_post_recv
    ibv_cmd_post_send
    ibv_cmd_post_srq_recv
    ibv_cmd_query_context
    ibv_cmd_query_device_any
    ibv_cmd_query_mr
    ibv_cmd_query_port
    ibv_cmd_query_qp
    ibv_cmd_query_srq
    ibv_cmd_read_counters
    ibv_cmd_reg_dm_mr
    ibv_cmd_reg_dmabuf_mr
    ibv_cmd_reg_mr
    ibv_cmd_req_notify_cq
    ibv_cmd_rereg_mr
    ibv_cmd_resize_cq
    ibv_read_ibdev_sysfs_file
    verbs_init_cq
    verbs_open_device
    verbs_register_driver_34
    verbs_set_ops
    verbs_uninit_context
}
