//! This process's part of its fabric, and what is only its own.

use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, OnceLock};

pub use emulator_common::fabric::now_ns;
use emulator_common::fabric::Member;
use emulator_common::timers;

use crate::config::Config;
use crate::faults::Faults;
use crate::nic::Nic;
use crate::raise::Awaiting;
use crate::reclaim::reclaim;
use crate::shm::Fabric;
use crate::stale::Watch;

/// All that a process has of a fabric. Never freed: a fork's child makes its own.
pub struct Process {
    pub config: Config,
    pub member: Member<Fabric>,
    pub faults: Faults,
    pub nic: Nic,
    /// Lets data land, for option `early-completion`.
    pub bus: Nic,
    /// Sends doorbells to the descriptors of all processes.
    pub socket: OwnedFd,
    /// Option `stale`.
    pub watch: OnceLock<Watch>,
    /// Events that come with a step, for option `steps`.
    pub awaiting: Mutex<Vec<Awaiting>>,
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

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
static ATTACHING: Mutex<()> = Mutex::new(());

/// The process's state, made at the first call. Err: EMU_VERBS is not set, or cannot be used.
pub fn current() -> Result<&'static Process, String> {
    let pid = std::process::id() as i32;
    let find = || {
        let process = CURRENT.load(Acquire);
        // SAFETY: never freed once it is stored.
        (!process.is_null())
            .then(|| unsafe { &*process })
            .filter(|p| p.pid == pid)
    };
    if let Some(process) = find() {
        return Ok(process);
    }
    let _guard = ATTACHING.lock();
    if let Some(process) = find() {
        return Ok(process);
    }
    let text = std::env::var("EMU_VERBS").map_err(|_| "EMU_VERBS is not set; use scripts/with-emulator".to_string())?;
    let config = Config::parse(&text).map_err(|why| format!("EMU_VERBS: {why}"))?;
    let process = attach(config)?;
    let process: &'static Process = Box::leak(Box::new(process));
    if process.config.stale {
        let watch = Watch::new().map_err(|error| format!("userfaultfd: {error}"))?;
        let watch = process.watch.get_or_init(|| watch);
        timers::start(|| watch.run(process));
    }
    CURRENT.store(std::ptr::from_ref(process).cast_mut(), Release);
    Ok(process)
}

fn attach(config: Config) -> Result<Process, String> {
    let member = Member::join(&config.dir, reclaim)?;
    let process = Process {
        faults: Faults::new(&config, member.slot),
        config,
        member,
        nic: Nic::default(),
        bus: Nic::default(),
        socket: UnixDatagram::unbound()
            .map_err(|error| format!("socket: {error}"))?
            .into(),
        watch: OnceLock::new(),
        awaiting: Mutex::default(),
        registrations: AtomicU64::new(0),
        rnr_naks: AtomicU64::new(0),
        overlong: AtomicU64::new(0),
        pinned: AtomicU64::new(0),
    };
    // A full queue of doorbells must not block who rings.
    // SAFETY: a plain call on an own descriptor.
    unsafe { libc::fcntl(process.socket.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    Ok(process)
}
