//! The listening socket of an agent, or of the launcher process, for the agents and workers of the
//! job. Any process that reaches the port can connect.
//!
//! - Connections of unauthenticated peers are bounded. They do not delay each other, and each is
//!   read before any is closed.
//! - Too many: the oldest are closed first, but those whose first message has a right voucher last.
//! - The acknowledgement ends the handshake. A caller whose connection was closed before lacks it,
//!   and calls again.
#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::link::{Link, OutputLink, STREAM_SHIFT};
use super::secret::{self, Nonce, Seals, Secret, ANSWER_BYTES, CALL_BYTES, MAC_BYTES, PROOF_BYTES};
use gasnet_sys::{fd, net};

/// Limit for a peer to authenticate itself.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Most unauthenticated peers beyond those that are expected, so that they cannot use up all
/// descriptors.
pub const MAX_UNAUTHENTICATED: usize = 64;

/// An authenticated peer of a listening socket.
#[derive(Debug)]
pub enum Caller {
    /// The agent of this host, by its number or first rank; a worker, by
    /// [`super::link::WORKER_ID`].
    Agent(u32, Link),
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
        net::lengthen_queue(&socket)?;
        Ok(Self {
            socket,
            unauthenticated: Vec::new(),
        })
    }

    /// The address of this host that it is limited to; unspecified if it is not limited.
    #[cfg(test)]
    pub fn ip(&self) -> io::Result<IpAddr> {
        self.socket.local_addr().map(|address| address.ip())
    }

    pub fn port(&self) -> io::Result<u16> {
        self.socket.local_addr().map(|address| address.port())
    }

    /// Accepts peers, of which `expected` are of the job. Reads what has arrived, then closes
    /// connections if there are too many. Returns the peers that are authenticated by now.
    pub fn accept(&mut self, secret: Secret, expected: usize) -> Vec<Caller> {
        let accepted = std::iter::from_fn(|| self.socket.accept().ok()).take(MAX_UNAUTHENTICATED);
        let peers = accepted.filter_map(|(stream, _)| UnauthenticatedPeer::new(stream).ok());
        self.unauthenticated.extend(peers);
        let mut callers = Vec::new();
        self.unauthenticated.retain_mut(|peer| match peer.authenticate(secret) {
            Ok(None) => true,
            Ok(Some(caller)) => {
                callers.push(caller);
                false
            }
            Err(_) => false,
        });
        self.close_excess(expected + MAX_UNAUTHENTICATED);
        callers
    }

    /// Closes the oldest connections beyond `most`, those with a voucher last.
    fn close_excess(&mut self, most: usize) {
        let mut excess = self.unauthenticated.len().saturating_sub(most);
        for with_voucher in [false, true] {
            self.unauthenticated.retain(|peer| {
                let is_closed = excess > 0 && peer.has_voucher == with_voucher;
                excess -= usize::from(is_closed);
                !is_closed
            });
        }
    }

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
    /// Whether its first message has come, with a right voucher.
    has_voucher: bool,
    until: Instant,
}

