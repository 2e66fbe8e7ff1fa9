//! The start of a conduit: open HCAs, exchange what processes need of each other, agree, allocate,
//! connect.
#![forbid(unsafe_code)]

pub mod open;

use crate::boot_record::BootRecord;
use crate::buffers::pools::Pools;
use crate::connect::policy::{ConnectPolicy, Kind, Record};
use crate::connect::{self, Connector};
use crate::eager_rdma;
use crate::eager_rdma::inbox::Inbox;
use crate::ffi::{Access, Domain};
use crate::memory::limits::{self, advised};
use crate::memory::mapped::Pinned;
use crate::memory::Segments;
use crate::net::{Net, Opened};
use crate::peers::Peers;
use crate::presets::Presets;
use crate::rail::Rail;
use crate::receive::fetch::Fetches;
use crate::receive::plan;
use crate::settings::{self, Settings};
use crate::transfers::Stripes;
use crate::wake::WakeUp;
use crate::xrc::Xrc;
use gasnet_conduit::{ConduitError, JobRank, StartInfo};
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_conduit_util::probe::probe;
use gasnet_sys::atomic::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Starts. Collective.
pub fn start(info: &StartInfo<'_>) -> Result<Net, ConduitError> {
    run(info).map_err(|why| ConduitError {
        message: format!("The ibv conduit cannot start: {why}."),
    })
}

