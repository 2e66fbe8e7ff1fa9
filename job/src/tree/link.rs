//! Connections between the agents of hosts: authenticated first, then non-blocking messages.
#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::message::AgentMessage;
use super::secret::{self, Nonce, Secret, ANSWER_BYTES, CALL_BYTES, PROOF_BYTES};
use gasnet_sys::{fd, net};

/// Limit of a connection attempt to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often all addresses are tried if one of them timed out.
const ROUNDS: u32 = 3;
/// How long an unauthenticated peer may keep its connection.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Most unauthenticated peers beyond those that are expected, so that they cannot use up all
/// descriptors.
pub const MAX_UNAUTHENTICATED: usize = 64;

/// The id of a worker of a custom spawner, which is no agent, in its connection to the launcher
/// process.
pub const WORKER_ID: u32 = u32::MAX;
/// The id of a connection for output has the stream, 1 or 2, above these bits, and the host or
/// first rank below.
const STREAM_SHIFT: u32 = 30;

/// An authenticated connection.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Why it is unusable.
    broken: Option<String>,
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

    /// What to wait for. poll ignores the negative descriptor of a broken connection.
    pub fn poll_item(&self) -> libc::pollfd {
        let out = if self.output.is_empty() { 0 } else { libc::POLLOUT };
        libc::pollfd {
            fd: self.broken.as_ref().map_or(self.stream.as_raw_fd(), |_| -1),
            events: libc::POLLIN | out,
            revents: 0,
        }
    }

    /// The address of this host that the connection uses.
    pub fn own_address(&self) -> Option<IpAddr> {
        self.stream.local_addr().ok().map(|a| a.ip().to_canonical())
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
    fn push(&mut self) {
        while self.broken.is_none() && !self.output.is_empty() {
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
        while self.broken.is_none() && !self.output.is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
            self.push();
        }
    }

    /// Sends what was queued. Returns the next message, if there is one.
    pub fn receive(&mut self) -> Option<AgentMessage> {
        self.push();
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
            let _ = fd::poll(&mut [self.poll_item()], Some(left));
        }
    }
}

/// An authenticated peer of a listening socket.
#[derive(Debug)]
pub enum Caller {
    /// The agent of this host, by its number or first rank.
    Agent(u32, Link),
    /// A worker of a custom spawner.
    Worker(Link),
    /// The agent of this host, for its stream 1 or 2.
    Output(u32, u32, TcpStream),
}

/// A listening socket for the agents of other hosts. Unauthenticated peers do not delay each other.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    unauthenticated: Vec<UnauthenticatedPeer>,
}

impl Listener {
    /// Listens on `ip` or on all addresses.
    pub fn open(ip: Option<IpAddr>) -> io::Result<Self> {
        let socket = match ip {
            Some(ip) => TcpListener::bind((ip, 0))?,
            // An IPv6 socket accepts IPv4, too. Kernels without IPv6 get IPv4 only.
            None => TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"))?,
        };
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            unauthenticated: Vec::new(),
        })
    }

    /// Its port.
    pub fn port(&self) -> io::Result<u16> {
        self.socket.local_addr().map(|address| address.port())
    }

    /// Accepts peers, of which `expected` are of the job; drops the oldest if there are too many.
    /// Returns those that are authenticated by now.
    pub fn accept(&mut self, secret: Secret, expected: usize) -> Vec<Caller> {
        let most = expected + MAX_UNAUTHENTICATED;
        let accepted = std::iter::from_fn(|| self.socket.accept().ok()).take(most);
        let peers = accepted.filter_map(|(stream, _)| UnauthenticatedPeer::new(stream).ok());
        self.unauthenticated.extend(peers);
        let too_many = self.unauthenticated.len().saturating_sub(most);
        self.unauthenticated.drain(..too_many);
        let mut callers = Vec::new();
        self.unauthenticated.retain_mut(|peer| match peer.authenticate(secret) {
            Authentication::Pending => true,
            Authentication::Rejected => false,
            Authentication::Accepted(caller) => {
                callers.push(caller);
                false
            }
        });
        callers
    }

    /// Adds what to wait for.
    pub fn poll_items(&self, items: &mut Vec<libc::pollfd>) {
        let peers = self.unauthenticated.iter().map(|peer| peer.stream.as_raw_fd());
        items.extend(peers.chain([self.socket.as_raw_fd()]).map(fd::readable));
    }
}

