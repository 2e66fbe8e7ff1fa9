//! Initialisation: from the environment to a [`Runtime`], and the hooks of the exit. The one
//! place that knows every level.

use std::ffi::CString;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use crate::am::internal::{self, Handler};
use crate::am::{acknowledge, deliver, gather, long_put, segmented, segmented_medium};
use crate::barrier::{self, blocks, of_team, rounds, Barrier};
use crate::client::Client;
use crate::counters;
use crate::diagnose::stalled;
use crate::endpoint::{self, Endpoint};
use crate::flags::Flags;
use crate::placement::LateInPage;
use crate::rma::{native, packets};
use crate::runtime::{self, Runtime};
use crate::segment;
use crate::segment::configuration::{self, Configuration};
use crate::select::{Chosen, ConduitChoice};
use crate::shm::kernel_copy::KernelCopy;
use crate::shm::layout::Layout;
use crate::shm::memory::CommMemory;
use crate::shm::Comm;
use crate::stall;
use crate::sync::Mode;
use crate::team::Team;
use crate::thread;
use crate::trace;
use crate::wait::{self, SleepEpisodes};
use crate::{ad, coll, progress, vis};
use gasnet_conduit::config::{self, Config};
use gasnet_conduit::{
    Abilities, Class, Completion, Conduit, ConduitError, Cookie, JobRank, Network, NoNetwork, Place, PollScope, Reach,
    Rma, Segments, StartInfo, Stop, Upcalls,
};
use gasnet_job::{self as job, Count, Job, Library, Nbrhd, StartOptions};
use gasnet_sys::mem::{self, AnonMemory};
use gasnet_sys::membarrier;

/// Why initialisation failed: a message for the user, which is empty when another rank prints it.
#[derive(Debug)]
pub enum InitError {
    /// This process has initialised before; the first job goes on.
    Again(String),
    /// No job came about, or this process could not join it.
    Job(String),
}

/// Reads the configuration, launches or joins the job, and makes the primordial objects.
/// Collective. `count` is the program's first argument, if that may be a number of ranks; the
/// options record whether it was used.
pub fn init(
    mode: Mode,
    segments: Configuration,
    name: CString,
    flags: Flags,
    count: Option<Count>,
) -> Result<&'static Runtime, InitError> {
    gasnet_tools::timer::begin();
    claim_process()?;
    mode.set();
    segments.set();
    let conduits = runtime::linked_conduits();
    register();
    let (options, choice) = plan(conduits, count)?;
    let job = job::start(&options).map_err(|e| InitError::Job(e.message))?;
    // The first host's environment may hold more variables.
    let config = config::get();
    let conduit = choose(config, choice, job)?;
    observe(config, job, mode, conduit)?;
    set_wait_mode(config, job);
    if config.get(&config::DISABLE_MUNMAP).unwrap_or(!is_single(job)) {
        mem::keep_freed();
    }
    let comm = map_comm(config, job, &job.nbrhd())?;
    let network = start_network(config, conduit, job, mode, flags)?;
    let net = JobNetwork::new(config, conduit, network, segments);
    runtime::install(make_runtime(job, comm, &net, segments, Client::new(name, flags)));
    set_hooks();
    wait::network::allow_threads(!flags.has(Flags::DEFER_THREADS));
    wait::receive::start(config, runtime::get());
    job.barrier();
    Ok(runtime::get())
}

/// Ensures that this process has one client and one library.
fn claim_process() -> Result<(), InitError> {
    if runtime::STARTED.swap(true, Ordering::SeqCst) {
        return Err(InitError::Again(
            "GASNet is initialised already: one client per process is supported".into(),
        ));
    }
    if another_is_active() {
        return Err(InitError::Again(
            "another libgasnet is active in this process; link only one of libgasnet-<conduit>-<mode>, as archive or \
             as shared library"
                .into(),
        ));
    }
    Ok(())
}

/// Chooses the conduit with the other ranks, and checks its variables.
fn choose(config: &Config, choice: ConduitChoice, job: &Job) -> Result<&'static dyn Conduit, InitError> {
    let choice = choice
        .with_wanted(&config.get(&config::CONDUIT))
        .map_err(InitError::Job)?;
    let choice = if config.is_set(&config::SUPERNODE_MAXSIZE) {
        choice
    } else {
        choice.with_default_limit()
    };
    let chosen = choice.agree(job).map_err(InitError::Job)?;
    if job.rank() == 0 {
        show(config, &chosen);
    }
    config
        .check(chosen.conduit.variables())
        .map_err(|e| InitError::Job(e.to_string()))?;
    Ok(chosen.conduit)
}

