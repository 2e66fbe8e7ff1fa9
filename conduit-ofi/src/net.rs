//! A started conduit: its parts, start and stop.

use crate::boot_record::Names;
use crate::connect_timeout::ConnectTimeouts;
use crate::ffi::{Endpoint, Errno, Functions, Info, Minimum, Threads};
use crate::memory::{wants_registration, Segments};
use crate::operation::{OwnedOperation, Pool};
use crate::peers::{self, Peers};
use crate::presets;
use crate::provider::{self, Needs, Offer};
use crate::put_notify::long_put::Arrival;
use crate::put_notify::PendingPuts;
use crate::receive::outsiders::Outsiders;
use crate::receive::{Buffers, Many, Receives};
use crate::select::{self, Selected};
use crate::stale_shm::StaleShm;
use crate::variables::{self, Choice, Settings};
use crate::versions::{self, End};
use crate::wire::{self, Header, Kind};
use gasnet_conduit::locality::Ranks;
use gasnet_conduit::{config, ConduitError, JobRank, StartInfo};
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::sync::atomic::AtomicBool;

/// Most bytes of an injected message, which is assembled on the stack.
pub const INJECT: usize = 256;
/// Bytes of a small send buffer.
const SMALL: usize = 2 << 10;
/// Most operations without bytes of their own: puts, gets, atomics.
const OPERATIONS: usize = 1 << 20;
/// Most operations that wait for room at the provider, beyond which it is the client that waits.
pub const STALLED: usize = 256;
/// Send buffers that clients may hold.
const RESERVED: usize = 256;

/// A started conduit. Locks are taken one at a time, and that of the queue before others.
pub struct Net {
    pub rank: JobRank,
    pub peers: Peers,
    /// Authenticates messages.
    pub token: u64,
    pub selected: Abilities,
    pub settings: Settings,
    /// Most bytes of an injected message.
    pub inject: usize,
    /// Most bytes of an injected put.
    pub inject_put: usize,
    /// Held while the queue is read ([`Receives`]).
    pub reader: Mutex<()>,
    pub segments: Segments,
    pub pending_puts: PendingPuts,
    /// Puts of Longs announce themselves, as far as the provider has refused none.
    pub announces: AtomicBool,
    /// Local memory was copied because the provider does not register it.
    pub copies: AtomicBool,
    /// Requests that arrived while only replies were polled.
    pub deferred: PendingQueue<(JobRank, AlignedCopy)>,
    /// Operations that the provider had no room for after they were accepted.
    pub stalled: PendingQueue<Stalled>,
    /// To which peers those are.
    pub connect_timeouts: ConnectTimeouts,
    pub outsiders: Outsiders,
    pub stopped: AtomicBool,
    stale_shm: StaleShm,
    /// Why the network failed, until that is reported.
    pub failure: Mutex<Option<String>>,
    pub has_failed: AtomicBool,
    /// By class: requests, replies.
    pub small: [Pool; 2],
    pub large: [Pool; 2],
    /// Buffers for negotiated payloads.
    pub reserved: Pool,
    pub operations: Pool,
    pub bounces: Pool,
    pub receives: Receives,
    // Last: what is above has regions of it.
    pub endpoint: Endpoint,
}

/// What is done by the provider.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Puts and gets.
    pub rma: bool,
    /// Puts that announce themselves, rather than by a message that follows.
    pub announces: bool,
    /// Operations of [`crate::atomics`] that every process has.
    pub atomics: u64,
}

/// An operation that is started by a later poll.
pub enum Stalled {
    /// A message of so many bytes, to a peer.
    Message(OwnedOperation, usize),
    /// The next part of a put or get.
    Rest(OwnedOperation),
    /// The announcement of a put.
    Arrival(Arrival),
}

impl Stalled {
    /// With whom it is.
    pub fn peer(&self) -> JobRank {
        match self {
            Self::Message(held, _) | Self::Rest(held) => held.peer,
            Self::Arrival(arrival) => arrival.peer,
        }
    }
}

