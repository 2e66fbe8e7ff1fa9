//! The start of a conduit: open HCAs, exchange what processes need of each other, agree, allocate,
//! connect.
#![forbid(unsafe_code)]

pub mod open;

use crate::boot_record::BootRecord;
use crate::buffers::pools::Pools;
use crate::connect::pairs::{self, PairMaker};
use crate::connect::policy::{ConnectPolicy, Kind, Record};
use crate::connect::transport::Transports;
use crate::connect::Connector;
use crate::eager_rdma;
use crate::eager_rdma::inbox::Inbox;
use crate::fabric::Fabric;
use crate::ffi::{Access, Domain};
use crate::memory::advice::advised;
use crate::memory::limits;
use crate::memory::mapped::Pinned;
use crate::memory::Segments;
use crate::net::Net;
use crate::peers::Peers;
use crate::presets::Presets;
use crate::progress::Progress;
use crate::rail::Rail;
use crate::receive::plan;
use crate::rma::Operations;
use crate::send::Messages;
use crate::settings::Settings;
use crate::start::open::Opened;
use crate::wake::WakeUp;
use crate::xrc::Xrc;
use gasnet_conduit::{words, ConduitError, JobRank, StartInfo};
use gasnet_conduit_util::credits::Credits;
use gasnet_conduit_util::probe::{probe, share};
use gasnet_conduit_util::record::{all_can, exchange};
use gasnet_sys::atomic::Mutex;

/// Bytes of the words of barriers.
const WORD_BYTES: usize = 8 * words::COUNT;

/// Starts. Collective.
pub fn start(info: &StartInfo<'_>) -> Result<Net, ConduitError> {
    run(info).map_err(|why| ConduitError {
        message: format!("The ibv conduit cannot start: {why}."),
    })
}

/// The error is a message without a full stop.
fn run(info: &StartInfo<'_>) -> Result<Net, String> {
    let mut settings = Settings::read();
    if settings.raises_limits {
        limits::raise_limit();
    }
    let policy = ConnectPolicy::read(&settings, info);
    let completes = policy == Ok(ConnectPolicy::Everybody);
    let has_thread = info.may_start_threads && settings.connects_later && !completes;
    // Until all that connects at start is made.
    let _presets = Presets::new(info.single_threaded && !has_thread);
    let network = open::choose(info, &settings);
    let opened = policy.and_then(|policy| {
        let opened = open::open(info, &settings, network?, has_thread)?;
        Ok((opened, policy))
    });
    if let Ok((opened, _)) = &opened {
        if let Some(buffers) = opened.rails.iter().filter_map(Rail::shared_buffers).min() {
            settings.fit_credits(buffers, peers_outside(info));
        }
    }
    let record = Record::create(&settings, info);
    // Every process takes part in the exchange, so that one that fails does not keep others.
    let boot_record = opened.as_ref().map_or_else(
        |_| BootRecord::default(),
        |(opened, policy)| opened.boot_record(&settings, policy.kind(), info.size),
    );
    let all = exchange(info, &boot_record);
    let (mut opened, mut policy) = opened?;
    BootRecord::agree(&all, info.rank)?;
    let lacks_datagrams = all.iter().position(|record| !record.has_datagrams());
    if let Some(rank) = lacks_datagrams {
        policy = policy.without_datagrams(&settings, rank, info.rank == JobRank(0))?;
        settings.connects_later = false;
        opened.leave_datagrams();
    }
    opened.agree_on_headers(&all)?;
    let xrc = Xrc::agree(info, &all, &settings, &mut opened.rails, &mut opened.paths)?;
    open::warn_of_paging(&all, info.rank, &settings);
    open::warn_of_forks(info.rank);
    let wake = WakeUp::new(&opened.rails).map_err(|why| format!("epoll failed: {why}"))?;
    let job = Job { info, settings, all };
    let made = job.messages(opened, xrc).and_then(|made| {
        post_first(&made.0.fabric)?;
        Ok(made)
    });
    // Others would wait for a process that has no memory to connect.
    let (messages, max_bytes) = all_can(info, made)?;
    let has_datagrams = lacks_datagrams.is_none();
    let kinds = job.all.iter().map(|record| record.connects);
    let kinds: Vec<Kind> = if has_datagrams {
        kinds.collect()
    } else {
        kinds.map(Kind::without_datagrams).collect()
    };
    let all_connected = connect(info, &messages, has_datagrams, || policy.peers(info, &kinds))?;
    let sleeps = wake.is_some();
    // Nobody writes words of a process that sleeps.
    let domains = messages.fabric.domains().filter(|_| !sleeps);
    let words = Pinned::new(WORD_BYTES, domains, Access::REMOTE);
    let words = words.map_err(|why| format!("words of barriers cannot be registered: {}", advised(why)))?;
    let inbox = Inbox::new(job.settings.rings, words, sleeps, messages.fabric.rails[0].sharing);
    let has_several_hcas = BootRecord::some_host_has_several_hcas(&job.all, info.place_of);
    let mut operations = Operations::new(messages, &job.settings, has_several_hcas, info.host.len());
    operations.has_atomics = job.all.iter().all(|record| record.has_atomics);
    Ok(Net {
        operations,
        progress: Progress::new(inbox, all_connected),
        max_bytes,
        record,
        wake,
    })
}

