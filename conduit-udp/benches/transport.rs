//! Cost of the transport, beside raw datagrams. One thread plays both ranks in turn. A figure is
//! therefore the processor time of both ends together, and does not depend on other load; each is
//! the best of many short rounds.
//!
//! `cargo bench -p gasnet-conduit-udp`, or with a part of a row's name.

#[allow(dead_code, unreachable_pub)]
#[path = "../src/clnh.rs"]
mod clnh;

mod measure;

use gasnet_conduit::conformance::{self, Job};
use gasnet_conduit::{Class, Cookie, JobRank, Network, SegmentMemory, SourceUse};
use gasnet_conduit_udp::Udp;
use measure::{rate, raw, time, words, Inbox};
use std::hint::black_box;

/// Bytes of a long datagram.
const CHUNK: usize = 65_408;

fn main() {
    let [a, b] = &raw();
    let [at_a, at_b] = [a, b].map(|socket| socket.local_addr().expect("an address"));
    let mut buffer = vec![0u8; 1 << 17];
    for bytes in [8, 1024, 8192] {
        time(&format!("round trip {bytes}: raw"), 100, || {
            for _ in 0..100 {
                for (from, to, address) in [(a, b, at_b), (b, a, at_a)] {
                    from.send_to(&buffer[..bytes + 64], address).expect("sent");
                    to.recv_from(&mut buffer).expect("received");
                }
            }
        });
    }
    let key = clnh::ClnhKey::new(words());
    let (memory, mut remote_conduit) = (vec![1u8; 1 << 20], vec![0u8; 1 << 20]);
    // Each part to its own destination, as for a put, or all to the same one, which stays in a
    // cache.
    for (row, mac, apart) in [
        ("stream: raw", false, false),
        ("stream: raw with the MAC hash", true, false),
        ("stream: raw with the MAC hash, parts apart", true, true),
    ] {
        rate(row, 1 << 20, || {
            for (i, chunk) in memory.chunks(CHUNK).enumerate() {
                if mac {
                    black_box(key.hash(chunk));
                }
                a.send_to(chunk, at_b).expect("sent");
                let to = &mut remote_conduit[if apart { i * CHUNK } else { 0 }..][..chunk.len()];
                b.recv(to).expect("received");
                if mac {
                    black_box(key.hash(to));
                }
            }
        });
    }
    network();
}

fn network() {
    let job = Job::start(&|| Box::new(Udp), 2);
    let (network, remote_conduit) = (job.of(0), job.of(1));
    let (mut local, mut remote) = (Inbox::new(network), Inbox::new(remote_conduit));
    let message = vec![3u8; 64 << 10];
    for bytes in [8, 1024, 8192] {
        remote.answer = Some(bytes);
        time(&format!("round trip {bytes}: conduit"), 100, || {
            for _ in 0..100 {
                let before = local.packets;
                network
                    .send(JobRank(1), Class::Request, &[&message[..bytes]])
                    .expect("room");
                while local.packets == before {
                    remote.poll();
                    local.poll();
                }
            }
        });
    }
    remote.answer = None;
    // Like the requests of a client: the sender polls after each, the receiver now and then.
    time("flood of 8: conduit", 1000, || {
        let before = remote.packets;
        for i in 0..1000 {
            while network.send(JobRank(1), Class::Request, &[&message[..8]]).is_err() {
                local.poll();
                remote.poll();
            }
            local.poll();
            if i % 32 == 31 {
                remote.poll();
            }
        }
        while remote.packets < before + 1000 {
            local.poll();
            remote.poll();
        }
    });
    rate("messages of 64 KiB: conduit", 10 << 16, || {
        let before = remote.packets;
        for _ in 0..10 {
            while network.send(JobRank(1), Class::Request, &[&message]).is_err() {
                remote.poll();
                local.poll();
            }
        }
        while remote.packets < before + 10 {
            remote.poll();
            local.poll();
        }
    });
    rma(network, remote_conduit, &mut local, &mut remote);
    job.stop();
}

fn rma(network: &dyn Network, remote_conduit: &dyn Network, local: &mut Inbox<'_>, remote: &mut Inbox<'_>) {
    let mut own = vec![7u8; 1 << 20];
    let mut segment = vec![0u8; 1 << 20];
    let memory = SegmentMemory::host(segment.as_mut_ptr() as usize, segment.len());
    let target = conformance::expose((JobRank(1), remote_conduit), &memory, &[network]).1[0];
    let cookie = Cookie::new(1);
    let mut start = |put, bytes| {
        let own = &mut own[..bytes];
        if put {
            conformance::put(network, target, own, SourceUse::Later, cookie).expect("room");
        } else {
            conformance::get(network, target, own, cookie).expect("room");
        }
    };
    for put in [true, false] {
        time(
            if put {
                "puts of 8, 64 at a time"
            } else {
                "gets of 8, 64 at a time"
            },
            64,
            || {
                let before = local.done;
                for _ in 0..64 {
                    start(put, 8);
                }
                while local.done < before + 64 {
                    local.poll();
                    remote.poll();
                }
            },
        );
    }
    for (bytes, count) in [(8, 100), (1 << 16, 10), (1 << 20, 1)] {
        for put in [true, false] {
            let row = format!("{} of {bytes}, one by one", if put { "put" } else { "get" });
            let round = || {
                for _ in 0..count {
                    let before = local.done;
                    start(put, bytes);
                    while local.done == before {
                        remote.poll();
                        local.poll();
                    }
                }
            };
            if bytes < 1 << 16 {
                time(&row, count, round);
            } else {
                rate(&row, count * bytes as u32, round);
            }
        }
    }
}
