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
pub mod receive_queues;

use crate::boot_record::BootRecord;
use crate::connect::handshake::{Endpoint, MOST_PATHS};
use crate::connect::policy::FEW;
use crate::connect::resolve::Failure;
use crate::events;
use crate::ffi::{Errno, Pair};
use crate::memory::limits::advised;
use crate::net::{Net, Opened};
use crate::peers::Connection;
use crate::ports;
use crate::rail::Rail;
use crate::send::queue::SendQueue;
use crate::settings::Settings;
use crate::xrc::groups::Groups;
use crate::xrc::receive_queues::Receivers;
use gasnet_conduit::config;
use gasnet_conduit::{print_line, JobRank, StartInfo};
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::Arc;

/// What this process has for XRC.
pub struct Xrc {
    groups: Groups,
    /// Numbers of receive queues, by rank and rail.
    receive_queues: Box<[u32]>,
    /// By group, from the first contact on.
    links: Mutex<Box<[Option<Link>]>>,
    /// By which this process's group receives.
    receivers: Receivers,
}

/// The send queues to a group, by path.
struct Link {
    queues: Arc<[SendQueue]>,
    is_connected: bool,
}

/// What a connection has beside its send queues: the peer, and more with XRC.
pub struct XrcPeer {
    pub peer: JobRank,
    /// The peer's receive queues, by path.
    receive_queues: [u32; MOST_PATHS],
    /// Whether any work request was posted to them.
    is_used: AtomicBool,
    /// The pairs by which the peer sends to this process, by path; none without XRC.
    receivers: Box<[Pair]>,
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
    if groups.count() == all.len() {
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
        opened: &mut Opened,
        settings: &Settings,
    ) -> Result<Option<Self>, String> {
        let place_of = |rank| (info.place_of)(JobRank(rank)).host;
        let groups = Groups::new((0..).zip(all).map(|(rank, record)| (place_of(rank), record.ports)));
        let is_used = groups.count() < all.len() && all.iter().all(|record| record.has_xrc);
        let is_verbose = || ports::Settings::read().verbosity > 1 || config::get().get_or_default(&config::VERBOSEENV);
        if info.rank == JobRank(0) && opened.rails[0].shared.is_some() && is_verbose() {
            match obstacle(all, &groups, settings) {
                None => print_line(format_args!(
                    "GASNet: ibv: XRC: queue pairs per path to {} processes: {}; no alternate ports",
                    all.len(),
                    groups.count()
                )),
                Some(why) => print_line(format_args!("GASNet: ibv: no XRC: {why}")),
            }
        }
        if is_used {
            return Self::new(info, groups, opened).map(Some);
        }
        for rail in opened.rails.iter_mut().filter(|rail| rail.has_xrc()) {
            let left = rail.leave_xrc(settings);
            left.map_err(|why| format!("{}: ibv_create_srq failed: {}", rail.context.name, advised(why)))?;
        }
        Ok(None)
    }

    fn new(info: &StartInfo<'_>, groups: Groups, opened: &mut Opened) -> Result<Self, String> {
        let (paths, own) = (opened.paths.len(), groups.of(info.rank));
        // Links have no alternate path: an HCA moves a pair only together with its peer's, of which
        // another process hears.
        opened.paths.iter_mut().for_each(|path| path.alternate = None);
        for (index, rail) in opened.rails.iter_mut().enumerate() {
            let pairs = opened.paths.iter().filter(|path| path.rail == index).count();
            let depths = (0..groups.count()).map(|group| rail.depth_of(groups.size(group)));
            let work_requests = pairs * depths.sum::<usize>();
            rail.limit_sends(work_requests);
        }
        let number = |rail: &Rail| rail.shared.as_ref().and_then(|shared| shared.number).unwrap_or(0);
        let numbers: Vec<u8> = opened
            .rails
            .iter()
            .flat_map(|rail| number(rail).to_le_bytes())
            .collect();
        let receive_queues = words(&(info.exchange)(&numbers)).collect();
        let words = groups.processes() * paths;
        let all = words * groups.most_of_a_host();
        let memory = (info.host_memory)(size_of::<AtomicU32>() * all).map_err(|why| why.message)?;
        // SAFETY: as large, aligned to a page, zero at first, never unmapped, and accessed as atomics
        // only.
        let memory: &'static [AtomicU32] = unsafe { std::slice::from_raw_parts(memory.cast(), all) };
        Ok(Self {
            receivers: Receivers::new(&memory[groups.place(own) * words..][..words], paths),
            links: Mutex::new((0..groups.count()).map(|_| None).collect()),
            receive_queues,
            groups,
        })
    }

    /// The numbers of the pairs that send to each group, by group and path; 0 where there are none.
    pub fn senders(&self, paths: usize) -> Vec<u32> {
        let links = lock(&self.links);
        let number = |link: &Option<Link>, path: usize| link.as_ref().map_or(0, |link| link.queues[path].pair.number);
        links
            .iter()
            .flat_map(|link| (0..paths).map(|path| number(link, path)))
            .collect()
    }

    /// Where the pair that sends to a process is among those of [`Xrc::senders`].
    pub fn sender_to(&self, rank: JobRank, path: usize, paths: usize) -> usize {
        self.groups.of(rank) * paths + path
    }
}

