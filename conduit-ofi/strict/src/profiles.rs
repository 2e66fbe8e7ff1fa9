//! Profiles: the words of a plan that stand for a provider, on a host without accelerators. The
//! word `profile=NAME` has the effect of its words.
//!
//! Each fact comes with the file that states it, in libfabric v2.6.0 below `prov/`. A percentage is
//! no fact: it makes an event frequent that the provider may cause.

/// Names, and words. Names have no semicolon, which ends a plan in front of a provider's name.
pub const ALL: &[(&str, &str)] = &[
    (
        "cxi",
        concat!(
            // cxi/src/cxip_info.c: cxip_prov_key_domain_attr, the first record.
            "as=cxi demand=mr_endpoint,mr_allocated,mr_prov_key ",
            // cxi/include/cxip.h: CXIP_WRITEMSG_ALLOWED_FLAGS, without FI_REMOTE_CQ_DATA, against
            // cq_data_size; CXIP_READMSG_ALLOWED_FLAGS, CXIP_RX_OP_FLAGS.
            "put_flags=completion,delivery_complete,inject get_flags=completion,delivery_complete ",
            "receive_flags=completion,multi_recv ",
            // cxi/src/cxip_cq.c: proverr2errno.
            "errors=113:2,107:25 ",
            // cxi/src/cxip_pte.c cxip_pte_append: -FI_EAGAIN of fi_mr_enable.
            "reg_eagain=10 ",
            // cxi/src/cxip_atomic.c: _cxip_atomic_opcode. Issue 10960: read-only memory, until
            // 2025-04.
            "no=atomic_prod,read_only ",
            // cxi/include/cxip.h: CXIP_INJECT_SIZE, CXIP_EP_MAX_MSG_SZ, CXIP_DEFAULT_TX_SIZE and
            // RX_SIZE.
            "inject=192 max_msg=4294967295 tx=1024 rx=1024 ",
            // cxi/src/cxip_ep.c, cxip_msg.c: the flag is on the message that completes last.
            "minimum=early end=any ",
            // cxi/src/cxip_info.c: no order unless asked for. cxip_msg.c, cxip_rma.c: -FI_EAGAIN.
            "late=50 eagain=10 unordered=30",
        ),
    ),
    (
        "efa",
        concat!(
            // efa/src/efa_prov_info.c: efa_domain_attr less FI_MR_LOCAL, lkey. efa_cq.h:
            // EFA_CQ_DATA_SIZE.
            "as=efa version=2.6.0 demand=mr_virt_addr,mr_allocated,mr_prov_key key_bytes=4 cq_data=4 ",
            // efa/src/efa_prov_info.c: SHM_MAX_INJECT_SIZE, with shm and jumbo frames.
            "inject=4096 ",
            // efa/src/rdm/efa_rdm_cq.c: FI_WAIT_FD is refused with shm. efa_rdm_ope.c: no olen.
            "no=wait_fd,cut_length ",
            // efa/src/rdm/efa_rdm_ep_fiops.c, util/src/util_srx.c.
            "minimum=early end=bare ",
            // efa/src/rdm/efa_rdm_msg.c, efa_rdm_rma.c: -FI_EAGAIN until the handshake. SRD has no
            // order.
            "late=50 connect=20 unordered=30 ",
            // efa/src/rdm/efa_rdm_rma.c, efa_rdm_ope.c. efa_errno.h: to_fi_errno.
            "put_flags=completion,delivery_complete,inject,remote_cq_data ",
            "errors=103:13,107:9,107:14,113:15,269:10,22:7,90:11,121:12,12:4105,256:4096,125:1 ",
            // efa/src/efa_prov.c: efa-direct comes first. efa_fork_support.c.
            "twin=1 fork_aborts=1",
        ),
    ),
    (
        "opx",
        concat!(
            // opx/src/fi_opx_domain.c: mr_mode 0, 8 bytes of key. opx/include/rdma/opx/fi_opx.h:
            // FI_OPX_DEFAULT_MODE, FI_OPX_REMOTE_CQ_DATA_SIZE; fi_opx_hfi1_packet.h:
            // FI_OPX_HFI1_PACKET_IMM.
            "as=opx version=2.6.0 demand=async_iov cq_data=4 inject=16 ",
            // opx/src/fi_opx_cq.c: no control operation.
            "no=get_wait ",
            // opx/src/fi_opx_ep.c: the context is its own completion; headers lie in the buffer.
            "minimum=early end=left header=192 ",
            // opx/src/fi_opx_info.c: no order of sends. opx/src/fi_opx_rma.c: -FI_EAGAIN without
            // credits.
            "late=50 eagain=10 unordered=30 ",
            // opx/src/fi_opx_rma.c: fi_opx_writemsg_internal, fi_opx_readmsg_internal.
            "put_flags=completion,delivery_complete,inject,remote_cq_data get_flags=completion",
        ),
    ),
    (
        "psm2",
        concat!(
            // psm2/src/psmx2_attr.c: FI_CONTEXT for messages, no data unless asked for,
            // PSMX2_MAX_MSG_SIZE.
            "as=psm2 version=2.6.0 demand=context cq_data=0 inject=64 max_msg=4294963200 ",
            // psm2/src/psmx2_cq.c psmx2_cq_enqueue_event: signals inside calls.
            "no=wakes ",
            // psm2/src/psmx2_ep.c, psmx2_cq.c.
            "minimum=early end=any ",
            // psm2/src/psmx2_rma.c: psmx2_write_generic. psmx2_util.c: psmx2_errno.
            "put_flags=completion,delivery_complete,inject,remote_cq_data errors=110:11,101:41,5:49,108:20 ",
            // psm2/src/psmx2_av.c psmx2_epid_to_epaddr: connects in a call.
            "first_call=20",
        ),
    ),
    (
        "psm3",
        concat!(
            // psm3/src/psmx3_attr.c: as psm2, with a version of its own.
            "as=psm3 demand=context cq_data=0 inject=64 max_msg=4294963200 ",
            // psm3/src/psmx3_cq.c psmx3_cq_enqueue_event: signals inside calls.
            "no=wakes ",
            // psm3/src/psmx3_ep.c, psmx3_cq.c.
            "minimum=early end=any ",
            // psm3/src/psmx3_rma.c: psmx3_write_generic. psmx3_util.c: psmx3_errno_table.
            "put_flags=completion,delivery_complete,inject,remote_cq_data errors=110:11,101:41,5:49,108:20 ",
            // psm3/src/psmx3_av.c psmx3_epid_to_epaddr: connects in a call.
            "first_call=20",
        ),
    ),
    (
        "ucx",
        concat!(
            // ucx/src/ucx_init.c: mr_mode, threading of the hints, sizes. ucx/src/ucx_msg.c:
            // receives without a lock, which write into the context.
            "as=ucx version=2.6.0 demand=mr_virt_addr,mr_allocated,mr_prov_key,mr_raw,one_thread,hidden_context ",
            "inject=1024 tx=384 rx=384 ",
            // ucx/src/ucx.h: FI_UCX_TX_FLAGS, FI_UCX_CAPS. ucx/src/ucx_callbacks.c: signals inside
            // calls; no len.
            "no=delivery_complete,remote_cq_data,atomic,wakes,cut_length ",
            // ucx/src/ucx_ep.c, ucx_core.h. ucx/src/ucx_msg.c: ucx_recvmsg.
            "minimum=early end=any receive_flags=completion,multi_recv",
        ),
    ),
    (
        "verbs-rxm",
        concat!(
            // rxm/src/rxm_init.c, verbs/src/verbs_info.c: rxm_info_to_rxm drops FI_MR_LOCAL; lkey,
            // imm_data.
            "as=verbs;ofi_rxm version=2.6.0 demand=mr_virt_addr,mr_allocated,mr_prov_key key_bytes=4 cq_data=4 ",
            // GASNet bug 4420: read-only memory. verbs/src/verbs_cq.c: no opcode in an error.
            // rxm/src/rxm_cq.c: RXM_INJECT_TX.
            "no=read_only,error_flags,inject_errors ",
            // rxm/src/rxm.h: RXM_TX_SIZE, RXM_RX_SIZE. inject_size is that of tcp;ofi_rxm.
            "tx=16384 rx=65536 ",
            // rxm/src/rxm_ep.c, util/src/util_srx.c.
            "minimum=early end=bare ",
            // rxm/src/rxm_conn.c: -FI_EAGAIN until connected. Receives of several peers have no
            // order.
            "late=50 connect=20 ",
            // rxm/src/rxm.h: RXM_TX_OP_FLAGS; rxm_rma.c. verbs/src/verbs_cq.c: the status of the
            // work completion (IBV_WC_RETRY_EXC_ERR, WR_FLUSH_ERR, REM_ACCESS_ERR).
            "put_flags=completion,delivery_complete,inject,remote_cq_data errors=5:12,125:5,5:10",
        ),
    ),
    (
        "tcp",
        concat!(
            // tcp/src/xnet_attr.c: mr_mode 0, 8 bytes of key and data, no FI_ATOMIC.
            // tcp/src/xnet.h: XNET_DEF_INJECT. tcp/src/xnet_cq.c xnet_report_error: olen is 0, and
            // injected transfers are not reported.
            "as=tcp version=2.6.0 no=atomic,cut_length,inject_errors inject=128 tx=65536 rx=65536 ",
            // tcp/src/xnet_rdm.c, xnet_progress.c: the flag comes with the last reference.
            "minimum=early end=any ",
            // tcp/src/xnet_rdm_cm.c: -FI_EAGAIN until connected. Receives of several peers have no
            // order.
            "late=50 connect=20 ",
            // tcp/src/xnet_rma.c: xnet_rma_writemsg. xnet_ep.c, xnet_progress.c: FI_ECANCELED of a
            // broken connection, or the kernel's error; xnet_cq.c: prov_errno is errno.
            "put_flags=completion,delivery_complete,inject,remote_cq_data errors=125:0,104:104,32:32",
        ),
    ),
    (
        "tcp-rxm",
        concat!(
            // rxm/src/rxm_attr.c, rxm_cq.c (RXM_INJECT_TX), rxm.h (RXM_TX_SIZE, RXM_RX_SIZE).
            "as=tcp;ofi_rxm version=2.6.0 no=inject_errors tx=16384 rx=65536 ",
            // As verbs-rxm; errors are those of tcp.
            "minimum=early end=bare late=50 connect=20 ",
            "put_flags=completion,delivery_complete,inject,remote_cq_data errors=125:0,104:104,32:32",
        ),
    ),
    (
        "udp-rxd",
        concat!(
            // rxd/src/rxd_attr.c; rxd_init.c: inject_size, of 1472 bytes (udp/src/udpx_attr.c) less
            // the headers.
            "as=udp;ofi_rxd version=2.6.0 inject=1256 tx=1024 rx=1024 ",
            // libfabric v1.17.0, seen: injected puts do not complete.
            "no=inject_entries ",
            // rxd/src/rxd_cq.c rxd_progress_multi_recv: the flag is set before earlier messages are
            // complete.
            "minimum=early end=early ",
            // rxd/src/rxd_msg.c: -FI_EAGAIN without entries. Datagrams have no order.
            "late=50 eagain=10 ",
            // rxd/src/rxd.h: rxd_tx_flags. rxd_ep.c rxd_peer_timeout.
            "put_flags=completion,delivery_complete,inject,remote_cq_data errors=111:0",
        ),
    ),
    (
        "shm",
        concat!(
            // shm/src/smr_attr.c: mr_mode 0, 8 bytes of key and data. shm/src/smr_util.h:
            // SMR_INJECT_SIZE.
            "as=shm version=2.6.0 inject=4096 tx=1024 rx=1024 ",
            // shm/src/smr_cq.c: FI_WAIT_FD is refused. shm/src/smr_comp.c: no olen.
            "no=wait_fd,cut_length ",
            // shm/src/smr_ep.c, util/src/util_srx.c.
            "minimum=early end=bare ",
            // shm/src/smr_msg.c: -FI_EAGAIN if the queue of commands is full.
            "eagain=10 ",
            // shm/src/smr_attr.c: SMR_TX_OP_FLAGS. shm/src/smr_comp.c: prov_errno is negative.
            "put_flags=completion,delivery_complete,inject,remote_cq_data errors=5:-5,22:-22",
        ),
    ),
    (
        "sm2",
        concat!(
            // sm2/src/sm2_attr.c: no FI_RMA. sm2/src/sm2.h: SM2_ATOMIC_INJECT_SIZE.
            // sm2/src/sm2_cq.c: FI_WAIT_FD.
            "as=sm2 version=2.6.0 no=rma,wait_fd,cut_length inject=3864 tx=1024 rx=1024 ",
            // sm2/src/sm2_ep.c: the option belongs to the receive context, which fi_enable makes.
            "minimum=late end=bare ",
            // sm2/src/sm2.h: -FI_EAGAIN without free entries.
            "eagain=10",
        ),
    ),
    // lnx/src/lnx_init.c LNX_TX_CAPS: tagged messages only.
    ("lnx", "as=lnx version=2.6.0 no=msg"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi;
    use crate::plan::{End, Plan};

    #[test]
    fn every_profile_is_a_plan() {
        for (name, words) in ALL {
            let plan: Plan = format!("profile={name}").parse().unwrap();
            assert_eq!(plan, words.parse().unwrap(), "{name}");
            let provider = plan.name.expect("a provider");
            assert_eq!(
                provider.rsplit(';').next(),
                name.rsplit('-').next().map(|last| match last {
                    "rxm" => "ofi_rxm",
                    "rxd" => "ofi_rxd",
                    other => other,
                })
            );
        }
    }

    #[test]
    fn later_words_take_precedence() {
        let plan: Plan = "tx=3 profile=cxi end=early inject=8".parse().unwrap();
        assert_eq!((plan.tx, plan.end, plan.inject), (Some(1024), End::Early, Some(8)));
        assert!(plan.demands(ffi::FI_MR_ENDPOINT.into()));
    }

    #[test]
    fn an_unknown_profile_lists_the_known_ones() {
        let why = "profile=elan".parse::<Plan>().unwrap_err();
        assert!(
            why.starts_with("'elan' is not known; choices: cxi, efa, ") && why.ends_with(", lnx"),
            "{why}"
        );
    }
}
