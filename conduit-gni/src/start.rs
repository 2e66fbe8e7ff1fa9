//! The start: opens the NIC, maps and registers the region, and exchanges addresses.

pub mod credentials;

use crate::barrier::Rounds;
use crate::boot_record::BootRecord;
use crate::buffers::Bounces;
use crate::credits::Am;
use crate::engine::Engine;
use crate::ffi::{register_failed, Arrivals, DomainOptions, Functions};
use crate::memory::Memory;
use crate::net::Net;
use crate::peers::{Address, Peers};
use crate::posts::{Domain, Posts, FIRST};
use crate::receive::Receiver;
use crate::region::{Layout, Region, FRONT};
use crate::rma::OneSided;
use crate::send::Messages;
use crate::settings::{Flavour, Settings};
use crate::start::credentials::Credentials;
use gasnet_conduit::{config, print_line, words, ConduitError, JobRank, ProviderReport, StartInfo};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::probe::probe;
use gasnet_conduit_util::record::{all_can, exchange};
use gasnet_gni_abi as abi;
use gasnet_sys::host_memory;
use gasnet_sys::maybe_locked::{MaybeLocked, Sharing};

/// Granularity of segments.
const PAGE: usize = 64 << 10;
/// Instance of the first domain of rank 0. A NIC has each instance of a tag and a cookie once, and
/// MPI, which may use the NIC in the same process, has its ranks from 0 as instances.
const FIRST_INSTANCE: u32 = 1 << 23;

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

/// Credentials of this process.
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

/// Sizes of the resources of messages.
struct Sizes {
    layout: Layout,
    /// Requests that a peer may announce, to be fetched.
    rendezvous_depth: usize,
    /// Entries of the queue of arrivals.
    arrivals: usize,
}

impl Sizes {
    /// For the settings and the job.
    fn new(info: &StartInfo<'_>, settings: &Settings) -> Self {
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
        let layout = Layout::new(settings, info.size, eager);
        Self {
            layout,
            rendezvous_depth,
            arrivals: arrivals(settings, &layout, peers, rendezvous_depth),
        }
    }
}

/// The arrivals that the queue has room for, so that it cannot overrun.
fn arrivals(settings: &Settings, layout: &Layout, peers: usize, rendezvous_depth: usize) -> usize {
    let longs = settings.long_depth.min(settings.depth);
    let fetched = rendezvous_depth + longs.min(rendezvous_depth);
    // Of each peer: what waits, and words, a question, a farewell, and answers.
    let each = fetched + 4;
    let eager = layout.units + longs;
    // Replies and their payloads, words of barriers, and a few payloads of many parts.
    peers * each + layout.space_count * eager + 2 * layout.slot_count + words::COUNT + 1024
}

/// Resources that a process opens before it knows of the others.
struct Opened {
    settings: Settings,
    sizes: Sizes,
    domains: Vec<Domain>,
    region: Region,
    address: Address,
}

impl Opened {
    /// Opens the domains, with a cookie for a job of the process, and the region.
    fn open(info: &StartInfo<'_>, job: u32) -> Result<Self, String> {
        let functions = Functions::get()?;
        let settings = Settings::read(flavour(functions)?);
        let credentials = credentials(functions)?;
        let device = credentials.device;
        let nic = match credentials.nic {
            Some(nic) => nic,
            None => functions
                .nic_address(device)
                .map_err(|code| format!("GNI_CdmGetNicAddress failed for NIC {device}: {code}"))?,
        };
        let sizes = Sizes::new(info, &settings);
        let mut options = domain_options(info, &settings, &credentials);
        options.cookie = credentials.cookie.wrapping_add(job);
        let count = domain_count(info, &settings);
        let open = |domain: usize| {
            let mut options = options;
            options.instance += domain as u32 * info.size;
            options.arrivals = if domain == FIRST { sizes.arrivals } else { 0 };
            Domain::open(functions, &options)
        };
        let domains = (0..count).map(open).collect::<Result<Vec<_>, _>>()?;
        let bytes = sizes.layout.bytes;
        let mut region = Region::new(sizes.layout).map_err(|why| format!("{bytes} bytes cannot be mapped: {why}"))?;
        region
            .register(&domains[FIRST])
            .map_err(|code| register_failed("messages", bytes, code))?;
        let address = Address::new(nic, options.instance, region.base(), region.handle);
        Ok(Self {
            settings,
            sizes,
            domains,
            region,
            address,
        })
    }

    /// The record of this process for the others.
    fn boot_record(&self) -> BootRecord {
        let sleeps = self.domains[FIRST].channel.is_some();
        BootRecord::new(self.address, self.region.layout, &self.settings, sleeps)
    }

