//! The start: attaches the process to the network, and opens queues, port, channels and memory, all
//! processes in the same order.

use crate::barrier::{self, Rounds};
use crate::boot_record::BootRecord;
use crate::buffers::{BufferMemory, Buffers, BUFFER};
use crate::channels::Channels;
use crate::credits::{Credits, COUNTS};
use crate::ffi::{Functions, Shim};
use crate::link::Link;
use crate::net::Net;
use crate::peers::{Numbers, Peers};
use crate::receive::{PostedReceives, Receiver};
use crate::rma::OneSided;
use crate::send::Messages;
use crate::settings::Settings;
use crate::wire::MOST_SLOT;
use gasnet_conduit::{Class, ConduitError, JobRank, ProviderReport, StartInfo};
use gasnet_conduit_util::record::{all_can, exchange};
use gasnet_elan_abi as abi;
use std::ptr::NonNull;
use std::sync::Arc;

/// Credits of a process at all its peers together, by default, and the limits of those at one.
const CREDITS: u32 = 4096;
const CREDITS_OF_PEER: (u32, u32) = (2, 64);
/// Least bytes of a slot of a queue.
const LEAST_SLOT: usize = 320;
/// Fewest buffers with which the conduit works: two that it sends from, and two offers of each
/// class.
const FEWEST: u32 = 8;

/// Whether this process could start the conduit.
pub fn can_start() -> Result<(), String> {
    Functions::get().map(|_| ())
}

/// For `gasnet_info`.
pub fn provider() -> ProviderReport {
    let usable = match can_start() {
        Ok(()) => "possible in jobs that RMS or Slurm has started".to_owned(),
        Err(why) => format!("impossible: {why}"),
    };
    ProviderReport {
        name: "libelan".to_owned(),
        facts: vec![("use", usable)],
    }
}

/// Credits of a process at each peer.
fn credits(wanted: Option<u32>, peers: u32) -> u32 {
    let (least, most) = CREDITS_OF_PEER;
    wanted.unwrap_or_else(|| (CREDITS / peers.max(1)).clamp(least, most))
}

/// Attaches this process to the network, as one of these. The error is a message without a full
/// stop.
pub fn attach(job: u64, rank: u32, size: u32) -> Result<Arc<Shim>, String> {
    let shim = Shim::start(&abi::gasnet_elan_place_t { job, rank, size })?;
    let slot = shim.info.queue_bytes as usize;
    if !(LEAST_SLOT..=MOST_SLOT).contains(&slot) || shim.info.throttle == 0 {
        let puts = shim.info.throttle;
        return Err(format!(
            "{} has queues with slots of {slot} bytes and channels for {puts} puts; slots of {LEAST_SLOT} to \
             {MOST_SLOT} bytes and at least one put are needed",
            shim.version()
        ));
    }
    Ok(Arc::new(shim))
}

/// The barrier that is wanted.
fn barrier_name() -> String {
    Some(gasnet_conduit::barrier::wanted())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "ELANFAST".to_owned())
}

/// Memory into which counts of peers are read. The error is a message without a full stop.
fn answers(shim: &Shim) -> Result<NonNull<u8>, String> {
    let bytes = shim.info.size as usize * COUNTS;
    let memory = shim.alloc(bytes);
    let memory = memory.ok_or("libelan's memory (LIBELAN_ALLOC_SIZE) has no room for credits")?;
    // SAFETY: as many bytes, which nobody else has.
    unsafe { memory.as_ptr().write_bytes(0, bytes) };
    Ok(memory)
}

/// The ranks of virtual process numbers. None: they are the same. The error is a message without a
/// full stop.
fn numbers(vps: &[u32]) -> Result<Option<Numbers>, String> {
    if vps.iter().zip(0..).all(|(vp, rank)| *vp == rank) {
        return Ok(None);
    }
    let mut ranks = vec![None; vps.len()];
    for (vp, rank) in vps.iter().zip(0..) {
        match ranks.get_mut(*vp as usize) {
            Some(place @ None) => *place = Some(JobRank(rank)),
            _ => {
                return Err(format!(
                    "libelan gives rank {rank} the virtual process number {vp}, which another rank has or which is \
                     outside the job"
                ))
            }
        }
    }
    Ok(Some(Numbers {
        vps: vps.into(),
        ranks: ranks.into_iter().flatten().collect(),
    }))
}

/// As many buffers as wanted, or most of what the network's memory has. The error is a message
/// without a full stop.
fn buffers(shim: &Shim, wanted: Option<u32>) -> Result<Vec<BufferMemory>, String> {
    let wanted = wanted.unwrap_or(shim.info.port_slots).max(FEWEST);
    let mut all: Vec<BufferMemory> = (0..wanted).map_while(|_| BufferMemory::new(shim)).collect();
    let found = all.len();
    // libelan needs memory, too.
    let spared = if found < wanted as usize { found / 4 } else { 0 };
    let is_enough = found >= FEWEST as usize;
    let kept = if is_enough {
        (found - spared).max(FEWEST as usize)
    } else {
        0
    };
    for memory in all.drain(kept..) {
        memory.free(shim);
    }
    if is_enough {
        return Ok(all);
    }
    Err(format!(
        "libelan's memory (LIBELAN_ALLOC_SIZE) has room for {found} buffers of {BUFFER} bytes, and at least {FEWEST} \
         are needed"
    ))
}

