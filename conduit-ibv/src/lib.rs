//! conduit-ibv of libgasnet: InfiniBand and RoCE over verbs, with libibverbs opened at run time.
//!
//! A process has a queue pair for each peer and path (a port of an HCA), connected at start or at
//! first contact by datagrams ([`connect`]). Life of a packet: `send` takes a credit of the peer
//! ([`peers`]), writes the packet into the work request or a registered buffer ([`buffers`]), and
//! posts it ([`send::queue`]); 32 bits beside it say what it is ([`wire`]). It arrives in a receive
//! buffer of its queue pair, or one that all peers share ([`receive`]), where a poll delivers it in
//! place ([`progress`]). Small packets to a peer that gets many are written into its memory instead
//! ([`eager_rdma`]).
//!
//! With XRC a process has a queue pair for each host and path ([`xrc`]); a [`route`] says what a
//! work request on it needs to know of its peer.
//!
//! Over InfiniBand, HCAs move queue pairs to another port when theirs goes down ([`migration`]).
//!
//! Puts and gets are RDMA writes and reads ([`rma`], [`transfers`]). A Long that is not packed is a
//! write, and a message behind it on the same queue pair.

mod atomics;
mod boot_record;
mod buffers;
mod connect;
mod eager_rdma;
mod events;
mod ffi;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod memory;
mod migration;
mod net;
mod peers;
mod ports;
mod presets;
mod progress;
mod rail;
mod receive;
mod rma;
mod route;
mod send;
mod settings;
mod start;
mod transfers;
mod variables;
mod wake;
mod wire;
mod xrc;

use connect::thread::ConnectionThread;
use ffi::Domain;
use gasnet_conduit::config::{self, Variable};
use gasnet_conduit::{
    Atomics, Busy, Class, Conduit, ConduitError, Dmabuf, Gather, Identity, JobRank, Limits, LocalSegment, PollScope,
    ProviderReport, PutNotify, Registration, RemoteSegment, Rma, SegmentMemory, Segments, SendBuffers, StartInfo, Stop,
    Upcalls, Wake,
};
use memory::limits::advised;
use net::Net;
use std::sync::{Arc, OnceLock};

#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Default)]
pub struct Ibv {
    started: OnceLock<Started>,
}

/// A started conduit, and its thread, which ends first.
struct Started {
    #[allow(dead_code, reason = "ends the thread when it is dropped")]
    connection_thread: Option<ConnectionThread>,
    net: Arc<Net>,
}

impl Ibv {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self {
            started: OnceLock::new(),
        }
    }

    #[inline]
    fn net(&self) -> Option<&Net> {
        self.started.get().map(|started| &*started.net)
    }
}

impl Conduit for Ibv {
    fn identity(&self) -> Identity {
        let (name, version) = ("ibv", env!("CARGO_PKG_VERSION"));
        Identity { name, version }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: settings::max_packet_bytes(),
            max_ranks: wire::MOST_RANKS,
            requests_per_poll: 1,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<(), ConduitError> {
        let net = Arc::new(start::start(info)?);
        let connection_thread = net
            .connector
            .has_channel()
            .then(|| ConnectionThread::start(&net))
            .transpose();
        let connection_thread = connection_thread.map_err(|why| ConduitError {
            message: format!("The ibv conduit cannot start a thread: {why}."),
        })?;
        let started = self.started.set(Started { connection_thread, net });
        assert!(started.is_ok(), "defect: the ibv conduit was started twice");
        Ok(())
    }

    fn probe(&self) -> Result<(), ConduitError> {
        start::open::probe().map_err(|why| ConduitError {
            message: format!("The ibv conduit cannot be used: {why}."),
        })
    }

    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.net().ok_or(Busy)?.send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.net().map_or(0, |net| net.poll(scope, upcalls))
    }

    fn stop(&self, how: Stop) {
        let Some(net) = self.net() else { return };
        match how {
            Stop::Orderly => net.stop(),
            Stop::Signal => {
                net.stop_at_once();
            }
        }
    }

    fn variables(&self) -> &'static [Variable] {
        variables::TABLE
    }

    fn providers(&self) -> Vec<ProviderReport> {
        ports::providers().unwrap_or_else(|why| {
            let facts = vec![("use", format!("impossible: {why}"))];
            let name = "libibverbs".to_owned();
            vec![ProviderReport { name, facts }]
        })
    }

    fn send_buffers(&self) -> Option<&dyn SendBuffers> {
        self.net().map(|net| net as &dyn SendBuffers)
    }

    fn gather(&self) -> Option<&dyn Gather> {
        let net = self.net().filter(|net| net.settings.gather.is_some())?;
        Some(net as &dyn Gather)
    }

    fn segments(&self) -> Option<&dyn Segments> {
        self.net().map(|net| net as &dyn Segments)
    }

    fn rma(&self) -> Option<&dyn Rma> {
        self.net().map(|net| net as &dyn Rma)
    }

    fn put_notify(&self) -> Option<&dyn PutNotify> {
        self.net().map(|net| net as &dyn PutNotify)
    }

    fn atomics(&self) -> Option<&dyn Atomics> {
        let net = self.net().filter(|net| net.has_atomics)?;
        Some(net as &dyn Atomics)
    }

    fn wake(&self) -> Option<&dyn Wake> {
        let net = self.net().filter(|net| net.wake.is_some())?;
        Some(net as &dyn Wake)
    }
}

impl Segments for Net {
    fn max_key_bytes(&self) -> usize {
        self.segments.max_key_bytes()
    }

    fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        let domains: Vec<&Domain> = self.domains().collect();
        let registered = self.segments.register(&domains, memory);
        let (segment, key) = registered.map_err(|why| ConduitError {
            message: format!(
                "The ibv conduit cannot register {} bytes at {:#x}: {}. GASNET_MAX_SEGSIZE limits segments.",
                memory.bytes,
                memory.base,
                advised(why)
            ),
        })?;
        Ok(Registration { segment, key })
    }

    fn register_device(&self, memory: &SegmentMemory, dmabuf: &dyn Fn() -> Option<Dmabuf>) -> Option<Registration> {
        let domains: Vec<&Domain> = self.domains().collect();
        let register = |dmabuf: Option<&Dmabuf>| self.segments.register_device(&domains, memory, dmabuf);
        let by_dmabuf = match dmabuf() {
            Some(dmabuf) => register(Some(&dmabuf)).map_err(|why| why.to_string()),
            None => Err("the device exports none".to_owned()),
        };
        // A module of the kernel may know the addresses of the device (peer memory).
        let registered = by_dmabuf.or_else(|why| register(None).map_err(|other| (why, other)));
        match registered {
            Ok((segment, key)) => Some(Registration { segment, key }),
            Err((why, other)) => {
                if config::get().get_or_default(&config::VERBOSEENV) {
                    gasnet_conduit::print_line(format_args!(
                        "GASNet: ibv: rank {}: {} bytes of a device cannot be registered. By dmabuf: {why}. By \
                         address: {other}. Active Messages move the data.",
                        self.rank, memory.bytes
                    ));
                }
                None
            }
        }
    }

    fn deregister(&self, segment: LocalSegment) {
        self.segments.deregister(segment);
    }

    fn learn(&self, peer: JobRank, memory: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError> {
        self.segments.learn(memory, key).ok_or_else(|| ConduitError {
            message: format!("The ibv conduit cannot use the key of a segment of rank {peer}."),
        })
    }

    fn forget(&self, _: JobRank, segment: RemoteSegment) {
        self.segments.forget(segment);
    }
}

/// The conduit of a library.
pub static CONDUIT: Ibv = Ibv::new();
