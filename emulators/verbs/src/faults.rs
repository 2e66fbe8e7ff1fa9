//! Random numbers and counts behind the faults of a process. The same seed, slot and order of calls
//! give the same faults.

use std::time::Duration;

use emulator_common::forge::Count;

use crate::config::{Call, Operation};
use crate::forge::Change;
use crate::process::Process;

/// Calls and messages of a process so far.
#[derive(Default)]
pub struct Counts {
    /// Operations posted, by `Operation`.
    posted: [Count; 4],
    /// Completions of operations that succeed, likewise, for `lost-completion`.
    completed: [Count; 4],
    atomics: Count,
    /// Messages of connections, for `drop-connection` and for `qp-event`.
    messages: Count,
    ends: Count,
    registrations: Count,
    /// Registrations, for `reg-invalid`.
    pub kinds: Count,
    datagrams: Count,
    resolved: Count,
    handles: Count,
    /// By `Call`.
    calls: [Count; 7],
}

/// Whether a call is not one of the first, which fail with an errno.
fn check(fault: Option<(u64, i32)>, calls: &Count) -> Result<(), i32> {
    match fault {
        Some((most, errno)) if calls.next() <= most => Err(errno),
        _ => Ok(()),
    }
}

impl Process {
    /// The delay of an operation of a device.
    pub fn delay_ns(&self, device: u32) -> u64 {
        let config = &self.config;
        let slow = config.slow_hca.iter().filter(|slow| slow.0 == device);
        let slow: Duration = slow.map(|slow| slow.1).sum();
        let random = if config.late || config.late_visible || config.early_completion {
            self.random.below(config.delay.as_nanos() as u64)
        } else {
            0
        };
        random + slow.as_nanos() as u64
    }

    /// The status with which this operation completes by fault `cqe-error`.
    pub fn forced_error(&self, operation: Operation) -> Option<u32> {
        let errors = &self.config.cqe_error;
        if errors.is_empty() {
            return None;
        }
        let nth = self.counts.posted[operation as usize].next();
        let error = errors.iter().find(|e| e.operation == operation && e.nth == nth);
        error.map(|error| error.status)
    }

    /// Counts a completion of a successful operation; whether it is lost.
    pub fn loses_completion(&self, operation: Operation) -> bool {
        let lost = &self.config.lost_completion;
        if lost.is_empty() {
            return false;
        }
        let nth = self.counts.completed[operation as usize].next();
        lost.contains(&(operation, nth))
    }

    /// Counts an atomic; whether it changes nothing.
    pub fn loses_update(&self) -> bool {
        let every = self.config.lost_update;
        every != 0 && self.counts.atomics.next() % every == 0
    }

    /// Counts a message with immediate data; how fault `forge` alters it.
    pub fn forgery(&self) -> Option<Change> {
        let is_expected = !self.forge.is_empty();
        is_expected.then(|| self.forge.next(0).next()).flatten()
    }

    /// Counts a message of a connection; whether it is the one that finds it cut.
    pub fn cuts(&self) -> bool {
        self.config.drop_connection != 0 && self.counts.messages.is(self.config.drop_connection)
    }

    /// Counts a message of a connection; the event that alone reports that its QP ends.
    pub fn ends_qp(&self) -> Option<u32> {
        let (event, nth) = self.config.qp_event?;
        self.counts.ends.is(nth).then_some(event)
    }

    /// Counts a datagram; whether it fails at its sender.
    pub fn fails_datagram(&self) -> bool {
        self.config.ud_error.is_some_and(|(first, count)| {
            let nth = self.counts.datagrams.next();
            nth >= first && nth - first < count
        })
    }

    /// Whether a QP that connects finds the address of its peer. Err: errno.
    pub fn resolve(&self) -> Result<(), i32> {
        check(self.config.resolve_fail, &self.counts.resolved)
    }

    /// Whether an address handle finds the address of its peer. Err: errno.
    pub fn resolve_handle(&self) -> Result<(), i32> {
        check(self.config.ah_fail, &self.counts.handles)
    }

    /// Counts a call; whether it fails. Err: errno.
    pub fn count(&self, call: Call) -> Result<(), i32> {
        let nth = self.counts.calls[call as usize].next();
        let mut all = self.config.fail.iter();
        let fails = all.find(|fault| fault.call == call && nth >= fault.first && nth - fault.first < fault.count);
        fails.map_or(Ok(()), |fault| Err(fault.errno))
    }

    /// Counts a registration; whether it fails.
    pub fn refuses_registration(&self) -> bool {
        self.config.reg_fail != 0 && self.counts.registrations.is(self.config.reg_fail)
    }
}
