//! The start: opens a worker, and exchanges addresses.

use crate::boot_record::{BootRecord, Names};
use crate::credits;
use crate::ffi::{Functions, Needs, Worker};
use crate::link::Link;
use crate::net::Net;
use crate::operations::Reaped;
use crate::peers::Peers;
use crate::presets;
use crate::receive::Arrivals;
use crate::rma::OneSided;
use crate::send::Messages;
use crate::settings::Settings;
use crate::wire::{HEADER, IDS};
use gasnet_conduit::{config, ConduitError, JobRank, StartInfo};
use gasnet_sys::env;
use gasnet_sys::maybe_locked::Sharing;
use std::ffi::CStr;
use std::sync::Arc;

/// The first version whose protocols ("v2", `UCX_PROTO_ENABLE`) have no atomics for endpoints that
/// report errors. None up to 1.22 has.
const NEW_PROTOCOLS: (u32, u32) = (1, 16);

/// Transports that report the end of a peer, by the beginnings of their names. Asked for reports,
/// UCX does not connect without one of them (seen with 1.13.1 and 1.22.0).
const REPORTING: [&str; 4] = ["tcp/", "rc_", "dc_", "ud_"];

/// A worker, and what was found out about it.
pub struct Opened {
    pub library: &'static Functions,
    pub worker: Worker,
    /// Its transports report the end of a peer.
    pub reports_errors: bool,
}

/// Opens a worker, and exchanges addresses. Collective. `transports` override `UCX_TLS`.
pub fn open(info: &StartInfo<'_>, transports: Option<&CStr>) -> Result<Net, ConduitError> {
    try_open(info, transports).map_err(|why| ConduitError {
        message: format!("The ucx conduit cannot start: {why}."),
    })
}

fn try_open(info: &StartInfo<'_>, transports: Option<&CStr>) -> Result<Net, String> {
    let settings = Settings::read();
    // SAFETY: if one thread calls the conduit, no other does at the same time.
    let sharing = unsafe { Sharing::new(!info.single_threaded) };
    let ranks = (info.size as usize, info.host.len());
    let opened = open_worker(ranks, sharing, &settings, transports);
    // Every process takes part in the exchanges, so that one that fails does not keep others.
    let own = opened.as_ref().ok();
    let (major, minor) = own.map_or((0, 0), |opened| opened.library.version);
    let address = own.map_or(&[][..], |opened| &opened.worker.address);
    let record = BootRecord {
        address_bytes: address.len() as u32,
        major,
        minor,
        reports_errors: own.is_some_and(|opened| opened.reports_errors),
        atomics: settings.atomics,
    };
    let names = Names::exchange(info, &record, address);
    let (opened, names) = (opened?, names?);
    if info.rank == JobRank(0) {
        report(&opened, &names, &settings);
    }
    let worker = opened.worker;
    let reaped = Arc::new(Reaped::default());
    let link = Box::new(Link {
        worker,
        rank: info.rank,
        peers: Peers::new(
            info.size,
            credits::limits((settings.window, settings.has_own_window), info.size),
        ),
        token: info.message_token(),
        names,
        arrivals: Arrivals::new(settings.max_packet),
        reaped: Arc::clone(&reaped),
    });
    let net = Net {
        rma: OneSided::new(link, settings.atomics, &reaped),
        messages: Messages::new(settings.max_packet, &reaped),
    };
    let link = net.link();
    // SAFETY: the link has the worker, and stays where it is.
    unsafe { link.worker.turn().receive(&IDS, link) }?;
    Ok(net)
}

/// Opens a worker, for a number of processes in the job and on this host, and finds out whether its
/// transports report errors. The error is a message.
pub fn open_worker(
    ranks: (usize, usize),
    sharing: Sharing,
    settings: &Settings,
    transports: Option<&CStr>,
) -> Result<Opened, String> {
    let library = presets::library()?;
    let needs = Needs {
        ranks,
        atomics: settings.atomics,
        transports,
        sharing,
    };
    let refused = |why: String| {
        let (major, minor) = library.version;
        format!("UCX {major}.{minor} ({}): {why}", library.path)
    };
    let worker = Worker::open(library, needs).map_err(refused)?;
    if worker.max_header < HEADER {
        return Err(refused(format!(
            "the headers of its Active Messages have {} bytes, and {HEADER} are needed. Select other transports: \
             UCX_TLS",
            worker.max_header
        )));
    }
    let has_new_protocols = library.version >= NEW_PROTOCOLS && !is_off(c"UCX_PROTO_ENABLE");
    let reports = REPORTING.iter().any(|transport| worker.has_transport(transport));
    Ok(Opened {
        library,
        worker,
        reports_errors: reports && !(settings.atomics && has_new_protocols),
    })
}

/// Whether a variable of UCX has one of its words for no.
fn is_off(name: &CStr) -> bool {
    let value = env::get(name).map(CStr::to_bytes);
    value.is_some_and(|value| {
        ["n", "no", "off", "0"]
            .iter()
            .any(|no| value.eq_ignore_ascii_case(no.as_bytes()))
    })
}

/// Names the library, for `GASNET_VERBOSEENV`, and warns of different ones.
fn report(opened: &Opened, names: &Names, settings: &Settings) {
    let (library, (major, minor)) = (opened.library, opened.library.version);
    if config::get().get_or_default(&config::VERBOSEENV) {
        gasnet_conduit::print_line(format_args!(
            "GASNet: ucx: UCX {major}.{minor} ({}) with {}. Set for it: {}. Lost peers are reported by {}. Atomics \
             on integers: {}.",
            library.path,
            opened.worker.resources.join(", "),
            presets::shown(),
            by(names.reports_errors, "the node agents"),
            by(settings.atomics, "Active Messages")
        ));
    }
    if let Some((rank, (other_major, other_minor))) = names.other_version.filter(|_| !config::is_quiet()) {
        gasnet_conduit::print_line(format_args!(
            "GASNet: WARNING: ucx: rank {rank} has UCX {other_major}.{other_minor}, and rank 0 {major}.{minor}. Use \
             one version on all hosts: others may not understand each other."
        ));
    }
}

/// Who does what: UCX, or others.
pub fn by(is_by_ucx: bool, others: &'static str) -> &'static str {
    if is_by_ucx {
        "UCX"
    } else {
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_no() {
        let name = c"UCX_GASNET_TEST";
        assert!(!is_off(name));
        for (value, off) in [(c"n", true), (c"No", true), (c"0", true), (c"y", false), (c"", false)] {
            env::set(name, value);
            assert_eq!(is_off(name), off);
        }
    }
}