/// Starts the reports of this rank: messages at its end, the trace, the stall watchdog, counters,
/// and the check of segments.
fn observe(config: &Config, job: &'static Job, mode: Mode, conduit: &dyn Conduit) -> Result<(), InitError> {
    explain_ends();
    let (which, nbrhd) = (conduit.identity().name, job.nbrhd());
    trace::start(
        config,
        job,
        format_args!("conduit={which} mode={mode:?} neighbours={nbrhd}"),
    )
    .map_err(InitError::Job)?;
    trace::start_recording(config, job, which, &format!("{mode:?}")).map_err(InitError::Job)?;
    stall::set_limit(config.get(&config::STALL_TIMEOUT));
    if config.get(&config::COUNTERS) {
        counters::start(job);
        thread::count_anew();
    }
    segment::admit::set_limited(config.get(&config::LIMIT_TO_SEGMENTS));
    Ok(())
}

/// Whether the job is one neighbourhood.
fn is_single(job: &Job) -> bool {
    job.nbrhd().count() == job.size()
}

/// Starts the network, if the job needs one.
fn start_network(
    config: &Config,
    conduit: &dyn Conduit,
    job: &'static Job,
    mode: Mode,
    flags: Flags,
) -> Result<&'static dyn Network, InitError> {
    if !is_single(job) {
        let network = start_conduit(config, conduit, job, mode, flags)?;
        #[cfg(feature = "decorators")]
        let network = with_faults(config, network, JobRank(job.rank()));
        return Ok(Box::leak(network));
    }
    if job.rank() == 0 && config.get(&config::FAULTS).is_some() {
        gasnet_tools::process::warn(format_args!(
            "GASNET_FAULTS has no effect: the job is one neighbourhood, so nothing goes over the network \
            (GASNET_SUPERNODE_MAXSIZE)"
        ));
    }
    Ok(&NoNetwork)
}

/// The network of this job.
struct JobNetwork {
    conduit: &'static dyn Conduit,
    network: &'static dyn Network,
    /// Its abilities that the job uses.
    abilities: Abilities<'static>,
}

impl JobNetwork {
    /// Also sets the limits of abilities for AMs.
    fn new(
        config: &Config,
        conduit: &'static dyn Conduit,
        network: &'static dyn Network,
        segments: Configuration,
    ) -> Self {
        let abilities = abilities(config, network, segments);
        if let Some(notify) = abilities.put_notify {
            long_put::set_limit(notify.packed_limit());
        }
        if let Some(gather) = abilities.gather {
            gather::set_limit(gather.gather_limit());
        }
        Self {
            conduit,
            network,
            abilities,
        }
    }
}

/// The runtime of this rank with its primordial objects, after an agreement of all ranks.
fn make_runtime(job: &'static Job, comm: Comm, net: &JobNetwork, segments: Configuration, client: Client) -> Runtime {
    let &JobNetwork {
        conduit,
        network,
        abilities,
    } = net;
    let (nbrhd, flags) = (job.nbrhd(), client.flags);
    let registered = abilities.segments.filter(|_| segments == Configuration::Fast);
    let most = registered.map_or(usize::MAX, Segments::max_bytes);
    let max_local_bytes = segment::attach::max_local_bytes(job.host().len() as u32).min(most);
    let max_global_bytes = least_of_all(job, max_local_bytes);
    let oversubscribed = any(job, is_oversubscribed(job));
    let lacks_words = any(job, abilities.words.is_none());
    let team0 = LateInPage::leak(Team::primordial(job, &comm, flags));
    if let Some(words) = abilities.words.filter(|_| !lacks_words) {
        blocks::install(words);
    }
    install_barrier(job, &comm, &abilities, oversubscribed);
    team0.set_barriers(of_team::make(team0, oversubscribed, |_| blocks::TEAM0));
    let runtime = Runtime {
        job,
        rank: JobRank(job.rank()),
        size: job.size(),
        kernel_copy: KernelCopy::new(job, &nbrhd),
        nbrhd,
        comm,
        oversubscribed,
        network,
        abilities,
        small_put: abilities.rma.map_or(0, Rma::small_put),
        conduit: conduit.identity(),
        conduit_name: CString::new(conduit.identity().name).unwrap_or_default(),
        conduit_limits: conduit.limits(),
        client: Box::leak(Box::new(client)),
        endpoint0: Endpoint::leak(0, flags),
        team0,
        directory: OnceLock::new(),
        max_local_bytes,
        max_global_bytes,
    };
    if configuration::is_everything() {
        endpoint::primordial_is_not_attached();
        runtime.kernel_copy.admit_neighbours();
    }
    runtime
}

