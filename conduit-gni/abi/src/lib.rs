//! The binary interface of Cray's uGNI library (GNI 0x5d, Aries): types, constants, and nothing
//! that links. Gemini's library (0x55) has the same layout but for the last three members of
//! [`gni_post_descriptor_t`]. No vendor header is in this project; the layouts were derived from
//! published facts, and `emulators/ugni/include/gni_pub.h` states them for C a second time.
#![allow(non_camel_case_types, missing_docs)]

use std::ffi::c_void;

/// Opaque objects of the library.
macro_rules! opaque {
    ($($name:ident)*) => { $(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )* };
}
opaque! { gni_cdm gni_nic gni_ep gni_cq gni_ce gni_comp_chan gni_err gni_msgq }

pub type gni_cdm_handle_t = *mut gni_cdm;
pub type gni_nic_handle_t = *mut gni_nic;
pub type gni_ep_handle_t = *mut gni_ep;
pub type gni_cq_handle_t = *mut gni_cq;
pub type gni_ce_handle_t = *mut gni_ce;
pub type gni_comp_chan_handle_t = *mut gni_comp_chan;
pub type gni_err_handle_t = *mut gni_err;
pub type gni_msgq_handle_t = *mut gni_msgq;

/// A C enumeration: what a function returns.
pub type gni_return_t = u32;
pub const GNI_RC_SUCCESS: gni_return_t = 0;
pub const GNI_RC_NOT_DONE: gni_return_t = 1;
pub const GNI_RC_INVALID_PARAM: gni_return_t = 2;
pub const GNI_RC_ERROR_RESOURCE: gni_return_t = 3;
pub const GNI_RC_TIMEOUT: gni_return_t = 4;
pub const GNI_RC_PERMISSION_ERROR: gni_return_t = 5;
pub const GNI_RC_DESCRIPTOR_ERROR: gni_return_t = 6;
pub const GNI_RC_ALIGNMENT_ERROR: gni_return_t = 7;
pub const GNI_RC_INVALID_STATE: gni_return_t = 8;
pub const GNI_RC_NO_MATCH: gni_return_t = 9;
pub const GNI_RC_SIZE_ERROR: gni_return_t = 10;
pub const GNI_RC_TRANSACTION_ERROR: gni_return_t = 11;
pub const GNI_RC_ILLEGAL_OP: gni_return_t = 12;
pub const GNI_RC_ERROR_NOMEM: gni_return_t = 13;

/// Names of return codes, by number, without the prefix `GNI_RC_`.
pub const RETURN_CODES: [&str; 14] = [
    "SUCCESS",
    "NOT_DONE",
    "INVALID_PARAM",
    "ERROR_RESOURCE",
    "TIMEOUT",
    "PERMISSION_ERROR",
    "DESCRIPTOR_ERROR",
    "ALIGNMENT_ERROR",
    "INVALID_STATE",
    "NO_MATCH",
    "SIZE_ERROR",
    "TRANSACTION_ERROR",
    "ILLEGAL_OP",
    "ERROR_NOMEM",
];

pub type gni_nic_device_t = u32;
pub const GNI_DEVICE_GEMINI: gni_nic_device_t = 0;
pub const GNI_DEVICE_ARIES: gni_nic_device_t = 1;

pub type gni_post_type_t = u32;
pub const GNI_POST_RDMA_PUT: gni_post_type_t = 1;
pub const GNI_POST_RDMA_GET: gni_post_type_t = 2;
pub const GNI_POST_FMA_PUT: gni_post_type_t = 3;
pub const GNI_POST_FMA_PUT_W_SYNCFLAG: gni_post_type_t = 4;
pub const GNI_POST_FMA_GET: gni_post_type_t = 5;
pub const GNI_POST_AMO: gni_post_type_t = 6;
pub const GNI_POST_CQWRITE: gni_post_type_t = 7;
pub const GNI_POST_CE: gni_post_type_t = 8;
pub const GNI_POST_FMA_GET_W_FLAG: gni_post_type_t = 9;
pub const GNI_POST_AMO_W_FLAG: gni_post_type_t = 10;

pub const GNI_CQMODE_SILENT: u16 = 0;
pub const GNI_CQMODE_LOCAL_EVENT: u16 = 1;
pub const GNI_CQMODE_GLOBAL_EVENT: u16 = 2;
pub const GNI_CQMODE_REMOTE_EVENT: u16 = 4;