/// A connection from a peer that is not authenticated yet.
#[derive(Debug)]
struct UnauthenticatedPeer {
    stream: TcpStream,
    own: Nonce,
    input: Vec<u8>,
    until: Instant,
}

/// The state of authentication.
enum Authentication {
    /// It is not complete.
    Pending,
    /// The peer is of this job.
    Accepted(Caller),
    /// The peer is not of this job.
    Rejected,
}

impl UnauthenticatedPeer {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            own: secret::nonce(),
            input: Vec::new(),
            until: Instant::now() + AUTHENTICATION_TIMEOUT,
        })
    }

    /// Continues the authentication with what has arrived.
    fn authenticate(&mut self, secret: Secret) -> Authentication {
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
                    return Authentication::Pending
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
                let caller = secret
                    .verify(call, &self.own, proof)
                    .and_then(|id| self.caller(id).ok());
                return caller.map_or(Authentication::Rejected, Authentication::Accepted);
            }
        }
    }

    fn caller(&self, id: u32) -> io::Result<Caller> {
        let stream = self.stream.try_clone()?;
        Ok(match (id, id >> STREAM_SHIFT) {
            (WORKER_ID, _) => Caller::Worker(Link::new(stream)?),
            (_, number @ 1..=2) => Caller::Output(id & !(3 << STREAM_SHIFT), number, stream),
            _ => Caller::Agent(id, Link::new(stream)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener() -> (Listener, SocketAddr) {
        let listener = Listener::open(Some("127.0.0.1".parse().unwrap())).unwrap();
        let address = listener.socket.local_addr().unwrap();
        (listener, address)
    }

    /// The next authenticated peer; none if the next peer is rejected.
    fn meet(listener: &mut Listener, secret: Secret) -> Option<Caller> {
        let mut items = Vec::new();
        listener.poll_items(&mut items);
        fd::poll(&mut items, None).unwrap();
        loop {
            let caller = listener.accept(secret, 1).pop();
            if caller.is_some() || listener.unauthenticated.is_empty() {
                return caller;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn messages_pass_and_foreign_peers_do_not() {
        let secret = Secret::new();
        let (mut listener, address) = listener();
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
            let Some(Caller::Agent(12, mut link)) = meet(&mut listener, secret) else {
                panic!("the caller is not the agent of host 12");
            };
            link.send(&big);
            link.finish(Duration::from_secs(60));
            assert_eq!(link.wait(Duration::from_secs(60)).unwrap(), big);
            drop(link);
            call.join().unwrap();
        });
        std::thread::scope(|scope| {
            let call = scope.spawn(|| Link::call(&[address], Secret::new(), 12, CONNECT_TIMEOUT).unwrap_err());
            assert!(meet(&mut listener, secret).is_none());
            assert!(call.join().unwrap().contains("not of this job"));
        });
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n").unwrap();
        assert!(meet(&mut listener, secret).is_none());
    }

    #[test]
    fn unauthenticated_peers_are_few() {
        let (mut listener, address) = listener();
        let secret = Secret::new();
        let mut callers = Vec::new();
        for _ in 0..3 {
            callers.extend((0..MAX_UNAUTHENTICATED).map(|_| TcpStream::connect(address).unwrap()));
            listener.accept(secret, 5);
        }
        listener.accept(secret, 5);
        assert_eq!(listener.unauthenticated.len(), MAX_UNAUTHENTICATED + 5);
        // The first peer was dropped, the last one is there.
        assert_eq!(callers[0].read(&mut [0; 4]).unwrap(), 0);
        let last = callers.last().unwrap().local_addr().unwrap();
        let mut peers = listener.unauthenticated.iter();
        assert!(peers.any(|peer| peer.stream.peer_addr().unwrap() == last));
    }
}