/// Installs the named barrier, over the network's own if it has one.
fn install_barrier(job: &Job, comm: &Comm, abilities: &Abilities<'static>, oversubscribed: bool) {
    let leaders: Vec<JobRank> = job.leaders().iter().copied().map(JobRank).collect();
    barrier::install(Barrier::new(comm, &leaders, JobRank(job.rank()), oversubscribed));
    if let Some(barrier) = abilities.barrier.filter(|_| job.rank() == job.nbrhd().first()) {
        rounds::install(barrier);
    }
}

/// Registers the functions of the runtime, which is installed, that lower crates and modules call.
fn set_hooks() {
    job::on_idle_hook(poll_and_yield);
    stall::set_hooks(stall::Hooks {
        describe: stalled::describe,
        request_poll: coll::request_poll,
    });
    job::set_exit_hooks(job::ExitHooks {
        linger: (!runtime::get().single_neighbourhood()).then_some(linger),
        is_in_conduit: thread::is_in_conduit,
        waits: stall::waits_in_exit,
        stop: |by_signal| stop(if by_signal { Stop::Signal } else { Stop::Orderly }),
    });
}

/// Registers the functions of higher modules that lower ones call.
fn register() {
    internal::install(HANDLERS);
    deliver::set_hooks(deliver::Hooks {
        acknowledge: acknowledge::flush,
        done: native::done,
        barrier: rounds::on_end,
    });
    progress::set_collectives(coll::HOOKS);
    thread::set_hooks(&[crate::am::npam::abandon, |_| trace::retire()], wait::count_threads);
    trace::on_first_record(|| {
        thread::current();
    });
}

/// The runtime's own handlers, in the order of their indices in [`internal`].
const HANDLERS: [Handler; internal::COUNT] = {
    let mut all: [Handler; internal::COUNT] = [|_, _, _, _| false; internal::COUNT];
    all[internal::RMA_PUT as usize] = |token, args, payload, bytes| packets::on_put(token, args, payload, bytes, false);
    all[internal::RMA_PUT_OF_MANY as usize] =
        |token, args, payload, bytes| packets::on_put(token, args, payload, bytes, true);
    all[internal::RMA_PUT_DONE as usize] = |token, args, _, _| packets::on_put_done(token.source.rank, args);
    all[internal::RMA_PUTS_DONE as usize] =
        |token, _, payload, bytes| packets::on_puts_done(token.source.rank, payload, bytes);
    all[internal::RMA_GET as usize] = |token, args, _, _| packets::on_get(token, args);
    all[internal::RMA_DATA as usize] =
        |token, args, payload, bytes| packets::on_data(token.source.rank, args, payload, bytes);
    all[internal::BARRIER as usize] = |_, args, _, _| blocks::on_word(args);
    all[internal::COLLECTIVE as usize] = |_, args, payload, bytes| coll::p2p::on_packet(args, payload, bytes);
    all[internal::AD_OPERATION as usize] = |token, args, _, _| ad::packets::on_operation(token, args);
    all[internal::AD_DONE as usize] = |token, args, _, _| ad::packets::on_done(token.source.rank, args);
    all[internal::VIS_PUT as usize] = vis::packets::on_put;
    all[internal::VIS_GET as usize] = |token, args, payload, bytes| vis::packets::on_get(token, args, payload, bytes);
    all[internal::VIS_DATA as usize] = |token, args, payload, bytes| vis::packets::on_data(token, args, payload, bytes);
    all[internal::VIS_PEER as usize] = |token, args, payload, bytes| vis::peer::on_peer(token, args, payload, bytes);
    all[internal::LONG_HEAD as usize] = |token, args, payload, bytes| segmented::on_head(token, args, payload, bytes);
    all[internal::LONG_DATA as usize] = |token, args, payload, bytes| segmented::on_data(token, args, payload, bytes);
    all[internal::MEDIUM_HEAD as usize] =
        |token, args, payload, bytes| segmented_medium::on_head(token, args, payload, bytes);
    all[internal::MEDIUM_DATA as usize] =
        |token, args, payload, bytes| segmented_medium::on_data(token, args, payload, bytes);
    all
};

