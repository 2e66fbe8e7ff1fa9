//! A started conduit: its parts, start and stop.

use crate::at_start::{Kind, Record, Wish};
use crate::connect::{self, Connector};
use crate::fetch::Fetches;
use crate::handshake::Endpoint;
use crate::hello::{self, Hello};
use crate::inbox::Inbox;
use crate::mapped::Pinned;
use crate::memory::Segments;
use crate::peers::Peers;
use crate::pinned::{self, advised};
use crate::pools::Pools;
use crate::presets::Presets;
use crate::rail::Rail;
use crate::receive_plan;
use crate::ring;
use crate::settings::{self, Settings};
use crate::transfer::{Stripes, Transfer};
use crate::verbs::{Access, Channel, Datagrams, Domain, LocalPort};
use crate::xrc::Xrc;
use gasnet_conduit::copied::Copied;
use gasnet_conduit::probe::probe;
use gasnet_conduit::{ConduitError, JobRank, StartInfo};
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

/// A port of an HCA: where queue pairs of each connection are.
pub struct Path {
    /// Its HCA.
    pub rail: usize,
    pub port: LocalPort,
    /// Another port of the HCA, over which traffic goes on if this one goes down.
    pub alternate: Option<LocalPort>,
    /// `IBV_MTU_*`.
    pub mtu: u8,
    /// Gets and atomics of a peer that the HCA executes at a time.
    pub reads: u8,
    /// The same of this process at the peer.
    pub initiated: u8,
    /// Bytes of the largest operation.
    pub max_message: usize,
}

impl Path {
    /// A queue pair on it, as a peer needs it.
    pub fn endpoint(&self, number: u32) -> Endpoint {
        Endpoint {
            address: self.port.address,
            alternate: self.alternate.and_then(|port| NonZeroU16::new(port.address.lid)),
            number,
            sender: 0,
            mtu: self.mtu,
            reads: self.reads,
        }
    }
}

/// A started conduit.
pub struct Net {
    pub rank: JobRank,
    // First: its queue pairs use all that follows.
    pub peers: Peers,
    /// If one queue pair leads to all processes of a host.
    pub xrc: Option<Xrc>,
    pub connector: Connector,
    /// Authenticates datagrams.
    pub token: u64,
    pub settings: Settings,
    /// Bytes of inline data that all HCAs take.
    pub inline: usize,
    /// Bytes of segments that may be registered.
    pub max_bytes: usize,
    /// Whether puts are fenced, because a host has several HCAs.
    pub is_fenced: bool,
    /// Whether the HCAs of all processes have atomics.
    pub has_atomics: bool,
    pub access: Access,
    /// Requests that could not run when they arrived, and their sources.
    pub deferred: Mutex<VecDeque<(JobRank, Copied)>>,
    pub deferred_count: AtomicUsize,
    /// Long operations that wait for room.
    #[allow(clippy::vec_box, reason = "they move between work requests and this list")]
    pub stalled: Mutex<Vec<Box<Transfer>>>,
    pub stalled_count: AtomicUsize,
    /// Bytes of the largest packet that fits receive buffers.
    pub eager: usize,
    /// Packets that are larger.
    pub fetches: Fetches,
    pub stripes: Stripes,
    /// Registrations of local memory for one operation, and how many there may be.
    pub registrations: AtomicUsize,
    pub most_registrations: usize,
    /// Whether an operation was copied because its memory could not be registered.
    pub has_copied: AtomicBool,
    /// Queue pairs that have migrated (peer, path), and had no room for a probe.
    pub unprobed: Mutex<Vec<(JobRank, usize)>>,
    pub stopped: AtomicBool,
    /// Whether datagrams may have arrived: the next poll looks.
    pub may_be_asked: AtomicBool,
    /// Whether all peers are connected, so that none asks any more.
    pub is_complete: bool,
    /// Why the network failed, until that is reported.
    pub failure: Mutex<Option<String>>,
    pub has_failed: AtomicBool,
    /// Where this process writes with whom it has communicated.
    record: Option<Record>,
    pub segments: Segments,
    /// Where peers write small messages.
    pub inbox: Inbox,
    pub pools: Pools,
    pub paths: Box<[Path]>,
    /// Sleeping threads wait for all of the channels.
    pub wake: Option<crate::wake::WakeUp>,
    // Last: all of the above is made from them.
    pub rails: Box<[Rail]>,
}

