//! Connections at start, by an exchange.
#![forbid(unsafe_code)]

use crate::connect::handshake::Endpoint;
use crate::connect::pairs::{target, PairMaker};
use crate::connect::resolve;
use crate::fabric::Fabric;
use crate::ffi::Errno;
use crate::peers::Connection;
use gasnet_conduit::{JobRank, StartInfo};
use gasnet_conduit_util::record::all_can;

impl PairMaker {
    /// Connects to all peers of `wanted`, which contains this process for each of them. Collective.
    pub fn connect_all(&self, fabric: &Fabric, info: &StartInfo<'_>, wanted: &[JobRank]) -> Result<(), String> {
        let failed = |why: Errno| format!("{}: connections failed: {}", fabric.name(0), fabric.why_no_pair(why));
        let created = wanted.iter().try_for_each(|peer| self.create(fabric, *peer).map(drop));
        let own = self.numbers(fabric);
        let all = (info.exchange)(&own);
        let connected = created.map_err(failed).and_then(|()| {
            wanted.iter().try_for_each(|peer| {
                let endpoints = self.endpoints_in(fabric, &all[peer.index() * own.len()..][..own.len()]);
                let connection = fabric.peers.connection(*peer).ok_or("defect: no connection")?;
                resolve::in_time(|| self.ready(fabric, connection, &endpoints)).map_err(|failure| {
                    let (host, why) = ((info.place_of)(*peer).host, fabric.describe(&failure));
                    format!("no connection to rank {peer} (host {host}): {why}")
                })
            })
        });
        // A message to a queue pair that is not connected yet would be lost, and sent again late.
        all_can(info, connected)?;
        for connection in wanted.iter().filter_map(|peer| fabric.peers.connection(*peer)) {
            connection.establish();
            fabric.arm_migration(connection);
        }
        Ok(())
    }

    /// The part of this process in the exchange: its ports, and the numbers of its queue pairs by
    /// peer and path; with XRC also of those that send, by group and path.
    fn numbers(&self, fabric: &Fabric) -> Vec<u8> {
        let paths = fabric.paths.len();
        let numbers = fabric.peers.ranks().flat_map(|peer| {
            let connection = fabric.peers.connection(peer);
            (0..paths).map(move |path| connection.map_or(0, |it: &Connection| target(it, path)))
        });
        let senders = self.xrc.as_ref().map(|xrc| xrc.senders(paths));
        let numbers = numbers.chain(senders.into_iter().flatten());
        let ports = fabric.paths.iter().map(|path| Endpoint::new(path, 0));
        let mut bytes: Vec<u8> = ports.flat_map(|port| port.encode()).collect();
        bytes.extend(numbers.flat_map(u32::to_le_bytes));
        bytes
    }

    /// The queue pairs for this process in the part of a peer, by path.
    fn endpoints_in(&self, fabric: &Fabric, theirs: &[u8]) -> Vec<Endpoint> {
        let (own, paths) = (fabric.rank, fabric.paths.len());
        let (ports, numbers) = theirs.split_at(paths * Endpoint::BYTES);
        let number = |place: usize| {
            let at = &numbers[4 * place..];
            u32::from_le_bytes([at[0], at[1], at[2], at[3]])
        };
        let first_sender = fabric.peers.count() as usize * paths;
        let sender = |path| match &self.xrc {
            Some(xrc) => number(first_sender + xrc.groups.of(own) * paths + path),
            None => 0,
        };
        let ports = ports.chunks_exact(Endpoint::BYTES).enumerate();
        let endpoint = |(path, port)| Endpoint {
            number: number(own.index() * paths + path),
            sender: sender(path),
            ..Endpoint::decode(port)
        };
        ports.map(endpoint).collect()
    }
}
