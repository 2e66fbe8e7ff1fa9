//! The collective engine: a tree of engines, whose leaves are processing elements that post. The
//! last child to join passes the partial result on, and the root's goes down to all leaves.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use emulator_common::copy;
use gasnet_gni_abi as abi;

use crate::entry;
use crate::memory::check_local;
use crate::object::Engine;
use crate::operation::Op;
use crate::process::Process;
use crate::queue;
use crate::refuse::{invalid, refusal, Outcome};
use crate::shm;
use crate::status;

/// The control word: bit 63 says that the result is complete.
pub const DONE: u64 = 1 << 63;

static NOT_DONE: u64 = 0;

/// The status in a control word.
pub fn status_of(control: u64) -> u64 {
    control & 0xff
}

/// A reduction, partly or completely done.
#[derive(Clone, Copy)]
struct Reduction {
    command: abi::gni_ce_cmd_type_t,
    /// `GNI_CEMODE_*`.
    mode: u32,
    id: u64,
    operands: [u64; 2],
    /// A status that spoils it; 0: none.
    status: u8,
}

/// The operation of a command: those of conduit-gni and of GASNet's aries-conduit.
fn operation(command: abi::gni_ce_cmd_type_t) -> Option<fn(u64, u64) -> u64> {
    const FMA_CE_IADD: abi::gni_ce_cmd_type_t = 0x15;
    match command {
        abi::GNI_FMA_CE_AND => Some(|a, b| a & b),
        FMA_CE_IADD => Some(u64::wrapping_add),
        _ => None,
    }
}

/// The checks of a post.
pub fn check(op: &Op, local_handle: &abi::gni_mem_handle_t) -> Outcome {
    op.nic.check_engines()?;
    if operation(op.command).is_none() {
        return Err(refusal(
            abi::GNI_RC_ILLEGAL_OP,
            "the emulator has no such command of the collective engine",
        ));
    }
    if op.local % 32 != 0 {
        return Err(refusal(
            abi::GNI_RC_ALIGNMENT_ERROR,
            "a result of the collective engine needs an address that is a multiple of 32",
        ));
    }
    if op.engine == (0, 0) {
        return Err(invalid("the endpoint has no attributes of a collective engine"));
    }
    check_local(op.nic, local_handle, op.local, 24, true)
}

/// The engine of an id on a NIC.
fn find(process: &Process, address: u32, id: u32) -> Option<&shm::Engine> {
    let engines = &process.fabric.engines;
    let engine = engines.find(id)?;
    (engine.address.load(Relaxed) == address).then_some(engine)
}

/// A leaf joins. GLOBAL says that the engine has taken the operands; the result follows.
pub fn run(op: &Op) {
    let process = op.process();
    let outcome = op.error.map_or_else(
        || {
            let _guard = process.fabric.reductions.lock();
            join_leaf(process, op)
        },
        Err,
    );
    op.complete_global(outcome.err().unwrap_or(0));
}

fn join_leaf(process: &Process, op: &Op) -> Result<(), u8> {
    let (id, child) = op.engine;
    let engine = find(process, op.remote_address, id).ok_or(status::CE_OPERATION_UNEXPECTED)?;
    if engine.ptag.load(Relaxed) != u32::from(op.nic.cdm.ptag) || engine.cookie.load(Relaxed) != op.nic.cdm.cookie {
        return Err(status::CE_PROTECTION_ERR);
    }
    let leaf = &engine.children[child as usize];
    if leaf.kind.load(Relaxed) != abi::GNI_CE_CHILD_PE {
        return Err(status::CE_JOIN_CHILD_INV);
    }
    if engine.joined.load(Relaxed) >> child & 1 != 0 {
        return Err(status::CE_JOIN_DUPLICATE);
    }
    leaf.owner.store(process.slot + 1, Relaxed);
    leaf.result.store(op.local, Relaxed);
    if process.config.ce_clear {
        let _ = copy::write(process, process.slot, &raw const NOT_DONE as u64, op.local, 8);
    }
    let reduction = Reduction {
        command: op.command,
        mode: op.ce_mode,
        id: op.reduction,
        operands: [op.operands.0, op.operands.1],
        status: 0,
    };
    join(process, engine, child, &reduction);
    Ok(())
}