impl Net {
    /// Opens an endpoint, and exchanges addresses. Collective.
    pub fn open(info: &StartInfo<'_>, choice: &Choice) -> Result<Self, ConduitError> {
        let failed = |why: String| ConduitError {
            message: format!("The ofi conduit cannot start: {why}."),
        };
        let settings = Settings::read();
        let opened = Self::open_endpoint(info, choice, &settings);
        // Every process takes part in the exchanges, so that one that fails does not keep others.
        let local = opened
            .as_ref()
            .map(|(endpoint, _, _)| endpoint.name())
            .map_err(Clone::clone);
        let name = local.and_then(|name| name);
        let own = opened
            .as_ref()
            .ok()
            .map(|(endpoint, abilities, _)| (endpoint.info(), abilities.atomics));
        let names = Names::exchange(info, own, name.as_deref().ok());
        let (endpoint, mut abilities, receives) = opened.map_err(failed)?;
        let stale_shm = StaleShm::new(&name.map_err(failed)?);
        let names = names.map_err(failed)?;
        abilities.atomics = names.atomics;
        let numbers = names.insert(&endpoint).map_err(failed)?;
        let shown = format!("{:?}", endpoint.info());
        let refused = |what: &str, why: Errno| failed(format!("{shown}: {what}: {}", why.text()));
        let message_bytes = settings.max_packet + wire::OVERHEAD;
        let pools = |bytes: usize| settings.send_buffers.map(|(most, _)| Pool::new(bytes, most));
        if info.rank == JobRank(0) && config::get().get_or_default(&config::VERBOSEENV) {
            report(&endpoint, abilities);
        }
        let token = info.message_token();
        let (inject, inject_put) = inject_limits(&settings, endpoint.info());
        let window = peers::window(settings.window, &endpoint.info().provider(), numbers.len());
        let net = Self {
            rank: info.rank,
            peers: Peers::new(&numbers, window),
            token,
            selected: abilities,
            inject,
            inject_put,
            reader: Mutex::default(),
            segments: Segments::default(),
            pending_puts: PendingPuts::new(token, info.size),
            announces: AtomicBool::new(abilities.announces),
            copies: AtomicBool::new(false),
            deferred: PendingQueue::default(),
            stalled: PendingQueue::default(),
            connect_timeouts: ConnectTimeouts::default(),
            outsiders: Outsiders::default(),
            stopped: AtomicBool::new(false),
            stale_shm,
            failure: Mutex::default(),
            has_failed: AtomicBool::new(false),
            small: pools(SMALL),
            large: pools(message_bytes),
            reserved: Pool::new(message_bytes, RESERVED),
            operations: Pool::new(0, OPERATIONS),
            bounces: Pool::new(settings.bounce_bytes, settings.bounces),
            receives,
            endpoint,
            settings,
        };
        // From here on an error closes the endpoint before buffers are freed.
        net.allocate()
            .map_err(|why| refused("cannot allocate send buffers", why))?;
        net.receives
            .post_all(&net.endpoint)
            .map_err(|why| refused("cannot post receive buffers", why))?;
        Ok(net)
    }

    /// Allocates send buffers. A pool that could never register one would be busy for ever, so each
    /// has one at least where the provider wants registration.
    fn allocate(&self) -> Result<(), Errno> {
        for (pool, (_, first)) in self.small.iter().zip(self.settings.send_buffers) {
            pool.grow(&self.endpoint, first)?;
        }
        if !wants_registration(self.endpoint.info()) {
            return Ok(());
        }
        let pools = self
            .small
            .iter()
            .chain(&self.large)
            .chain([&self.reserved, &self.bounces]);
        pools
            .filter(|pool| pool.is_empty())
            .try_for_each(|pool| pool.grow(&self.endpoint, 1))
    }

    fn open_endpoint(
        info: &StartInfo<'_>,
        choice: &Choice,
        settings: &Settings,
    ) -> Result<(Endpoint, Abilities, Receives), String> {
        let library = presets::library()?;
        presets::set_universe_size(info.size, library.version);
        let needs = Needs {
            job: presets::set_job(info.job_token),
            ..needs(info)
        };
        if variables::lists_devices(info.rank.0) {
            for line in Offer::query(library, choice, needs)?.lines(choice) {
                gasnet_conduit::print_line(format_args!("GASNet: ofi: rank {} could use {line}", info.rank.0));
            }
        }
        let selected = select::select(library, choice, needs)?;
        if info.rank == JobRank(0) && !variables::is_quiet() {
            let (chosen, fabric) = (selected.info.provider(), provider::has_device());
            for warning in provider::warnings(choice, &chosen, selected.version, fabric) {
                gasnet_conduit::print_line(format_args!("GASNet: WARNING: ofi: {warning}."));
            }
        }
        let threads = Threads {
            are_several: !info.single_threaded,
            sleep: info.threads_sleep,
        };
        Self::open_selected(selected, choice, settings, threads)
    }

    /// Opens an endpoint of a provider.
    pub fn open_selected(
        selected: Selected,
        choice: &Choice,
        settings: &Settings,
        threads: Threads,
    ) -> Result<(Endpoint, Abilities, Receives), String> {
        let abilities = Abilities {
            rma: selected.rma,
            announces: selected.announces(),
            atomics: 0,
        };
        let name = selected.info.provider();
        let end = versions::end(&name, selected.version);
        let many = selected.multi_receive && settings.receive_bytes.is_some() && end != End::Unknown;
        let (provider, has_atomics) = (selected.info, selected.atomics);
        let shown = format!("{provider:?}");
        let message = settings.max_packet + wire::OVERHEAD;
        if provider.max_bytes() < message {
            return Err(format!(
                "{shown} sends no message of more than {} bytes. Lower GASNET_OFI_MAX_MEDIUM",
                provider.max_bytes()
            ));
        }
        let refused = |why: String| format!("{shown}: {why}");
        let minimum = Minimum {
            bytes: message + versions::overhead(&name),
            is_late: versions::sets_minimum_late(&name, selected.version),
        };
        let endpoint = Endpoint::open(provider, threads, settings.queue, minimum).map_err(refused)?;
        let receives = match settings.receive_bytes.filter(|_| many) {
            Some(bytes) => Buffers {
                bytes: bytes.max(4 * minimum.bytes),
                many: Some(Many {
                    least: minimum.bytes,
                    end,
                }),
            },
            None => Buffers {
                bytes: message,
                many: None,
            },
        };
        let count = settings.receives.unwrap_or(if many { 8 } else { 64 });
        let receives = Receives::new(&endpoint, count, receives);
        let receives = receives.map_err(|why| refused(format!("cannot allocate receive buffers: {}", why.text())))?;
        let atomics = match atomics_by_messages(has_atomics, choice, &endpoint) {
            None => crate::atomics::supported(&endpoint),
            Some(_) => 0,
        };
        let abilities = Abilities { atomics, ..abilities };
        Ok((endpoint, abilities, receives))
    }

