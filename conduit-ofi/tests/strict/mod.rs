//! Jobs over the strict provider (`strict/`).
#![allow(dead_code)]

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::start_info;
use gasnet_conduit::{Class, Completion, Conduit, Cookie, JobRank, Network, PollScope, StartInfo, Upcalls};
use gasnet_conduit_ofi::Ofi;
use gasnet_sys::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Once;
use std::time::{Duration, Instant};

/// A conduit over tcp;ofi_rxm with this plan in front.
pub fn over_strict_provider(provider: &'static str) -> Box<dyn Conduit> {
    static LIBRARY: Once = Once::new();
    LIBRARY.call_once(|| {
        let path = std::env::current_exe()
            .unwrap()
            .with_file_name("libgasnet_ofi_strict.so");
        assert!(path.exists(), "{} was not built", path.display());
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        env::set(c"GASNET_OFI_LIBRARY", &path);
        env::set(c"GASNET_OFI_HMEM", c"1");
        config::install(Config::load(&[Ofi::new().variables()]).unwrap());
    });
    Box::new(Ofi::with_provider(provider))
}

/// Starts a job of one rank.
pub fn start_alone(conduit: &dyn Conduit) -> Result<Box<dyn Network>, String> {
    let exchange = |bytes: &[u8]| bytes.to_vec();
    let started = conduit.start(&start_info(JobRank(0), &[JobRank(0)], &exchange));
    started.map_err(|why| why.message)
}

/// The same beside a rank on another host, which never comes.
pub fn start_beside_another_host(conduit: &dyn Conduit) -> Result<Box<dyn Network>, String> {
    let exchange = |bytes: &[u8]| bytes.repeat(2);
    let info = StartInfo {
        host: &[JobRank(0)],
        ..start_info(JobRank(0), &[JobRank(0), JobRank(1)], &exchange)
    };
    conduit.start(&info).map_err(|why| why.message)
}

/// What was reported to a rank.
#[derive(Default)]
pub struct Report {
    pub lost: Vec<String>,
    pub done: usize,
}

impl Upcalls for Report {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {
        self.done += 1;
    }
    fn done(&mut self, _: Cookie, _: Completion) {
        self.done += 1;
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        self.lost.push(format!("rank {peer}: {why}"));
    }
    fn network_lost(&mut self, why: &str) {
        self.lost.push(format!("network: {why}"));
    }
}

/// Ends a hang, not a busy machine.
const HANG: Duration = Duration::from_secs(60);

/// Polls until `ready`.
pub fn poll_until(network: &dyn Network, report: &mut Report, ready: impl Fn(&Report) -> bool) {
    let start = Instant::now();
    while !ready(report) {
        network.poll(PollScope::All, report);
        assert!(start.elapsed() < HANG, "no progress; reported: {:?}", report.lost);
    }
}

/// Tries until the conduit takes an operation, or something is lost.
pub fn take(network: &dyn Network, report: &mut Report, mut attempt: impl FnMut() -> bool) {
    let start = Instant::now();
    while report.lost.is_empty() && !attempt() {
        network.poll(PollScope::All, report);
        assert!(start.elapsed() < HANG, "no room for an operation");
    }
}