/// Little-endian words.
fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    bytes.chunks_exact(4).map(word)
}

impl XrcPeer {
    /// Those of a connection without XRC.
    pub fn new(peer: JobRank) -> Self {
        Self {
            peer,
            receive_queues: [0; MOST_PATHS],
            is_used: AtomicBool::new(false),
            receivers: Box::new([]),
        }
    }

    /// Whether they are for XRC.
    pub fn is_for_xrc(&self) -> bool {
        !self.receivers.is_empty()
    }

    /// The peer's receive queue of a path, for a work request.
    #[inline]
    pub fn use_receive_queue(&self, path: usize) -> u32 {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        self.receive_queues[path]
    }

    /// Whether there was any work request.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// The number of the pair that receives what the peer sends on the path of a send queue.
    pub fn receiver(&self, queue: &SendQueue) -> u32 {
        self.receivers.get(queue.path).unwrap_or(&queue.pair).number
    }
}

impl Net {
    /// The send queues to a peer, which others may use, too, and what else a connection needs.
    pub fn create_over_xrc(&self, xrc: &Xrc, peer: JobRank) -> Result<(Arc<[SendQueue]>, XrcPeer), Errno> {
        let mut ends = XrcPeer::new(peer);
        for (number, path) in ends.receive_queues.iter_mut().zip(&self.paths) {
            *number = xrc.receive_queues[peer.index() * self.rails.len() + path.rail];
        }
        ends.receivers = self.receivers_of(xrc, peer)?;
        let group = xrc.groups.of(peer);
        let mut links = lock(&xrc.links);
        if links[group].is_none() {
            links[group] = Some(Link {
                queues: self.new_link(peer, xrc.groups.size(group))?,
                is_connected: false,
            });
        }
        let queues = links[group].as_ref().map(|link| Arc::clone(&link.queues));
        Ok((queues.unwrap_or_default(), ends))
    }

    /// Send queues to a group of so many processes, of which one is a peer.
    fn new_link(&self, peer: JobRank, processes: usize) -> Result<Arc<[SendQueue]>, Errno> {
        let queue = |(index, path): (usize, &crate::net::Path)| {
            let rail = &self.rails[path.rail];
            let (pair, depth) = rail.new_sender(rail.depth_of(processes), events::name(peer, index))?;
            pair.initialise(&path.port, self.access)?;
            Ok(SendQueue::new(peer, index, (pair, depth), true))
        };
        self.paths.iter().enumerate().map(queue).collect()
    }

    /// Makes the pairs by which a process sends to this group, or opens those that another process
    /// has made.
    fn receivers_of(&self, xrc: &Xrc, sender: JobRank) -> Result<Box<[Pair]>, Errno> {
        let pairs = xrc.receivers.lock(sender)?;
        let receiver = |(index, path): (usize, &crate::net::Path)| {
            let rail = &self.rails[path.rail];
            let domain = rail.xrc.as_ref().ok_or(Errno(libc::EOPNOTSUPP))?;
            let name = events::name(sender, index);
            if let Some(number) = pairs.number(index) {
                return domain.open_receiver(&rail.context, number, name);
            }
            let pair = domain.receiver(&rail.context, name)?;
            pair.initialise(&path.port, self.access)?;
            pairs.note_made(index, pair.number);
            Ok(pair)
        };
        self.paths.iter().enumerate().map(receiver).collect()
    }

    /// Connects the link of a connection and the pairs by which the peer sends, if no other
    /// connection has.
    pub fn ready_over_xrc(&self, xrc: &Xrc, connection: &Connection, theirs: &[Endpoint]) -> Result<(), Failure> {
        let (peer, groups) = (connection.ends.peer, &xrc.groups);
        let (own_group, group) = (groups.of(self.rank), groups.of(peer));
        let transport = |(path, endpoint): (usize, &Endpoint), sender: JobRank, group: usize| {
            // Equal at both ends, and another one in each direction.
            let (low, high) = (sender.0, !groups.first(group).0);
            self.transport(path, endpoint, (low, high))
        };
        let pairs = xrc.receivers.lock(peer).map_err(Failure::local)?;
        for (path, endpoint) in theirs.iter().enumerate().filter(|(path, _)| !pairs.is_connected(*path)) {
            let (pair, to) = (&connection.ends.receivers[path], (&endpoint.address, endpoint.sender));
            let transport = transport((path, endpoint), peer, own_group);
            pair.connect_receiver(&self.paths[path].port, to, transport)
                .map_err(|why| Failure::of(path, endpoint.address, why))?;
            pairs.note_connected(path);
        }
        drop(pairs);
        let mut links = lock(&xrc.links);
        let Some(link) = links[group].as_mut().filter(|link| !link.is_connected) else {
            return Ok(());
        };
        for (path, endpoint) in theirs.iter().enumerate() {
            let to = (&endpoint.address, endpoint.number);
            let transport = transport((path, endpoint), self.rank, group);
            let pair = &link.queues[path].pair;
            pair.connect_sender(&self.paths[path].port, to, transport)
                .map_err(|why| Failure::of(path, endpoint.address, why))?;
        }
        link.is_connected = true;
        Ok(())
    }
}