/// The decisions before there are ranks: the configuration, how the job starts, and which conduits
/// may carry it.
fn plan(conduits: &[&'static dyn Conduit], count: Option<Count>) -> Result<(StartOptions, ConduitChoice), InitError> {
    let variables: Vec<_> = conduits.iter().map(|conduit| conduit.variables()).collect();
    job::prepare().map_err(|e| InitError::Job(e.message))?;
    let config = Config::load(&variables).map_err(|e| InitError::Job(e.to_string()))?;
    config::install(config);
    let config = config::get();
    #[cfg(not(feature = "decorators"))]
    refuse_faults(config)?;
    let is_chosen = |conduit: &&&dyn Conduit| conduits.len() == 1 || config::names_conduit(conduit.identity().name);
    let library = Library {
        names: conduits.iter().map(|conduit| conduit.identity().name).collect(),
        network: conduits.iter().any(|conduit| conduit.identity().reach == Reach::Hosts),
        alone: conduits.iter().any(|conduit| !conduit.identity().has_network()),
        count: count.filter(|_| matches!(conduits, [only] if only.identity().takes_count)),
        bootstrap: conduits
            .iter()
            .filter_map(|conduit| Some((conduit, conduit.bootstrap()?)))
            .filter(|(conduit, bootstrap)| !bootstrap.precedes_managers() || is_chosen(conduit))
            .map(|(_, bootstrap)| bootstrap)
            .find(|bootstrap| bootstrap.has_started_this()),
        launcher: None,
    };
    let mut options = StartOptions::from_config(config, &library).map_err(|e| InitError::Job(e.message))?;
    if let Some(words) = &options.restart {
        return Err(InitError::Job(job::restart(words, options.ranks).message));
    }
    let choice = ConduitChoice::new(conduits, &config.get(&config::CONDUIT), &mut options).map_err(InitError::Job)?;
    // The table is shown below, when the rank is known; the tools read some of the same variables
    // before that.
    let in_table = config.settings().iter().filter(|s| !config::report::shown_by_tools(s));
    gasnet_tools::env::shown_elsewhere(in_table.map(|s| s.variable.name));
    Ok((options, choice))
}

/// Prints, on rank 0, warnings about the choice of conduit and, with `GASNET_VERBOSEENV`, every
/// variable and the reason for the choice.
fn show(config: &Config, chosen: &Chosen) {
    if let Some(warning) = &chosen.warning {
        gasnet_tools::process::warn(format_args!("{warning}"));
    }
    if config.get(&config::VERBOSEENV) {
        eprint!("{}{}", config.verbose(), chosen.explanation);
    }
}

/// Whether this host has more neighbourhoods than cores.
fn is_oversubscribed(job: &Job) -> bool {
    let host = job.host_of(job.rank());
    job.leaders()
        .iter()
        .filter(|&&leader| job.host_of(leader) == host)
        .count()
        > job.host_cpus() as usize
}

/// Whether a condition holds at any rank. Collective over several neighbourhoods, else false.
fn any(job: &Job, holds: bool) -> bool {
    !is_single(job) && job.exchange(&[u8::from(holds)]).contains(&1)
}

/// The least of all ranks' `bytes`.
fn least_of_all(job: &Job, bytes: usize) -> usize {
    let all = job.exchange(&bytes.to_ne_bytes());
    let numbers = all
        .chunks_exact(size_of::<usize>())
        .map(|n| usize::from_ne_bytes(n.try_into().unwrap_or_default()));
    numbers.min().unwrap_or(bytes)
}

/// Names the handler that an exception, a panic or a fault ends the process in.
fn explain_ends() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or("", |l| l.file());
        match thread::existing().and_then(thread::Thread::handler) {
            // The frames between a handler and its caller cannot be unwound: the core library stops
            // the exception there.
            Some((name, index)) if place.contains("library/core") => fatal!(
                "an exception left AM handler {index} ({}), or its thread was cancelled there. Handlers are called \
                 from C: catch every exception inside, and disable cancellation (pthread_setcancelstate) around \
                 cancellation points.",
                name.map_or("unnamed".into(), std::ffi::CStr::to_string_lossy)
            ),
            _ => fatal!("internal error: {panic}. This is a defect of the library; please report it."),
        }
    }));
    job::set_fault_note(|report| {
        trace::write_end_reason(format_args!("a fatal signal"));
        let thread = thread::existing();
        if let Some(thread::Serving { source, address, bytes }) = thread.and_then(|t| t.serving.get()) {
            // As below.
            let _ = write!(
                report,
                ", while it served rank {source}, whose operation names the {bytes} bytes at {address:#x} of this \
                 rank, which are not all mapped with the access that it needs"
            );
        } else if let Some((name, index)) = thread.and_then(thread::Thread::handler) {
            let name = name.and_then(|n| n.to_str().ok()).unwrap_or("unnamed");
            // Writing to memory cannot fail but for want of room, and then the report is cut.
            let _ = write!(report, ", inside AM handler {index} ({name})");
        }
    });
}