    /// Buffers for copies, registered with the domains.
    fn open_buffers(&self, sharing: Sharing) -> Result<Bounces, String> {
        let settings = &self.settings;
        let packet = FRONT + settings.max_packet;
        let least = settings.put_bounce.max(settings.get_bounce).max(packet);
        Bounces::new(least, settings.bounces, &self.domains, sharing)
    }

    /// Bytes of segments that may be registered. Collective.
    fn max_bytes(&self, info: &StartInfo<'_>, probes: bool) -> usize {
        let share = self.settings.most_registered(host_memory::query().physical) / info.host.len().max(1) as u64;
        let probed = probes.then(|| {
            let reports = (!config::is_quiet()).then_some("gni");
            probe_memory(info, &self.domains[FIRST], share, reports)
        });
        (share.min(probed.unwrap_or(u64::MAX)) as usize).saturating_sub(self.region.layout.bytes) / PAGE * PAGE
    }
}

/// Number of domains.
fn domain_count(info: &StartInfo<'_>, settings: &Settings) -> usize {
    if info.single_threaded {
        1
    } else {
        settings.domains
    }
}

/// Whether several threads of this process use the network.
fn sharing(info: &StartInfo<'_>) -> Sharing {
    // SAFETY: the runtime says how many threads there are, and the conduit starts none.
    unsafe { Sharing::new(!info.single_threaded) }
}

/// Options of the domains of this process.
fn domain_options(info: &StartInfo<'_>, settings: &Settings, credentials: &Credentials) -> DomainOptions {
    let domains = domain_count(info, settings);
    DomainOptions {
        instance: FIRST_INSTANCE + info.rank.0,
        ptag: credentials.ptag,
        cookie: credentials.cookie,
        device: credentials.device,
        modes: settings.modes(info.host.len() * domains),
        sharing: sharing(info),
        // A thread that sleeps waits for the first domain, which must be the only one then.
        sleep: info.threads_sleep && settings.flavour == Flavour::Aries && domains == 1,
        ranks: info.size,
        posts: settings.posts,
        routing: settings.routing,
        arrivals: 0,
        has_sink: settings.flushes_by_events(),
    }
}

/// Opens the network, with a cookie for a job of the process. Collective.
pub fn open(info: &StartInfo<'_>, job: u32) -> Result<Net, ConduitError> {
    try_open(info, job).map_err(|why| ConduitError {
        message: format!("The gni conduit cannot start: {why}."),
    })
}

fn try_open(info: &StartInfo<'_>, job: u32) -> Result<Net, String> {
    let opened = Opened::open(info, job);
    // Every process takes part in the exchange, so that one that fails does not keep others.
    let record = opened
        .as_ref()
        .map_or_else(|_| BootRecord::failed(), Opened::boot_record);
    let all = exchange(info, &record);
    let opened = opened?;
    BootRecord::agree(&all, info.rank)?;
    let sharing = sharing(info);
    let probes = all.iter().any(|record| record.probes);
    let buffers = opened.open_buffers(sharing);
    // The probe of another process may take the memory of buffers that are registered later.
    let buffers = if probes { all_can(info, buffers)? } else { buffers? };
    let max_bytes = opened.max_bytes(info, probes);
    let Opened {
        settings,
        sizes,
        domains,
        region,
        ..
    } = opened;
    let addresses = all.iter().map(|record| record.address).collect();
    let posts = Posts::new(
        Peers::new(info.rank, addresses),
        domains,
        buffers,
        settings.threads_per_domain,
    );
    let am = Am::new(&settings, sizes.layout, info.size, sizes.rendezvous_depth);
    let messages = Messages::new(&settings, MaybeLocked::new(am, sharing), region);
    let engine = Engine::prepare(&posts, &settings, info);
    if settings.reports_memory {
        report(&sizes.layout, info.rank);
    }
    let memory = Memory::new(&settings, max_bytes);
    Ok(Net {
        messages,
        receiver: Receiver::new(settings.burst),
        rounds: engine.map(Rounds::new),
        peers_sleep: all.iter().any(|record| record.sleeps),
        rma: OneSided::new(settings, memory, posts),
    })
}

/// Bytes that each process of this host can register, up to `share`.
fn probe_memory(info: &StartInfo<'_>, domain: &Domain, share: u64, reports: Option<&str>) -> u64 {
    /// Memory that is registered, and its domain.
    struct OwnedRegistration<'a>(
        &'a Domain,
        abi::gni_mem_handle_t,
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
        "GASNet: gni: rank {rank}: {} bytes for Active Messages: {} own requests of {} bytes, {} rendezvous buffers, \
         {} peers with space of {} units of {} bytes",
        layout.bytes,
        layout.slot_count,
        layout.slot_bytes,
        layout.rendezvous_count,
        layout.space_count,
        layout.units,
        layout.unit_bytes
    ));
}
