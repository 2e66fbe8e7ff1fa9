//! Connections between the agents of hosts: authenticated first, then frames with MACs. Messages
//! are non-blocking; connections for output are not.
#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::frames::{self, Frames};
use super::message::AgentMessage;
use super::secret::{self, Nonce, Seal, Seals, Secret, ANSWER_BYTES, CALL_BYTES, PROOF_BYTES};
use gasnet_sys::{fd, net};

/// Limit of a connection attempt to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often all addresses are tried if one of them timed out or dropped the connection.
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
    sent: Seal,
    input: Frames,
    output: Vec<u8>,
    /// Why it is unusable.
    broken: Option<String>,
}

fn call_any(addresses: &[SocketAddr], secret: Secret, id: u32, limit: Duration) -> Result<(TcpStream, Seals), String> {
    let mut rounds = 0;
    loop {
        rounds += 1;
        let mut failures = Vec::new();
        let mut again = false;
        for address in addresses {
            match call_one(*address, secret, id, limit) {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    // Too many hosts, or processes that are not of the job, may connect at the same
                    // time.
                    use io::ErrorKind::{ConnectionReset, TimedOut, UnexpectedEof};
                    again |= matches!(error.kind(), ConnectionReset | TimedOut | UnexpectedEof);
                    failures.push(format!("{address}: {error}"));
                }
            }
        }
        if !again || rounds == ROUNDS {
            return Err(failures.join("; "));
        }
    }
}

fn call_one(address: SocketAddr, secret: Secret, id: u32, limit: Duration) -> io::Result<(TcpStream, Seals)> {
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let own = secret::nonce();
    stream.write_all(&secret::call(&own))?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer)?;
    let foreign = || io::Error::other("the process at that address is not of this job");
    let (proof, seals) = secret.prove(&own, &answer, id).ok_or_else(foreign)?;
    stream.write_all(&proof)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok((stream, seals))
}

