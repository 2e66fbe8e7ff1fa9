//! A process manager's store, over the all-gather of a conduit's [`Bootstrap`].
//!
//! A fence gathers what each process has put since the last one.
//!
//! The conduit gni brings one: Cray's `libpmi`, whose launchers take an exit without finalisation
//! for a failure.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::time::Duration;

use super::{Membership, ProcessManager, KEY_MAX, VALUE_MAX};
use crate::JobError;
use gasnet_conduit::{Bootstrap, ConduitError};

/// Most bytes that a process puts between two fences: a few values.
const FENCE_MAX: usize = 4 * (KEY_MAX + VALUE_MAX + 2);

pub struct ByExchange {
    bootstrap: &'static dyn Bootstrap,
    membership: Membership,
    /// Values that this process has put since the last fence: `key=value` lines.
    fresh: String,
    values: Values,
}

/// Values by owner and key.
pub type Values = HashMap<(u32, String), String>;

fn failed(error: ConduitError) -> JobError {
    JobError::new(error.message)
}

impl ByExchange {
    pub fn connect(bootstrap: &'static dyn Bootstrap) -> Result<Self, JobError> {
        let place = bootstrap.join().map_err(failed)?;
        let membership = Membership {
            manager: place.system,
            rank: place.rank,
            size: place.size,
            node: place.node,
        };
        membership.check()?;
        Ok(Self {
            bootstrap,
            membership,
            fresh: String::new(),
            values: HashMap::new(),
        })
    }

    /// All processes' bytes, of `each` bytes.
    fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>, JobError> {
        let all = self.bootstrap.exchange(bytes).map_err(failed)?;
        if all.len() == bytes.len() * self.membership.size as usize {
            return Ok(all);
        }
        Err(self.membership.error(&format!(
            "{} bytes of each of {} processes were gathered as {}",
            bytes.len(),
            self.membership.size,
            all.len()
        )))
    }
}

/// The most bytes that a process puts, from the lengths that all announce.
pub fn longest(lengths: &[u8]) -> Result<usize, String> {
    let lengths = lengths.chunks_exact(8);
    let lengths = lengths.map(|n| u64::from_ne_bytes(n.try_into().unwrap_or_default()));
    let (longest, rank) = lengths.zip(0_u32..).max().unwrap_or((0, 0));
    let possible = usize::try_from(longest).ok().filter(|&longest| longest <= FENCE_MAX);
    possible.ok_or_else(|| format!("rank {rank} announces {longest} bytes, more than {FENCE_MAX}"))
}

/// Takes what all processes put, in parts of `each` bytes.
pub fn take_values(values: &mut Values, all: &[u8], each: usize) {
    for (owner, text) in (0..).zip(all.chunks_exact(each)) {
        let text = String::from_utf8_lossy(text);
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            values.insert((owner, key.into()), value.into());
        }
    }
}

impl ProcessManager for ByExchange {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), JobError> {
        debug_assert!((1..=VALUE_MAX).contains(&value.len()));
        for part in [key, "=", value, "\n"] {
            self.fresh += part;
        }
        Ok(())
    }

    /// The system has no limit.
    fn fence(&mut self, _: Option<Duration>) -> Result<(), JobError> {
        let mut text = std::mem::take(&mut self.fresh).into_bytes();
        let lengths = self.exchange(&(text.len() as u64).to_ne_bytes())?;
        let longest = longest(&lengths).map_err(|why| self.membership.error(&why))?;
        if longest == 0 {
            return Ok(());
        }
        text.resize(longest, b'\n');
        let all = self.exchange(&text)?;
        take_values(&mut self.values, &all, longest);
        Ok(())
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<String, JobError> {
        let value = self.values.get(&(owner, key.into())).cloned();
        value.ok_or_else(|| {
            self.membership
                .error(&format!("rank {owner} has put no value for {key}"))
        })
    }

    fn finalize(&mut self, whole: bool) {
        self.bootstrap.leave(whole);
    }

    fn abort(&mut self) {
        self.bootstrap.abort();
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.bootstrap.descriptors()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::BootstrapPlace;
    use std::sync::{Barrier, Mutex};

    /// Ranks that are threads.
    struct Ranks {
        barrier: Barrier,
        table: Mutex<Vec<Vec<u8>>>,
    }

    /// One of them.
    struct Rank(&'static Ranks, u32);

    impl Bootstrap for Rank {
        fn has_started_this(&self) -> bool {
            true
        }
        fn join(&self) -> Result<BootstrapPlace, ConduitError> {
            let (rank, size) = (self.1, self.0.table.lock().unwrap().len() as u32);
            let system = "threads".into();
            Ok(BootstrapPlace {
                system,
                rank,
                size,
                node: None,
            })
        }
        fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>, ConduitError> {
            self.0.table.lock().unwrap()[self.1 as usize] = bytes.to_vec();
            self.0.barrier.wait();
            let all = self.0.table.lock().unwrap().concat();
            self.0.barrier.wait();
            Ok(all)
        }
        fn leave(&self, _: bool) {}
        fn abort(&self) {}
    }

    #[test]
    fn values_are_known_after_a_fence() {
        const SIZE: u32 = 4;
        let ranks: &'static Ranks = Box::leak(Box::new(Ranks {
            barrier: Barrier::new(SIZE as usize),
            table: Mutex::new(vec![Vec::new(); SIZE as usize]),
        }));
        let run = |rank: u32| {
            let mut manager = ByExchange::connect(Box::leak(Box::new(Rank(ranks, rank)))).unwrap();
            let text = |rank: u32| "x".repeat(1 + rank as usize * 150);
            if rank == 0 {
                manager.put("secret", "0123,-:_.").unwrap();
            }
            assert!(manager.get(0, "secret").is_err());
            manager.fence(None).unwrap();
            assert_eq!(manager.get(0, "secret").unwrap(), "0123,-:_.");
            assert!(manager.get(1, "secret").is_err());
            manager.put("at", &text(rank)).unwrap();
            manager.fence(None).unwrap();
            manager.fence(None).unwrap();
            for other in 0..SIZE {
                assert_eq!(manager.get(other, "at").unwrap(), text(other));
            }
        };
        std::thread::scope(|scope| (0..SIZE).for_each(|rank| _ = scope.spawn(move || run(rank))));
    }

    /// A job whose rank 1 announces more bytes than there is memory.
    struct Liar;

    impl Bootstrap for Liar {
        fn has_started_this(&self) -> bool {
            true
        }
        fn join(&self) -> Result<BootstrapPlace, ConduitError> {
            Ok(BootstrapPlace {
                system: "liar".into(),
                rank: 0,
                size: 3,
                node: None,
            })
        }
        fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>, ConduitError> {
            Ok([bytes, &u64::MAX.to_ne_bytes()[..bytes.len()], bytes].concat())
        }
        fn leave(&self, _: bool) {}
        fn abort(&self) {}
    }

    #[test]
    fn an_impossible_length_is_refused_by_rank() {
        let mut manager = ByExchange::connect(&Liar).unwrap();
        manager.put("at", "x").unwrap();
        let refused = manager.fence(None).unwrap_err();
        assert!(
            refused.message.contains("rank 1 announces 18446744073709551615 bytes"),
            "{refused}"
        );
    }
}
