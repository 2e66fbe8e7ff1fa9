//! This process's part of its fabric, and what its faults count.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use emulator_common::fabric::Member;
use emulator_common::forge::Count;
use emulator_common::frames::Frames;
use emulator_common::per_process::PerProcess;
use emulator_common::random::Random;
use emulator_common::timers::Timers;
use gasnet_gni_abi as abi;

use crate::config::Config;
use crate::forge::Forge;
use crate::reclaim::reclaim;
use crate::shm::{Fabric, Nic, FIRST_ADDRESS};

/// All that a process has of a fabric.
pub struct Process {
    pub config: Config,
    pub member: Member<Fabric>,
    pub random: Random,
    /// Option `stale-pages`.
    pub frames: Option<Frames>,
    /// Operations that faults delay.
    pub later: Timers,
    pub is_gemini: bool,
    /// `Config::delays`.
    pub delays: bool,
    /// Whether posts can fail or be refused by faults.
    pub has_post_faults: bool,
    /// Registrations so far.
    pub registrations: AtomicU64,
    /// Bytes registered.
    pub registered: AtomicU64,
    /// Reductions of which this process has made the result.
    pub reductions: AtomicU64,
    /// REMOTE events so far, if fault `arrival-error` counts them.
    pub arrivals: AtomicU64,
    /// Calls of GNI_CdmAttach so far.
    pub attachments: AtomicU64,
    /// Domains that are attached, by NIC.
    pub attached: AtomicU64,
    /// AMOs so far, if fault `lost-update` counts them.
    amos: Count,
    /// GLOBAL events so far of operations that fault `lost-event` counts.
    global_events: Count,
    /// Operations posted, of those that each `Config::post_error` counts.
    posted: Vec<AtomicU64>,
    /// Forgeries of operations with a REMOTE event.
    pub forge: Forge,
}

impl Deref for Process {
    type Target = Member<Fabric>;
    fn deref(&self) -> &Member<Fabric> {
        &self.member
    }
}

static CURRENT: PerProcess<Process> = PerProcess::new();

/// The process's state, made at the first call. Err: EMU_UGNI is not set, or cannot be used.
pub fn current() -> Result<&'static Process, String> {
    let make = || {
        let config = Config::of_process()?;
        let member = Member::join(&config.dir, reclaim)?;
        let frames = config.stale_pages.then(Frames::new).transpose();
        Ok(Process {
            frames: frames.map_err(|why| format!("/proc/self/pagemap: {why}"))?,
            random: Random::new(config.seed, member.slot),
            later: Timers::default(),
            is_gemini: config.is_gemini(),
            delays: config.delays(),
            has_post_faults: config.busy != 0
                || !config.post_error.is_empty()
                || !config.forge.is_empty()
                || !config.damage.is_empty()
                || config.stale_pages,
            amos: Count::default(),
            global_events: Count::default(),
            registrations: AtomicU64::new(0),
            registered: AtomicU64::new(0),
            reductions: AtomicU64::new(0),
            arrivals: AtomicU64::new(0),
            attachments: AtomicU64::new(0),
            attached: AtomicU64::new(0),
            forge: Forge::new(&config.forge),
            posted: config.post_error.iter().map(|_| AtomicU64::new(0)).collect(),
            config,
            member,
        })
    };
    CURRENT.get_or_make(make, |process| {
        if process.config.report {
            // SAFETY: a plain call; the handler needs nothing but CURRENT.
            unsafe { libc::atexit(report) };
        }
    })
}

/// Option `report`, at the end of the process.
extern "C" fn report() {
    let left = CURRENT.get().map_or(0, |process| process.attached.load(Relaxed));
    if left != 0 {
        eprintln!("emulator of uGNI: the process ends with {left} domains attached");
    }
}

impl Process {
    /// The NIC address of a device of this process's node. None: there is no such device.
    pub fn address(&self, device: u32) -> Option<u32> {
        address(&self.config, device)
    }

    /// The hardware of a NIC address.
    pub fn nic(&self, address: u32) -> Option<&'static Nic> {
        self.fabric.nics.get(address.wrapping_sub(FIRST_ADDRESS) as usize)
    }

    /// Counts an AMO; whether it changes nothing.
    pub fn loses_update(&self) -> bool {
        let every = self.config.lost_update;
        every != 0 && self.amos.next() % every == 0
    }

    /// Counts the GLOBAL event of an operation; whether it is lost.
    pub fn loses_event(&self, kind: abi::gni_post_type_t) -> bool {
        let lost = self.config.lost_event.filter(|lost| [0, kind].contains(&lost.0));
        lost.is_some_and(|(_, nth)| self.global_events.is(nth))
    }

    /// Counts an operation. The status with which it completes by fault `post-error`.
    pub fn post_error(&self, kind: abi::gni_post_type_t, length: u64) -> Option<u8> {
        let mut status = None;
        for (fault, posted) in self.config.post_error.iter().zip(&self.posted) {
            let is_counted = [0, kind].contains(&fault.kind) && fault.lengths.contains(&length);
            if is_counted && posted.fetch_add(1, Relaxed) + 1 == fault.nth {
                status = status.or(Some(fault.status));
            }
        }
        status
    }
}

/// Waits this many microseconds, for faults.
pub fn pause(us: u64) {
    if us > 0 {
        std::thread::sleep(Duration::from_micros(us));
    }
}

/// The NIC address of a device.
pub fn address(config: &Config, device: u32) -> Option<u32> {
    // -1: the nearest.
    let device = if device == u32::MAX { 0 } else { device };
    (device < config.nics).then(|| FIRST_ADDRESS + config.node * config.nics + device)
}

/// Takes one of a resource of which there are `limit`. False: there is none left.
pub fn take(used: &AtomicU32, limit: u32) -> bool {
    take_some(used, 1, limit)
}

/// Takes `count` of them.
pub fn take_some(used: &AtomicU32, count: u32, limit: u32) -> bool {
    let more = |used: u32| used.checked_add(count).filter(|sum| *sum <= limit);
    used.fetch_update(Relaxed, Relaxed, more).is_ok()
}
