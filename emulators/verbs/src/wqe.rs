//! Work requests of send queues.

use emulator_common::wait::Using;
use gasnet_ibv_abi as abi;

use crate::address::Destination;
use crate::config::Operation;
use crate::copy::{self, Sge};
use crate::forge::Change;
use crate::mr;
use crate::process::Process;

/// A work request of a send queue.
#[derive(Default)]
pub struct Wqe {
    pub wr_id: u64,
    pub opcode: u32,
    pub flags: u32,
    pub imm: u32,
    pub rkey: u32,
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    /// XRC: number of the SRQ.
    pub srqn: u32,
    pub ud: Option<Destination>,
    /// The use of the address handle of a datagram.
    pub handle: Option<Using<'static>>,
    pub sges: Vec<Sge>,
    /// The data, if they were read when it was posted.
    pub data: Option<Vec<u8>>,
    /// Value of `SendQueue::posted` after it.
    pub number: u32,
    /// Earliest time of its execution.
    pub due_ns: u64,
    /// Transmissions without an answer on the path that the QP has after this number of migrations.
    pub lost: u32,
    pub migrations: u32,
    /// RNR NAKs.
    pub rnr: u32,
    /// Fault `cqe-error`.
    pub forced: Option<u32>,
    /// Fault `forge`: the length that the completion of its receive has.
    pub reported: Option<u32>,
    /// Its status, when it has executed but those before it have not completed.
    pub done: Option<u32>,
}

/// Result of an attempt to execute a work request.
pub enum Outcome {
    Done,
    Failed(u32),
    /// Try again after this time, in nanoseconds.
    Again(u64),
}

pub fn class(opcode: u32) -> Option<Operation> {
    Some(match opcode {
        abi::IBV_WR_SEND | abi::IBV_WR_SEND_WITH_IMM => Operation::Send,
        abi::IBV_WR_RDMA_WRITE | abi::IBV_WR_RDMA_WRITE_WITH_IMM => Operation::Write,
        abi::IBV_WR_RDMA_READ => Operation::Read,
        abi::IBV_WR_ATOMIC_CMP_AND_SWP | abi::IBV_WR_ATOMIC_FETCH_AND_ADD => Operation::Atomic,
        _ => return None,
    })
}

pub fn completion_opcode(opcode: u32) -> u32 {
    match opcode {
        abi::IBV_WR_RDMA_WRITE | abi::IBV_WR_RDMA_WRITE_WITH_IMM => abi::IBV_WC_RDMA_WRITE,
        abi::IBV_WR_RDMA_READ => abi::IBV_WC_RDMA_READ,
        abi::IBV_WR_ATOMIC_CMP_AND_SWP => abi::IBV_WC_COMP_SWAP,
        abi::IBV_WR_ATOMIC_FETCH_AND_ADD => abi::IBV_WC_FETCH_ADD,
        _ => abi::IBV_WC_SEND,
    }
}

impl Wqe {
    pub fn operation(&self) -> Operation {
        class(self.opcode).unwrap_or(Operation::Send)
    }

    pub fn length(&self) -> u64 {
        match &self.data {
            Some(data) => data.len() as u64,
            None => self.sges.iter().map(|sge| u64::from(sge.length)).sum(),
        }
    }

    /// Whether it carries immediate data.
    pub fn has_imm(&self) -> bool {
        matches!(self.opcode, abi::IBV_WR_SEND_WITH_IMM | abi::IBV_WR_RDMA_WRITE_WITH_IMM)
    }

    /// Its regions are those of a queued work request, or (-1) not any more.
    pub fn note_queued(&self, process: &Process, change: i32) {
        if self.flags & abi::IBV_SEND_INLINE == 0 {
            mr::note_queued(process, &self.sges, change);
        }
    }

    /// Fault `forge`: alters the message.
    pub fn alter(&mut self, change: Change) {
        let mut fill = |bytes: u32| {
            self.sges.clear();
            self.data = Some(vec![0xa5; bytes as usize]);
        };
        match change {
            Change::Write(bytes) => {
                fill(0);
                self.opcode = abi::IBV_WR_RDMA_WRITE_WITH_IMM;
                self.reported = Some(bytes);
            }
            Change::Length(bytes) => fill(bytes),
            Change::Imm(word) => self.imm ^= word.to_be(),
            Change::NoImm => self.opcode = abi::IBV_WR_SEND,
            Change::Byte(index) => {
                let mut bytes = copy::gather_inline(&self.sges, self.length() as usize);
                let length = bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(index as usize % length) {
                    *byte ^= 0xa5;
                }
                self.data = Some(bytes);
            }
        }
    }
}