impl UnauthenticatedPeer {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            own: secret::nonce(),
            input: Vec::new(),
            has_voucher: false,
            until: Instant::now() + AUTHENTICATION_TIMEOUT,
        })
    }

    /// Continues the authentication with what has arrived. None if it is not complete; an error if
    /// the peer is not of this job.
    fn authenticate(&mut self, secret: Secret) -> io::Result<Option<Caller>> {
        const FIRST: usize = CALL_BYTES + MAC_BYTES;
        const WHOLE: usize = FIRST + PROOF_BYTES;
        let rejected = || io::Error::from(io::ErrorKind::PermissionDenied);
        loop {
            let wanted = if self.input.len() < FIRST { FIRST } else { WHOLE };
            let mut buffer = [0; WHOLE];
            match self.stream.read(&mut buffer[..wanted - self.input.len()]) {
                Ok(n) if n > 0 => self.input.extend(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < self.until => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                _ => return Err(rejected()),
            }
            if !secret::may_be_call(&self.input) {
                return Err(rejected());
            }
            let (call, rest) = self.input.split_at(CALL_BYTES.min(self.input.len()));
            if self.input.len() == FIRST {
                // A caller of another job gets an answer, too: it notices whom it has called.
                self.has_voucher = rest == secret.voucher(call);
                // Few bytes on a new connection: they fit, or the connection is useless.
                let answer = secret.answer(call, &self.own).ok_or_else(rejected)?;
                if self.stream.write(&answer)? != ANSWER_BYTES {
                    return Err(rejected());
                }
            } else if self.input.len() == WHOLE {
                let verified = secret.verify(call, &self.own, &rest[MAC_BYTES..]);
                let (id, seals) = verified.ok_or_else(rejected)?;
                return self.caller(id, seals).map(Some);
            }
        }
    }

    /// The authenticated peer. Acknowledges at the end, when nothing can fail any more.
    fn caller(&self, id: u32, mut seals: Seals) -> io::Result<Caller> {
        let stream = self.stream.try_clone()?;
        let acknowledgement = seals.sent.mac(&[]);
        let caller = match id >> STREAM_SHIFT {
            number @ 1..=2 => Caller::Output(id & !(3 << STREAM_SHIFT), number, OutputLink::new(stream, seals)),
            _ => Caller::Agent(id, Link::new(stream, seals)?),
        };
        let count = (&self.stream).write(&acknowledgement)?;
        (count == MAC_BYTES)
            .then_some(caller)
            .ok_or_else(|| io::ErrorKind::WriteZero.into())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::frames;
    use super::super::link::call_one;
    use super::super::message::AgentMessage;
    use super::*;
    use std::net::SocketAddr;

    const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

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
        (&*sender.stream().upgrade().unwrap())
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

    /// More silent connections than the listener keeps, after which it has accepted all.
    fn flood(listener: &mut Listener, address: SocketAddr, secret: Secret) -> Vec<Caller> {
        let mut callers = Vec::new();
        let mut silent = Vec::new();
        for _ in 0..3 {
            silent.extend((0..MAX_UNAUTHENTICATED).map(|_| TcpStream::connect(address).unwrap()));
            callers.extend(listener.accept(secret, 1));
        }
        callers.extend(listener.accept(secret, 1));
        callers
    }

    #[test]
    fn silent_peers_displace_no_caller() {
        let (mut listener, address) = listener();
        let (secret, own) = (Secret::new(), secret::nonce());
        let mut stream = TcpStream::connect(address).unwrap();
        let call = secret::call(&own);
        stream.write_all(&[&call[..], &secret.voucher(&call)].concat()).unwrap();
        assert!(flood(&mut listener, address, secret).is_empty());
        let mut answer = [0; ANSWER_BYTES];
        stream.read_exact(&mut answer).unwrap();
        assert!(flood(&mut listener, address, secret).is_empty());
        let (proof, mut seals) = secret.prove(&own, &answer, 12).unwrap();
        stream.write_all(&proof).unwrap();
        let callers = flood(&mut listener, address, secret);
        assert!(matches!(callers[..], [Caller::Agent(12, _)]), "{callers:?}");
        let mut acknowledgement = [0; MAC_BYTES];
        stream.read_exact(&mut acknowledgement).unwrap();
        assert_eq!(acknowledgement, seals.received.mac(&[]));
    }

    /// The oldest connection is of a caller whose first message arrives beside too many others.
    #[test]
    fn connections_are_read_before_any_is_closed() {
        let (mut listener, address) = listener();
        let secret = Secret::new();
        let mut stream = TcpStream::connect(address).unwrap();
        let mut silent = Vec::new();
        let mut accept_more = || {
            silent.extend((0..MAX_UNAUTHENTICATED).map(|_| TcpStream::connect(address).unwrap()));
            assert!(listener.accept(secret, 1).is_empty());
        };
        accept_more();
        let call = secret::call(&secret::nonce());
        stream.write_all(&[&call[..], &secret.voucher(&call)].concat()).unwrap();
        accept_more();
        accept_more();
        stream.read_exact(&mut [0; ANSWER_BYTES]).unwrap();
    }

    #[test]
    fn a_caller_that_was_not_acknowledged_calls_again() {
        let (mut listener, address) = listener();
        let secret = Secret::new();
        std::thread::scope(|scope| {
            let call = scope.spawn(|| Link::call(&[address], secret, 12, CONNECT_TIMEOUT).unwrap());
            for is_answered in [false, true, false, true] {
                fd::poll(&mut [fd::readable(listener.socket.as_raw_fd())], Some(CONNECT_TIMEOUT)).unwrap();
                let (mut stream, _) = listener.socket.accept().unwrap();
                if is_answered {
                    let mut first = [0; CALL_BYTES + MAC_BYTES];
                    stream.read_exact(&mut first).unwrap();
                    let answer = secret.answer(&first[..CALL_BYTES], &secret::nonce()).unwrap();
                    stream.write_all(&answer).unwrap();
                    stream.read_exact(&mut [0; PROOF_BYTES]).unwrap();
                }
            }
            let Some(Caller::Agent(12, mut link)) = meet(&mut listener, secret) else {
                panic!("the caller is not the agent of host 12");
            };
            let mut other = call.join().unwrap();
            other.send(&AgentMessage::Fence {});
            assert_eq!(link.wait(CONNECT_TIMEOUT).unwrap(), AgentMessage::Fence {});
        });
    }

    #[test]
    fn a_flood_delays_callers_only() {
        const HOSTS: u32 = 4;
        let (mut listener, address) = listener();
        let secret = Secret::new();
        // A first message of this job that was seen on its way.
        let seen = secret::call(&secret::nonce());
        let seen = [&seen[..], &secret.voucher(&seen)].concat();
        std::thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let mut kept = std::collections::VecDeque::new();
                for number in 0..3000 {
                    let mut stream = TcpStream::connect(address).unwrap();
                    let _ = stream.write(&seen[..number % 3 * 20]);
                    kept.push_back(stream);
                    kept.drain(..kept.len().saturating_sub(200));
                }
            });
            let call = |host| Link::call(&[address], secret, host, CONNECT_TIMEOUT).unwrap();
            let calls: Vec<_> = (0..HOSTS).map(|host| scope.spawn(move || call(host))).collect();
            let mut called: Vec<(u32, Link)> = Vec::new();
            while called.len() < HOSTS as usize || !flood.is_finished() {
                let mut items = Vec::new();
                listener.poll_items(&mut items);
                fd::poll(&mut items, Some(Duration::from_millis(10))).unwrap();
                for caller in listener.accept(secret, HOSTS as usize) {
                    let Caller::Agent(host, link) = caller else {
                        panic!("{caller:?}")
                    };
                    called.push((host, link));
                }
            }
            for call in calls {
                call.join().unwrap().send(&AgentMessage::Fence {});
            }
            called.sort_by_key(|(host, _)| *host);
            for (number, (host, link)) in (0..HOSTS).zip(&mut called) {
                assert_eq!(
                    (*host, link.wait(CONNECT_TIMEOUT)),
                    (number, Ok(AgentMessage::Fence {}))
                );
            }
        });
    }
}
