//! What it costs that a job is closed to strangers: the hash of payloads, the tag of headers, and what is dropped.
//!
//! `cargo bench -p gasnet-conduit-udp --bench closed`, or with a part of a row's name.

#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/clnh.rs"]
mod clnh;
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/mac.rs"]
mod mac;
mod measure;
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/wire.rs"]
mod wire;

use gasnet_conduit::conformance::Job;
use gasnet_conduit::{Class, Conduit};
use gasnet_conduit_udp::Udp;
use measure::{rate, raw, shortest, time, wanted, words, Inbox, TIME};
use siphasher::sip::SipHasher24;
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::net::UdpSocket;
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};
use wire::{Known, HEADER, SEALED};

fn main() {
    let payload = vec![5u8; 64 << 10];
    hashes(&payload);
    tags(&payload);
    datagrams(&payload);
}

fn hashes(payload: &[u8]) {
    let key = clnh::Key::new(words());
    let sip = SipHasher24::new_with_keys(1, 2);
    for bytes in [1408, 64 << 10] {
        let data = &payload[..bytes];
        let row = |what: &str, hash: &dyn Fn(&[u8]) -> u64| {
            rate(&format!("hash of {bytes}: {what}"), 100 * bytes as u32, || {
                for _ in 0..100 {
                    black_box(hash(black_box(data)));
                }
            });
        };
        row("carry-less, by instruction", &|data| key.hash(data));
        row("carry-less, portable", &|data| key.slow(data));
        row("SipHash-2-4", &|data| sip.hash(data));
    }
}

fn tags(payload: &[u8]) {
    let keys = mac::Keys::new(1, b"random");
    let mut header = [3; HEADER];
    let known = |number| Known {
        target: 1,
        number,
        next: [0; 2],
    };
    time("seal a header", 1000, || {
        for number in 0..1000 {
            keys.seal(black_box(&mut header), &known(number), (8, 7));
        }
    });
    for bytes in [0, 8, 1408, 65_408] {
        let data = &payload[..bytes];
        keys.seal(&mut header, &known(5), (bytes, keys.hash(data)));
        time(&format!("check a header and {bytes}"), 100, || {
            for _ in 0..100 {
                assert!(keys.proves(black_box(&header), &known(5), data));
            }
        });
    }
}

/// Two processes, and the second one's socket.
struct Ends<'a> {
    here: &'a dyn Conduit,
    near: Inbox<'a>,
    far: Inbox<'a>,
    socket: ManuallyDrop<UdpSocket>,
    /// Messages that the first one has taken.
    said: usize,
}

impl Ends<'_> {
    /// A message to the second one, if there is room for it.
    fn say(&mut self, message: &[u8]) -> bool {
        let taken = self.here.send(1, Class::Request, &[message]).is_ok();
        self.said += usize::from(taken);
        taken
    }

    /// Lets the second process read what its socket has, until all messages have come; how long that takes.
    fn drain(&mut self) -> Duration {
        let began = Instant::now();
        while self.far.packets < self.said && began.elapsed() < TIME {
            self.far.poll();
        }
        let took = began.elapsed();
        // And all acknowledgements come.
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(500) {
            self.near.poll();
            self.far.poll();
        }
        took
    }
}

/// What a datagram costs its receiver, its share of the system call included.
fn datagrams(payload: &[u8]) {
    let job = Job::start(&|| Box::new(Udp::new()), 2);
    let (here, there) = (job.of(0), job.of(1));
    let fd = there.wake_fd().expect("a socket");
    // SAFETY: the descriptor is the conduit's, which outlives this and closes it.
    let socket = ManuallyDrop::new(unsafe { UdpSocket::from_raw_fd(fd) });
    let address = socket.local_addr().expect("an address");
    let (near, far) = (Inbox::new(here), Inbox::new(there));
    let mut ends = Ends {
        here,
        near,
        far,
        socket,
        said: 0,
    };
    let [stranger, _] = &raw();
    for (bytes, count) in [(8, 200), (1344, 100)] {
        let message = &payload[..bytes];
        assert!(ends.say(message));
        let mut real = vec![0; HEADER + bytes];
        assert_eq!(ends.socket.peek(&mut real).expect("a datagram"), real.len());
        ends.drain();
        let changed = |at: usize| {
            let mut changed = real.clone();
            changed[at] ^= 1;
            changed
        };
        for (what, forged) in [
            ("a real one", None),
            ("a forged header", Some(changed(SEALED))),
            ("a forged payload", Some(changed(HEADER - 1))),
            ("one of another job", Some(changed(0))),
        ] {
            let row = format!("a datagram with {bytes}: {what}");
            if !wanted(&row) {
                continue;
            }
            let each = shortest(count, || {
                let went = (1..count).all(|_| match &forged {
                    None => ends.say(message),
                    Some(forged) => stranger.send_to(forged, address).is_ok(),
                });
                // The last one is real, so that it is known when all have been read. A round in which the window was full says nothing.
                let went = went && ends.say(message);
                let took = ends.drain();
                if went {
                    took
                } else {
                    Duration::MAX
                }
            });
            println!("{row:<40} {each:>9.0} ns");
        }
    }
    job.stop();
}