impl Link {
    fn new(stream: TcpStream, seals: Seals) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        net::notice_silence(&stream)?;
        Ok(Self {
            stream,
            sent: seals.sent,
            input: Frames::new(seals.received),
            output: Vec::new(),
            broken: None,
        })
    }

    /// Connects to the agent that listens at one of `addresses`, as the agent of `host`. Waits up
    /// to `limit` for an agent that is busy. The error names every address.
    pub fn call(addresses: &[SocketAddr], secret: Secret, host: u32, limit: Duration) -> Result<Self, String> {
        let (stream, seals) = call_any(addresses, secret, host, limit)?;
        Self::new(stream, seals).map_err(|e| e.to_string())
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
        self.output.extend(frames::seal(&mut self.sent, &message.encode()));
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
            let message = self.input.next().and_then(|frame| {
                let decode = |frame: Vec<u8>| AgentMessage::decode(&frame).ok_or("a message is malformed");
                frame.map(decode).transpose()
            });
            match message {
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

/// The connections to the agent above.
#[derive(Debug)]
pub struct Up {
    /// For messages.
    pub link: Link,
    /// For standard output and error, if output is routed. They have no limit for silence, because
    /// a reader may stall.
    pub outputs: Option<[OutputLink; 2]>,
}

impl Up {
    /// Connects to the agent that listens at one of `addresses`, as [`Link::call`] does.
    pub fn call(
        addresses: &[SocketAddr],
        secret: Secret,
        host: u32,
        routed: bool,
        limit: Duration,
    ) -> Result<Self, String> {
        let link = Link::call(addresses, secret, host, limit)?;
        let to = [link.stream.peer_addr().map_err(|e| e.to_string())?];
        let call = |number: u32| {
            let (stream, seals) = call_any(&to, secret, number << STREAM_SHIFT | host, limit)?;
            Ok::<_, String>(OutputLink::new(stream, seals))
        };
        let outputs = routed.then(|| Ok::<_, String>([call(1)?, call(2)?])).transpose()?;
        Ok(Self { link, outputs })
    }
}

/// A connection for one stream of a host's output, in frames of its own.
#[derive(Debug)]
pub struct OutputLink {
    stream: Arc<TcpStream>,
    sent: Seal,
    input: Frames,
}

impl OutputLink {
    fn new(stream: TcpStream, seals: Seals) -> Self {
        Self {
            stream: Arc::new(stream),
            sent: seals.sent,
            input: Frames::new(seals.received),
        }
    }

    /// The descriptor, for poll.
    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// A way to end the connection.
    pub fn stream(&self) -> Weak<TcpStream> {
        Arc::downgrade(&self.stream)
    }

    /// Writes a piece of output. Blocks until it fits.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let mut frame = (piece.len() as u32).to_le_bytes().to_vec();
        frame.extend(piece);
        fd::write_all(self.stream.as_raw_fd(), &frames::seal(&mut self.sent, &frame))
    }

    /// Reads once. Returns what has arrived, or nothing at the end; [`io::ErrorKind::WouldBlock`]
    /// while there is no whole piece, [`io::ErrorKind::InvalidData`] if a piece is not of the peer.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut buffer = [0; 16 << 10];
        let count = fd::read(self.fd(), &mut buffer)?;
        self.input.extend(&buffer[..count]);
        let mut output = Vec::new();
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        while let Some(frame) = self.input.next().map_err(invalid)? {
            output.extend(&frame[4..]);
        }
        if count > 0 && output.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(output)
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
    Output(u32, u32, OutputLink),
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
                    .and_then(|(id, seals)| self.caller(id, seals).ok());
                return caller.map_or(Authentication::Rejected, Authentication::Accepted);
            }
        }
    }

    fn caller(&self, id: u32, seals: Seals) -> io::Result<Caller> {
        let stream = self.stream.try_clone()?;
        Ok(match (id, id >> STREAM_SHIFT) {
            (WORKER_ID, _) => Caller::Worker(Link::new(stream, seals)?),
            (_, number @ 1..=2) => Caller::Output(id & !(3 << STREAM_SHIFT), number, OutputLink::new(stream, seals)),
            _ => Caller::Agent(id, Link::new(stream, seals)?),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
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

    /// Both ends of a connection with this id.
    fn connection<T>(id: u32, called: impl Fn(Caller) -> Option<T>) -> (TcpStream, Seals, T) {
        let secret = Secret::new();
        let (mut listener, address) = listener();
        std::thread::scope(|scope| {
            let call = scope.spawn(|| call_one(address, secret, id, CONNECT_TIMEOUT).unwrap());
            let called = meet(&mut listener, secret).and_then(called).unwrap();
            let (stream, seals) = call.join().unwrap();
            (stream, seals, called)
        })
    }

    #[test]
    fn a_forged_frame_ends_the_connection() {
        let frame = AgentMessage::Signal { number: 15 }.encode();
        for is_repeated in [false, true] {
            let (mut stream, mut seals, mut link) = connection(3, |caller| match caller {
                Caller::Agent(3, link) => Some(link),
                _ => None,
            });
            let sealed = frames::seal(&mut seals.sent, &frame);
            stream.write_all(&sealed).unwrap();
            assert!(link.wait(Duration::from_secs(60)).is_ok());
            let mut forged = frames::seal(&mut seals.sent, &frame);
            *forged.last_mut().unwrap() ^= 1;
            stream.write_all(if is_repeated { &sealed } else { &forged }).unwrap();
            let refused = link.wait(Duration::from_secs(60)).unwrap_err();
            assert!(refused.contains("wrong MAC"), "{refused}");
        }
    }

    #[test]
    fn a_forged_length_ends_the_connection_at_once() {
        let (mut stream, mut seals, mut link) = connection(3, |caller| match caller {
            Caller::Agent(3, link) => Some(link),
            _ => None,
        });
        let mut forged = frames::seal(&mut seals.sent, &AgentMessage::Fence {}.encode());
        forged[3] = 0x3f;
        stream.write_all(&forged).unwrap();
        let refused = link.wait(Duration::from_secs(60)).unwrap_err();
        assert!(refused.contains("wrong MAC"), "{refused}");
    }

    /// Both ends of a connection for output. The first one blocks.
    pub fn output_connection() -> (OutputLink, OutputLink) {
        let (stream, seals, called) = connection(1 << STREAM_SHIFT, |caller| match caller {
            Caller::Output(0, 1, output) => Some(output),
            _ => None,
        });
        (OutputLink::new(stream, seals), called)
    }

    #[test]
    fn forged_output_ends_the_connection() {
        let (mut sender, mut output) = output_connection();
        let mut read = || loop {
            match output.read() {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                other => break other,
            }
        };
        sender.write(b"line\n").unwrap();
        assert_eq!(read().unwrap(), b"line\n");
        (&*sender.stream)
            .write_all(b"\x05\0\0\0line\n0123456789abcdef")
            .unwrap();
        assert_eq!(read().unwrap_err().kind(), io::ErrorKind::InvalidData);
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
