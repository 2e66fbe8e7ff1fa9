//! A connection between the agents of two hosts: authenticated first, then non-blocking messages.
#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use super::message::AgentMessage;
use super::secret::{self, Nonce, Secret, ANSWER_BYTES, CALL_BYTES, PROOF_BYTES};
use gasnet_sys::net;

/// Limit of a connection attempt to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often all addresses are tried if one of them timed out.
const ROUNDS: u32 = 3;
/// How long an unauthenticated peer may keep its connection.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);

/// The id of a worker of a custom spawner, which is no agent, in its connection to the launcher
/// process.
pub const WORKER_ID: u32 = u32::MAX;
/// The id of a connection for output has the stream, 1 or 2, above these bits, and the host or
/// first rank below.
const STREAM_SHIFT: u32 = 30;

/// Adds descriptors to wait for: working links, unauthenticated peers, and the listening socket.
pub fn poll_items<'a>(
    links: impl Iterator<Item = &'a Link>,
    unauthenticated: &[UnauthenticatedPeer],
    listener: Option<&TcpListener>,
    items: &mut Vec<libc::pollfd>,
) {
    let mut add = |fd, events| items.push(libc::pollfd { fd, events, revents: 0 });
    for link in links.filter(|link| link.broken().is_none()) {
        let out = if link.wants_to_write() { libc::POLLOUT } else { 0 };
        add(link.fd(), libc::POLLIN | out);
    }
    let others = unauthenticated
        .iter()
        .map(UnauthenticatedPeer::fd)
        .chain(listener.map(AsRawFd::as_raw_fd));
    others.for_each(|fd| add(fd, libc::POLLIN));
}

/// An authenticated connection.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Why it is unusable.
    broken: Option<String>,
}

/// A listening socket for the agents of other hosts, on `ip` or on all addresses.
pub fn listen(ip: Option<IpAddr>) -> io::Result<TcpListener> {
    let listener = match ip {
        Some(ip) => TcpListener::bind((ip, 0))?,
        // An IPv6 socket accepts IPv4, too. Kernels without IPv6 get IPv4 only.
        None => TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"))?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn call_any(addresses: &[SocketAddr], secret: Secret, id: u32, limit: Duration) -> Result<TcpStream, String> {
    let mut rounds = 0;
    loop {
        rounds += 1;
        let mut failures = Vec::new();
        let mut again = false;
        for address in addresses {
            match call_one(*address, secret, id, limit) {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    // Too many hosts may connect at the same time.
                    again |= error.kind() == io::ErrorKind::TimedOut;
                    failures.push(format!("{address}: {error}"));
                }
            }
        }
        if !again || rounds == ROUNDS {
            return Err(failures.join("; "));
        }
    }
}

fn call_one(address: SocketAddr, secret: Secret, id: u32, limit: Duration) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let own = secret::nonce();
    stream.write_all(&secret::call(&own))?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer)?;
    let foreign = || io::Error::other("the process at that address is not of this job");
    let proof = secret.prove(&own, &answer, id).ok_or_else(foreign)?;
    stream.write_all(&proof)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