pub const GNI_DLVMODE_PERFORMANCE: u16 = 0;
pub const GNI_DLVMODE_NO_ADAPT: u16 = 1;
pub const GNI_DLVMODE_NO_HASH: u16 = 2;
pub const GNI_DLVMODE_IN_ORDER: u16 = 3;
pub const GNI_DLVMODE_NO_RADAPT: u16 = 4;
pub const GNI_DLVMODE_NMIN_HASH: u16 = 8;
pub const GNI_DLVMODE_MIN_HASH: u16 = 0x10;
pub const GNI_DLVMODE_ADAPTIVE1: u16 = 0x20;
pub const GNI_DLVMODE_ADAPTIVE2: u16 = 0x40;
pub const GNI_DLVMODE_ADAPTIVE3: u16 = 0x80;

pub const GNI_RDMAMODE_PHYS_ADDR: u16 = 1;
pub const GNI_RDMAMODE_FENCE: u16 = 2;
pub const GNI_RDMAMODE_GETWC_DIS: u16 = 4;

pub const GNI_CDM_MODE_FORK_NOCOPY: u32 = 1;
pub const GNI_CDM_MODE_FORK_FULLCOPY: u32 = 2;
pub const GNI_CDM_MODE_FORK_PARTCOPY: u32 = 4;
pub const GNI_CDM_MODE_ERR_NO_KILL: u32 = 8;
pub const GNI_CDM_MODE_ERR_ALL_KILL: u32 = 0x10;
pub const GNI_CDM_MODE_BTE_SINGLE_CHANNEL: u32 = 0x40;
pub const GNI_CDM_MODE_MDD_DEDICATED: u32 = 0x100;
pub const GNI_CDM_MODE_MDD_SHARED: u32 = 0x200;
pub const GNI_CDM_MODE_DUAL_EVENTS: u32 = 0x1000;
pub const GNI_CDM_MODE_FMA_DEDICATED: u32 = 0x10000;
pub const GNI_CDM_MODE_FMA_SHARED: u32 = 0x20000;

pub const GNI_MEM_READWRITE: u32 = 0;
pub const GNI_MEM_READ_ONLY: u32 = 1;
pub const GNI_MEM_USE_VMDH: u32 = 2;
pub const GNI_MEM_USE_GART: u32 = 4;
pub const GNI_MEM_PHYS_CONT: u32 = 8;
pub const GNI_MEM_PHYS_SEGMENTS: u32 = 0x10;
pub const GNI_MEM_STRICT_PI_ORDERING: u32 = 0x20;
pub const GNI_MEM_PI_FLUSH: u32 = 0x40;
pub const GNI_MEM_MDD_CLONE: u32 = 0x80;
pub const GNI_MEM_RELAXED_PI_ORDERING: u32 = 0x100;
pub const GNI_MEM_RESERVE_REGION: u32 = 0x200;
pub const GNI_MEM_UPDATE_REGION: u32 = 0x400;
pub const GNI_MEM_MDD_SHARED: u32 = 0x800;
pub const GNI_MEM_MDD_DEDICATED: u32 = 0x1000;

pub type gni_mem_handle_attr_t = u32;
pub type gni_statistic_t = u32;
pub type gni_smsg_type_t = u32;

pub type gni_cq_mode_t = u32;
pub const GNI_CQ_NOBLOCK: gni_cq_mode_t = 0;
pub const GNI_CQ_BLOCKING: gni_cq_mode_t = 1;
pub const GNI_CQ_EMULATED: gni_cq_mode_t = 2;
pub const GNI_CQ_PHYS_PAGES: gni_cq_mode_t = 4;
pub const GNI_CQ_UNMANAGED: gni_cq_mode_t = 8;
pub const GNI_CQ_NOAUTOFILL: gni_cq_mode_t = 0x10;

pub type gni_cq_entry_t = u64;
pub const GNI_CQ_EVENT_TYPE_POST: u64 = 0;
pub const GNI_CQ_EVENT_TYPE_SMSG: u64 = 1;
pub const GNI_CQ_EVENT_TYPE_DMAPP: u64 = 2;
pub const GNI_CQ_EVENT_TYPE_MSGQ: u64 = 3;

pub type gni_job_res_t = u32;
pub const GNI_JOB_RES_MDD: gni_job_res_t = 1;
pub const GNI_JOB_RES_CQ: gni_job_res_t = 5;
pub const GNI_JOB_RES_FMA: gni_job_res_t = 6;
pub const GNI_JOB_RES_CE: gni_job_res_t = 8;

