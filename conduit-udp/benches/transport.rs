//! What the transport costs, beside raw datagrams. One thread plays both ranks in turn, so that a figure is the processor time of both ends together
//! and does not depend on what else runs on the machine: each is the best of many short rounds.
//!
//! `cargo bench -p gasnet-conduit-udp`, or with a part of a row's name.

#[allow(dead_code, unreachable_pub)]
#[path = "../src/clnh.rs"]
mod clnh;

mod measure;

use gasnet_conduit::conformance::Job;
use gasnet_conduit::{Capabilities, Class, Conduit, RemoteSegment, TransferId};
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
    let key = clnh::Key::new(words());
    let (memory, mut there) = (vec![1u8; 1 << 20], vec![0u8; 1 << 20]);
    // Each part to a place of its own, as a put's, or all to the same, which stays in a cache.
    for (row, tag, apart) in [
        ("stream: raw", false, false),
        ("stream: raw with the tag", true, false),
        ("stream: raw with the tag, parts apart", true, true),
    ] {
        rate(row, 1 << 20, || {
            for (i, chunk) in memory.chunks(CHUNK).enumerate() {
                if tag {
                    black_box(key.hash(chunk));
                }
                a.send_to(chunk, at_b).expect("sent");
                let to = &mut there[if apart { i * CHUNK } else { 0 }..][..chunk.len()];
                b.recv(to).expect("received");
                if tag {
                    black_box(key.hash(to));
                }
            }
        });
    }
    conduit();
}

fn conduit() {
    let job = Job::start(&|| Box::new(Udp::new()), 2);
    let (here, there) = (job.of(0), job.of(1));
    let (mut near, mut far) = (Inbox::new(here), Inbox::new(there));
    let message = vec![3u8; 64 << 10];
    for bytes in [8, 1024, 8192] {
        far.answer = Some(bytes);
        time(&format!("round trip {bytes}: conduit"), 100, || {
            for _ in 0..100 {
                let before = near.packets;
                here.send(1, Class::Request, &[&message[..bytes]]).expect("room");
                while near.packets == before {
                    far.poll();
                    near.poll();
                }
            }
        });
    }
    far.answer = None;
    // As a client's requests do it: each polls, and the other side now and then.
    time("flood of 8: conduit", 1000, || {
        let before = far.packets;
        for i in 0..1000 {
            while here.send(1, Class::Request, &[&message[..8]]).is_err() {
                near.poll();
                far.poll();
            }
            near.poll();
            if i % 32 == 31 {
                far.poll();
            }
        }
        while far.packets < before + 1000 {
            near.poll();
            far.poll();
        }
    });
    rate("messages of 64 KiB: conduit", 10 << 16, || {
        let before = far.packets;
        for _ in 0..10 {
            while here.send(1, Class::Request, &[&message]).is_err() {
                far.poll();
                near.poll();
            }
        }
        while far.packets < before + 10 {
            far.poll();
            near.poll();
        }
    });
    if here.capabilities().has(Capabilities::RMA) {
        rma(here, there, &mut near, &mut far);
    }
    job.stop();
}

fn rma(here: &dyn Conduit, there: &dyn Conduit, near: &mut Inbox<'_>, far: &mut Inbox<'_>) {
    let mut own = vec![7u8; 1 << 20];
    let mut segment = vec![0u8; 1 << 20];
    let base = segment.as_mut_ptr() as usize;
    let mut remote = RemoteSegment {
        base,
        bytes: segment.len(),
        key: there.register_segment(base, segment.len()).expect("registered"),
        on_device: false,
    };
    here.learn_segment(1, &mut remote).expect("learnt");
    let memory = own.as_mut_ptr();
    for put in [true, false] {
        time(
            if put {
                "puts of 8, 64 at a time"
            } else {
                "gets of 8, 64 at a time"
            },
            64,
            || {
                let before = near.done;
                for _ in 0..64 {
                    if put {
                        here.put(1, &remote, base, memory, 8, TransferId(1)).expect("room");
                    } else {
                        here.get(1, &remote, memory, base, 8, TransferId(1)).expect("room");
                    }
                }
                while near.done < before + 64 {
                    near.poll();
                    far.poll();
                }
            },
        );
    }
    for (bytes, count) in [(8, 100), (1 << 16, 10), (1 << 20, 1)] {
        for put in [true, false] {
            let row = format!("{} of {bytes}, one by one", if put { "put" } else { "get" });
            let round = || {
                for _ in 0..count {
                    let before = near.done;
                    if put {
                        here.put(1, &remote, base, memory, bytes, TransferId(1)).expect("room");
                    } else {
                        here.get(1, &remote, memory, base, bytes, TransferId(1)).expect("room");
                    }
                    while near.done == before {
                        far.poll();
                        near.poll();
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
