//! This process's part of its fabric, and what is only its own.

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

pub use emulator_common::fabric::now_ns;
use emulator_common::fabric::Member;
use emulator_common::forge::Forge;
use emulator_common::frames::Frames;
use emulator_common::per_process::PerProcess;
use emulator_common::random::Random;
use emulator_common::timers::{self, Task, Timers};
use emulator_common::words::Words;

use crate::config::Config;
use crate::faults::Counts;
use crate::forge::Change;
use crate::fork::forks;
use crate::reclaim::reclaim;
use crate::shm::Fabric;
use crate::stale::Watch;

/// All that a process has of a fabric.
pub struct Process {
    pub config: Config,
    pub member: Member<Fabric>,
    pub random: Random,
    pub counts: Counts,
    /// Forgeries of messages with immediate data.
    pub forge: Forge<Change>,
    /// Retries, delayed operations, and events of ports and devices.
    pub later: Timers,
    /// Data that land, for option `early-completion`: tasks of `later` may wait for them.
    pub bus: Timers,
    /// Forks before this process.
    pub forks: u32,
    /// Sends doorbells to the descriptors of all processes.
    pub socket: OwnedFd,
    /// Option `stale`.
    pub watch: Option<Watch>,
    /// Option `stale-pages`.
    pub frames: Option<Frames>,
    /// Tasks of times of faults that have not come, for option `steps`.
    pub awaiting: Mutex<Vec<(u64, Task)>>,
    /// Registrations so far.
    pub registrations: AtomicU64,
    /// RNR NAKs that this process has received, for `report`.
    pub rnr_naks: AtomicU64,
    /// Datagrams that stopped a QP because its receive was too short.
    pub overlong: AtomicU64,
    /// Bytes registered, for `pin-limit`.
    pub pinned: AtomicU64,
}

impl Deref for Process {
    type Target = Member<Fabric>;
    fn deref(&self) -> &Member<Fabric> {
        &self.member
    }
}

/// The process's state, made at the first call. Err: EMU_VERBS is not set, or cannot be used.
pub fn current() -> Result<&'static Process, String> {
    static CURRENT: PerProcess<Process> = PerProcess::new();
    CURRENT.get_or_make(attach, |process| {
        if let Some(watch) = &process.watch {
            timers::start(|| watch.run(process, &process.registrations));
        }
    })
}

fn attach() -> Result<Process, String> {
    let config = Config::of_environment()?;
    let member = Member::join(&config.dir, reclaim)?;
    let socket = UnixDatagram::unbound().and_then(|socket| {
        // A full queue of doorbells must not block the thread that rings.
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    let watch = config.stale.then(Watch::new).transpose();
    let frames = config.stale_pages.then(Frames::new).transpose();
    Ok(Process {
        random: Random::new(config.seed, member.slot),
        counts: Counts::default(),
        forge: Forge::new(&config.forge),
        config,
        member,
        forks: forks(),
        later: Timers::default(),
        bus: Timers::default(),
        socket: socket.map_err(|error| format!("a socket: {error}"))?.into(),
        watch: watch.map_err(|error| format!("userfaultfd: {error}"))?,
        frames: frames.map_err(|error| format!("/proc/self/pagemap: {error}"))?,
        awaiting: Mutex::default(),
        registrations: AtomicU64::new(0),
        rnr_naks: AtomicU64::new(0),
        overlong: AtomicU64::new(0),
        pinned: AtomicU64::new(0),
    })
}

impl Process {
    /// The time of faults, in nanoseconds: since the first `ibv_open_device`.
    pub fn fault_time_ns(&self) -> u64 {
        let fabric = self.fabric;
        if self.config.steps {
            return fabric.stepped_ns.load(Relaxed);
        }
        match fabric.opened_ns.load(Relaxed) {
            0 => 0,
            opened => now_ns() - opened,
        }
    }
}
