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

/// The same by `ibv_event_type`.
const EVENTS: [(&str, &CStr); 20] = [
    ("cq_err", c"CQ error"),
    ("qp_fatal", c"local work queue catastrophic error"),
    ("qp_req_err", c"invalid request local work queue error"),
    ("qp_access_err", c"local access violation work queue error"),
    ("comm_est", c"communication established"),
    ("sq_drained", c"send queue drained"),
    ("path_mig", c"path migrated"),
    ("path_mig_err", c"path migration request error"),
    ("device_fatal", c"local catastrophic error"),
    ("port_active", c"port active"),
    ("port_err", c"port error"),
    ("lid_change", c"LID change"),
    ("pkey_change", c"P_Key change"),
    ("sm_change", c"SM change"),
    ("srq_err", c"SRQ catastrophic error"),
    ("srq_limit_reached", c"SRQ limit reached"),
    ("qp_last_wqe_reached", c"last WQE reached"),
    ("client_reregister", c"client reregistration"),
    ("gid_change", c"GID table change"),
    ("wq_fatal", c"WQ fatal"),
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

fn number_of(table: &[(&str, &CStr)], name: &str) -> Option<u32> {
    table.iter().position(|(short, _)| *short == name).map(|n| n as u32)
}

pub fn status_named(name: &str) -> Option<u32> {
    number_of(&STATUSES, name)
}

pub fn event_named(name: &str) -> Option<u32> {
    number_of(&EVENTS, name)
}

pub fn status(status: u32) -> &'static CStr {
    STATUSES.get(status as usize).map_or(c"unknown", |(_, text)| text)
}

pub fn event(event: u32) -> &'static CStr {
    EVENTS.get(event as usize).map_or(c"unknown", |(_, text)| text)
}

pub fn port_state(state: u32) -> &'static CStr {
    PORT_STATES.get(state as usize).unwrap_or(&c"unknown")
}

pub fn node_type(node: i32) -> &'static CStr {
    NODES.get(node as usize).unwrap_or(&c"unknown")
}

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