/// Whether another libgasnet (of another mode, archive beside shared library, host beside plugin)
/// has joined a job in this process: two copies share no variable, but the mappings are everybody's
/// to see.
fn another_is_active() -> bool {
    // Without a name the object is shown as deleted: "/memfd:NAME (deleted)", "/dev/shm/NAME-…
    // (deleted)".
    let is_ours = |line: &str| {
        let file = line.strip_suffix(" (deleted)").and_then(|path| path.rsplit('/').next());
        file.is_some_and(|file| file.strip_prefix("memfd:").unwrap_or(file).starts_with(job::COMM_NAME))
    };
    std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.lines().any(is_ours))
}

fn set_wait_mode(config: &Config, job: &Job) {
    wait::set_mode(config.get(&config::WAITMODE));
    wait::set_host(
        job.host().len() as u32,
        job.host_cpus(),
        SleepEpisodes::new(job.host_words()),
    );
}

/// Maps the first `bytes` of memory that ranks share, after `leader` has given it that size; the
/// error of the others if that fails is `why`. Collective.
fn map_common(job: &Job, memory: &AnonMemory, leader: u32, bytes: usize, why: &str) -> io::Result<usize> {
    let sized = if job.rank() == leader {
        memory.resize(bytes).map(|()| {
            memory.seal();
        })
    } else {
        Ok(())
    };
    // The others map it after this.
    let all = job.exchange(&[u8::from(sized.is_ok())]);
    sized?;
    if all[leader as usize] == 0 {
        return Err(io::Error::other(why));
    }
    mem::map_shared(memory.fd(), bytes, None)
}

fn map_comm(config: &Config, job: &'static Job, nbrhd: &Nbrhd) -> Result<Comm, InitError> {
    let ranks = nbrhd.count() as usize;
    let ring = config.get(&config::PSHM_RING_SIZE) as usize;
    let (depth, teams) = (
        config.get(&config::PSHM_NETWORK_DEPTH),
        config.get(&config::PSHM_COLL_TEAMS),
    );
    let layout = Layout::new(ranks, ring, depth as usize, teams as usize);
    let why = "the leader of the neighbourhood could not create it";
    let mapped = map_common(job, job.comm_memory(), nbrhd.first(), layout.bytes(), why);
    // One rank prints the error, which is probably the same on all; the others exit silently.
    let all = job.exchange(&[u8::from(mapped.is_ok())]);
    if let Some(first) = all.iter().position(|&ok| ok == 0) {
        return Err(InitError::Job(match mapped {
            Err(why) if first == job.rank() as usize => format!(
                "cannot map {} bytes of communication memory for {ranks} neighbours: {why}. \
                 Reduce GASNET_PSHM_NETWORK_DEPTH or GASNET_PSHM_RING_SIZE.",
                layout.bytes()
            ),
            _ => String::new(),
        }));
    }
    let base = mapped.map_err(|why| InitError::Job(why.to_string()))?;
    membarrier::register();
    // SAFETY: the mapping is page-aligned, as long as the layout, zero when new, and never
    // unmapped.
    let memory = unsafe { CommMemory::new(base as *mut u8, layout) };
    Ok(Comm::new(memory, nbrhd.index(job.rank())))
}

/// A release library has no decorators. Without this error a test would run without its faults.
#[cfg(not(feature = "decorators"))]
fn refuse_faults(config: &Config) -> Result<(), InitError> {
    if config.is_set(&config::FAULTS) {
        return Err(InitError::Job(
            "this is a release library; GASNET_FAULTS needs the debug flavour (make install DEBUG=1)".into(),
        ));
    }
    Ok(())
}

