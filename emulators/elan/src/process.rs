//! This process's part of its fabric.

use std::ops::Deref;

use emulator_common::fabric::{now_ns, Member};
use emulator_common::per_process::PerProcess;
use emulator_common::random::Random;
use emulator_common::timers::Timers;
use emulator_common::words::Words;

use crate::config::Config;
use crate::forge::Forge;
use crate::reclaim::reclaim;
use crate::shm::Fabric;

/// All that a process has of a fabric.
pub struct Process {
    pub config: Config,
    pub member: Member<Fabric>,
    pub random: Random,
    /// Tasks that options `late` and `reorder` delay.
    later: Timers,
    pub forge: Forge,
    /// `Config::delays`.
    pub delays: bool,
}

impl Deref for Process {
    type Target = Member<Fabric>;
    fn deref(&self) -> &Member<Fabric> {
        &self.member
    }
}

static CURRENT: PerProcess<Process> = PerProcess::new();

/// The process's state, if it has attached before.
pub fn existing() -> Option<&'static Process> {
    CURRENT.get()
}

/// The process's state, made at the first call. Err: EMU_ELAN is not set, or cannot be used.
/// `at_exit` runs at the end of the process with option `report`.
pub fn current(at_exit: extern "C" fn()) -> Result<&'static Process, String> {
    let make = || {
        let config = Config::of_environment()?;
        let member = Member::join(&config.dir, reclaim)?;
        Ok(Process {
            random: Random::new(config.seed, member.slot),
            later: Timers::default(),
            forge: Forge::new(&config.forge),
            delays: config.delays(),
            config,
            member,
        })
    };
    CURRENT.get_or_make(make, |process| {
        if process.config.report {
            // SAFETY: a plain call; the handler is a function of this library.
            unsafe { libc::atexit(at_exit) };
        }
    })
}

impl Process {
    /// A random time below the longest delay.
    pub fn delay_ns(&self) -> u64 {
        self.random.below(self.config.delay_us * 1000)
    }

    /// Does something at a time of `now_ns`.
    pub fn schedule(&'static self, due_ns: u64, task: impl FnOnce() + Send + 'static) {
        self.later.at(due_ns, task);
    }

    /// Does something after a random time.
    pub fn schedule_soon(&'static self, task: impl FnOnce() + Send + 'static) {
        self.schedule(now_ns() + self.delay_ns(), task);
    }
}
