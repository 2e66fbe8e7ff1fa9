//! XRC: a process sends to all processes of a group by one queue pair for each path, a *link*,
//! instead of one for each process. Each work request names the receive queue of its peer.
//!
//! Connections stay as they are: a handshake precedes the first message to each peer, credits and
//! rings are of a peer. Only their send queues belong to several. The process itself and its own
//! host are reached in the same way, as receive queues of XRC serve no other queue pairs.
//!
//! The queue of a link holds the work requests of [`Rail::depth_of`] peers. Several peers thus wait
//! for each other when one lacks receive buffers, which credits make rare.

pub mod groups;
pub mod peer;
pub mod receive_queues;

use crate::boot_record::BootRecord;
use crate::connect::handshake::Endpoint;
use crate::connect::policy::FEW;
use crate::connect::resolve::Failure;
use crate::connect::transport::Transports;
use crate::events;
use crate::fabric::Fabric;
use crate::ffi::{Access, Errno, Pair, RESPONDER};
use crate::memory::advice::advised;
use crate::peers::Connection;
use crate::ports::Path;
use crate::rail::Rail;
use crate::send::queue::SendQueue;
use crate::settings::{PortSettings, Settings};
use crate::xrc::groups::Groups;
use crate::xrc::peer::XrcPeer;
use crate::xrc::receive_queues::ReceivePairs;
use gasnet_conduit::config;
use gasnet_conduit::{print_line, JobRank, StartInfo};
use gasnet_conduit_util::record::records;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::collections::HashSet;
use std::sync::atomic::AtomicU32;
use std::sync::Arc;

/// State of this process for XRC.
pub struct Xrc {
    pub groups: Groups,
    /// Numbers of receive queues, by rank and rail.
    receive_queues: Box<[u32]>,
    /// By group, from the first contact on.
    links: Mutex<Box<[Option<Link>]>>,
    /// By which this process's group receives.
    receive_pairs: ReceivePairs,
}

/// The send queues to a group, by path.
struct Link {
    queues: Arc<[SendQueue]>,
    is_connected: bool,
}

/// Whether XRC is to be used if all processes can. It pays where queue pairs would be many, and it
/// does without alternate paths.
pub fn is_wanted(settings: &Settings, info: &StartInfo<'_>) -> bool {
    settings.xrc.unwrap_or(info.size > FEW) && some_host_has_several_processes(info)
}

/// Whether a host has several processes.
fn some_host_has_several_processes(info: &StartInfo<'_>) -> bool {
    let mut hosts = HashSet::new();
    !(0..info.size).all(|rank| hosts.insert((info.place_of)(JobRank(rank)).host))
}

/// Why XRC is not used.
fn obstacle(all: &[BootRecord], groups: &Groups, settings: &Settings) -> Option<String> {
    let lacks = |record: &BootRecord| !record.has_xrc;
    if groups.all.len() == all.len() {
        return Some("no two processes of a host use the same ports".to_owned());
    }
    match settings.xrc {
        Some(false) => return Some("GASNET_USE_XRC is 0".to_owned()),
        None if all.len() <= FEW as usize => return Some("the job is small, and GASNET_USE_XRC is not set".to_owned()),
        _ => {}
    }
    let rank = all.iter().position(lacks)?;
    Some(format!(
        "rank {rank} does not share receive buffers, or its HCAs lack XRC"
    ))
}

impl Xrc {
    /// Agrees with all processes whether XRC is used, and prepares it, or the HCAs to do without.
    /// Collective.
    pub fn agree(
        info: &StartInfo<'_>,
        all: &[BootRecord],
        settings: &Settings,
        rails: &mut [Rail],
        paths: &mut [Path],
    ) -> Result<Option<Self>, String> {
        let place_of = |rank| (info.place_of)(JobRank(rank)).host;
        let groups = Groups::new((0..).zip(all).map(|(rank, record)| (place_of(rank), record.ports)));
        let is_used = groups.all.len() < all.len() && all.iter().all(|record| record.has_xrc);
        let is_verbose = || PortSettings::read().verbosity > 1 || config::get().get_or_default(&config::VERBOSEENV);
        if info.rank == JobRank(0) && rails[0].shared.is_some() && is_verbose() {
            match obstacle(all, &groups, settings) {
                None => print_line(format_args!(
                    "GASNet: ibv: XRC: queue pairs per path to {} processes: {}; no alternate ports",
                    all.len(),
                    groups.all.len()
                )),
                Some(why) => print_line(format_args!("GASNet: ibv: no XRC: {why}")),
            }
        }
        if is_used {
            return Self::new(info, groups, rails, paths).map(Some);
        }
        for rail in rails.iter_mut().filter(|rail| rail.has_xrc()) {
            let left = rail.leave_xrc(settings);
            left.map_err(|why| format!("{}: ibv_create_srq failed: {}", rail.context.name, advised(why)))?;
        }
        Ok(None)
    }

