//! This process's part of its fabric.

use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use emulator_common::fabric::Member;
use emulator_common::random::Random;

use crate::attachment::Attachment;
use crate::config::Config;
use crate::forge::Forge;
use crate::later::Later;
use crate::shm::Fabric;

/// All that a process has of a fabric. Never freed: a fork's child makes its own.
pub struct Process {
    pub config: Config,
    pub member: Member<Fabric>,
    pub random: Random,
    pub later: Later,
    pub forge: Forge,
    /// `Config::delays`.
    pub delays: bool,
    /// Attachments that have not stopped.
    pub attached: Mutex<Vec<&'static Attachment>>,
}

impl Deref for Process {
    type Target = Member<Fabric>;
    fn deref(&self) -> &Member<Fabric> {
        &self.member
    }
}

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
static ATTACHING: Mutex<()> = Mutex::new(());

/// A mutex's guard, also after a panic.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process's state, if it has attached before.
pub fn existing() -> Option<&'static Process> {
    let process = CURRENT.load(Acquire);
    // SAFETY: never freed once it is stored.
    let process = (!process.is_null()).then(|| unsafe { &*process });
    process.filter(|p| p.member.pid == std::process::id() as i32)
}

/// The process's state, made at the first call. Err: EMU_ELAN is not set, or cannot be used.
pub fn current() -> Result<&'static Process, String> {
    let _guard = locked(&ATTACHING);
    if let Some(process) = existing() {
        return Ok(process);
    }
    let text = std::env::var("EMU_ELAN").map_err(|_| "EMU_ELAN is not set; use scripts/with-emulator".to_string())?;
    let config = Config::parse(&text).map_err(|why| format!("EMU_ELAN: {why}"))?;
    let joined = Member::join(&config.dir).and_then(|member| {
        member.reclaim_dead(|slot| crate::reclaim::reclaim(&member, slot))?;
        Ok(member)
    });
    let member = joined.map_err(|error| format!("{}: {error}", config.dir))?;
    let process: &'static Process = Box::leak(Box::new(Process {
        random: Random::new(config.seed, member.slot),
        later: Later::default(),
        forge: Forge::new(config.forge.clone()),
        delays: config.delays(),
        attached: Mutex::new(Vec::new()),
        config,
        member,
    }));
    CURRENT.store(std::ptr::from_ref(process).cast_mut(), Release);
    if process.config.report {
        // SAFETY: the handler needs nothing but CURRENT.
        unsafe { libc::atexit(report) };
    }
    Ok(process)
}

/// Option `report`, at the end of the process.
extern "C" fn report() {
    for attachment in existing().iter().flat_map(|process| locked(&process.attached).clone()) {
        attachment.report("has not stopped");
    }
}

impl Process {
    /// A random time below the longest delay.
    pub fn delay_ns(&self) -> u64 {
        self.random.below(self.config.delay_us * 1000)
    }
}