impl Link {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        net::notice_silence(&stream)?;
        Ok(Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            broken: None,
        })
    }

    /// Connects to the agent that listens at one of `addresses`, as the agent of `host`. Waits up
    /// to `limit` for an agent that is busy. The error names every address.
    pub fn call(addresses: &[SocketAddr], secret: Secret, host: u32, limit: Duration) -> Result<Self, String> {
        let stream = call_any(addresses, secret, host, limit)?;
        Self::new(stream).map_err(|e| e.to_string())
    }

    /// Opens connections to the same agent for standard output and error. They have no limit for
    /// silence, because a reader may stall.
    pub fn call_for_output(&self, secret: Secret, host: u32, limit: Duration) -> Result<[TcpStream; 2], String> {
        let to = [self.stream.peer_addr().map_err(|e| e.to_string())?];
        let call = |stream: u32| call_any(&to, secret, stream << STREAM_SHIFT | host, limit);
        Ok([call(1)?, call(2)?])
    }

    /// The descriptor, for poll.
    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// The address of this host that the connection uses.
    pub fn own_address(&self) -> Option<IpAddr> {
        self.stream.local_addr().ok().map(|a| a.ip().to_canonical())
    }

    /// Whether bytes wait for room in the socket.
    pub fn wants_to_write(&self) -> bool {
        !self.output.is_empty() && self.broken.is_none()
    }

    /// Why it is unusable, if it is.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Sends a message, or queues it until the socket has room.
    pub fn send(&mut self, message: &AgentMessage) {
        self.output.extend(message.encode());
        self.push();
    }

    /// Sends what was queued.
    pub fn push(&mut self) {
        while self.wants_to_write() {
            match self.stream.write(&self.output) {
                Ok(0) => self.broken = Some("it accepts no data".into()),
                Ok(n) => drop(self.output.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => self.broken = Some(e.to_string()),
            }
        }
    }

    /// Sends what was queued, and waits for that at most for `limit`.
    pub fn finish(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        while self.wants_to_write() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
            self.push();
        }
    }

    /// The next message, if there is one.
    pub fn receive(&mut self) -> Option<AgentMessage> {
        let mut buffer = [0; 16 << 10];
        loop {
            match AgentMessage::decode(&mut self.input) {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(why) => {
                    self.broken = Some(why.into());
                    self.input.clear();
                }
            }
            if self.broken.is_some() {
                return None;
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => self.broken = Some("it was closed".into()),
                Ok(n) => self.input.extend(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => self.broken = Some(e.to_string()),
            }
        }
    }

    /// As [`Link::receive`], but waits at most for `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<AgentMessage, String> {
        let end = Instant::now() + limit;
        loop {
            self.push();
            if let Some(message) = self.receive() {
                return Ok(message);
            }
            if let Some(why) = self.broken() {
                return Err(why.to_owned());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("no message for {} seconds", limit.as_secs()));
            }
            let _ = gasnet_sys::fd::poll(&mut [gasnet_sys::fd::readable(self.fd())], Some(left));
        }
    }
}

/// A connection from a peer that is not authenticated yet.
#[derive(Debug)]
pub struct UnauthenticatedPeer {
    stream: TcpStream,
    own: Nonce,
    input: Vec<u8>,
    until: Instant,
}

/// The result of authentication.
pub enum Authentication {
    /// It is not complete.
    Pending(UnauthenticatedPeer),
    /// The peer is the agent of this host.
    Accepted(u32, Link),
    /// The peer is the agent of this host, and the connection is for its stream 1 or 2.
    Output(u32, u32, TcpStream),
    /// The peer is not of this job.
    Rejected,
}

/// Most unauthenticated peers beyond those that are expected, so that they cannot use up all
/// descriptors.
pub const MAX_UNAUTHENTICATED: usize = 64;

/// Accepts peers, of which `expected` are agents. If there are too many, drops the oldest.
pub fn accept_peers(listener: &TcpListener, unauthenticated: &mut Vec<UnauthenticatedPeer>, expected: usize) {
    let most = expected + MAX_UNAUTHENTICATED;
    unauthenticated.extend(std::iter::from_fn(|| UnauthenticatedPeer::accept(listener)).take(most));
    unauthenticated.drain(..unauthenticated.len().saturating_sub(most));
}

