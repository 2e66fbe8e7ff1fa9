//! conduit-ibv of libgasnet: InfiniBand and RoCE over verbs, with libibverbs opened at run time.
//!
//! A process has a queue pair for each peer and path (a port of an HCA), connected at start or at
//! first contact by datagrams ([`connect`]). Life of a packet: `send` takes a credit of the peer
//! ([`credits`]), writes the packet into the work request or a registered buffer ([`buffers`]), and
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
//! write, and a message behind it on the same queue pair. Words of barriers are writes, too
//! ([`words`]).

mod atomics;
mod boot_record;
mod buffers;
mod connect;
mod credits;
mod eager_rdma;
mod events;
mod fabric;
mod ffi;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod memory;
mod migration;
mod net;
mod operations;
mod peers;
mod ports;
mod presets;
mod progress;
mod put_notify;
mod rail;
mod receive;
mod rma;
mod route;
mod send;
mod settings;
mod start;
mod transfers;
mod wake;
mod wire;
mod words;
mod xrc;

use connect::thread::ConnectionThread;
use gasnet_conduit::config::Variable;
use gasnet_conduit::{
    Abilities, Atomics, Busy, Class, Conduit, ConduitError, Gather, Identity, JobRank, Limits, Network, PollScope,
    ProviderReport, Reach, StartInfo, Stop, Upcalls, Wake,
};
use net::Net;
use std::sync::Arc;

#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;

/// The conduit.
pub struct Ibv;

/// A started conduit, and its thread, which ends first.
struct Started {
    #[allow(dead_code, reason = "ends the thread when it is dropped")]
    connection_thread: Option<ConnectionThread>,
    net: Arc<Net>,
}

impl Conduit for Ibv {
    fn identity(&self) -> Identity {
        Identity {
            name: "ibv",
            version: env!("CARGO_PKG_VERSION"),
            reach: Reach::Hosts,
            takes_count: false,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: settings::max_packet_bytes(),
            max_ranks: wire::MOST_RANKS,
            requests_per_poll: 4,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        let net = Arc::new(start::start(info)?);
        let connection_thread = net
            .messages()
            .connector
            .has_channel()
            .then(|| ConnectionThread::start(&net))
            .transpose();
        let connection_thread = connection_thread.map_err(|why| ConduitError {
            message: format!("The ibv conduit cannot start a thread: {why}."),
        })?;
        Ok(Box::new(Started { connection_thread, net }))
    }

    fn probe(&self, _ranks: u32) -> Result<(), ConduitError> {
        start::open::probe().map_err(|why| ConduitError {
            message: format!("The ibv conduit cannot be used: {why}."),
        })
    }

    fn variables(&self) -> &'static [Variable] {
        settings::TABLE
    }

    fn providers(&self) -> Vec<ProviderReport> {
        ports::providers().unwrap_or_else(|why| {
            let facts = vec![("use", format!("impossible: {why}"))];
            let name = "libibverbs".to_owned();
            vec![ProviderReport { name, facts }]
        })
    }
}

impl Network for Started {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.net.messages().send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.net.progress.poll(&self.net.operations, scope, upcalls)
    }

    fn poll_completions(&self, upcalls: &mut dyn Upcalls) -> usize {
        self.net.progress.poll_completions(&self.net.operations, upcalls)
    }

    fn stop(&self, how: Stop) {
        match how {
            Stop::Orderly => self.net.stop(),
            Stop::Signal => _ = self.net.fabric().peers.states.stop(),
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        let net = &*self.net;
        let (messages, operations) = (net.messages(), &net.operations);
        Abilities {
            send_buffers: Some(messages),
            gather: messages.gathers().then_some(messages as &dyn Gather),
            segments: Some(net),
            rma: Some(operations),
            put_notify: Some(operations),
            atomics: operations.has_atomics.then_some(operations as &dyn Atomics),
            words: Some(net),
            wake: net.wake.is_some().then_some(net as &dyn Wake),
            ..Abilities::default()
        }
    }
}

/// The conduit of a library.
pub static CONDUIT: Ibv = Ibv;
