//! The start: opens an endpoint, exchanges addresses, and allocates buffers.

use crate::boot_record::Names;
use crate::connect_timeout::ConnectTimeouts;
use crate::credits;
use crate::ffi::{Endpoint, Errno, Functions, Info, Minimum, Threads};
use crate::link::Link;
use crate::memory::wants_registration;
use crate::net::Net;
use crate::operations::grow;
use crate::peers::Peers;
use crate::presets;
use crate::provider::{self, Needs, Offer};
use crate::put_notify::PendingPuts;
use crate::receive::deliver::Receiver;
use crate::receive::{Buffers, Many, Receives};
use crate::rma::{Abilities, OneSided};
use crate::select::{self, Selected};
use crate::send::{Messages, INJECT};
use crate::settings::{self, Choice, Settings};
use crate::stale_shm::StaleShm;
use crate::versions::{self, End, Version};
use crate::wire;
use gasnet_conduit::locality::Ranks;
use gasnet_conduit::{config, ConduitError, JobRank, StartInfo};
use std::sync::atomic::AtomicU64;

/// An endpoint of a provider. Receive buffers have regions of it.
pub struct Opened {
    pub abilities: Abilities,
    pub receives: Receives,
    pub endpoint: Endpoint,
}

/// Opens an endpoint, and exchanges addresses. Collective.
pub fn open(info: &StartInfo<'_>, choice: &Choice) -> Result<Net, ConduitError> {
    try_open(info, choice).map_err(|why| ConduitError {
        message: format!("The ofi conduit cannot start: {why}."),
    })
}

fn try_open(info: &StartInfo<'_>, choice: &Choice) -> Result<Net, String> {
    let settings = Settings::read();
    let opened = open_endpoint(info, choice, &settings);
    // Every process takes part in the exchanges, so that one that fails does not keep others.
    let name = match &opened {
        Ok(opened) => opened.endpoint.name(),
        Err(why) => Err(why.clone()),
    };
    let own = opened.as_ref().ok();
    let own = own.map(|opened| (opened.endpoint.info(), opened.abilities.atomics));
    let names = Names::exchange(info, own, name.as_deref().ok());
    // An error drops the endpoint after the receive buffers, which have regions of it.
    let Opened {
        endpoint,
        mut abilities,
        receives,
    } = opened?;
    let stale_shm = StaleShm::new(&name?);
    let names = names?;
    abilities.atomics = names.atomics;
    let numbers = names.insert(&endpoint)?;
    if info.rank == JobRank(0) && config::get().get_or_default(&config::VERBOSEENV) {
        report(&endpoint, abilities);
    }
    let (token, provider) = (info.message_token(), endpoint.info());
    let (inject, inject_put) = inject_limits(&settings, provider);
    let window = (settings.window, settings.has_own_window);
    let window = credits::window(window, &provider.provider(), numbers.len());
    let pending_puts = PendingPuts::new(token, info.size);
    let link = Link::new(
        info.rank,
        Peers::new(&numbers, credits::limits(window)),
        token,
        endpoint,
    );
    // From here on an error closes the endpoint before buffers are freed.
    let net = Net {
        completions: settings.completions,
        last_poll: AtomicU64::new(0),
        connect_timeouts: ConnectTimeouts::default(),
        stale_shm,
        messages: Messages::new(&settings, inject),
        receiver: Receiver::new(settings.max_packet, pending_puts, receives),
        rma: OneSided::new(link, &settings, inject_put, abilities),
    };
    let endpoint = &net.link().endpoint;
    let refused = |what: &str, why: Errno| format!("{:?}: {what}: {}", endpoint.info(), why.text());
    allocate(&net, &settings).map_err(|why| refused("cannot allocate send buffers", why))?;
    let posted = net.receiver.receives.post_all(endpoint);
    posted.map_err(|why| refused("cannot post receive buffers", why))?;
    Ok(net)
}

/// Allocates send buffers. A pool that could never register one would be busy for ever, so each has
/// one at least where the provider wants registration.
fn allocate(net: &Net, settings: &Settings) -> Result<(), Errno> {
    let link = net.link();
    net.messages.allocate(link, settings)?;
    if !wants_registration(link.endpoint.info()) {
        return Ok(());
    }
    let pools = net.messages.pools().chain([&net.rma.bounces]);
    pools
        .filter(|pool| pool.is_empty())
        .try_for_each(|pool| grow(pool, &link.endpoint, 1))
}

/// Opens an endpoint of the provider for a job.
fn open_endpoint(info: &StartInfo<'_>, choice: &Choice, settings: &Settings) -> Result<Opened, String> {
    let library = presets::library()?;
    let needs = Needs {
        job: presets::set_for_job(info, library.version),
        ..needs(info)
    };
    if settings::lists_devices(info.rank.0) {
        for line in Offer::query(library, choice, needs)?.lines(choice) {
            gasnet_conduit::print_line(format_args!("GASNet: ofi: rank {} could use {line}", info.rank.0));
        }
    }
    let selected = select::select(library, choice, needs)?;
    if info.rank == JobRank(0) && !config::is_quiet() {
        let (chosen, fabric) = (selected.info.provider(), provider::has_device());
        for warning in provider::warnings(choice, &chosen, selected.version, fabric) {
            gasnet_conduit::print_line(format_args!("GASNet: WARNING: ofi: {warning}."));
        }
    }
    let threads = versions::threads(&selected.info, !info.single_threaded, info.threads_sleep);
    open_selected(selected, choice, settings, threads)
}

/// Opens an endpoint of a provider.
pub fn open_selected(
    selected: Selected,
    choice: &Choice,
    settings: &Settings,
    threads: Threads,
) -> Result<Opened, String> {
    let (announces, name) = (selected.announces(), selected.info.provider());
    let Selected {
        info: provider,
        version,
        rma,
        atomics: has_atomics,
        multi_receive,
    } = selected;
    let end = versions::end(&name, version);
    let many_bytes = settings.receive_bytes.filter(|_| multi_receive && end != End::Unknown);
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
        is_late: versions::sets_minimum_late(&name, version),
    };
    let endpoint = Endpoint::open(provider, threads, settings.queue, minimum).map_err(refused)?;
    let least = minimum.bytes;
    let shape = Buffers {
        bytes: many_bytes.map_or(message, |bytes| bytes.max(4 * least)),
        many: many_bytes.map(|_| Many { least, end }),
    };
    let count = settings.receives.unwrap_or(if shape.many.is_some() { 8 } else { 64 });
    let receives = Receives::new(&endpoint, count, shape);
    let receives = receives.map_err(|why| refused(format!("cannot allocate receive buffers: {}", why.text())))?;
    let atomics = match atomics_by_messages(has_atomics, version, choice, &endpoint) {
        None => crate::atomics::supported(&endpoint),
        Some(_) => 0,
    };
    Ok(Opened {
        endpoint,
        abilities: Abilities {
            rma,
            announces,
            atomics,
        },
        receives,
    })
}

/// Needs of this process from the provider.
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
pub fn atomics_by_messages(has: bool, version: Version, choice: &Choice, endpoint: &Endpoint) -> Option<&'static str> {
    // Over sockets they are messages as those of the runtime, and slower than the CPU's among
    // neighbours, which a domain of theirs cannot use.
    let provider = endpoint.info().provider();
    let is_slow = !provider::is_fast(&provider);
    let wrong = versions::wrong_atomics(&provider, version);
    match choice.atomics {
        _ if !has => Some("no FI_ATOMIC"),
        _ if wrong.is_some() => wrong,
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
