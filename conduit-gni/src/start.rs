//! The start: opens the NIC, maps and registers the region, and exchanges addresses.

pub mod credentials;

use crate::barrier::Rounds;
use crate::buffers::Bounces;
use crate::credits::Am;
use crate::engine::Engine;
use crate::ffi::{register_failed, Arrivals, Domain, Functions, Identity, Memory, Threads};
use crate::memory::registrations::Registrations;
use crate::memory::Segments;
use crate::net::{Address, Net, FIRST};
use crate::region::{Layout, Region, FRONT};
use crate::settings::{self, Flavour, Settings};
use crate::start::credentials::Credentials;
use gasnet_conduit::size_spec::Limit;
use gasnet_conduit::{barrier, print_line, ConduitError, JobRank, ProviderReport, StartInfo};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::peer_states::PeerStates;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_conduit_util::probe::probe;
use gasnet_gni_abi as abi;
use gasnet_sys::atomic::{AtomicBool, AtomicUsize, Mutex};
use gasnet_sys::gate::Gate;
use gasnet_sys::host_memory;

/// Part of the physical memory of a host that its processes register together, by default.
const PART: f64 = 0.8;
/// Granularity of segments.
const PAGE: usize = 64 << 10;

/// The NIC of this machine. The error is a message without a full stop.
pub fn flavour(functions: &Functions) -> Result<Flavour, String> {
    let device = functions
        .device()
        .map_err(|code| format!("this node has no NIC: GNI_GetDeviceType failed: {code}"))?;
    match device {
        abi::GNI_DEVICE_ARIES => Ok(Flavour::Aries),
        abi::GNI_DEVICE_GEMINI => Ok(Flavour::Gemini),
        other => Err(format!(
            "the NIC of this node is neither Aries nor Gemini (device type {other})"
        )),
    }
}

/// Whether this process could start the conduit.
pub fn can_start() -> Result<(), String> {
    let functions = Functions::get()?;
    flavour(functions)?;
    credentials(functions).map(|_| ())
}

/// Those of this process.
fn credentials(functions: &Functions) -> Result<Credentials, String> {
    Credentials::find(
        |name| std::env::var(name).ok(),
        |device, cookie| functions.ptag(device, cookie),
    )
}

/// For `gasnet_info`: the library, and the NIC of this node.
pub fn provider() -> ProviderReport {
    let name = "libugni".to_owned();
    let (functions, flavour) = match Functions::get().and_then(|functions| Ok((functions, flavour(functions)?))) {
        Ok(found) => found,
        Err(why) => {
            let facts = vec![("use", format!("impossible: {why}"))];
            return ProviderReport { name, facts };
        }
    };
    let usable = match credentials(functions) {
        Ok(_) => "possible".to_owned(),
        Err(why) => format!("impossible: {why}"),
    };
    let facts = vec![
        ("use", usable),
        ("NIC", format!("{flavour:?}")),
        ("version", functions.version_text()),
    ];
    ProviderReport { name, facts }
}

/// What each process tells the others.
#[repr(C)]
#[derive(Clone, Copy)]
struct BootRecord {
    address: Address,
    /// Of the region, which is the same in all processes.
    layout: Layout,
    flavour: u64,
    /// What decides how barriers go.
    barrier: u64,
    /// Whether it wants to find out how much can be registered.
    probes: u64,
    /// Whether the process has failed.
    failed: u64,
}

impl BootRecord {
    const BYTES: usize = size_of::<Self>();

    fn bytes(&self) -> &[u8] {
        // SAFETY: integers only, whose sizes leave no padding; the assertion below holds that.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), Self::BYTES) }
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES, "defect: an exchange of other bytes");
        // SAFETY: integers only, of which any bytes are valid.
        unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() }
    }
}

/// What a process has opened before it knows of the others.
struct Opened {
    domains: Vec<Domain>,
    region: Region,
    memory: Memory,
    settings: Settings,
    address: Address,
    rendezvous_depth: usize,
}

/// The arrivals that the queue has room for, so that it cannot overrun.
fn arrivals(settings: &Settings, layout: &Layout, peers: usize, rendezvous_depth: usize) -> usize {
    let longs = settings.long_depth.min(settings.depth);
    let fetched = rendezvous_depth + longs.min(rendezvous_depth);
    // Of each peer: what waits, and words, a question, a farewell, and answers.
    let each = fetched + 4;
    let eager = layout.units + longs;
    // Replies and their payloads, rounds of barriers, and a few payloads of many parts.
    peers * each + layout.space_count * eager + 2 * layout.slot_count + 1024
}

