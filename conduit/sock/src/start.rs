//! Start, stop, and the state of a started conduit.
#![forbid(unsafe_code)]

use crate::send::{header, BYE, LARGEST};
use crate::sys::{self, Epoll, SocketName};
use gasnet_conduit::{Class, JobRank, StartInfo, Stop};
use gasnet_conduit_util::peer_states::PeerStates;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// Number of a listener in its epoll set; a connection has its index in [`Channel::conns`].
pub const LISTENER: u64 = u64::MAX;
/// Peer of an accepted connection before its HELLO.
pub const UNAUTHENTICATED: JobRank = JobRank(u32::MAX);

/// One connection. Its descriptor stays open while a thread may use it.
#[derive(Debug)]
pub struct Conn {
    pub fd: OwnedFd,
    /// Locked while a packet is read, so that the HELLO is processed before the next packet.
    pub peer: Mutex<JobRank>,
}

/// The listener and all connections of one class.
#[derive(Debug)]
pub struct Channel {
    pub listener: OwnedFd,
    pub epoll: Epoll,
    pub conns: Mutex<Vec<Option<Arc<Conn>>>>,
}

/// A process of the job.
#[derive(Debug, Default)]
pub struct Peer {
    /// Names of its listeners, by class.
    pub names: [SocketName; 2],
    /// Connections for sending, by class. Locked while connecting, so that threads do not connect
    /// twice.
    pub out: [Mutex<Option<Arc<Conn>>>; 2],
}

/// A started conduit.
#[derive(Debug)]
pub struct Net {
    pub rank: JobRank,
    pub token: u128,
    /// By class.
    pub channels: [Channel; 2],
    /// Watches the epoll sets of the channels, numbered by class.
    pub top: Epoll,
    pub peers: Vec<Peer>,
    pub states: PeerStates,
    pub stopped: AtomicBool,
    /// Free packet buffers.
    pub buffers: Mutex<Vec<Vec<u8>>>,
}

impl Net {
    /// Opens the listeners and exchanges their names.
    pub fn open(info: &StartInfo<'_>) -> io::Result<Self> {
        let top = Epoll::new()?;
        let (requests, request_name) = Channel::open(&top, Class::Request)?;
        let (replies, reply_name) = Channel::open(&top, Class::Reply)?;
        let table = (info.exchange)(&[request_name, reply_name].concat());
        let names = |entry: &[u8]| [0, 5].map(|at| std::array::from_fn(|i| entry[at + i]));
        let peer = |entry| Peer {
            names: names(entry),
            ..Peer::default()
        };
        Ok(Self {
            rank: info.rank,
            token: info.job_token,
            channels: [requests, replies],
            top,
            peers: table.chunks_exact(10).map(peer).collect(),
            states: PeerStates::new(info.size as usize),
            stopped: AtomicBool::new(false),
            buffers: Mutex::default(),
        })
    }

    /// Sends BYE to all connected peers. Descriptors stay open, because other threads may use them;
    /// the process is about to end.
    pub fn stop(&self, how: Stop) {
        self.stopped.store(true, Relaxed);
        if how == Stop::Signal {
            return;
        }
        for channel in &self.channels {
            for conn in lock(&channel.conns).iter().flatten() {
                // If the send fails, the peer is gone, or it reads end-of-file later.
                let _ = sys::send(&conn.fd, &[IoSlice::new(&header(BYE, self.rank))]);
            }
        }
    }
}

impl Channel {
    fn open(top: &Epoll, class: Class) -> io::Result<(Self, SocketName)> {
        let (listener, name) = sys::listener(LARGEST)?;
        let (epoll, conns) = (Epoll::new()?, Mutex::default());
        epoll.add(&listener, LISTENER)?;
        top.add(&epoll.0, class as u64)?;
        Ok((Self { listener, epoll, conns }, name))
    }

    /// Adds a new connection and watches it.
    pub fn watch(&self, fd: OwnedFd, peer: JobRank) -> io::Result<Arc<Conn>> {
        let conn = Arc::new(Conn {
            fd,
            peer: Mutex::new(peer),
        });
        let mut conns = lock(&self.conns);
        let index = conns.iter().position(Option::is_none).unwrap_or(conns.len());
        self.epoll.add(&conn.fd, index as u64)?;
        if index == conns.len() {
            conns.push(None);
        }
        conns[index] = Some(conn.clone());
        Ok(conn)
    }

    /// Undoes `watch`. The descriptor closes when the last thread releases it.
    pub fn forget(&self, conn: &Arc<Conn>) {
        self.epoll.remove(&conn.fd);
        let is_it = |slot: &Option<Arc<Conn>>| slot.as_ref().is_some_and(|other| Arc::ptr_eq(other, conn));
        lock(&self.conns)
            .iter_mut()
            .filter(|slot| is_it(slot))
            .for_each(|slot| *slot = None);
    }
}