/// A job, after the processes have exchanged their boot records.
struct Job<'a> {
    info: &'a StartInfo<'a>,
    settings: Settings,
    /// By rank.
    all: Vec<BootRecord>,
}

impl Job<'_> {
    /// Makes the parts for messages of what was opened, and says how many bytes of segments may be
    /// registered. Collective if any process probes.
    fn messages(&self, opened: Opened, xrc: Option<Xrc>) -> Result<(Messages, usize), String> {
        let Self { info, settings, all } = self;
        let (peers, eager) = agree_on_credits(info, settings, all);
        let fetches = eager < settings.max_packet;
        let domains = || opened.rails.iter().map(|rail| &rail.domain);
        let pools = Pools::new(settings, info.size, fetches, domains, opened.rails[0].sharing).map_err(|why| {
            let names: Vec<&str> = opened.rails.iter().map(|rail| &*rail.context.name).collect();
            format!("{}: {why}", names.join(", "))
        });
        let probes = all.iter().any(|record| record.probes);
        // The probe of another process may take the memory of buffers that are registered later.
        let pools = if probes { all_can(info, pools)? } else { pools? };
        let max_bytes = self.max_bytes(&opened, &pools, probes);
        let access = pairs::access(opened.has_atomics);
        let pairs = PairMaker {
            xrc,
            access,
            transports: Transports {
                timeout: settings.timeout,
                retries: settings.retries,
                token: info.message_token(),
            },
            receives: settings.receives_of_peer(),
        };
        let largest = opened.rails.iter().map(|rail| rail.context.attributes.max_mr_size);
        let fabric = Fabric {
            rank: info.rank,
            peers,
            segments: Segments::new(opened.rails.len(), largest.min().unwrap_or(u64::MAX), access),
            inline: opened.rails.iter().map(|rail| rail.inline).min().unwrap_or(0),
            paths: opened.paths,
            rails: opened.rails,
            timeout: settings.timeout,
            unprobed: Mutex::default(),
        };
        let connector = Connector::new(pairs, settings, opened.datagrams, opened.channel);
        Ok((Messages::new(fabric, connector, pools, settings, eager), max_bytes))
    }

    /// Bytes of segments that this process may register. Collective if any process probes.
    fn max_bytes(&self, opened: &Opened, pools: &Pools, probes: bool) -> usize {
        let (info, rails) = (self.info, &opened.rails);
        let own = locked(opened, pools, &self.settings, info.size as usize);
        let share = share(self.settings.physmem_max, info.host.len());
        let probed = probes.then(|| {
            let domains: Vec<&Domain> = rails.iter().map(|rail| &rail.domain).collect();
            let pin = |bytes: usize| Pinned::new(bytes, domains.iter().copied(), Access::REMOTE).ok();
            probe(info, pin, share, self.settings.reports_probe.then_some("ibv"))
        });
        let buffers = rails.iter().map(|rail| rail.receives.most_bytes()).sum();
        limits::max_bytes(share, buffers, probed, own)
    }
}

