//! Connections between the agents of hosts: authenticated first, then frames with MACs. Messages
//! are non-blocking; connections for output are not.
#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::frames::{self, Frames};
use super::message::AgentMessage;
use super::secret::{self, Seal, Seals, Secret, ANSWER_BYTES, MAC_BYTES};
use gasnet_sys::{fd, net};

/// Limit of a connection attempt to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often all addresses are tried if connection attempts time out.
const ROUNDS: u32 = 3;
/// Pause of a caller whose connection was closed before the acknowledgement: it grows by this each
/// time, up to the limit.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The id of a worker of a custom spawner, which is no agent, in its connection to the launcher
/// process.
pub const WORKER_ID: u32 = u32::MAX;
/// The id of a connection for output has the stream, 1 or 2, above these bits, and the host or
/// first rank below.
pub(super) const STREAM_SHIFT: u32 = 30;

#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    sent: Seal,
    input: Frames,
    output: Vec<u8>,
    /// Why it is unusable, if it is.
    pub broken: Option<String>,
}

/// Connects to one of `addresses`. Calls again until `limit` while the listener closes connections,
/// because other processes may call at the same time.
fn call_any(addresses: &[SocketAddr], secret: Secret, id: u32, limit: Duration) -> Result<(TcpStream, Seals), String> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof};
    let start = Instant::now();
    let mut rounds = 0;
    loop {
        rounds += 1;
        let mut failures = Vec::new();
        let (mut was_closed, mut has_timed_out) = (false, false);
        for address in addresses {
            match call_one(*address, secret, id, limit) {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    was_closed |= matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof);
                    has_timed_out |= error.kind() == TimedOut;
                    failures.push(format!("{address}: {error}"));
                }
            }
        }
        if was_closed && start.elapsed() < limit {
            std::thread::sleep((PAUSE * rounds).min(PAUSE_MAX));
        } else if !has_timed_out || rounds >= ROUNDS {
            return Err(failures.join("; "));
        }
    }
}

/// Connects to one address. Once the listener has acknowledged, it keeps the connection.
pub(super) fn call_one(
    address: SocketAddr,
    secret: Secret,
    id: u32,
    limit: Duration,
) -> io::Result<(TcpStream, Seals)> {
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let own = secret::nonce();
    let call = secret::call(&own);
    stream.write_all(&[&call[..], &secret.voucher(&call)].concat())?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer)?;
    let foreign = || io::Error::other("the process at that address is not of this job");
    let (proof, mut seals) = secret.prove(&own, &answer, id).ok_or_else(foreign)?;
    stream.write_all(&proof)?;
    let mut acknowledgement = [0; MAC_BYTES];
    stream.read_exact(&mut acknowledgement)?;
    if acknowledgement != seals.received.mac(&[]) {
        return Err(foreign());
    }
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok((stream, seals))
}

impl Link {
    pub(super) fn new(stream: TcpStream, seals: Seals) -> io::Result<Self> {
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

    /// The events to wait for. poll ignores the negative descriptor of a broken connection.
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

    /// Sends a message, or queues it until the socket has room.
    pub fn send(&mut self, message: &AgentMessage) {
        self.output.extend(frames::seal(&mut self.sent, &message.encode()));
        self.push();
    }

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
            if let Some(why) = &self.broken {
                return Err(why.clone());
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
    pub(super) fn new(stream: TcpStream, seals: Seals) -> Self {
        Self {
            stream: Arc::new(stream),
            sent: seals.sent,
            input: Frames::new(seals.received),
        }
    }

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
