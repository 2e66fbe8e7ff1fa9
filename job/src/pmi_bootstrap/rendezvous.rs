//! The rendezvous of the ranks of one host: an abstract local socket whose name follows from the
//! job's secret and the host's identity, so that no other user can hold it. Processes of other
//! users are rejected ([`super::acceptor`]), and their sockets are not used.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::acceptor::Acceptor;
use crate::pmi::daemon;
use crate::tree::message::AgentMessage;
use crate::tree::secret::Secret;
use gasnet_sys::process::{self, Pid, Watched};
use gasnet_sys::{cpus, fd, net};

/// Limit for all processes that have connected to send their ranks.
pub const MESSAGE_TIME: Duration = Duration::from_secs(1);
/// Limit for a connection to wait in the holder's queue, which other users may fill all the time.
const QUEUE_LIMIT: Duration = Duration::from_secs(300);
/// Most bytes of a message.
const MESSAGE_MAX: usize = 1 << 26;

/// A rank's end of the rendezvous.
pub struct Rendezvous {
    rank: u32,
    /// The connection to the leader, which may be this process.
    pub leader: UnixStream,
    /// At the leader: accepts the other ranks of this host.
    pub acceptor: Option<Acceptor>,
    /// At the leader: the other end of `leader`.
    pub own_end: Option<UnixStream>,
}

/// A rank, as its agent sees it.
pub struct LocalRank {
    pub pid: Pid,
    pub process: Watched,
    pub stream: UnixStream,
    /// The process manager's daemon on this host.
    pub daemon: Option<Pid>,
    /// Cores that it may use.
    pub cpus: Vec<u32>,
}

impl Rendezvous {
    /// Binds or connects to the socket of the job on this host, or on this node of a manager that
    /// names nodes.
    pub fn at(secret: Secret, rank: u32, node: Option<u32>) -> io::Result<Self> {
        let node = node.map_or_else(String::new, |node| format!("-{node}"));
        let host = secret.socket_name(&net::boot_and_namespace());
        let name = format!("gasnet-{}-{host:032x}{node}", process::user());
        let (leader, acceptor, own_end) = match UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?) {
            Ok(listener) => {
                let (leader, own_end) = UnixStream::pair()?;
                (leader, Some(Acceptor::open(listener)?), Some(own_end))
            }
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                // The holder stays until all ranks have connected, and accepts at once.
                let leader = fd::connect_to_name(name.as_bytes(), QUEUE_LIMIT).map_err(|error| {
                    io::Error::other(format!("the process that holds the local socket @{name}: {error}"))
                })?;
                let (_, user) = fd::peer_process(leader.as_raw_fd())?;
                if user != process::user() {
                    return Err(io::Error::other(format!("user {user} holds the local socket @{name}")));
                }
                (leader, None, None)
            }
            Err(e) => return Err(e),
        };
        Ok(Self {
            rank,
            leader,
            acceptor,
            own_end,
        })
    }

    /// Sends the leader this process's rank, daemon and cores, and its descriptor, if the kernel
    /// has such.
    pub fn introduce(&mut self) -> io::Result<()> {
        let process = process::descriptor(process::pid())?;
        let introduction = AgentMessage::Introduce {
            rank: self.rank,
            daemon: daemon::of_this().unwrap_or(0),
            cpus: cpus::numbers().iter().map(|&cpu| cpu as u32).collect(),
        };
        let descriptors: Vec<_> = process.iter().map(AsRawFd::as_raw_fd).collect();
        send(&mut self.leader, &introduction, &descriptors)
    }
}

/// The time until `end`, but not zero, which would mean no limit.
fn until(end: Instant) -> Duration {
    let left = end.saturating_duration_since(Instant::now());
    left.max(Duration::from_millis(1))
}

/// Sends a message, with copies of descriptors.
pub fn send(stream: &mut UnixStream, message: &AgentMessage, descriptors: &[RawFd]) -> io::Result<()> {
    let frame = message.encode();
    let (length, rest) = frame.split_at(4);
    if descriptors.is_empty() {
        stream.write_all(length)?;
    } else {
        fd::send_descriptors(stream.as_raw_fd(), length, descriptors)?;
    }
    stream.write_all(rest)
}

pub fn receive(stream: &mut UnixStream) -> io::Result<(AgentMessage, Vec<OwnedFd>)> {
    let mut length = [0; 4];
    let (got, descriptors) = fd::receive_descriptors(stream.as_raw_fd(), &mut length)?;
    if got < 4 {
        return Err(io::Error::other("it has ended"));
    }
    let count = u32::from_le_bytes(length) as usize;
    if count > MESSAGE_MAX {
        return Err(io::Error::other("a message has an impossible length"));
    }
    let mut frame = [&length[..], &vec![0; count]].concat();
    stream.read_exact(&mut frame[4..])?;
    let message = AgentMessage::decode(&frame).ok_or(io::ErrorKind::InvalidData)?;
    Ok((message, descriptors))
}

impl LocalRank {
    /// Receives the introduction of a rank, until `end`.
    pub fn admit(mut stream: UnixStream, end: Instant) -> io::Result<(u32, Self)> {
        let (pid, _) = fd::peer_process(stream.as_raw_fd())?;
        stream.set_read_timeout(Some(until(end)))?;
        let (message, mut descriptors) = receive(&mut stream)?;
        let AgentMessage::Introduce { rank, daemon, cpus } = message else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let member = Self {
            pid,
            process: Watched::from(pid, descriptors.pop()),
            stream,
            daemon: (daemon > 0).then_some(daemon),
            cpus,
        };
        Ok((rank, member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_has_the_name_of_this_host_and_node() {
        let secret = Secret::new();
        let host = secret.socket_name(&net::boot_and_namespace());
        for (node, end) in [(None, ""), (Some(3), "-3")] {
            let name = format!("gasnet-{}-{host:032x}{end}", process::user());
            let _holder = Rendezvous::at(secret, 0, node).unwrap();
            let bound = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap());
            assert_eq!(bound.unwrap_err().kind(), io::ErrorKind::AddrInUse, "{name}");
        }
    }
}