fn open(info: &StartInfo<'_>, job: u32) -> Result<Opened, String> {
    let functions = Functions::get()?;
    let flavour = flavour(functions)?;
    let settings = Settings::read(flavour);
    let Credentials {
        ptag,
        cookie,
        device,
        nic,
    } = credentials(functions)?;
    let nic = match nic {
        Some(nic) => nic,
        None => functions
            .nic_address(device)
            .map_err(|code| format!("GNI_CdmGetNicAddress failed for NIC {device}: {code}"))?,
    };
    let own = (info.place_of)(info.rank);
    let is_neighbour = |rank: u32| (info.place_of)(JobRank(rank)).nbrhd == own.nbrhd;
    let peers = 1 + (0..info.size).filter(|rank| !is_neighbour(*rank)).count();
    let eager = match settings.rendezvous {
        None => peers,
        Some(cutover) if info.size >= cutover => 0,
        Some(_) => settings.eager_peers.min(peers),
    };
    // Events of requests that wait are as many for each peer as leave the queue bounded.
    let rendezvous_depth = ((128 << 10) / peers).clamp(1, settings.depth);
    let layout = Layout::new(&settings, info.size, eager, true);
    let domains = if info.single_threaded { 1 } else { settings.domains };
    let identity = |domain: usize| Identity {
        instance: info.rank.0 + domain as u32 * info.size,
        ptag,
        cookie: cookie.wrapping_add(job),
        device,
        modes: settings.modes(info.host.len() * domains),
    };
    let room = |domain: usize| {
        if domain == FIRST {
            arrivals(&settings, &layout, peers, rendezvous_depth)
        } else {
            0
        }
    };
    // A thread that sleeps waits for the first domain, which must be the only one then.
    let threads = Threads {
        are_several: !info.single_threaded,
        sleep: info.threads_sleep && flavour == Flavour::Aries && domains == 1,
    };
    let open = |domain| {
        // SAFETY: the runtime says how many threads there are.
        unsafe {
            Domain::open(
                functions,
                identity(domain),
                &settings,
                (info.size, room(domain)),
                threads,
            )
        }
    };
    let domains = (0..domains).map(open).collect::<Result<Vec<_>, _>>()?;
    let region = Region::new(layout).map_err(|why| format!("{} bytes cannot be mapped: {why}", layout.bytes))?;
    let flags = abi::GNI_MEM_STRICT_PI_ORDERING | abi::GNI_MEM_PI_FLUSH;
    let range = (region.base(), layout.bytes);
    // SAFETY: unmapped after it is deregistered.
    let memory = unsafe { domains[FIRST].register_all(range, Arrivals::Ours, flags) }
        .map_err(|code| register_failed("messages", layout.bytes, code))?;
    let address = Address {
        nic,
        instance: info.rank.0,
        base: region.base(),
        handle: memory.handle,
    };
    Ok(Opened {
        domains,
        region,
        memory,
        settings,
        address,
        rendezvous_depth,
    })
}