    /// Ends communication, without a word to the peers. Async-signal-safe.
    pub fn stop_at_once(&self) -> bool {
        let is_first = !self.stopped.swap(true, Ordering::SeqCst);
        if is_first {
            self.stale_shm.remove();
        }
        is_first
    }

    /// The same, and tells peers that were contacted that this is no crash.
    pub fn stop(&self) {
        if !self.stop_at_once() {
            return;
        }
        let mut message = [0; wire::HEADER];
        self.header(Kind::Bye, 0).encode(0, &mut message);
        for (peer, number) in self.peers.contacted() {
            // If that fails, the peer is gone, or it reads of the end from its node agent.
            let _ = self.send_header(&message, peer, number);
        }
    }

    /// The header of a message.
    #[inline]
    pub fn header(&self, kind: Kind, credits: u16) -> Header {
        Header {
            token: self.token,
            source: self.rank,
            credits,
            kind,
        }
    }

    /// A call failed, and no single peer is the reason.
    #[cold]
    pub fn fail(&self, what: &str, why: Errno) {
        let text = format!("{:?}: {what}: {}", self.endpoint.info(), why.text());
        lock(&self.failure).get_or_insert(text);
        self.has_failed.store(true, Ordering::Release);
    }
}

impl Drop for Net {
    /// Ends the endpoint as the end of a process does, without a word to the peers.
    fn drop(&mut self) {
        // cxi does not close an endpoint to which regions are bound. Those of posted buffers follow
        // it, as the provider writes to them until then.
        drop(std::mem::take(&mut self.segments));
        // SAFETY: nobody else has this any more; regions are dropped next.
        unsafe { self.endpoint.close() };
    }
}

/// What this process needs from the provider.
fn needs(info: &StartInfo<'_>) -> Needs {
    Needs {
        several_hosts: info.host.len() < info.size as usize,
        address: Some(info.host_address),
        one_thread: info.single_threaded,
        job: None,
        ranks: Ranks::of(info),
    }
}

/// Why atomics are done by Active Messages, although the provider `has` some or not.
pub fn atomics_by_messages(has: bool, choice: &Choice, endpoint: &Endpoint) -> Option<&'static str> {
    // Over sockets they are messages as those of the runtime, and slower than the CPU's among
    // neighbours, which a domain of theirs cannot use.
    let provider = endpoint.info().provider();
    let is_slow = !provider::is_fast(&provider);
    match choice.atomics {
        _ if !has => Some("no FI_ATOMIC"),
        _ if provider.ends_with("ofi_rxd") => Some("those of the provider were seen not to complete"),
        Some(false) => Some("GASNET_OFI_ATOMICS=0"),
        None if is_slow => Some("the provider uses sockets"),
        _ if crate::atomics::supported(endpoint) == 0 => Some("the provider lacks all operations"),
        _ => None,
    }
}

/// Most bytes of an injected message and of an injected put.
pub fn inject_limits(settings: &Settings, provider: &Info) -> (usize, usize) {
    let most = provider.inject_bytes();
    // udp;ofi_rxd forgets which operation that was.
    let puts = if provider.provider().ends_with("ofi_rxd") {
        0
    } else {
        most
    };
    (settings.inject.min(most).min(INJECT), settings.inject_put.min(puts))
}

/// Names the provider, for `GASNET_VERBOSEENV`.
fn report(endpoint: &Endpoint, abilities: Abilities) {
    let Some(library) = Functions::get() else { return };
    let (info, (major, minor)) = (endpoint.info(), library.version);
    let by = |provider| if provider { "the provider" } else { "Active Messages" };
    gasnet_conduit::print_line(format_args!(
        "GASNet: ofi: {info:?}, version {}.{}; libfabric {major}.{minor} ({}). Puts and gets: {}; of device memory: \
         {}. Atomics on integers: {}.",
        info.provider_version().0,
        info.provider_version().1,
        library.path,
        by(abilities.rma),
        by(abilities.rma && info.takes_device_memory()),
        by(abilities.atomics != 0),
    ));
}
