//! Random numbers and counts behind the faults of a process. The same seed, slot and order of calls
//! give the same faults.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use emulator_common::forge::Count;
use emulator_common::random::Random;

use crate::config::{Config, CqeError, Operation};
use crate::forge::Forgery;

pub struct Faults {
    random: Random,
    delay_ns: u64,
    is_random: bool,
    errors: Vec<CqeError>,
    /// Operations posted, by `Operation`.
    posted: [AtomicU64; 4],
    forgeries: Vec<Forgery>,
    /// Messages with immediate data.
    forgeable: Count,
    messages: AtomicU64,
    drop_connection: u64,
    registrations: AtomicU64,
    reg_fail: u64,
    qp_event: Option<(u32, u64)>,
    ends: AtomicU64,
    datagrams: AtomicU64,
    ud_error: Option<(u64, u64)>,
    resolve_fail: Failing,
    ah_fail: Failing,
}

/// The first calls of a kind fail.
struct Failing {
    left: AtomicU64,
    errno: i32,
}

impl Failing {
    fn new(fault: Option<(u64, i32)>) -> Failing {
        let (calls, errno) = fault.unwrap_or_default();
        Failing {
            left: AtomicU64::new(calls),
            errno,
        }
    }

    fn check(&self) -> Result<(), i32> {
        let take = |left: u64| left.checked_sub(1);
        match self.left.fetch_update(Relaxed, Relaxed, take) {
            Ok(_) => Err(self.errno),
            Err(_) => Ok(()),
        }
    }
}

impl Faults {
    pub fn new(config: &Config, slot: u32) -> Faults {
        Faults {
            random: Random::new(config.seed, slot),
            delay_ns: config.delay.as_nanos() as u64,
            is_random: config.late || config.late_visible || config.early_completion,
            errors: config.cqe_error.clone(),
            posted: Default::default(),
            forgeries: config.forge.clone(),
            forgeable: Count::default(),
            messages: AtomicU64::new(0),
            drop_connection: config.drop_connection,
            registrations: AtomicU64::new(0),
            reg_fail: config.reg_fail,
            qp_event: config.qp_event,
            ends: AtomicU64::new(0),
            datagrams: AtomicU64::new(0),
            ud_error: config.ud_error,
            resolve_fail: Failing::new(config.resolve_fail),
            ah_fail: Failing::new(config.ah_fail),
        }
    }

    pub fn hits(&self, percent: u32) -> bool {
        self.random.hits(percent)
    }

    /// The delay of an operation of a device.
    pub fn delay_ns(&self, config: &Config, device: u32) -> u64 {
        let slow = config
            .slow_hca
            .iter()
            .filter(|slow| slow.0 == device)
            .map(|slow| slow.1)
            .sum::<Duration>();
        let random = if self.is_random {
            self.random.below(self.delay_ns)
        } else {
            0
        };
        random + slow.as_nanos() as u64
    }

    /// The status with which this operation completes by fault `cqe-error`.
    pub fn error(&self, operation: Operation) -> Option<u32> {
        if self.errors.is_empty() {
            return None;
        }
        let nth = self.posted[operation as usize].fetch_add(1, Relaxed) + 1;
        self.errors
            .iter()
            .find(|e| e.operation == operation && e.nth == nth)
            .map(|e| e.status)
    }

    /// Counts a message with immediate data; how fault `forge` alters it.
    pub fn forgery(&self) -> Option<&Forgery> {
        if self.forgeries.is_empty() {
            return None;
        }
        let nth = self.forgeable.next();
        self.forgeries.iter().find(|forgery| forgery.nth == nth)
    }

    /// Counts a message of a connection; whether it is the one that finds it cut.
    pub fn cuts(&self) -> bool {
        self.drop_connection != 0 && self.messages.fetch_add(1, Relaxed) + 1 == self.drop_connection
    }

    /// Counts a message of a connection; the event that alone reports that its QP ends.
    pub fn ends_qp(&self) -> Option<u32> {
        let (event, nth) = self.qp_event?;
        (self.ends.fetch_add(1, Relaxed) + 1 == nth).then_some(event)
    }

    /// Counts a datagram; whether it fails at its sender.
    pub fn fails_datagram(&self) -> bool {
        self.ud_error.is_some_and(|(first, count)| {
            let nth = self.datagrams.fetch_add(1, Relaxed) + 1;
            nth >= first && nth - first < count
        })
    }

    /// Whether a QP that connects finds the address of its peer. Err: errno.
    pub fn resolve(&self) -> Result<(), i32> {
        self.resolve_fail.check()
    }

    /// Whether an address handle finds the address of its peer. Err: errno.
    pub fn resolve_handle(&self) -> Result<(), i32> {
        self.ah_fail.check()
    }

    /// Counts a registration; whether it fails.
    pub fn refuses_registration(&self) -> bool {
        self.reg_fail != 0 && self.registrations.fetch_add(1, Relaxed) + 1 == self.reg_fail
    }
}