/// Wraps the network in the decorators that `GASNET_FAULTS` selects.
#[cfg(feature = "decorators")]
fn with_faults(config: &Config, network: Box<dyn Network>, rank: JobRank) -> Box<dyn Network> {
    use gasnet_conduit::{faulty::Faulty, soft_atomics::SoftAtomics};

    let Some(plan) = config.get(&config::FAULTS) else {
        return network;
    };
    let network = if plan.atomics {
        Box::new(SoftAtomics::new(network))
    } else {
        network
    };
    Box::new(Faulty::new(network, rank, &plan, Box::new(die)))
}

/// Ends a rank that the fault plan kills.
#[cfg(feature = "decorators")]
fn die() {
    gasnet_sys::process::kill(gasnet_sys::process::pid(), libc::SIGKILL);
}

/// The abilities of the network, as far as the job uses them.
fn abilities(config: &Config, network: &'static dyn Network, segments: Configuration) -> Abilities<'static> {
    let all = network.abilities();
    Abilities {
        segments: all.segments.filter(|_| segments != Configuration::Everything),
        // In LARGE a segment may not be registered; all must use the same atomics.
        atomics: all.atomics.filter(|_| segments == Configuration::Fast),
        barrier: all.barrier.filter(|_| !rounds::are_declined(config)),
        words: all.words.filter(|_| !blocks::are_by_messages(config)),
        ..all
    }
}

fn start_conduit(
    config: &Config,
    conduit: &dyn Conduit,
    job: &'static Job,
    mode: Mode,
    flags: Flags,
) -> Result<Box<dyn Network>, InitError> {
    let ranks = |ranks: &[u32]| -> Vec<JobRank> { ranks.iter().copied().map(JobRank).collect() };
    let info = StartInfo {
        rank: JobRank(job.rank()),
        size: job.size(),
        place_of: &|rank| Place {
            host: job.host_of(rank.0),
            nbrhd: job.nbrhd_of(rank.0),
        },
        host: &ranks(job.host()),
        leaders: &ranks(job.leaders()),
        host_memory: &|bytes| map_host_memory(job, bytes).map_err(|message| ConduitError { message }),
        host_fd: job.host_memory().fd(),
        may_start_threads: !flags.has(Flags::DEFER_THREADS),
        host_address: job.address().map_err(|e| InitError::Job(e.message))?,
        single_threaded: mode == Mode::Seq,
        threads_sleep: wait::threads_sleep(config),
        exchange: &|bytes| job.exchange(bytes),
        job_token: job.token(),
    };
    conduit.start(&info).map_err(|e| InitError::Job(e.message))
}

/// See [`StartInfo::host_memory`].
fn map_host_memory(job: &Job, bytes: usize) -> Result<*mut u8, String> {
    let leader = job.host().first().copied().unwrap_or(job.rank());
    let why = "the first rank of the host could not create it";
    let mapped = map_common(job, job.host_memory(), leader, bytes, why);
    mapped.map(|base| base as *mut u8).map_err(|why| {
        let host = job.host_of(job.rank());
        format!("cannot map {bytes} bytes of memory that the ranks of host {host} share: {why}.")
    })
}

/// Called once on the way out.
fn stop(how: Stop) {
    trace::stop();
    if cfg!(feature = "debug-checks") {
        gasnet_tools::heap::report();
    }
    if let Some(rt) = runtime::try_get() {
        rt.comm.wake_all();
        wait::receive::stop();
        if !rt.single_neighbourhood() {
            rt.network.stop(how);
        }
    }
}

/// Work of a rank that waits for others in an exchange.
fn poll_and_yield() {
    if runtime::handlers_wait() || progress::poll(PollScope::All) == 0 {
        std::thread::yield_now();
    }
}

/// Work of a rank in exit for those that are not: its conduit retransmits. Received messages are
/// dropped.
fn linger() {
    struct Drop;
    impl Upcalls for Drop {
        fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {}
        fn done(&mut self, _: Cookie, _: Completion) {}
        fn barrier(&mut self, _: [u64; 2]) {}
        fn peer_lost(&mut self, _: JobRank, _: &str) {}
        fn network_lost(&mut self, _: &str) {}
    }
    // A signal handler that interrupts this may call exit again, which must not come here.
    thread::in_conduit_at_exit(|| {
        runtime::get().network.poll(PollScope::All, &mut Drop);
    });
}