    fn new(info: &StartInfo<'_>, groups: Groups, rails: &mut [Rail], paths: &mut [Path]) -> Result<Self, String> {
        // Links have no alternate path: an HCA moves a pair only together with its peer's, of which
        // another process hears.
        for path in paths.iter_mut() {
            path.alternate = None;
        }
        for (index, rail) in rails.iter_mut().enumerate() {
            let pairs = paths.iter().filter(|path| path.rail == index).count();
            let depths = groups.all.iter().map(|group| rail.depth_of(group.processes));
            let work_requests = pairs * depths.sum::<usize>();
            rail.limit_sends(work_requests);
        }
        let number = |rail: &Rail| rail.shared.as_ref().and_then(|shared| shared.number).unwrap_or(0);
        let numbers: Vec<u8> = rails.iter().flat_map(|rail| number(rail).to_le_bytes()).collect();
        let receive_queues = records(&(info.exchange)(&numbers)).collect();
        let words = info.size as usize * paths.len();
        let all = words * groups.most_of_a_host();
        let memory = (info.host_memory)(size_of::<AtomicU32>() * all).map_err(|why| why.message)?;
        // SAFETY: as large, aligned to a page, zero at first, never unmapped, and accessed as atomics
        // only.
        let memory: &'static [AtomicU32] = unsafe { std::slice::from_raw_parts(memory.cast(), all) };
        Ok(Self {
            receive_pairs: ReceivePairs::new(
                &memory[groups.all[groups.of(info.rank)].place * words..][..words],
                paths.len(),
            ),
            links: Mutex::new((0..groups.all.len()).map(|_| None).collect()),
            receive_queues,
            groups,
        })
    }

    /// The numbers of the pairs that send to each group, by group and path: those to a process from
    /// its group's index times `paths` on. 0 where there are none.
    pub fn senders(&self, paths: usize) -> Vec<u32> {
        let links = lock(&self.links);
        let number = |link: &Option<Link>, path: usize| link.as_ref().map_or(0, |link| link.queues[path].pair.number);
        links
            .iter()
            .flat_map(|link| (0..paths).map(|path| number(link, path)))
            .collect()
    }
}

impl Xrc {
    /// The send queues to a peer, which others may use, too, and what else a connection needs.
    pub fn create(&self, fabric: &Fabric, peer: JobRank, access: Access) -> Result<(Arc<[SendQueue]>, XrcPeer), Errno> {
        let mut xrc_peer = XrcPeer::new(peer);
        for (number, path) in xrc_peer.receive_queues.iter_mut().zip(&fabric.paths) {
            *number = self.receive_queues[peer.index() * fabric.rails.len() + path.rail];
        }
        xrc_peer.receive_pairs = self.receive_pairs_of(fabric, peer, access)?;
        let group = self.groups.of(peer);
        let mut links = lock(&self.links);
        if links[group].is_none() {
            links[group] = Some(Link {
                queues: new_link(fabric, peer, self.groups.all[group].processes, access)?,
                is_connected: false,
            });
        }
        let queues = links[group].as_ref().map(|link| Arc::clone(&link.queues));
        Ok((queues.unwrap_or_default(), xrc_peer))
    }

    /// Makes the pairs by which a process sends to this group, or opens those that another process
    /// has made.
    fn receive_pairs_of(&self, fabric: &Fabric, sender: JobRank, access: Access) -> Result<Box<[Pair]>, Errno> {
        let pairs = self.receive_pairs.lock(sender)?;
        let receiver = |(index, path): (usize, &Path)| {
            let rail = &fabric.rails[path.rail];
            let domain = rail.xrc.as_ref().ok_or(Errno(libc::EOPNOTSUPP))?;
            let name = events::name(sender, index);
            if let Some(number) = pairs.number(index) {
                return domain.open_receiver(&rail.context, number, name);
            }
            let pair = domain.receiver(&rail.context, name)?;
            pair.initialise(&path.port, access)?;
            pairs.note_made(index, pair.number);
            Ok(pair)
        };
        fabric.paths.iter().enumerate().map(receiver).collect()
    }

    /// Connects the link of a connection and the pairs by which the peer sends, if no other
    /// connection has.
    pub fn ready(
        &self,
        fabric: &Fabric,
        transports: &Transports,
        connection: &Connection,
        theirs: &[Endpoint],
    ) -> Result<(), Failure> {
        let (peer, groups) = (connection.peer(), &self.groups);
        let (own_group, group) = (groups.of(fabric.rank), groups.of(peer));
        let transport = |(path, endpoint): (usize, &Endpoint), sender: JobRank, group: usize| {
            // Equal at both ends, and another one in each direction.
            let ends = [sender.0, !groups.all[group].first.0];
            transports.of(path, &fabric.paths[path], endpoint, ends)
        };
        let pairs = self.receive_pairs.lock(peer).map_err(Failure::local)?;
        for (path, endpoint) in theirs.iter().enumerate().filter(|(path, _)| !pairs.is_connected(*path)) {
            let (pair, to) = (&connection.pairs.xrc_peer.receive_pairs[path], endpoint.sending_pair());
            let transport = transport((path, endpoint), peer, own_group);
            pair.receive_from(&fabric.paths[path].port, to, transport, RESPONDER)
                .map_err(|why| Failure::of(path, endpoint.address, why))?;
            pairs.note_connected(path);
        }
        drop(pairs);
        let mut links = lock(&self.links);
        let Some(link) = links[group].as_mut().filter(|link| !link.is_connected) else {
            return Ok(());
        };
        for (path, endpoint) in theirs.iter().enumerate() {
            let to = endpoint.pair();
            let transport = transport((path, endpoint), fabric.rank, group);
            let pair = &link.queues[path].pair;
            pair.connect(&fabric.paths[path].port, to, transport, 0)
                .map_err(|why| Failure::of(path, endpoint.address, why))?;
        }
        link.is_connected = true;
        Ok(())
    }
}

/// Send queues to a group of `processes` processes, one of which is the peer.
fn new_link(fabric: &Fabric, peer: JobRank, processes: usize, access: Access) -> Result<Arc<[SendQueue]>, Errno> {
    let queue = |(index, path): (usize, &Path)| {
        let rail = &fabric.rails[path.rail];
        let made = rail.longest_pair(rail.depth_of(processes), events::name(peer, index))?;
        made.0.initialise(&path.port, access)?;
        Ok(SendQueue::new(peer, (index, path), made, true, rail.sharing))
    };
    fabric.paths.iter().enumerate().map(queue).collect()
}
