//! Automatic path migration (InfiniBand specification, volume 1, 17.2.8): a connected QP moves to
//! its alternate path instead of exhausting its retries.
//!
//! Packets carry the state of their sender (the MigReq bit). A QP in REARM becomes ARMED when a
//! packet arrives from one that is in REARM or ARMED. A QP that is ARMED migrates on its own, or
//! when a packet of a migrated peer arrives on its alternate path. The alternate path is then the
//! only one, until another is loaded.

use std::sync::atomic::Ordering::Relaxed;

use gasnet_ibv_abi as abi;

use crate::address::port_numbered;
use crate::config::Config;
use crate::event;
use crate::path::vector_is_valid;
use crate::process::Process;
use crate::shm::Qp as Shared;

/// Whether the attributes of this mask that are about migration are valid.
pub fn attributes_are_valid(config: &Config, qp: &Shared, attr: &abi::ibv_qp_attr, mask: u32) -> bool {
    let has = |bit: u32| mask & bit != 0;
    if !has(abi::IBV_QP_ALT_PATH | abi::IBV_QP_PATH_MIG_STATE) {
        return true;
    }
    let path_is_valid = port_numbered(config, qp.device.load(Relaxed), attr.alt_port_num).is_some_and(|port| {
        config.of_ports.has_partition(port, attr.alt_pkey_index)
            && attr.alt_timeout < 32
            && vector_is_valid(config, port, &attr.alt_ah_attr)
    });
    let state_is_valid = match attr.path_mig_state {
        abi::IBV_MIG_MIGRATED => true,
        abi::IBV_MIG_REARM => has(abi::IBV_QP_ALT_PATH) || qp.has_alternate.load(Relaxed) != 0,
        _ => false,
    };
    config.has_migration(qp.device.load(Relaxed))
        && (!has(abi::IBV_QP_ALT_PATH) || path_is_valid)
        && (!has(abi::IBV_QP_PATH_MIG_STATE) || state_is_valid)
}

/// Stores them. The caller holds the QP's lock.
pub fn set(process: &Process, key: u32, shared: &Shared, attr: &abi::ibv_qp_attr, mask: u32) {
    if mask & abi::IBV_QP_ALT_PATH != 0 {
        let path = &shared.alternate;
        path.set_vector(&attr.alt_ah_attr);
        path.port.store(u32::from(attr.alt_port_num) - 1, Relaxed);
        path.pkey_index.store(u32::from(attr.alt_pkey_index), Relaxed);
        path.timeout.store(u32::from(attr.alt_timeout), Relaxed);
        shared.has_alternate.store(1, Relaxed);
    }
    if mask & abi::IBV_QP_PATH_MIG_STATE != 0 {
        let is_armed = shared.migration.load(Relaxed) == abi::IBV_MIG_ARMED;
        if is_armed && attr.path_mig_state == abi::IBV_MIG_MIGRATED {
            migrate(process, shared, key);
        } else {
            shared.migration.store(attr.path_mig_state, Relaxed);
        }
    }
}

/// Forgets the alternate path (RESET).
pub fn reset(qp: &Shared) {
    qp.has_alternate.store(0, Relaxed);
    qp.migration.store(abi::IBV_MIG_MIGRATED, Relaxed);
}

/// A packet of a QP has reached another, and the answer the first.
pub fn note_exchange(first: &Shared, other: &Shared) {
    for (receiver, sender) in [(other, first), (first, other)] {
        if sender.migration.load(Relaxed) != abi::IBV_MIG_MIGRATED {
            let (from, to) = (abi::IBV_MIG_REARM, abi::IBV_MIG_ARMED);
            let _ = receiver.migration.compare_exchange(from, to, Relaxed, Relaxed);
        }
    }
}

/// Retries are exhausted on the path that a QP has after this number of migrations. Returns
/// whether it has another one now.
pub fn leave(process: &Process, key: u32, shared: &Shared, migrations: u32) -> bool {
    let _guard = shared.entry.lock.lock();
    let is_first = shared.migrations.load(Relaxed) == migrations;
    if is_first && shared.migration.load(Relaxed) == abi::IBV_MIG_ARMED {
        migrate(process, shared, key);
    }
    shared.migrations.load(Relaxed) != migrations
}

/// A packet arrives on the alternate path of a QP. Returns whether it has migrated.
pub fn follow(process: &Process, sender: &Shared, key: u32, qp: &Shared) -> bool {
    let _guard = qp.entry.lock.lock();
    let listens = matches!(
        qp.state.load(Relaxed),
        abi::IBV_QPS_RTR | abi::IBV_QPS_RTS | abi::IBV_QPS_SQD
    );
    if !listens || sender.migration.load(Relaxed) != abi::IBV_MIG_MIGRATED {
        return false;
    }
    if qp.migration.load(Relaxed) != abi::IBV_MIG_ARMED {
        event::push(process, qp.events.load(Relaxed), (abi::IBV_EVENT_PATH_MIG_ERR, key));
        return false;
    }
    migrate(process, qp, key);
    true
}

/// Moves an armed QP to its alternate path. The caller holds the QP's lock.
fn migrate(process: &Process, qp: &Shared, key: u32) {
    qp.path.copy_from(&qp.alternate);
    reset(qp);
    qp.migrations.fetch_add(1, Relaxed);
    event::push(process, qp.events.load(Relaxed), (abi::IBV_EVENT_PATH_MIG, key));
}
