//! Shared parts of the benchmarks: rows, and the two ends of a job of two.

use gasnet_conduit::{Class, Completion, Cookie, JobRank, Network, PollScope, Upcalls};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Duration of each row.
pub const TIME: Duration = Duration::from_millis(1500);

static ANSWER: [u8; 64 << 10] = [5; 64 << 10];

/// Counts of received packets and completions.
pub struct Inbox<'a> {
    network: &'a dyn Network,
    /// Answers each request with a reply of this number of bytes.
    pub answer: Option<usize>,
    pub packets: usize,
    pub done: usize,
}

impl<'a> Inbox<'a> {
    pub fn new(network: &'a dyn Network) -> Self {
        Self {
            network,
            answer: None,
            packets: 0,
            done: 0,
        }
    }

    pub fn poll(&mut self) {
        self.network.poll(PollScope::All, self);
    }
}

impl Upcalls for Inbox<'_> {
    fn packet(&mut self, source: JobRank, class: Class, _packet: &mut [u8]) {
        self.packets += 1;
        if let (Some(bytes), Class::Request) = (self.answer, class) {
            self.network
                .send(source, Class::Reply, &[&ANSWER[..bytes]])
                .expect("room for a reply");
        }
    }
    fn done(&mut self, _: Cookie, _: Completion) {
        self.done += 1;
    }
    fn peer_lost(&mut self, _peer: JobRank, why: &str) {
        panic!("{why}");
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

/// The shortest time of a round, as it reports itself, divided by its operations, in nanoseconds.
pub fn shortest(per_round: u32, mut round: impl FnMut() -> Duration) -> f64 {
    let (began, mut best) = (Instant::now(), Duration::MAX);
    while began.elapsed() < TIME {
        best = best.min(round());
    }
    1e9 * best.as_secs_f64() / f64::from(per_round)
}

/// The shortest time of a round, divided by its operations, in nanoseconds.
pub fn best(per_round: u32, mut round: impl FnMut()) -> f64 {
    shortest(per_round, || {
        let began = Instant::now();
        round();
        began.elapsed()
    })
}

pub fn time(row: &str, per_round: u32, round: impl FnMut()) {
    if selected(row) {
        println!("{row:<40} {:>9.0} ns", best(per_round, round));
    }
}

pub fn rate(row: &str, bytes: u32, round: impl FnMut()) {
    if selected(row) {
        println!("{row:<40} {:>9.2} GB/s", 1.0 / best(bytes, round));
    }
}

pub fn selected(row: &str) -> bool {
    let mut parts = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
    parts.peek().is_none() || parts.any(|part| row.contains(&part))
}

/// Pseudo-random words.
pub fn words() -> impl FnMut() -> u64 {
    let mut word = 1u64;
    move || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        word ^ word >> 31
    }
}

/// Two plain sockets with the buffers that the conduit requests.
pub fn raw() -> [UdpSocket; 2] {
    let sockets = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    for socket in &sockets {
        socket.set_nonblocking(true).expect("non-blocking");
        for name in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
            set(socket, libc::SOL_SOCKET, name, 8 << 20);
        }
    }
    sockets
}

fn set(socket: &UdpSocket, level: i32, name: i32, value: i32) {
    // SAFETY: the value is live and of the length given.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), 4) };
    assert_eq!(result, 0);
}