/// A child contributes. The last one to do so completes the engine's part.
fn join(process: &Process, engine: &shm::Engine, child: u32, with: &Reduction) {
    let joined = engine.joined.load(Relaxed);
    if joined == 0 {
        engine.command.store(with.command, Relaxed);
        engine.mode.store(with.mode, Relaxed);
        engine.reduction.store(with.id, Relaxed);
        engine.status.store(u32::from(with.status), Relaxed);
    } else if engine.command.load(Relaxed) != with.command || engine.mode.load(Relaxed) != with.mode {
        engine.status.store(u32::from(status::CE_JOIN_INCONSISTENT), Relaxed);
    } else if engine.reduction.load(Relaxed) != with.id {
        engine
            .status
            .store(u32::from(status::CE_REDUCTION_ID_MISMATCH), Relaxed);
    } else if with.status != 0 {
        engine.status.store(u32::from(with.status), Relaxed);
    }
    for (to, from) in engine.children[child as usize].operands.iter().zip(with.operands) {
        to.store(from, Relaxed);
    }
    let joined = joined | 1 << child;
    engine.joined.store(joined, Relaxed);
    if joined != members(engine) {
        return;
    }
    let mut result = combine(engine);
    let is_root = engine.parent_address.load(Relaxed) == 0;
    if is_root && process.reductions.fetch_add(1, Relaxed) + 1 == process.config.ce_error {
        result.status = status::CE_UNCORRECTABLE;
    }
    match engine.parent_address.load(Relaxed) {
        0 => distribute(process, engine, &result),
        address => match find(process, address, engine.parent_id.load(Relaxed)) {
            Some(parent) => join(process, parent, engine.parent_child.load(Relaxed), &result),
            None => distribute(
                process,
                engine,
                &Reduction {
                    status: status::ENDPOINT_UNREACHABLE,
                    ..result
                },
            ),
        },
    }
}

/// The children that an engine waits for, as bits.
fn members(engine: &shm::Engine) -> u32 {
    let used = engine.children.iter().zip(0..).filter(|(child, _)| child.is_used());
    used.fold(0, |bits, (_, n)| bits | 1 << n)
}

/// Reduces what all children contributed.
fn combine(engine: &shm::Engine) -> Reduction {
    let mut result = Reduction {
        command: engine.command.load(Relaxed),
        mode: engine.mode.load(Relaxed),
        id: engine.reduction.load(Relaxed),
        operands: [0, 0],
        status: engine.status.load(Relaxed) as u8,
    };
    let used = engine.children.iter().filter(|child| child.is_used());
    let operands = used.map(|child| child.operands.each_ref().map(|operand| operand.load(Relaxed)));
    let all = operands.reduce(|a, b| match operation(result.command) {
        Some(operation) if result.mode & abi::GNI_CEMODE_TWO_OP != 0 => [operation(a[0], b[0]), operation(a[1], b[1])],
        Some(operation) => [operation(a[0], b[0]), a[1]],
        None => a,
    });
    result.operands = all.unwrap_or_default();
    result
}

/// Sends the result to all leaves below an engine, which is then ready for the next reduction.
fn distribute(process: &Process, engine: &shm::Engine, result: &Reduction) {
    engine.joined.store(0, Relaxed);
    let modes = engine.modes.load(Relaxed);
    let wanted = if result.status == 0 {
        abi::GNI_CE_MODE_CQE_ONCOMP
    } else {
        abi::GNI_CE_MODE_CQE_ONERR
    };
    if modes & wanted != 0 && engine.cq.load(Relaxed) != 0 {
        let entry = entry::engine(engine.id.load(Relaxed), result.id, result.status);
        queue::push(process, engine.cq.load(Relaxed), entry);
    }
    for child in engine.children.iter().filter(|child| child.is_used()) {
        if child.kind.load(Relaxed) == abi::GNI_CE_CHILD_VCE {
            if let Some(below) = find(process, child.address.load(Relaxed), child.id.load(Relaxed)) {
                distribute(process, below, result);
            }
            continue;
        }
        if result.status != 0 && process.config.ce_silent {
            continue;
        }
        let words = [DONE | u64::from(result.status), result.operands[0], result.operands[1]];
        let (slot, to) = (child.owner.load(Relaxed).wrapping_sub(1), child.result.load(Relaxed));
        // The control word last. A dead process gets nothing.
        let base = words.as_ptr() as u64;
        let _ = copy::write(process, slot, base + 8, to + 8, 16).and_then(|()| copy::write(process, slot, base, to, 8));
    }
}

/// Frees an engine of this process.
pub fn release(process: &Process, index: u32) {
    let _lock = process.fabric.reductions.lock();
    let engine = process.fabric.engines.at(index);
    if let Some(nic) = process.nic(engine.address.load(Relaxed)) {
        nic.ce.fetch_sub(1, Relaxed);
    }
    let _guard = process.allocation();
    process.fabric.engines.give(index);
}

impl shm::Child {
    fn is_used(&self) -> bool {
        self.kind.load(Relaxed) != abi::GNI_CE_CHILD_UNUSED
    }
}

impl Engine {
    pub fn shared(&self) -> &'static shm::Engine {
        self.nic.process.fabric.engines.at(self.index)
    }
}

/// Clears the configuration: no child can join.
pub fn reset(engine: &shm::Engine) {
    for field in [
        &engine.modes,
        &engine.cq,
        &engine.parent_address,
        &engine.parent_id,
        &engine.parent_child,
        &engine.joined,
        &engine.status,
    ] {
        field.store(0, Relaxed);
    }
    let kinds = engine.children.iter().map(|child| &child.kind);
    kinds.for_each(|kind: &AtomicU32| kind.store(abi::GNI_CE_CHILD_UNUSED, Relaxed));
}