/// What a process has opened before it knows of the others.
pub struct Opened {
    pub rails: Box<[Rail]>,
    pub paths: Box<[Path]>,
    pub datagrams: Datagrams,
    /// That of the datagrams, if a thread is to wait for them.
    pub channel: Option<Channel>,
    pub has_atomics: bool,
    pub link: hello::Link,
}

impl Opened {
    /// Memory that this process of so many locks beside segments.
    fn locked(&self, pools: &Pools, settings: &Settings, processes: usize) -> pinned::Own {
        let hcas = self.rails.len();
        let queues = |rail| {
            let pairs = self.paths.iter().filter(|path| path.rail == rail).count();
            self.rails[rail].queue_bytes(processes * pairs)
        };
        let (pooled, most_pooled) = pools.bytes();
        let buffers: usize = self.rails.iter().map(Rail::buffer_bytes).sum();
        let rings = settings.rings * ring::BYTES;
        pinned::Own {
            at_start: hcas * pooled,
            most: hcas * (most_pooled + rings) + buffers + (0..hcas).map(queues).sum::<usize>(),
            hcas,
        }
    }
}

impl Net {
    /// Opens HCAs, exchanges addresses, and connects. Collective.
    pub fn open(info: &StartInfo<'_>) -> Result<Self, ConduitError> {
        let failed = |why: String| ConduitError {
            message: format!("The ibv conduit cannot start: {why}."),
        };
        let mut settings = Settings::read();
        pinned::raise_limit();
        let wish = Wish::read(&settings, info);
        let completes = wish == Ok(Wish::Everybody);
        let has_thread = info.may_start_threads && settings.connects_later && !completes;
        // Until all that connects at start is made.
        let _presets = Presets::new(info.single_threaded && !has_thread);
        let network = crate::open::choose(info, &settings);
        let opened = wish.and_then(|wish| {
            let opened = crate::open::open(info, &settings, (network?, has_thread))?;
            Ok((opened, wish))
        });
        if let Ok((opened, _)) = &opened {
            if let Some(buffers) = opened.rails.iter().filter_map(Rail::shared_buffers).min() {
                settings.fit_credits(buffers, peers_outside(info));
            }
        }
        let record = Record::create(&settings, info);
        // Every process takes part in the exchange, so that one that fails does not keep others.
        let hello = opened.as_ref().map_or_else(
            |_| Hello::failed(),
            |(opened, wish)| opened.hello(&settings, wish.kind(), info.size),
        );
        let all = Hello::exchange(info, &hello);
        let (mut opened, wish) = opened.map_err(failed)?;
        Hello::compare(&all, info.rank).map_err(failed)?;
        opened.agree_on_headers(&all).map_err(failed)?;
        let xrc = Xrc::agree(info, &all, &mut opened, &settings).map_err(failed)?;
        crate::open::warn_of_paging(&all, info.rank, &settings);
        let has_atomics = all.iter().all(|hello| hello.has_atomics);
        let least = all.iter().map(|hello| u32::from(hello.spare_credits)).min();
        let window = all.iter().map(|hello| u32::from(hello.credits)).min().unwrap_or(1);
        let eager = all.iter().map(|hello| hello.buffer as usize).min().unwrap_or(0);
        if info.rank == JobRank(0) {
            receive_plan::report(&settings, (eager, window));
        }
        // A peer that kept all credits would stop this process.
        let slack = settings.slack.min(least.unwrap_or(0)).min(window / 2);
        let peers = Peers::new(
            all.iter().map(|hello| hello.mailbox),
            (window, settings.total_credits),
            slack,
        );
        let wake = crate::wake::WakeUp::new(&opened.rails).map_err(|why| failed(format!("epoll failed: {why}")))?;
        let access = connect::access(opened.has_atomics);
        let largest = opened
            .rails
            .iter()
            .map(|rail| rail.context.attributes.max_mr_size)
            .min();
        let is_fenced = settings
            .fenced
            .unwrap_or_else(|| Hello::some_host_has_several_hcas(&all, info.place_of));
        let domains = || opened.rails.iter().map(|rail| &rail.domain);
        let fetches = eager < settings.max_packet;
        let pools = Pools::new((&settings, info.size), fetches, domains).map_err(|why| {
            let names: Vec<&str> = opened.rails.iter().map(|rail| &*rail.context.name).collect();
            failed(format!("{}: {why}", names.join(", ")))
        })?;
        let buffers = opened.rails.iter().map(Rail::buffer_bytes).sum();
        let own = opened.locked(&pools, &settings, info.size as usize);
        let probed = all.iter().any(|hello| hello.probes).then(|| {
            let (domains, share) = (domains().collect::<Vec<_>>(), pinned::share(info.host.len()));
            let pin = |bytes: usize| Pinned::new(bytes, domains.iter().copied(), Access::REMOTE).ok();
            probe(info, pin, share, settings::reports_probe().then_some("ibv"))
        });
        let longest = opened.paths.iter().map(|path| path.max_message).min();
        let stripes = Stripes::new(settings.stripes, opened.paths.len(), longest.unwrap_or(usize::MAX));
        let regions = opened.rails.iter().map(|rail| rail.context.attributes.max_mr).min();
        let most_registrations = settings.registrations(regions.unwrap_or(0), info.host.len());
        let mut net = Self {
            rank: info.rank,
            inline: opened.rails.iter().map(|rail| rail.inline).min().unwrap_or(0),
            eager,
            fetches: Fetches::default(),
            max_bytes: pinned::max_bytes(info.host.len(), buffers, probed, own),
            is_fenced,
            peers,
            xrc,
            connector: Connector::new(opened.datagrams, opened.channel),
            token: info.message_token(),
            has_atomics,
            access,
            deferred: Mutex::default(),
            deferred_count: AtomicUsize::new(0),
            stalled: Mutex::default(),
            stalled_count: AtomicUsize::new(0),
            stripes,
            registrations: AtomicUsize::new(0),
            most_registrations,
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
            paths: opened.paths,
            wake,
            rails: opened.rails,
            settings,
        };
        let kinds: Vec<Kind> = all.iter().map(|hello| hello.connects).collect();
        net.prepare(info, || wish.peers(info, &kinds)).map_err(failed)?;
        Ok(net)
    }

