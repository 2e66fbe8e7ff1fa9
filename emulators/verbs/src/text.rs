//! Names of the library's enumerations. The strings of `ibv_wc_status_str` and the like are what
//! programs print; people search for them.

use std::ffi::CStr;

/// (short name for EMU_VERBS, text) by `ibv_wc_status`.
const STATUSES: [(&str, &CStr); 24] = [
    ("success", c"success"),
    ("loc_len", c"local length error"),
    ("loc_qp_op", c"local QP operation error"),
    ("loc_eec_op", c"local EE context operation error"),
    ("loc_prot", c"local protection error"),
    ("wr_flush", c"Work Request Flushed Error"),
    ("mw_bind", c"memory management operation error"),
    ("bad_resp", c"bad response error"),
    ("loc_access", c"local access error"),
    ("rem_inv_req", c"remote invalid request error"),
    ("rem_access", c"remote access error"),
    ("rem_op", c"remote operation error"),
    ("retry_exc", c"transport retry counter exceeded"),
    ("rnr_retry_exc", c"RNR retry counter exceeded"),
    ("loc_rdd_viol", c"local RDD violation error"),
    ("rem_inv_rd_req", c"remote invalid RD request"),
    ("rem_abort", c"aborted error"),
    ("inv_eecn", c"invalid EE context number"),
    ("inv_eec_state", c"invalid EE context state"),
    ("fatal", c"fatal error"),
    ("resp_timeout", c"response timeout error"),
    ("general", c"general error"),
    ("tm", c"TM error"),
    ("tm_rndv_incomplete", c"TM software rendezvous"),
];

const EVENTS: [&CStr; 20] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
];

/// Short names for EMU_VERBS, by `ibv_event_type`.
const EVENT_NAMES: [&str; 19] = [
    "cq_err",
    "qp_fatal",
    "qp_req_err",
    "qp_access_err",
    "comm_est",
    "sq_drained",
    "path_mig",
    "path_mig_err",
    "device_fatal",
    "port_active",
    "port_err",
    "lid_change",
    "pkey_change",
    "sm_change",
    "srq_err",
    "srq_limit_reached",
    "qp_last_wqe_reached",
    "client_reregister",
    "gid_change",
];

const PORT_STATES: [&CStr; 6] = [
    c"no state change (NOP)",
    c"down",
    c"init",
    c"armed",
    c"active",
    c"active defer",
];

const NODES: [&CStr; 8] = [
    c"unknown",
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

fn lookup(table: &[&'static CStr], index: u32) -> &'static CStr {
    table.get(index as usize).copied().unwrap_or(c"unknown")
}

pub fn status_named(name: &str) -> Option<u32> {
    STATUSES.iter().position(|(short, _)| *short == name).map(|i| i as u32)
}

pub fn event_named(name: &str) -> Option<u32> {
    EVENT_NAMES
        .iter()
        .position(|other| *other == name)
        .map(|kind| kind as u32)
}

pub fn status(status: u32) -> &'static CStr {
    STATUSES.get(status as usize).map_or(c"unknown", |(_, text)| text)
}

pub fn event(event: u32) -> &'static CStr {
    lookup(&EVENTS, event)
}

pub fn port_state(state: u32) -> &'static CStr {
    lookup(&PORT_STATES, state)
}

pub fn node_type(node: i32) -> &'static CStr {
    lookup(&NODES, u32::try_from(node).unwrap_or(0))
}

/// (`ibv_rate`, multiple of 2.5 Gbit/s, Mbit/s)
pub const RATES: [(u32, i32, i32); 23] = [
    (2, 1, 2500),
    (5, 2, 5000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, 5, 14_062),
    (12, 22, 56_250),
    (13, 44, 112_500),
    (14, 67, 168_750),
    (15, 10, 25_781),
    (16, 41, 103_125),
    (17, 82, 206_250),
    (18, 125, 309_375),
    (19, 11, 28_125),
    (20, 20, 53_125),
    (21, 160, 425_000),
    (22, 240, 637_500),
    (23, 320, 850_000),
    (24, 480, 1_275_000),
];

#[cfg(test)]
mod tests {
    use gasnet_ibv_abi as abi;

    use super::*;

    #[test]
    fn names_are_those_of_the_header() {
        for (name, kind) in [
            ("cq_err", abi::IBV_EVENT_CQ_ERR),
            ("comm_est", abi::IBV_EVENT_COMM_EST),
            ("device_fatal", abi::IBV_EVENT_DEVICE_FATAL),
            ("srq_limit_reached", abi::IBV_EVENT_SRQ_LIMIT_REACHED),
            ("gid_change", abi::IBV_EVENT_GID_CHANGE),
        ] {
            assert_eq!(event_named(name), Some(kind));
        }
    }
}
