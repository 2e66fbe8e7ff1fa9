//! The state machine of QPs: which transitions exist, and which attributes each must have and may
//! have (InfiniBand specification 1.3, volume 1, section 11.2.5.2; ibv_modify_qp(3)).

use gasnet_ibv_abi as abi;

use abi::{
    IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPT_RC,
    IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, IBV_QP_ACCESS_FLAGS, IBV_QP_ALT_PATH, IBV_QP_AV,
    IBV_QP_CUR_STATE, IBV_QP_DEST_QPN, IBV_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC,
    IBV_QP_MIN_RNR_TIMER, IBV_QP_PATH_MIG_STATE, IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_QKEY,
    IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_STATE, IBV_QP_TIMEOUT,
};

/// Attributes of a transition besides the state: (those it must have, those it may have).
type Masks = (u32, u32);

const CONNECT: u32 = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const RESPONDER: u32 = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
const REQUESTER: u32 = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
const PATH: u32 = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

fn masks(kind: u32, from: u32, to: u32) -> Option<Masks> {
    let ud = kind == IBV_QPT_UD;
    // Attributes that may change whenever the QP is up.
    let tunable = if ud { IBV_QP_QKEY } else { IBV_QP_ACCESS_FLAGS | PATH };
    let rnr_timer = if matches!(kind, IBV_QPT_RC | IBV_QPT_XRC_RECV) {
        IBV_QP_MIN_RNR_TIMER
    } else {
        0
    };
    let first = if ud { IBV_QP_QKEY } else { IBV_QP_ACCESS_FLAGS };
    Some(match (from, to) {
        (_, IBV_QPS_RESET | IBV_QPS_ERR) => (0, u32::MAX),
        (IBV_QPS_RESET, IBV_QPS_INIT) => (IBV_QP_PKEY_INDEX | IBV_QP_PORT | first, 0),
        (IBV_QPS_INIT, IBV_QPS_INIT) => (0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | first),
        (IBV_QPS_INIT, IBV_QPS_RTR) => match kind {
            IBV_QPT_UD => (0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY),
            IBV_QPT_UC | IBV_QPT_XRC_SEND => (CONNECT, IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH),
            _ => (
                CONNECT | RESPONDER,
                IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH,
            ),
        },
        (IBV_QPS_RTR, IBV_QPS_RTS) => {
            let must = match kind {
                IBV_QPT_RC | IBV_QPT_XRC_SEND => IBV_QP_SQ_PSN | REQUESTER,
                IBV_QPT_XRC_RECV => IBV_QP_SQ_PSN | IBV_QP_TIMEOUT,
                _ => IBV_QP_SQ_PSN,
            };
            (must, IBV_QP_CUR_STATE | tunable | rnr_timer)
        }
        (IBV_QPS_RTS | IBV_QPS_SQD, IBV_QPS_RTS) => (0, IBV_QP_CUR_STATE | tunable | rnr_timer),
        (IBV_QPS_RTS, IBV_QPS_SQD) => (0, IBV_QP_EN_SQD_ASYNC_NOTIFY),
        (IBV_QPS_SQD, IBV_QPS_SQD) => (
            0,
            IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_PORT | REQUESTER | IBV_QP_MAX_DEST_RD_ATOMIC | tunable | rnr_timer,
        ),
        (IBV_QPS_SQE, IBV_QPS_RTS) if matches!(kind, IBV_QPT_UD | IBV_QPT_UC) => (0, IBV_QP_CUR_STATE | tunable),
        _ => return None,
    })
}

/// The attributes of `mask` that the kernel does not ignore: each end of an XRC connection has its
/// own (torvalds/linux drivers/infiniband/core/uverbs_cmd.c).
pub fn relevant(kind: u32, mask: u32) -> u32 {
    match kind {
        IBV_QPT_XRC_SEND => mask & !RESPONDER,
        IBV_QPT_XRC_RECV => mask & !(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY),
        _ => mask,
    }
}

/// Checks a change of state from `from` with attributes `mask`. Returns the new state; Err: EINVAL.
pub fn check(kind: u32, from: u32, attr_state: u32, mask: u32) -> Result<u32, i32> {
    let to = if mask & IBV_QP_STATE == 0 { from } else { attr_state };
    let (must, may) = masks(kind, from, to).ok_or(libc::EINVAL)?;
    let given = mask & !IBV_QP_STATE;
    if given & must != must || given & !(must | may) != 0 {
        return Err(libc::EINVAL);
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [u32; 7] = [
        IBV_QPS_RESET,
        IBV_QPS_INIT,
        IBV_QPS_RTR,
        IBV_QPS_RTS,
        IBV_QPS_SQD,
        IBV_QPS_SQE,
        IBV_QPS_ERR,
    ];
    const KINDS: [u32; 5] = [IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV];

    #[test]
    fn what_must_be_given_suffices_and_nothing_less() {
        for (kind, from, to) in KINDS
            .iter()
            .flat_map(|k| STATES.iter().flat_map(move |f| STATES.map(|t| (*k, *f, t))))
        {
            let Some((must, may)) = masks(kind, from, to) else {
                assert_eq!(check(kind, from, to, IBV_QP_STATE), Err(libc::EINVAL));
                continue;
            };
            assert_eq!(check(kind, from, to, IBV_QP_STATE | must), Ok(to), "{kind} {from} {to}");
            for bit in (0..21).map(|b| 1 << b).filter(|bit| must & bit != 0) {
                assert_eq!(
                    check(kind, from, to, IBV_QP_STATE | must & !bit),
                    Err(libc::EINVAL),
                    "{kind} {from} {to} {bit}"
                );
            }
            for bit in (1..21).map(|b| 1 << b).filter(|bit| (must | may) & bit == 0) {
                assert_eq!(
                    check(kind, from, to, IBV_QP_STATE | must | bit),
                    Err(libc::EINVAL),
                    "{kind} {from} {to} {bit}"
                );
            }
        }
    }

    #[test]
    fn states_are_not_skipped() {
        for (from, to) in [
            (IBV_QPS_RESET, IBV_QPS_RTR),
            (IBV_QPS_INIT, IBV_QPS_RTS),
            (IBV_QPS_ERR, IBV_QPS_RTS),
        ] {
            assert!(KINDS.iter().all(|&kind| masks(kind, from, to).is_none()));
        }
    }

    #[test]
    fn the_usual_connection_passes() {
        let steps = [
            (IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            (IBV_QPS_RTR, CONNECT | RESPONDER),
            (IBV_QPS_RTS, IBV_QP_SQ_PSN | REQUESTER),
        ];
        let mut state = IBV_QPS_RESET;
        for (to, mask) in steps {
            state = check(IBV_QPT_RC, state, to, IBV_QP_STATE | mask).unwrap();
        }
        assert_eq!(state, IBV_QPS_RTS);
    }
}
