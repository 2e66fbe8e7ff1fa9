//! The rendezvous of the ranks of one host: an abstract local socket whose name follows from the
//! job's. The name is not secret. Processes of other users are rejected ([`super::acceptor`]), and
//! their sockets are not used.

use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use siphasher::sip128::{Hasher128, SipHasher24};

use super::acceptor::Acceptor;
use crate::agent::manager_daemon_of_this;
use crate::tree::message::AgentMessage;
use gasnet_sys::process::{self, Pid, PidFd};
use gasnet_sys::{cpus, fd};

/// Limit for all processes that have connected to send their ranks.
pub const MESSAGE_TIME: Duration = Duration::from_secs(1);
/// How long full queues may delay a rank, whichever names have them. The leader of a job accepts at
/// once, so the holder of a name whose queue stays full is another user's.
const FULL_QUEUES: Duration = Duration::from_secs(3);
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
    pub cpus: Vec<u32>,
}

impl Rendezvous {
    /// What the names of the job's sockets begin with.
    fn name(job: &str) -> String {
        // A socket's name holds about a hundred bytes; a job's name may be longer.
        let mut hash = SipHasher24::new();
        hash.write(job.as_bytes());
        format!("gasnet-{}-{:032x}", process::user(), hash.finish128().as_u128())
    }

    /// Binds or connects to the socket of the job on this host.
    pub fn at(job: &str, rank: u32) -> io::Result<Self> {
        let name = Self::name(job);
        let end = Instant::now() + FULL_QUEUES;
        for number in 0..NAMES {
            for _ in 0..TRIES {
                match Self::at_name(&format!("{name}-{number}"), rank, end) {
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
    fn at_name(name: &str, rank: u32, end: Instant) -> io::Result<Option<Self>> {
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
                let leader = match fd::connect_to_name(name.as_bytes(), until(end)) {
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

    /// Receives a frame from the leader.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.leader.read_exact(&mut length)?;
        read_frame(&mut self.leader, length)
    }

    /// Sends the leader this process's rank, descriptor, daemon and cores.
    pub fn introduce(&mut self) -> io::Result<()> {
        let process = PidFd::open(process::pid())?;
        let introduction = AgentMessage::Introduce {
            rank: self.rank,
            daemon: manager_daemon_of_this().unwrap_or(0),
            cpus: cpus::numbers().iter().map(|&cpu| cpu as u32).collect(),
        };
        send_with(&mut self.leader, &introduction, &[process.fd()])
    }
}

/// The time until `end`, but not zero, which would mean no limit.
fn until(end: Instant) -> Duration {
    let left = end.saturating_duration_since(Instant::now());
    left.max(Duration::from_millis(1))
}

/// Sends a message, with copies of descriptors.
pub fn send_with(stream: &mut UnixStream, message: &AgentMessage, descriptors: &[RawFd]) -> io::Result<()> {
    let frame = message.encode();
    fd::send_descriptors(stream.as_raw_fd(), &frame[..4], descriptors)?;
    stream.write_all(&frame[4..])
}

/// Receives a message with descriptors.
pub fn receive_with(stream: &mut UnixStream) -> io::Result<(AgentMessage, Vec<OwnedFd>)> {
    let mut length = [0; 4];
    let (got, descriptors) = fd::receive_descriptors(stream.as_raw_fd(), &mut length)?;
    if got < 4 {
        return Err(io::Error::other("it has ended"));
    }
    let frame = read_frame(stream, length)?;
    let message = AgentMessage::decode(&frame).ok_or(io::ErrorKind::InvalidData)?;
    Ok((message, descriptors))
}

/// Receives the frame that starts with this length.
fn read_frame(stream: &mut UnixStream, length: [u8; 4]) -> io::Result<Vec<u8>> {
    let count = u32::from_le_bytes(length) as usize;
    if count > 1 << 26 {
        return Err(io::Error::other("a message has an impossible length"));
    }
    let mut frame = vec![0; 4 + count];
    frame[..4].copy_from_slice(&length);
    stream.read_exact(&mut frame[4..])?;
    Ok(frame)
}

impl LocalRank {
    /// Receives the introduction of a rank, until `end`.
    pub fn admit(mut stream: UnixStream, end: Instant) -> io::Result<(u32, Self)> {
        let (pid, _) = fd::peer_process(stream.as_raw_fd())?;
        stream.set_read_timeout(Some(until(end)))?;
        let (message, mut descriptors) = receive_with(&mut stream)?;
        let (AgentMessage::Introduce { rank, daemon, cpus }, Some(process)) = (message, descriptors.pop()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let member = Self {
            pid,
            process: PidFd::from(process),
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
    use gasnet_sys::mem;
    use std::sync::mpsc::channel;

    #[test]
    fn full_queues_delay_a_rank_once() {
        let job = format!("test-{}", mem::random_u64());
        let mut kept = Vec::new();
        for number in 0..NAMES {
            let name = format!("{}-{number}", Rendezvous::name(&job));
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
            // SAFETY: takes numbers.
            unsafe { libc::listen(listener.as_raw_fd(), 0) };
            let callers = std::iter::from_fn(|| fd::connect_to_name(name.as_bytes(), Duration::from_millis(1)).ok());
            kept.push((callers.collect::<Vec<_>>(), listener));
        }
        let (sender, result) = channel();
        std::thread::spawn(move || sender.send(Rendezvous::at(&job, 0).err()));
        // The limit ends a rank that waits for each name.
        let error = result.recv_timeout(FULL_QUEUES * 3).unwrap().unwrap();
        assert!(error.to_string().contains("other users hold"), "{error}");
    }
}