    /// Posts the first receive buffers, and connects to the peers to which that is wanted at start.
    fn prepare(&mut self, info: &StartInfo<'_>, wanted: impl Fn() -> Option<Vec<JobRank>>) -> Result<(), String> {
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

    /// The HCAs' protection domains, by rail.
    pub fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.rails.iter().map(|rail| &rail.domain)
    }

    /// A path in messages: "mlx5_0 port 1".
    pub fn name(&self, path: usize) -> String {
        let Path { rail, port, .. } = &self.paths[path];
        format!("{} port {}", self.rails[*rail].context.name, port.number)
    }

    /// Whether communication has ended.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends communication, without a word to the peers. Async-signal-safe.
    pub fn stop_at_once(&self) -> bool {
        !self.stopped.swap(true, Ordering::SeqCst)
    }

    /// The same, and tells peers that are connected that this is no crash.
    pub fn stop(&self) {
        /// Time for the messages to leave: an HCA drops what a process leaves at its end.
        const DRAIN: Duration = Duration::from_millis(5);
        if !self.stop_at_once() {
            return;
        }
        if let Some(record) = &self.record {
            let used = self.peers.established().filter(|(_, it)| it.is_used());
            record.write(&used.map(|(rank, _)| rank).collect::<Vec<_>>());
        }
        for (_, connection) in self.peers.established() {
            // If that fails, the peer is gone, or it reads of the end from its node agent.
            let _ = self.say_bye(connection);
        }
        let deadline = Instant::now() + DRAIN;
        let is_empty = || {
            let mut connections = self.peers.established();
            connections.all(|(_, connection)| connection.queue(0).is_empty())
        };
        while !is_empty() && Instant::now() < deadline {
            self.drop_completions();
            gasnet_sys::atomic::yield_now();
        }
    }

    /// The network failed, and no single peer is the reason.
    #[cold]
    pub fn fail(&self, why: &str) {
        // The first reason counts, and is reported once.
        let mut failure = lock(&self.failure);
        if !self.has_failed.load(Ordering::Relaxed) {
            *failure = Some(why.to_owned());
            self.has_failed.store(true, Ordering::Release);
        }
    }
}

/// Processes that send messages to this one: those of other neighbourhoods.
fn peers_outside(info: &StartInfo<'_>) -> usize {
    let own = (info.place_of)(info.rank).nbrhd;
    let is_outside = |rank: &u32| (info.place_of)(JobRank(*rank)).nbrhd != own;
    (0..info.size).filter(is_outside).count()
}