/// The error is a message without a full stop.
fn run(info: &StartInfo<'_>) -> Result<Net, String> {
    let mut settings = Settings::read();
    limits::raise_limit();
    let policy = ConnectPolicy::read(&settings, info);
    let completes = policy == Ok(ConnectPolicy::Everybody);
    let has_thread = info.may_start_threads && settings.connects_later && !completes;
    // Until all that connects at start is made.
    let _presets = Presets::new(info.single_threaded && !has_thread);
    let network = open::choose(info, &settings);
    let opened = policy.and_then(|policy| {
        let opened = open::open(info, &settings, (network?, has_thread))?;
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
        |_| BootRecord::failed(),
        |(opened, policy)| opened.boot_record(&settings, policy.kind(), info.size),
    );
    let all = BootRecord::exchange(info, &boot_record);
    let (mut opened, policy) = opened?;
    BootRecord::compare(&all, info.rank)?;
    opened.agree_on_headers(&all)?;
    let xrc = Xrc::agree(info, &all, &mut opened, &settings)?;
    open::warn_of_paging(&all, info.rank, &settings);
    let mut net = assemble(info, (opened, settings), &all, (xrc, record))?;
    let kinds: Vec<Kind> = all.iter().map(|record| record.connects).collect();
    net.post_and_connect(info, || policy.peers(info, &kinds))?;
    Ok(net)
}

/// Makes the parts of a conduit of what was opened. `all` is by rank.
fn assemble(
    info: &StartInfo<'_>,
    (opened, settings): (Opened, Settings),
    all: &[BootRecord],
    (xrc, record): (Option<Xrc>, Option<Record>),
) -> Result<Net, String> {
    let (peers, eager) = agree_on_credits(info, &settings, all);
    let wake = WakeUp::new(&opened.rails).map_err(|why| format!("epoll failed: {why}"))?;
    let fetches = eager < settings.max_packet;
    let domains = || opened.rails.iter().map(|rail| &rail.domain);
    let pools = Pools::new((&settings, info.size), fetches, domains).map_err(|why| {
        let names: Vec<&str> = opened.rails.iter().map(|rail| &*rail.context.name).collect();
        format!("{}: {why}", names.join(", "))
    })?;
    let access = connect::access(opened.has_atomics);
    let rails = || opened.rails.iter();
    let attributes = || rails().map(|rail| &rail.context.attributes);
    let largest = attributes().map(|attributes| attributes.max_mr_size).min();
    let regions = attributes().map(|attributes| attributes.max_mr).min();
    let longest = opened.paths.iter().map(|path| path.max_message).min();
    Ok(Net {
        rank: info.rank,
        inline: rails().map(|rail| rail.inline).min().unwrap_or(0),
        eager,
        fetches: Fetches::default(),
        max_bytes: opened.max_bytes(info, &pools, (&settings, all)),
        is_fenced: settings
            .fenced
            .unwrap_or_else(|| BootRecord::some_host_has_several_hcas(all, info.place_of)),
        peers,
        xrc,
        token: info.message_token(),
        has_atomics: all.iter().all(|record| record.has_atomics),
        access,
        deferred: PendingQueue::default(),
        stalled: PendingQueue::default(),
        stripes: Stripes::new(settings.stripes, opened.paths.len(), longest.unwrap_or(usize::MAX)),
        registrations: AtomicUsize::new(0),
        most_registrations: settings.registrations(regions.unwrap_or(0), info.host.len()),
        has_copied: AtomicBool::new(false),
        unprobed: Mutex::default(),
        stopped: AtomicBool::new(false),
        may_be_asked: AtomicBool::new(true),
        is_complete: false,
        failure: Mutex::default(),
        record,
        has_failed: AtomicBool::new(false),
        segments: Segments::new(opened.rails.len(), largest.unwrap_or(u64::MAX), access),
        inbox: Inbox::new(if wake.is_some() { 0 } else { settings.rings }),
        pools,
        connector: Connector::new(opened.datagrams, opened.channel),
        paths: opened.paths,
        wake,
        rails: opened.rails,
        settings,
    })
}

/// The peers, with as many credits as all processes have buffers for; and the largest packet that
/// fits all of their buffers.
fn agree_on_credits(info: &StartInfo<'_>, settings: &Settings, all: &[BootRecord]) -> (Peers, usize) {
    let window = all.iter().map(|record| u32::from(record.credits)).min().unwrap_or(1);
    let eager = all.iter().map(|record| record.buffer as usize).min().unwrap_or(0);
    if info.rank == JobRank(0) {
        plan::report(settings, (eager, window));
    }
    let least = all.iter().map(|record| u32::from(record.spare_credits)).min();
    // A peer that kept all credits would stop this process.
    let slack = settings.slack.min(least.unwrap_or(0)).min(window / 2);
    let mailboxes = all.iter().map(|record| record.mailbox);
    (Peers::new(mailboxes, (window, settings.total_credits), slack), eager)
}

impl Opened {
    /// Memory that this process of so many locks beside segments.
    fn locked(&self, pools: &Pools, settings: &Settings, processes: usize) -> limits::Own {
        let hcas = self.rails.len();
        let queues = |rail| {
            let pairs = self.paths.iter().filter(|path| path.rail == rail).count();
            self.rails[rail].queue_bytes(processes * pairs)
        };
        let (pooled, most_pooled) = pools.bytes();
        let buffers: usize = self.rails.iter().map(Rail::buffer_bytes).sum();
        let rings = settings.rings * eager_rdma::BYTES;
        limits::Own {
            at_start: hcas * pooled,
            most: hcas * (most_pooled + rings) + buffers + (0..hcas).map(queues).sum::<usize>(),
            hcas,
        }
    }

    /// Bytes of segments that this process may register. Collective if any process probes.
    fn max_bytes(&self, info: &StartInfo<'_>, pools: &Pools, (settings, all): (&Settings, &[BootRecord])) -> usize {
        let own = self.locked(pools, settings, info.size as usize);
        let probed = all.iter().any(|record| record.probes).then(|| {
            let domains: Vec<&Domain> = self.rails.iter().map(|rail| &rail.domain).collect();
            let pin = |bytes: usize| Pinned::new(bytes, domains.iter().copied(), Access::REMOTE).ok();
            let share = limits::share(info.host.len());
            probe(info, pin, share, settings::reports_probe().then_some("ibv"))
        });
        let buffers = self.rails.iter().map(Rail::buffer_bytes).sum();
        limits::max_bytes(info.host.len(), buffers, probed, own)
    }
}

impl Net {
    /// Posts the first receive buffers, and connects to the peers to which that is wanted at start.
    fn post_and_connect(
        &mut self,
        info: &StartInfo<'_>,
        wanted: impl Fn() -> Option<Vec<JobRank>>,
    ) -> Result<(), String> {
        /// Shared receive buffers beside those that each connection adds.
        const FIRST: usize = 16;
        for rail in &self.rails {
            if let Some(shared) = &rail.shared {
                let posted = rail.receives.add_shared(&rail.domain, shared, FIRST);
                posted.map_err(|why| {
                    format!(
                        "{}: receive buffers cannot be registered: {}",
                        rail.context.name,
                        advised(why)
                    )
                })?;
            }
        }
        if info.leaders.len() == 1 {
            return Ok(());
        }
        // Neighbours, too: atomics and puts of device memory reach them through the HCA.
        if let Some(wanted) = wanted() {
            self.connect_all(info, &wanted)?;
            self.is_complete = wanted.len() == info.size as usize - 1;
        }
        Ok(())
    }
}

/// Processes that send messages to this one: those of other neighbourhoods.
fn peers_outside(info: &StartInfo<'_>) -> usize {
    let own = (info.place_of)(info.rank).nbrhd;
    let is_outside = |rank: &u32| (info.place_of)(JobRank(*rank)).nbrhd != own;
    (0..info.size).filter(is_outside).count()
}
