//! Where the ranks of one host meet: at a local socket without a place in the file system, whose name follows from that of the job.

use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use siphasher::sip128::{Hasher128, SipHasher24};

use super::MARGIN;
use crate::os::process::{self, Pid, PidFd};
use crate::os::{cpus, fd};

/// What the ranks of a host meet at.
pub struct Meeting {
    rank: u32,
    /// To the leader, which may be this process.
    pub leader: UnixStream,
    /// At the leader: where the others of this host call.
    pub listener: Option<UnixListener>,
    /// At the leader: the other end of `leader`.
    pub own_end: Option<UnixStream>,
}

/// A rank, as its agent comes to know it.
pub struct Member {
    /// Its process.
    pub pid: Pid,
    /// The same, held.
    pub process: PidFd,
    /// To it.
    pub stream: UnixStream,
    /// Cores that it may use.
    pub cpus: Vec<u16>,
}

impl Meeting {
    /// Binds or calls the socket of the job on this host.
    pub fn at(job: &str, rank: u32) -> io::Result<Self> {
        // A name has room for some hundred bytes; that of a job may be longer.
        let mut hash = SipHasher24::new();
        hash.write(job.as_bytes());
        let name = format!("gasnet-{}-{:032x}", process::user(), hash.finish128().as_u128());
        let address = SocketAddr::from_abstract_name(&name)?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => {
                let (leader, own_end) = UnixStream::pair()?;
                Ok(Self {
                    rank,
                    leader,
                    listener: Some(listener),
                    own_end: Some(own_end),
                })
            }
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                let leader = UnixStream::connect_addr(&address)?;
                let (_, user) = fd::peer_process(leader.as_raw_fd())?;
                if user != process::user() {
                    return Err(io::Error::other(format!(
                        "user {user} holds the local socket {name} of this job"
                    )));
                }
                Ok(Self {
                    rank,
                    leader,
                    listener: None,
                    own_end: None,
                })
            }
            Err(e) => Err(e),
        }
    }

    /// What the leader says: a length and as many bytes.
    pub fn hear(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.leader.read_exact(&mut length)?;
        read_rest(&mut self.leader, length)
    }

    /// Tells the leader who this is.
    pub fn introduce(&mut self) -> io::Result<()> {
        let process = PidFd::open(process::pid())?;
        let cpus: Vec<u8> = cpus::numbers().iter().flat_map(|&cpu| (cpu as u16).to_le_bytes()).collect();
        let hello = [&self.rank.to_le_bytes()[..], &cpus].concat();
        let length = (hello.len() as u32).to_le_bytes();
        fd::send_descriptors(self.leader.as_raw_fd(), &length, &[process.fd()])?;
        self.leader.write_all(&hello)
    }
}

/// What follows a length.
pub fn read_rest(stream: &mut UnixStream, length: [u8; 4]) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(length) as usize;
    if length > 1 << 26 {
        return Err(io::Error::other("a message of an impossible length"));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A length and that many bytes.
pub fn block(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

impl Member {
    /// The rank that has called.
    pub fn admit(mut stream: UnixStream) -> io::Result<(u32, Self)> {
        let (pid, user) = fd::peer_process(stream.as_raw_fd())?;
        if user != process::user() {
            return Err(io::Error::other(format!(
                "process {pid} of user {user} called in the job's name"
            )));
        }
        stream.set_read_timeout(Some(MARGIN))?;
        let mut length = [0; 4];
        let (got, mut descriptors) = fd::receive_descriptors(stream.as_raw_fd(), &mut length)?;
        let process = descriptors.pop().filter(|_| got == 4).ok_or(io::ErrorKind::InvalidData)?;
        let hello = read_rest(&mut stream, length)?;
        let (rank, cpus) = hello.split_first_chunk::<4>().ok_or(io::ErrorKind::InvalidData)?;
        let cpus = cpus.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect();
        let member = Self {
            pid,
            process: PidFd::from(process),
            stream,
            cpus,
        };
        Ok((u32::from_le_bytes(*rank), member))
    }
}