pub type gni_dev_res_t = u32;
pub const GNI_DEV_RES_MDD: gni_dev_res_t = 1;
pub const GNI_DEV_RES_CQ: gni_dev_res_t = 3;
pub const GNI_DEV_RES_FMA: gni_dev_res_t = 4;
pub const GNI_DEV_RES_CE: gni_dev_res_t = 5;

pub type gni_post_state_t = u32;
pub const GNI_POST_PENDING: gni_post_state_t = 0;
pub const GNI_POST_COMPLETED: gni_post_state_t = 1;
pub const GNI_POST_ERROR: gni_post_state_t = 2;
pub const GNI_POST_TIMEOUT: gni_post_state_t = 3;
pub const GNI_POST_TERMINATED: gni_post_state_t = 4;
pub const GNI_POST_REMOTE_DATA: gni_post_state_t = 5;

/// Command of an atomic. [`amo`] builds them.
pub type gni_fma_cmd_type_t = u32;

/// How commands of atomics are built from parts.
pub mod amo {
    /// No old value is fetched.
    pub const NO_FETCH: u32 = 0x100;
    /// The operand has 32 bits. Second generation only.
    pub const SHORT: u32 = 0x200;
    /// Operations of the first generation (Gemini and Aries), fetching, on 64 bits.
    pub mod first {
        pub const ADD: u32 = 8;
        pub const AND: u32 = 9;
        pub const OR: u32 = 0xa;
        pub const XOR: u32 = 0xb;
        /// `(mem & first) ^ second`.
        pub const AX: u32 = 0xc;
        /// Always fetches.
        pub const CSWAP: u32 = 0xd;
        /// Bit of the cached form.
        pub const CACHED: u32 = 0x10;
    }
    /// Operations of the second generation (Aries), fetching, on 64 bits. Those on 32 bits have bit
    /// [`SHORT`], and bit 0 cleared.
    pub mod second {
        pub const AND: u32 = 0x41;
        pub const OR: u32 = 0x43;
        pub const XOR: u32 = 0x45;
        pub const SWAP: u32 = 0x47;
        pub const AX: u32 = 0x49;
        pub const CSWAP: u32 = 0x4b;
        pub const IMIN: u32 = 0x51;
        pub const IMAX: u32 = 0x53;
        pub const IADD: u32 = 0x55;
        pub const FPMIN: u32 = 0x59;
        pub const FPMAX: u32 = 0x5b;
        pub const FPADD: u32 = 0x5d;
        /// Bit of the cached form.
        pub const CACHED: u32 = 0x20;
    }
}

pub type gni_ce_cmd_type_t = u32;
pub const GNI_FMA_CE_AND: gni_ce_cmd_type_t = 1;
pub const GNI_CEMODE_TWO_OP: u32 = 1;

pub type gni_ce_child_t = u32;
pub const GNI_CE_CHILD_UNUSED: gni_ce_child_t = 0;
pub const GNI_CE_CHILD_VCE: gni_ce_child_t = 1;
pub const GNI_CE_CHILD_PE: gni_ce_child_t = 2;
pub const GNI_CE_MODE_ROUND_UP: u32 = 1;
pub const GNI_CE_MODE_ROUND_DOWN: u32 = 2;
pub const GNI_CE_MODE_ROUND_NEAR: u32 = 4;
pub const GNI_CE_MODE_ROUND_ZERO: u32 = 8;
pub const GNI_CE_MODE_CQE_ONCOMP: u32 = 0x10;
pub const GNI_CE_MODE_CQE_ONERR: u32 = 0x40;
pub const GNI_CE_MODE_RC_NMIN_HASH: u32 = 0x80;
pub const GNI_CE_MODE_RC_MIN_HASH: u32 = 0x100;
pub const GNI_CE_MODE_RC_MNON_HASH: u32 = 0x200;
pub const GNI_CE_MODE_RC_ADAPT: u32 = 0x400;
pub const GNI_CE_FPE_OP_INVAL: u32 = 1;
pub const GNI_CE_FPE_OFLOW: u32 = 2;
pub const GNI_CE_FPE_UFLOW: u32 = 4;
pub const GNI_CE_FPE_PRECISION: u32 = 8;
pub const GNI_CE_MAX_CHILDREN: u32 = 32;

/// Registered memory, as data that may be copied and sent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct gni_mem_handle_t {
    pub qword1: u64,
    pub qword2: u64,
}