impl UnauthenticatedPeer {
    /// The next peer, if there is one.
    fn accept(listener: &TcpListener) -> Option<Self> {
        let (stream, _) = listener.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Self {
            stream,
            own: secret::nonce(),
            input: Vec::new(),
            until: Instant::now() + AUTHENTICATION_TIMEOUT,
        })
    }

    /// The descriptor, for poll.
    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Continues the authentication with what has arrived.
    pub fn authenticate(mut self, secret: Secret) -> Authentication {
        const WHOLE: usize = CALL_BYTES + PROOF_BYTES;
        loop {
            let wanted = if self.input.len() < CALL_BYTES {
                CALL_BYTES
            } else {
                WHOLE
            };
            let mut buffer = [0; WHOLE];
            match self.stream.read(&mut buffer[..wanted - self.input.len()]) {
                Ok(n) if n > 0 => self.input.extend(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < self.until => {
                    return Authentication::Pending(self)
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                _ => return Authentication::Rejected,
            }
            if self.input.len() == CALL_BYTES {
                // Few bytes on a new connection: they fit, or the connection is useless.
                let answer = secret.answer(&self.input, &self.own);
                if !answer.is_some_and(|answer| self.stream.write(&answer).is_ok_and(|n| n == ANSWER_BYTES)) {
                    return Authentication::Rejected;
                }
            } else if self.input.len() == WHOLE {
                let (call, proof) = self.input.split_at(CALL_BYTES);
                let Some(id) = secret.verify(call, &self.own, proof) else {
                    return Authentication::Rejected;
                };
                if let stream @ 1..=2 = id >> STREAM_SHIFT {
                    return Authentication::Output(id & !(3 << STREAM_SHIFT), stream, self.stream);
                }
                return Link::new(self.stream)
                    .map_or(Authentication::Rejected, |link| Authentication::Accepted(id, link));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(listener: &TcpListener, secret: Secret) -> Option<(u32, Link)> {
        let mut peer = loop {
            if let Some(peer) = UnauthenticatedPeer::accept(listener) {
                break peer;
            }
            std::thread::yield_now();
        };
        loop {
            match peer.authenticate(secret) {
                Authentication::Pending(still) => peer = still,
                Authentication::Accepted(host, link) => return Some((host, link)),
                Authentication::Output(..) | Authentication::Rejected => return None,
            }
        }
    }

    #[test]
    fn messages_pass_and_foreign_peers_do_not() {
        let secret = Secret::new();
        let listener = listen(Some("127.0.0.1".parse().unwrap())).unwrap();
        let address = listener.local_addr().unwrap();
        let big = AgentMessage::Result {
            round: 3,
            bytes: vec![7; 3 << 20],
        };
        std::thread::scope(|scope| {
            let call = scope.spawn(|| {
                let nobody = SocketAddr::new(address.ip(), 1);
                let mut link = Link::call(&[nobody, address], secret, 12, CONNECT_TIMEOUT).unwrap();
                let message = link.wait(Duration::from_secs(60)).unwrap();
                link.send(&message);
                link.finish(Duration::from_secs(60));
                assert_eq!(link.wait(Duration::from_secs(60)).unwrap_err(), "it was closed");
            });
            let (host, mut link) = meet(&listener, secret).unwrap();
            assert_eq!(host, 12);
            link.send(&big);
            link.finish(Duration::from_secs(60));
            assert_eq!(link.wait(Duration::from_secs(60)).unwrap(), big);
            drop(link);
            call.join().unwrap();
        });
        std::thread::scope(|scope| {
            let call = scope.spawn(|| Link::call(&[address], Secret::new(), 12, CONNECT_TIMEOUT).unwrap_err());
            assert!(meet(&listener, secret).is_none());
            assert!(call.join().unwrap().contains("not of this job"));
        });
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n").unwrap();
        assert!(meet(&listener, secret).is_none());
    }

    #[test]
    fn unauthenticated_peers_are_few() {
        let listener = listen(Some("127.0.0.1".parse().unwrap())).unwrap();
        let address = listener.local_addr().unwrap();
        let mut unauthenticated = Vec::new();
        let mut callers = Vec::new();
        for _ in 0..3 {
            callers.extend((0..MAX_UNAUTHENTICATED).map(|_| TcpStream::connect(address).unwrap()));
            accept_peers(&listener, &mut unauthenticated, 5);
        }
        accept_peers(&listener, &mut unauthenticated, 5);
        assert_eq!(unauthenticated.len(), MAX_UNAUTHENTICATED + 5);
        // The first peer was dropped, the last one is there.
        assert_eq!(callers[0].read(&mut [0; 4]).unwrap(), 0);
        let last = callers.last().unwrap().local_addr().unwrap();
        assert!(unauthenticated.iter().any(|s| s.stream.peer_addr().unwrap() == last));
    }
}