impl Net {
    /// Opens the network, with a cookie for a job of the process. Collective.
    pub fn open(info: &StartInfo<'_>, job: u32) -> Result<Self, ConduitError> {
        let failed = |why: String| ConduitError {
            message: format!("The gni conduit cannot start: {why}."),
        };
        let opened = open(info, job);
        // Every process takes part in the exchange, so that one that fails does not keep others.
        let record = match &opened {
            Ok(opened) => BootRecord {
                address: opened.address,
                layout: opened.region.layout,
                flavour: opened.settings.flavour as u64,
                barrier: barrier_choice(&opened.settings),
                probes: settings::probes().into(),
                failed: 0,
            },
            Err(_) => BootRecord {
                failed: 1,
                // SAFETY: integers only.
                ..unsafe { std::mem::zeroed() }
            },
        };
        let all = (info.exchange)(record.bytes());
        let all: Vec<BootRecord> = all
            .chunks_exact(BootRecord::BYTES)
            .map(BootRecord::from_bytes)
            .collect();
        let Opened {
            domains,
            region,
            memory,
            settings,
            address: _,
            rendezvous_depth,
        } = opened.map_err(failed)?;
        let differs = |other: &&(usize, &BootRecord)| {
            // Neighbourhoods may differ in size, and so in peers.
            let (mine, theirs) = (region.layout, other.1.layout);
            let same = (mine.units, mine.unit_bytes, mine.slot_bytes, mine.slot_count)
                == (theirs.units, theirs.unit_bytes, theirs.slot_bytes, theirs.slot_count);
            let own = (settings.flavour as u64, barrier_choice(&settings));
            other.1.failed == 0 && (!same || (other.1.flavour, other.1.barrier) != own)
        };
        if let Some((rank, _)) = all.iter().enumerate().collect::<Vec<_>>().iter().find(differs) {
            return Err(failed(format!(
                "ranks {} and {rank} have different networks or settings: GASNET_NETWORKDEPTH, \
                 GASNET_NETWORKDEPTH_TOTAL, GASNET_NETWORKDEPTH_SPACE, GASNET_GNI_MAX_MEDIUM, GASNET_GNI_CE_RADIX and \
                 GASNET_BARRIER must be the same in all processes",
                info.rank
            )));
        }
        if let Some(rank) = all.iter().position(|record| record.failed != 0) {
            return Err(failed(format!("rank {rank} cannot")));
        }
        let least = settings
            .put_bounce
            .max(settings.get_bounce)
            .max(FRONT + settings.max_packet);
        let are_several = !info.single_threaded;
        // SAFETY: the runtime says how many threads there are.
        let mut bounces = unsafe { Bounces::new(least, settings.bounces, are_several) }
            .map_err(|why| failed(format!("buffers for copies cannot be mapped: {why}")))?;
        for domain in &domains {
            bounces
                .register(domain)
                .map_err(|code| failed(register_failed("copies", bounces.all(), code)))?;
        }
        let layout = region.layout;
        let share = share(info.host.len());
        let probed = all.iter().any(|record| record.probes != 0).then(|| {
            let reports = (!settings::is_quiet()).then_some("gni");
            probe_memory(info, &domains[FIRST], share, reports)
        });
        let mut net = Self {
            rounds: Rounds::new(info),
            rank: info.rank,
            addresses: all.iter().map(|record| record.address).collect(),
            // SAFETY: as above.
            am: unsafe { Gate::new(Am::new(&settings, layout, info.size, rendezvous_depth), are_several) },
            states: PeerStates::new(info.size as usize),
            segments: Segments::default(),
            registrations: Registrations::new(settings.registrations, settings.shares_registrations),
            max_bytes: (share.min(probed.unwrap_or(u64::MAX)) as usize).saturating_sub(layout.bytes) / PAGE * PAGE,
            bounces,
            region,
            region_memory: memory,
            refused: PendingQueue::default(),
            stalled: PendingQueue::default(),
            messages: PendingQueue::default(),
            has_arrivals: AtomicBool::new(false),
            delays_credits: AtomicBool::new(false),
            polls: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            failure: Mutex::default(),
            has_failed: AtomicBool::new(false),
            settings,
            domains: domains.into(),
        };
        let engine = Engine::prepare(&net, info);
        if let Some(rounds) = &mut net.rounds {
            rounds.engine = engine;
        }
        if net.settings.reports_memory {
            report(&net.region.layout, info.rank);
        }
        Ok(net)
    }
}

/// What the settings of the barrier are, in a word: the algorithm, and the radix.
fn barrier_choice(settings: &Settings) -> u64 {
    u64::from(barrier::choice(&barrier::wanted())) << 32 | settings.engine_radix as u64
}

/// Bytes that this process may register, one of so many on its host.
fn share(processes: usize) -> u64 {
    let limit = settings::physmem_max().unwrap_or(Limit::Part(PART));
    limit.bytes(host_memory::query().physical) / processes.max(1) as u64
}

/// What each process of this host can register, up to `share`.
fn probe_memory(info: &StartInfo<'_>, domain: &Domain, share: u64, reports: Option<&str>) -> u64 {
    /// Memory that is registered, and its domain.
    struct OwnedRegistration<'a>(
        &'a Domain,
        Memory,
        #[allow(dead_code, reason = "unmapped with it")] Mapped,
    );
    impl Drop for OwnedRegistration<'_> {
        fn drop(&mut self) {
            self.0.deregister(self.1);
        }
    }
    let pin = |bytes: usize| {
        let mapped = Mapped::new(bytes).ok()?;
        // SAFETY: unmapped after it is deregistered.
        let memory = unsafe { domain.register((mapped.address(), bytes), Arrivals::None, 0) }.ok()?;
        Some(OwnedRegistration(domain, memory, mapped))
    };
    probe(info, pin, share, reports)
}

/// `GASNET_GNI_AM_MEMORY_REPORT`.
fn report(layout: &Layout, rank: JobRank) {
    print_line(format_args!(
        "GASNet: gni: rank {rank}: {} bytes for Active Messages: {} own requests of {} bytes, {} landings, {} peers \
         with space of {} units of {} bytes",
        layout.bytes,
        layout.slot_count,
        layout.slot_bytes,
        layout.landing_count,
        layout.space_count,
        layout.units,
        layout.unit_bytes
    ));
}
