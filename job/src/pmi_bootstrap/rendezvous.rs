//! The rendezvous of the ranks of one host: an abstract local socket whose name follows from the
//! job's. The name is not secret. Processes of other users are rejected ([`super::acceptor`]), and
//! their sockets are not used.

use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use siphasher::sip128::{Hasher128, SipHasher24};

use super::acceptor::Acceptor;
use super::MARGIN;
use crate::agent::manager_daemon_of_this;
use gasnet_sys::process::{self, Pid, PidFd};
use gasnet_sys::{cpus, fd};

/// Limit for a rank that has connected to send its rank.
const MESSAGE_TIME: Duration = Duration::from_secs(1);
/// Names to try: the first that no other user holds is taken.
const NAMES: u32 = 8;
/// Attempts for each name, if its holder ends at that moment.
const TRIES: u32 = 100;

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

/// A rank, as its agent knows it.
pub struct LocalRank {
    /// Its process id.
    pub pid: Pid,
    /// Its process descriptor.
    pub process: PidFd,
    /// The connection to it.
    pub stream: UnixStream,
    /// The process manager's daemon on this host.
    pub daemon: Option<Pid>,
    /// Cores that it may use.
    pub cpus: Vec<u16>,
}

impl Rendezvous {
    /// Binds or connects to the socket of the job on this host.
    pub fn at(job: &str, rank: u32) -> io::Result<Self> {
        // A socket's name holds about a hundred bytes; a job's name may be longer.
        let mut hash = SipHasher24::new();
        hash.write(job.as_bytes());
        let name = format!("gasnet-{}-{:032x}", process::user(), hash.finish128().as_u128());
        for number in 0..NAMES {
            for _ in 0..TRIES {
                match Self::at_name(&format!("{name}-{number}"), rank) {
                    Ok(None) => break,
                    Ok(Some(rendezvous)) => return Ok(rendezvous),
                    // The holder has ended. A rank of this job stays until all have connected.
                    Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Err(io::Error::other(format!(
            "other users hold all local sockets {name}-0 to -{}",
            NAMES - 1
        )))
    }

    /// None if another user holds the name.
    fn at_name(name: &str, rank: u32) -> io::Result<Option<Self>> {
        match UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?) {
            Ok(listener) => {
                let acceptor = Acceptor::open(listener)?;
                let (leader, own_end) = UnixStream::pair()?;
                Ok(Some(Self {
                    rank,
                    leader,
                    acceptor: Some(acceptor),
                    own_end: Some(own_end),
                }))
            }
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                let leader = match fd::connect_to_name(name.as_bytes(), MARGIN) {
                    // No leader of this job keeps a rank waiting for so long.
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                    other => other?,
                };
                let (_, user) = fd::peer_process(leader.as_raw_fd())?;
                Ok((user == process::user()).then_some(Self {
                    rank,
                    leader,
                    acceptor: None,
                    own_end: None,
                }))
            }
            Err(e) => Err(e),
        }
    }

    /// Receives a message of the leader: a length and as many bytes.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.leader.read_exact(&mut length)?;
        read_rest(&mut self.leader, length)
    }

    /// Sends the leader this process's rank, descriptor, daemon and cores.
    pub fn introduce(&mut self) -> io::Result<()> {
        let process = PidFd::open(process::pid())?;
        let cpus: Vec<u8> = cpus::numbers().iter().flat_map(|&cpu| (cpu as u16).to_le_bytes()).collect();
        let daemon = manager_daemon_of_this().unwrap_or(0);
        let hello = [&self.rank.to_le_bytes()[..], &daemon.to_le_bytes(), &cpus].concat();
        let length = (hello.len() as u32).to_le_bytes();
        fd::send_descriptors(self.leader.as_raw_fd(), &length, &[process.fd()])?;
        self.leader.write_all(&hello)
    }
}

/// Receives the bytes after a length.
pub fn read_rest(stream: &mut UnixStream, length: [u8; 4]) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(length) as usize;
    if length > 1 << 26 {
        return Err(io::Error::other("a message has an impossible length"));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A length and the bytes.
pub fn block(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

impl LocalRank {
    /// Receives the introduction of a rank.
    pub fn admit(mut stream: UnixStream) -> io::Result<(u32, Self)> {
        let (pid, _) = fd::peer_process(stream.as_raw_fd())?;
        stream.set_read_timeout(Some(MESSAGE_TIME))?;
        let mut length = [0; 4];
        let (got, mut descriptors) = fd::receive_descriptors(stream.as_raw_fd(), &mut length)?;
        let process = descriptors.pop().filter(|_| got == 4).ok_or(io::ErrorKind::InvalidData)?;
        let hello = read_rest(&mut stream, length)?;
        let (rank, rest) = hello.split_first_chunk::<4>().ok_or(io::ErrorKind::InvalidData)?;
        let (daemon, cpus) = rest.split_first_chunk::<4>().ok_or(io::ErrorKind::InvalidData)?;
        let cpus = cpus.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect();
        let daemon = Pid::from_le_bytes(*daemon);
        let member = Self {
            pid,
            process: PidFd::from(process),
            stream,
            daemon: (daemon > 0).then_some(daemon),
            cpus,
        };
        Ok((u32::from_le_bytes(*rank), member))
    }
}