fn failed(why: &str) -> ConduitError {
    ConduitError {
        message: format!("The elan conduit cannot start: {why}."),
    }
}

/// Exchanges the records of all processes, and checks that their settings agree.
fn agree(info: &StartInfo<'_>, own: BootRecord) -> Result<(BootRecord, Option<Numbers>), String> {
    let all = exchange(info, &own);
    BootRecord::agree(&all, info.rank)?;
    let vps: Vec<u32> = all.iter().map(|record| record.vp).collect();
    let has_barrier = all.iter().all(|record| record.has_barrier);
    Ok((BootRecord { has_barrier, ..own }, numbers(&vps)?))
}

/// Opens the network; `attached` to it already, or not. `job`: added to the number of the job.
pub fn open(info: &StartInfo<'_>, attached: Option<Arc<Shim>>, job: u32) -> Result<Net, ConduitError> {
    try_open(info, attached, job).map_err(|why| failed(&why))
}

fn try_open(info: &StartInfo<'_>, attached: Option<Arc<Shim>>, job: u32) -> Result<Net, String> {
    let job = info.message_token().wrapping_add(u64::from(job));
    let shim = if let Some(shim) = attached {
        Ok(shim)
    } else {
        // libelan waits for all processes.
        all_can(info, can_start())?;
        attach(job, info.rank.0, info.size)
    };
    let found = shim.and_then(|shim| {
        let size = shim.info.size;
        if size != info.size {
            return Err(format!("libelan has {size} processes, and the job {}", info.size));
        }
        Ok(shim)
    });
    let settings = Settings::read();
    let is_alone = info.leaders.len() == info.size as usize;
    let mut own = BootRecord {
        credits: credits(settings.credits, info.size - 1),
        putget: settings.putget,
        has_failed: found.is_err(),
        barrier: gasnet_conduit::barrier::choice(&barrier_name()),
        ..BootRecord::default()
    };
    if let Ok(shim) = &found {
        own.vp = shim.info.vp;
        own.has_barrier = is_alone && info.may_start_threads && shim.info.is_serial == 0;
    }
    let agreed = agree(info, own);
    let shim = found?;
    let (agreed, numbers) = agreed?;
    let opening = Opening {
        info,
        agreed,
        shim,
        settings,
    };
    all_can(info, opening.open(numbers))
}

/// The agreement of the processes.
struct Opening<'a> {
    info: &'a StartInfo<'a>,
    agreed: BootRecord,
    shim: Arc<Shim>,
    settings: Settings,
}

impl Opening<'_> {
    /// Opens everything.
    fn open(&self, numbers: Option<Numbers>) -> Result<Net, String> {
        let Self {
            info,
            agreed,
            shim,
            settings,
        } = self;
        let none = |what: &str| format!("libelan's memory (LIBELAN_GALLOC_SIZE) has no room for {what}");
        let size = info.size as usize;
        let slots = agreed.credits as usize * size;
        // All processes make these calls, whatever becomes of them.
        let queues = [shim.queue(slots), shim.queue(slots)];
        let port = shim.port();
        let counts = shim.symmetric(size * COUNTS);
        let memory = agreed
            .has_barrier
            .then(|| shim.symmetric(barrier::memory_bytes(info.size)));
        let [Some(requests), Some(replies)] = queues else {
            let why = none(&format!("a queue of {slots} messages"));
            return Err(format!(
                "{why}: GASNET_ELAN_AM_CREDITS can be lower than {}",
                agreed.credits
            ));
        };
        let counts = counts.ok_or_else(|| none("credits"))?;
        let answers = answers(shim)?;
        let (buffers, [for_requests, for_replies]) = Buffers::new(buffers(shim, settings.buffers)?);
        // SAFETY: as much memory, zero, which lives as long as the shim.
        let credits = unsafe { Credits::new(size, agreed.credits, (counts.0.as_ptr(), counts.1), answers.as_ptr()) };
        let start = |memory: Option<_>| {
            let is_slow = barrier_name().eq_ignore_ascii_case("ELANSLOW");
            // SAFETY: as much memory, zero, which lives as long as the shim.
            unsafe { Rounds::start(shim, memory.ok_or_else(|| none("the barrier"))?, is_slow) }
        };
        let rounds = memory.map(start).transpose()?;
        let offers = |class, buffers| PostedReceives::new(shim, &port, class, buffers);
        let offers = [offers(Class::Request, for_requests), offers(Class::Reply, for_replies)];
        let channels = (0..settings.depth.div_ceil(shim.info.throttle.max(1)))
            .map(|number| shim.channel(number as usize))
            .collect();
        let peers = Peers {
            rank: info.rank,
            size: info.size,
            numbers,
        };
        let link = Link::new(peers, port, buffers, Arc::clone(shim));
        Ok(Net {
            messages: Messages {
                queues: [requests, replies],
                credits,
            },
            receiver: Receiver::new(offers),
            rounds,
            uses_putget: agreed.putget,
            rma: OneSided::new(link, Channels::new(channels), settings.most_operations),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vps_are_a_permutation() {
        assert!(numbers(&[0, 1, 2]).unwrap().is_none());
        let found = numbers(&[2, 0, 1]).unwrap().unwrap();
        assert_eq!(found.ranks[..], [JobRank(1), JobRank(2), JobRank(0)]);
        assert!(numbers(&[0, 0]).is_err() && numbers(&[0, 2]).is_err());
    }
}