/// Memory that one of `processes` processes locks beside segments.
fn locked(opened: &Opened, pools: &Pools, settings: &Settings, processes: usize) -> limits::Own {
    let (rails, hcas) = (&opened.rails, opened.rails.len());
    let queues = |rail: usize| {
        let pairs = opened.paths.iter().filter(|path| path.rail == rail).count();
        rails[rail].queue_bytes(processes * pairs)
    };
    let (pooled, most_pooled) = pools.bytes();
    let buffers: usize = rails.iter().map(|rail| rail.receives.most_bytes()).sum();
    let rings = settings.rings * eager_rdma::BYTES;
    limits::Own {
        at_start: hcas * (pooled + WORD_BYTES),
        most: hcas * (most_pooled + rings + WORD_BYTES) + buffers + (0..hcas).map(queues).sum::<usize>(),
        hcas,
    }
}

/// Posts the first shared receive buffers.
fn post_first(fabric: &Fabric) -> Result<(), String> {
    /// Beside those that each connection adds.
    const FIRST: usize = 16;
    for rail in &fabric.rails {
        if let Some(shared) = &rail.shared {
            let posted = rail.receives.add_shared(&rail.domain, shared, FIRST);
            posted.map_err(|why| {
                let (name, why) = (&rail.context.name, advised(why));
                format!("{name}: receive buffers cannot be registered: {why}")
            })?;
        }
    }
    Ok(())
}

/// Connects to the peers to which that is wanted at start. Whether these are all. Neighbours
/// seldom need it, if they can be connected later.
fn connect(
    info: &StartInfo<'_>,
    messages: &Messages,
    has_datagrams: bool,
    wanted: impl Fn() -> Option<Vec<JobRank>>,
) -> Result<bool, String> {
    if info.leaders.len() == 1 && has_datagrams {
        return Ok(false);
    }
    // Neighbours, too: atomics and puts of device memory reach them through the HCA.
    let Some(wanted) = wanted() else { return Ok(false) };
    messages.connector.pairs.connect_all(&messages.fabric, info, &wanted)?;
    Ok(wanted.len() == info.size as usize - 1)
}

/// The peers, with as many credits as all processes have buffers for; and the largest packet that
/// fits all of their buffers.
fn agree_on_credits(info: &StartInfo<'_>, settings: &Settings, all: &[BootRecord]) -> (Peers, usize) {
    let window = all.iter().map(|record| u32::from(record.credits)).min().unwrap_or(1);
    let eager = all.iter().map(|record| record.buffer as usize).min().unwrap_or(0);
    if info.rank == JobRank(0) {
        plan::report(settings, eager, window);
    }
    let least = all.iter().map(|record| u32::from(record.spare_credits)).min();
    // A peer that kept all credits would stop this process.
    let slack = settings.slack.min(least.unwrap_or(0)).min(window / 2);
    let mailboxes = all.iter().map(|record| record.mailbox);
    let credits = Credits::new(window, slack).limited_to(settings.total_credits);
    (Peers::new(mailboxes, credits), eager)
}

/// Processes that send messages to this one: those of other neighbourhoods.
fn peers_outside(info: &StartInfo<'_>) -> usize {
    let own = (info.place_of)(info.rank).nbrhd;
    let is_outside = |rank: &u32| (info.place_of)(JobRank(*rank)).nbrhd != own;
    (0..info.size).filter(is_outside).count()
}
