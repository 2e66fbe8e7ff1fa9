//! Numbers and sizes of the receive buffers of an HCA.
//!
//! Peers share the buffers where that saves some and the HCA has shared receive queues. Elsewhere
//! each queue pair has buffers of its own, and their memory would grow with the job: 3.5 MiB for
//! each peer at the default settings. There `GASNET_RBUF_COUNT` bounds the memory all the same.
//! Beyond it buffers become smaller first, and larger packets are fetched by their receivers
//! ([`crate::receive::fetch`]); then peers get fewer credits.
#![forbid(unsafe_code)]

use crate::settings::Settings;
use gasnet_conduit::{config, print_line};

/// Bytes of the smallest buffers: a packet of 4 KiB, the reference's largest, with its header.
const SMALLEST: usize = (4 << 10) + 128;
/// Buffers of a queue pair beside those of credits: for a farewell, and for messages that return
/// credits.
const OTHERS: usize = 8;
/// Credits for which buffers become smaller; the reference gives as many.
const GOOD: usize = 12;

/// Limits of an HCA.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Buffers of its longest shared receive queue; 0: it has none.
    pub shared: usize,
    /// Those of a queue pair.
    pub pair: usize,
    /// Entries of a completion queue.
    pub completions: usize,
}

/// The buffers that an HCA gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivePlan {
    /// Of each queue pair; 0: they are shared.
    pub each: usize,
    /// All of them.
    pub count: usize,
    /// Bytes of each.
    pub bytes: usize,
    /// Requests that a peer may have under way.
    pub credits: u32,
}

/// The completion queues of an HCA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionQueues {
    pub count: usize,
    /// Completions of each.
    pub length: usize,
    /// Operations of this process under way, which may all be on one of them.
    pub sends: usize,
}

/// Buffers that each credit of a peer needs: for the request, and for a reply to one of this
/// process. Of small buffers also for the notes that fetched packets are free.
const fn of_credit(is_small: bool) -> usize {
    if is_small {
        4
    } else {
        2
    }
}

impl ReceivePlan {
    /// For `processes` processes, each connected by `pairs` queue pairs of the HCA. The error is a
    /// message without a full stop.
    pub fn new(settings: &Settings, limits: Limits, processes: usize, pairs: usize) -> Result<Self, String> {
        let all = processes * pairs;
        let (bytes, credits) = (settings.max_packet, settings.credits as usize);
        let wanted = (of_credit(false) * credits + OTHERS).min(limits.pair);
        if limits.shared > 0 && settings.shares(processes, wanted * all) {
            let count = match settings.receives {
                0 => limits.shared,
                some => some.min(limits.shared),
            };
            return Ok(Self {
                each: 0,
                count: count.min(limits.completions / 2).max(4),
                bytes,
                credits: settings.credits,
            });
        }
        // Half of a completion queue is for what this process sends.
        let most = limits.pair.min(limits.completions / 2);
        if most < of_credit(true) {
            return Err(format!(
                "it has no shared receive queues, and room for {} completions, which is too little for the receive \
                 buffers of a queue pair. Use another HCA (GASNET_IBV_PORTS) or conduit",
                limits.completions
            ));
        }
        let memory = match settings.receives {
            0 => usize::MAX,
            buffers => buffers * bytes,
        };
        Ok(Self::owned(bytes, credits, memory, most, all))
    }

    /// The completion queues, for up to `sends` operations of this process under way. One if an HCA
    /// lets it be long enough, with `most` completions; else pairs take turns at several.
    pub fn completion_queues(&self, sends: usize, most: usize) -> CompletionQueues {
        if self.each == 0 || self.count <= most / 2 {
            let length = (sends + self.count).min(most);
            return CompletionQueues {
                count: 1,
                length,
                sends: length - self.count,
            };
        }
        let sends = sends.min(most / 2);
        let pairs = ((most - sends) / self.each).max(1);
        CompletionQueues {
            count: (self.count / self.each).div_ceil(pairs),
            length: sends + pairs * self.each,
            sends,
        }
    }

    /// Buffers of `all` queue pairs, each of which may have `most`: `wanted` credits and buffers of
    /// `largest` bytes if the memory is enough for them.
    fn owned(largest: usize, wanted: usize, memory: usize, most: usize, all: usize) -> Self {
        let mut bytes = largest;
        loop {
            let per_credit = of_credit(bytes < largest);
            let fitting = memory / (bytes * all);
            let room = fitting.min(most).saturating_sub(OTHERS);
            let credits = (room / per_credit).clamp(1, wanted);
            if fitting >= most || credits >= GOOD.min(wanted) || bytes <= SMALLEST {
                let each = (per_credit * credits + OTHERS).min(most);
                return Self {
                    each,
                    count: each * all,
                    bytes,
                    credits: credits as u32,
                };
            }
            bytes = (bytes / 2).next_multiple_of(64).max(SMALLEST);
        }
    }
}

