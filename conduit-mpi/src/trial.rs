//! The trial of one-sided calls, at the start.
//!
//! Most MPIs need the target inside of their calls, for a put to arrive: Active Messages are as
//! good then, and never block. In some a flush returns before the put is there (reference/mpi.md).
//! So each of some pairs has a rank that sleeps, and then looks whether a put of the other one,
//! which was complete in time, has arrived.

use crate::ffi::{Failure, Handle, Process, Remote, Window, World};
use crate::memory::Memory;
use crate::settings::{OneSided, Settings};
use gasnet_conduit::StartInfo;
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::record::{all_can, exchange};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time in which a put and a get should be complete, and during which their target sleeps.
const SLEEP: Duration = Duration::from_millis(30);
/// Words of the put and of the get.
const WORDS: usize = 2048;

/// The memory for one-sided calls, if puts and gets are to be such. Collective. The error is a
/// message without a full stop.
pub fn memory<H: Handle>(
    world: &World<H>,
    info: &StartInfo<'_>,
    (comm, settings): (H, &Settings),
) -> Result<Option<Memory<H>>, String> {
    if settings.one_sided == OneSided::No {
        return Ok(None);
    }
    let failed = |Failure(why)| format!("one-sided calls of MPI fail: {why}. GASNET_MPI_RMA=0 uses none");
    let window = all_can(info, Window::new(world.functions, comm).map_err(failed));
    let window = match settings.one_sided {
        OneSided::Yes => window?,
        _ => match window {
            Ok(window) if passes(&window, world, info) => window,
            Ok(window) => {
                // SAFETY: all processes are here, in one thread.
                unsafe { window.free() };
                return Ok(None);
            }
            Err(_) => return Ok(None),
        },
    };
    Ok(Some(Memory::new(window)))
}

/// Part of a rank in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Puts and gets, to and from this rank.
    Initiator(u32),
    Target,
    None,
}

/// Rounds: neighbouring ranks, and those half a job apart, in both directions.
const ROUNDS: u32 = 4;

/// The part of a rank.
fn part(round: u32, rank: u32, ranks: u32) -> Part {
    let half = ranks / 2;
    let (is_lower, other) = if round < 2 {
        (rank % 2 == 0, rank ^ 1)
    } else if rank < half {
        (true, rank + half)
    } else {
        (false, rank - half)
    };
    if other >= ranks || (round >= 2 && rank >= 2 * half) {
        Part::None
    } else if is_lower == (round % 2 == 0) {
        Part::Initiator(other)
    } else {
        Part::Target
    }
}

/// Whether something is so in all processes. Meets them inside of MPI, where an operation that
/// needs its target ends.
fn all<H: Handle>(world: &World<H>, is_so: bool) -> bool {
    world
        .gather(&[u8::from(is_so)])
        .is_ok_and(|all| all.iter().all(|is_so| *is_so == 1))
}

/// Whether all rounds pass, in all processes.
fn passes<H: Handle>(window: &Window<H>, world: &World<H>, info: &StartInfo<'_>) -> bool {
    let bytes = WORDS * size_of::<u64>();
    // SAFETY: mapped until it is detached below; no other thread knows of MPI yet.
    let attach = |memory: &Mapped| unsafe { window.attach(memory.address(), bytes) }.is_ok();
    let memory = Mapped::new(bytes).ok().filter(attach);
    let address = memory.as_ref().map_or(0, |memory| memory.address() as u64);
    let addresses: Vec<u64> = exchange(info, &address);
    let ranks: Vec<u32> = exchange(info, &world.place().0);
    let mut is_fine = all(world, memory.is_some());
    for round in 0..ROUNDS {
        if !is_fine {
            break;
        }
        let passes = match (part(round, info.rank.0, info.size), &memory) {
            (Part::Initiator(other), _) => {
                let (rank, address) = (ranks[other as usize] as i32, addresses[other as usize] as usize);
                initiate(window, Remote { rank, address }, round)
            }
            (Part::Target, Some(memory)) => serve(memory, round),
            _ => true,
        };
        is_fine = all(world, passes);
    }
    if let Some(memory) = memory {
        // SAFETY: attached above; all operations are complete.
        unsafe { window.detach(memory.address()) };
    }
    is_fine
}

/// The word that a round puts.
fn word(round: u32, index: usize) -> u64 {
    u64::from(round + 1) << 32 | index as u64
}

/// Puts words, and gets them back. Whether that takes less time than the target sleeps.
fn initiate<H: Handle>(window: &Window<H>, to: Remote, round: u32) -> bool {
    let words: Vec<u64> = (0..WORDS).map(|index| word(round, index)).collect();
    let mut back = vec![0_u64; WORDS];
    let (bytes, start) = (WORDS * size_of::<u64>(), Instant::now());
    // SAFETY: both stay until the flush, and this thread alone calls MPI.
    let done = unsafe {
        let put = window.put(to, words.as_ptr() as usize, bytes, false);
        put.and_then(|_| window.flush(to.rank))
            .and_then(|()| window.get(to, back.as_mut_ptr() as usize, bytes, false))
            .and_then(|_| window.flush(to.rank))
    };
    done.is_ok() && back == words && start.elapsed() < SLEEP / 2
}

/// Sleeps, and looks for the words.
fn serve(memory: &Mapped, round: u32) -> bool {
    std::thread::sleep(SLEEP);
    (0..WORDS).all(|index| {
        let place = (memory.address() + index * size_of::<u64>()) as *mut u64;
        // SAFETY: in the mapping, aligned, and written by MPI alone.
        unsafe { AtomicU64::from_ptr(place) }.load(Ordering::Acquire) == word(round, index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_an_initiator_and_a_target() {
        for (ranks, round) in (1..12).flat_map(|ranks| (0..ROUNDS).map(move |round| (ranks, round))) {
            let parts: Vec<_> = (0..ranks).map(|rank| part(round, rank, ranks)).collect();
            let of = |wanted: Part| parts.iter().filter(|part| **part == wanted).count();
            assert_eq!(of(Part::Target), ranks as usize / 2, "{parts:?}");
            assert_eq!(of(Part::None), ranks as usize % 2, "{parts:?}");
            for part in &parts {
                if let Part::Initiator(other) = part {
                    assert_eq!(parts[*other as usize], Part::Target, "{parts:?}");
                }
            }
        }
    }
}