/// What is posted: 184 bytes. The library keeps its address until `GNI_GetCompleted` has returned
/// it for the last event.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gni_post_descriptor_t {
    pub next_descr: *mut c_void,
    pub prev_descr: *mut c_void,
    pub post_id: u64,
    pub status: u64,
    pub cq_mode_complete: u16,
    pub r#type: gni_post_type_t,
    pub cq_mode: u16,
    pub dlvr_mode: u16,
    pub local_addr: u64,
    pub local_mem_hndl: gni_mem_handle_t,
    pub remote_addr: u64,
    pub remote_mem_hndl: gni_mem_handle_t,
    pub length: u64,
    pub rdma_mode: u16,
    pub src_cq_hndl: gni_cq_handle_t,
    pub sync_flag_value: u64,
    pub sync_flag_addr: u64,
    pub amo_cmd: gni_fma_cmd_type_t,
    pub first_operand: u64,
    pub second_operand: u64,
    pub cqwrite_value: u64,
    /// Aries only, as all that follows.
    pub ce_cmd: gni_ce_cmd_type_t,
    pub ce_mode: u32,
    pub ce_red_id: u64,
}

/// Bytes of the descriptor of Gemini's library.
pub const GEMINI_DESCRIPTOR_BYTES: usize = 168;

/// Result of the collective engine, aligned to 32 bytes.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, Default)]
pub struct gni_ce_result_t {
    pub control: u64,
    pub result1: u64,
    pub result2: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gni_job_res_desc_t {
    pub used: u64,
    pub limit: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gni_dev_res_desc_t {
    pub available: u64,
    pub reserved: u64,
    pub held: u64,
    pub total: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gni_mem_segment_t {
    pub address: u64,
    pub length: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gni_version_info_t {
    pub ugni_version: u32,
    pub ugni_svn_revision: u32,
    pub ugni_build_string: [u8; 80],
    pub kgni_version: u32,
    pub kgni_svn_revision: u32,
    pub kgni_build_string: [u8; 80],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gni_smsg_attr_t {
    pub msg_type: gni_smsg_type_t,
    pub msg_buffer: *mut c_void,
    pub buff_size: u32,
    pub mem_hndl: gni_mem_handle_t,
    pub mbox_offset: u32,
    pub mbox_maxcredit: u16,
    pub msg_maxsize: u32,
}

/// Handler of a completion queue.
pub type gni_cq_handler = Option<unsafe extern "C" fn(*mut gni_cq_entry_t, *mut c_void)>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, offset_of, size_of};

    #[test]
    fn layouts_are_those_of_the_library() {
        use gni_post_descriptor_t as D;
        let offsets = [
            offset_of!(D, next_descr),
            offset_of!(D, prev_descr),
            offset_of!(D, post_id),
            offset_of!(D, status),
            offset_of!(D, cq_mode_complete),
            offset_of!(D, r#type),
            offset_of!(D, cq_mode),
            offset_of!(D, dlvr_mode),
            offset_of!(D, local_addr),
            offset_of!(D, local_mem_hndl),
            offset_of!(D, remote_addr),
            offset_of!(D, remote_mem_hndl),
            offset_of!(D, length),
            offset_of!(D, rdma_mode),
            offset_of!(D, src_cq_hndl),
            offset_of!(D, sync_flag_value),
            offset_of!(D, sync_flag_addr),
            offset_of!(D, amo_cmd),
            offset_of!(D, first_operand),
            offset_of!(D, second_operand),
            offset_of!(D, cqwrite_value),
            offset_of!(D, ce_cmd),
            offset_of!(D, ce_mode),
            offset_of!(D, ce_red_id),
        ];
        let facts = [
            0, 8, 16, 24, 32, 36, 40, 42, 48, 56, 72, 80, 96, 104, 112, 120, 128, 136, 144, 152, 160, 168, 172, 176,
        ];
        assert_eq!(offsets, facts);
        assert_eq!((size_of::<D>(), align_of::<D>()), (184, 8));
        assert_eq!(offset_of!(D, ce_cmd), GEMINI_DESCRIPTOR_BYTES);
        assert_eq!((size_of::<gni_mem_handle_t>(), align_of::<gni_mem_handle_t>()), (16, 8));
        assert_eq!(offset_of!(gni_ce_result_t, result2), 16);
        assert_eq!(size_of::<gni_version_info_t>(), 176);
        assert_eq!(size_of::<gni_smsg_attr_t>(), 56);
        assert_eq!(
            (size_of::<gni_job_res_desc_t>(), size_of::<gni_dev_res_desc_t>()),
            (16, 32)
        );
    }
}
