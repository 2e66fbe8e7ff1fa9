//! Messages and errors that no member of the job can have caused, and that are dropped: messages
//! outside their buffers, and errors of no operation of this process. Providers accept anybody, so
//! neither ends a job.
#![forbid(unsafe_code)]

use gasnet_conduit::{config, JobRank};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Messages and errors that this process has dropped.
#[derive(Debug, Default)]
pub struct Outsiders {
    dropped: AtomicU64,
    has_warned: AtomicBool,
}

impl Outsiders {
    /// Counts something that was dropped. The lines of `GASNET_VERBOSEENV` come ever more rarely.
    #[cold]
    pub fn drop(&self, rank: JobRank, what: &str) {
        let count = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() && config::get().get_or_default(&config::VERBOSEENV) {
            gasnet_conduit::print_line(format_args!(
                "GASNet: ofi: rank {rank} dropped {count} messages and errors of unauthenticated peers; last: {what}"
            ));
        }
    }

    /// The same of an error, with one warning: a broken network is another cause.
    #[cold]
    pub fn drop_error(&self, rank: JobRank, what: &str) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            gasnet_conduit::warn(format_args!(
                "rank {rank}: {what}. This is no operation of the job: an unauthenticated peer caused it, or the \
                 network is broken. The job goes on; GASNET_VERBOSEENV=1 counts more of these."
            ));
        }
        self.drop(rank, what);
    }

    /// Number of those.
    #[cfg(test)]
    fn count(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_counted() {
        let outsiders = Outsiders::default();
        outsiders.drop(JobRank(1), "a message of 7 bytes");
        outsiders.drop_error(JobRank(1), "a receive failed");
        assert_eq!(outsiders.count(), 2);
        assert!(outsiders.has_warned.load(Ordering::Relaxed));
    }
}
