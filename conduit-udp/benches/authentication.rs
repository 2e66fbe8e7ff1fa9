//! Cost of authentication: the hash of payloads, the MAC of headers, and datagrams that are
//! dropped.
//!
//! `cargo bench -p gasnet-conduit-udp --bench authentication`, or with a part of a row's name.

#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/clnh.rs"]
mod clnh;
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/mac.rs"]
mod mac;
mod measure;
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/per_class.rs"]
mod per_class;
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../src/wire.rs"]
mod wire;

use gasnet_conduit::conformance::Job;
use gasnet_conduit::{Class, JobRank, Network};
use gasnet_conduit_udp::Udp;
use mac::PayloadDigest;
use measure::{rate, raw, selected, shortest, time, words, Inbox, TIME};
use per_class::PerClass;
use siphasher::sip::SipHasher24;
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::net::UdpSocket;
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};
use wire::{ImplicitFields, HEADER_BYTES, MAC_OFFSET};

fn main() {
    let payload = vec![5u8; 64 << 10];
    hashes(&payload);
    macs(&payload);
    datagrams(&payload);
}

fn hashes(payload: &[u8]) {
    let key = clnh::ClnhKey::new(words());
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
        row("carry-less, portable", &|data| key.hash_portable(data));
        row("SipHash-2-4", &|data| sip.hash(data));
    }
}

fn macs(payload: &[u8]) {
    let keys = mac::Keys::new(1, b"random");
    let mut header = [3; HEADER_BYTES];
    let implicit = |number| ImplicitFields {
        target: JobRank(1),
        number,
        next: PerClass::default(),
    };
    time("seal a header", 1000, || {
        for number in 0..1000 {
            keys.seal(
                black_box(&mut header),
                &implicit(number),
                PayloadDigest { bytes: 8, hash: 7 },
            );
        }
    });
    for bytes in [0, 8, 1408, 65_408] {
        let data = &payload[..bytes];
        keys.seal(&mut header, &implicit(5), keys.digest(data));
        time(&format!("check a header and {bytes}"), 100, || {
            for _ in 0..100 {
                assert!(keys.verify(black_box(&header), &implicit(5), data));
            }
        });
    }
}

/// Two processes, and the second one's socket.
struct Ends<'a> {
    network: &'a dyn Network,
    local: Inbox<'a>,
    remote: Inbox<'a>,
    socket: ManuallyDrop<UdpSocket>,
    /// Messages that the first process has accepted.
    sent: usize,
}

impl Ends<'_> {
    /// Sends a message to the second process, if there is room for it.
    fn send(&mut self, message: &[u8]) -> bool {
        let taken = self.network.send(JobRank(1), Class::Request, &[message]).is_ok();
        self.sent += usize::from(taken);
        taken
    }

    /// Polls the second process until it has received all messages. Returns the time.
    fn drain(&mut self) -> Duration {
        let began = Instant::now();
        while self.remote.packets < self.sent && began.elapsed() < TIME {
            self.remote.poll();
        }
        let took = began.elapsed();
        // Until all acknowledgements have arrived.
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(500) {
            self.local.poll();
            self.remote.poll();
        }
        took
    }
}

/// Cost of a datagram for its receiver, including its share of the system call.
fn datagrams(payload: &[u8]) {
    let job = Job::start(&|| Box::new(Udp), 2);
    let (network, remote_conduit) = (job.of(0), job.of(1));
    let fd = remote_conduit.abilities().wake.expect("a socket").fd();
    // SAFETY: the descriptor is the conduit's, which outlives this and closes it.
    let socket = ManuallyDrop::new(unsafe { UdpSocket::from_raw_fd(fd) });
    let address = socket.local_addr().expect("an address");
    let (local, remote) = (Inbox::new(network), Inbox::new(remote_conduit));
    let mut ends = Ends {
        network,
        local,
        remote,
        socket,
        sent: 0,
    };
    let [outsider, _] = &raw();
    for (bytes, count) in [(8, 200), (1344, 100)] {
        let message = &payload[..bytes];
        assert!(ends.send(message));
        let mut real = vec![0; HEADER_BYTES + bytes];
        assert_eq!(ends.socket.peek(&mut real).expect("a datagram"), real.len());
        ends.drain();
        let changed = |at: usize| {
            let mut changed = real.clone();
            changed[at] ^= 1;
            changed
        };
        for (what, forged) in [
            ("a real one", None),
            ("a forged header", Some(changed(MAC_OFFSET))),
            ("a forged payload", Some(changed(HEADER_BYTES - 1))),
            ("one of another job", Some(changed(0))),
        ] {
            let row = format!("a datagram with {bytes}: {what}");
            if !selected(&row) {
                continue;
            }
            let each = shortest(count, || {
                let went = (1..count).all(|_| match &forged {
                    None => ends.send(message),
                    Some(forged) => outsider.send_to(forged, address).is_ok(),
                });
                // The last datagram is a real one, which shows that all were received. A round in
                // which the window was full does not count.
                let went = went && ends.send(message);
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
