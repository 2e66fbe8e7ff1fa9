//! The start: a communicator, and receives in it.

use crate::boot_record::BootRecord;
use crate::ffi::{Failure, Handle, Place, Process, World};
use crate::link::{most_buffers, Link, SMALL};
use crate::operations::Operations;
use crate::peers::Peers;
use crate::settings::{self, Level, Settings};
use crate::trial;
use crate::wire::HEADER;
use gasnet_conduit::config::Choice;
use gasnet_conduit::{config, ConduitError, JobRank, StartInfo};
use gasnet_conduit_util::credits::Credits;
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_conduit_util::pool::Pool;
use gasnet_sys::maybe_locked::{MaybeLocked, Sharing};
use std::sync::atomic::AtomicBool;

/// Starts the conduit. `is_alone`: for a job of threads of this process. Collective.
pub fn open<H: Handle>(
    world: &'static World<H>,
    info: &StartInfo<'_>,
    is_alone: bool,
) -> Result<&'static Link<H>, ConduitError> {
    try_open(world, info, is_alone).map_err(failed)
}

/// The error of a start that failed with a message without a full stop.
pub fn failed(why: impl std::fmt::Display) -> ConduitError {
    ConduitError {
        message: format!("The mpi conduit cannot start: {why}."),
    }
}

fn try_open<H: Handle>(
    world: &'static World<H>,
    info: &StartInfo<'_>,
    is_alone: bool,
) -> Result<&'static Link<H>, String> {
    let settings = Settings::read(info.size);
    let own = communicator(world, info.size, is_alone);
    // Every process takes part in the exchange, so that one that fails does not keep others.
    let all = BootRecord::new(own.as_ref().ok(), &settings).exchange(info);
    let (own, all) = (own?, all?);
    let memory = if is_alone {
        None
    } else {
        trial::memory(world, info, (own.comm, &settings))?
    };
    let places = all.iter().map(|record| Place {
        comm: if is_alone { H::of_number(record.comm) } else { own.comm },
        rank: record.rank as i32,
    });
    // SAFETY: if one thread calls the conduit, no other does at the same time.
    let sharing = unsafe { Sharing::new(!info.single_threaded) };
    let pool = |bytes| Pool::of_threads(bytes, most_buffers(bytes), sharing);
    let large = HEADER + settings.max_packet;
    let link: &'static Link<H> = Box::leak(Box::new(Link {
        world,
        rank: info.rank,
        peers: Peers::new(
            places,
            Credits::new(settings.credits, settings.slack),
            settings::most_cost(settings.credits),
        ),
        token: info.message_token() as u32,
        max_packet: settings.max_packet,
        operations: MaybeLocked::new(Operations::new(), sharing),
        pools: [(); 2].map(|()| [pool(SMALL), pool(large)]),
        reserved: pool(large),
        receives: Pool::of_threads(large, usize::MAX, sharing),
        held: PendingQueue::default(),
        memory,
        by_signal: AtomicBool::new(false),
    }));
    post_receives(link).map_err(|why| format!("no memory for receives: {why}"))?;
    if !is_alone {
        world
            .at_finalize(Box::new(|| link.drain()))
            .map_err(|Failure(why)| why)?;
    }
    if info.rank == JobRank(0) {
        report(link, info, &settings);
    }
    Ok(link)
}

/// The communicator for messages, and the place of this process in it.
fn communicator<H: Handle>(world: &World<H>, ranks: u32, is_alone: bool) -> Result<Place<H>, String> {
    let (rank, size) = world.place();
    if !is_alone && size != ranks {
        return Err(format!(
            "the job has {ranks} ranks, but MPI has started {size}. Start the program with mpiexec or gasnetrun_mpi of \
             the same MPI: {}",
            world.name()
        ));
    }
    let rank = rank as i32;
    let comm = world
        .communicator(is_alone)
        .map_err(|Failure(why)| format!("{}: {why}", world.name()))?;
    Ok(Place { comm, rank })
}

/// Posts receives ([`settings::receives`]).
fn post_receives<H: Handle>(link: &Link<H>) -> std::io::Result<()> {
    let count = settings::receives(link.peers.count(), link.receives.bytes());
    link.receives.grow(count, Mapped::new, |_| ())?;
    if let Some(mut turn) = link.turn() {
        while let Some(buffer) = link.receives.take() {
            link.receive(&mut turn, buffer);
        }
    }
    Ok(())
}

/// Names the library, for `GASNET_VERBOSEENV`, and warns of a thread level that does not suffice.
fn report<H: Handle>(link: &Link<H>, info: &StartInfo<'_>, settings: &Settings) {
    let level = link.world.level;
    if config::get().get_or_default(&config::VERBOSEENV) {
        gasnet_conduit::print_line(format_args!(
            "GASNet: mpi: {} with the thread level {}. Requests in flight to a peer: {}. Puts and gets: {}.",
            link.world.name(),
            Level::WORDS[level as usize],
            settings.credits,
            if link.memory.is_some() {
                "one-sided calls"
            } else {
                "Active Messages"
            }
        ));
    }
    if (level as usize) < Level::Serialized as usize && !info.single_threaded && !config::is_quiet() {
        gasnet_conduit::print_line(format_args!(
            "GASNet: WARNING: mpi: MPI has the thread level {}, and several threads may call it, one at a time. Ask \
             for MPI_THREAD_SERIALIZED, by MPI_Init_thread or GASNET_MPI_THREAD.",
            Level::WORDS[level as usize]
        ));
    }
}