/// Prints that the buffers of the job, of `bytes` bytes and for `credits` credits, are less than
/// the settings ask for.
pub fn report(settings: &Settings, bytes: usize, credits: u32) {
    let is_less = bytes < settings.max_packet || credits < settings.credits;
    if is_less && config::get().get_or_default(&config::VERBOSEENV) {
        print_line(format_args!(
            "GASNet: ibv: receive queues are not shared: peers have {credits} credits each, and receive buffers of \
             {bytes} bytes. GASNET_RBUF_COUNT raises both."
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without shared receive queues, as Intel E810.
    const E810: Limits = Limits {
        shared: 0,
        pair: 8127,
        completions: 1_048_574,
    };

    fn plan(limits: Limits, processes: usize) -> ReceivePlan {
        ReceivePlan::new(&Settings::read(), limits, processes, 1).unwrap()
    }

    #[test]
    fn memory_has_a_bound() {
        let bound = 1024 * Settings::read().max_packet;
        for processes in [2, 9, 10, 16, 64, 256, 1024] {
            let plan = plan(E810, processes);
            assert!(
                plan.count * plan.bytes <= bound || plan.credits == 1,
                "{processes}: {plan:?}"
            );
            assert!(plan.each >= 2 * plan.credits as usize, "{processes}: {plan:?}");
        }
        // 64 processes on each of four hosts: 4.2 GB on a host.
        let many = plan(E810, 256);
        assert_eq!((many.bytes, many.credits), (SMALLEST, 13));
        assert!(many.count * many.bytes < 66_000_000);
    }

    /// The table of docs/ibv.md.
    #[test]
    fn jobs_without_shared_receive_queues() {
        for (processes, expected) in [
            (18, (24, 65_664, 66_189_312)),
            (32, (12, 65_664, 67_239_936)),
            (256, (13, 4224, 64_880_640)),
            (1024, (1, 4224, 51_904_512)),
        ] {
            let plan = plan(E810, processes);
            assert_eq!((plan.credits, plan.bytes, plan.count * plan.bytes), expected);
        }
    }

    #[test]
    fn small_jobs_have_whole_buffers() {
        let settings = Settings::read();
        let few = plan(E810, 8);
        assert_eq!(
            (few.bytes, few.credits, few.each),
            (settings.max_packet, settings.credits, 56)
        );
        // Fewer credits come before smaller buffers.
        let more = plan(E810, 20);
        assert_eq!((more.bytes, more.credits), (settings.max_packet, 21));
    }

    #[test]
    fn completion_queues_have_an_end() {
        let mana = Limits {
            completions: 8192,
            pair: 8192,
            ..E810
        };
        let few = plan(mana, 64);
        let one = few.completion_queues(4096, 8192);
        assert_eq!((one.count, one.length), (1, 4096 + few.count));
        // As many credits as with long ones.
        assert_eq!(plan(mana, 256), plan(E810, 256));
        for processes in [256, 4096, 16_384] {
            let plan = plan(mana, processes);
            let queues = plan.completion_queues(4096, 8192);
            let pairs = processes.div_ceil(queues.count);
            assert_eq!(queues.sends, 4096);
            assert!(queues.length <= 8192 && queues.sends + pairs * plan.each <= queues.length);
        }
        let tiny = Limits { completions: 7, ..mana };
        let refused = ReceivePlan::new(&Settings::read(), tiny, 2, 1).unwrap_err();
        assert!(refused.contains("7 completions"), "{refused}");
    }

    #[test]
    fn buffers_are_shared_where_that_saves_some() {
        let shared = Limits { shared: 32_767, ..E810 };
        assert_eq!(plan(shared, 8), plan(E810, 8));
        let many = plan(shared, 256);
        assert_eq!((many.each, many.count), (0, 1024));
        assert_eq!(many.credits, Settings::read().credits);
    }

    #[test]
    fn short_queues_keep_whole_buffers() {
        let short = Limits { pair: 8, ..E810 };
        let plan = plan(short, 3);
        assert_eq!(
            (plan.each, plan.credits, plan.bytes),
            (8, 1, Settings::read().max_packet)
        );
    }
}
