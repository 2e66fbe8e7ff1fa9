//! Each variable has its effect, and so has each limit: which mechanism of libelan a message, a put
//! or a round uses, and how many are under way. The emulator counts the calls.
//!
//! A test runs one of the children in a process of its own, because a process reads the options of
//! the emulator once.

mod driver;
mod emulated;

use driver::{child, memory_of_1, pair, Inbox};
use gasnet_conduit::conformance::{get, put, Job};
use gasnet_conduit::{
    Busy, Class, Cookie, JobRank, LocalCompletion, LocalMemory, LocalSegment, PollScope, Put, SourceUse,
};

const PEER: JobRank = JobRank(1);
/// Rounds of a child.
const ROUNDS: usize = 10;

/// What a rank has called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Calls {
    channels: usize,
    puts: usize,
    /// Puts under way at a time.
    most: usize,
    gets: usize,
    by_queue: usize,
    by_port: usize,
    barriers: usize,
    broadcasts: usize,
}

/// Runs a child with the option `report`. Returns what each rank has called, and the output.
fn calls(name: &str, options: &str, variables: &str) -> ([Calls; 2], String) {
    let printed = child(name, &format!("report {options}"), variables);
    let of_vp = |vp: usize| {
        let begin = format!("emulator of Elan: process {vp} had ");
        let line = printed.lines().find_map(|line| line.strip_prefix(&begin));
        let line = line.unwrap_or_else(|| panic!("{printed}"));
        let numbers = line
            .split(|c: char| !c.is_ascii_digit())
            .filter(|word| !word.is_empty());
        let numbers: Vec<usize> = numbers.map(|word| word.parse().unwrap()).collect();
        let [channels, puts, most, gets, by_queue, by_port, barriers, broadcasts] = numbers[..] else {
            panic!("{line}")
        };
        Calls {
            channels,
            puts,
            most,
            gets,
            by_queue,
            by_port,
            barriers,
            broadcasts,
        }
    };
    // The emulator shuffles the two.
    ([of_vp(1), of_vp(0)], printed)
}

/// How many calls are made until one is refused.
fn accepted(mut call: impl FnMut() -> Result<(), Busy>) -> usize {
    (0..10_000).take_while(|_| call().is_ok()).count()
}

fn send(job: &Job, class: Class, bytes: usize) -> Result<(), Busy> {
    job.of(0).send(PEER, class, &[&vec![bytes as u8; bytes]])
}

/// Rank 0 starts puts until one is refused, completes them, then gets and puts in turn.
#[test]
#[ignore = "a child of other tests"]
fn operations() {
    let (job, mut memory, mut read) = (pair(), vec![0; 8], [0; 8]);
    let (own, mut inbox) = (job.of(0), Inbox::default());
    let target = memory_of_1(&job, &mut memory);
    let (local, cookie) = ([7; 8], Cookie::new(1));
    let start = || put(own, target, &local, SourceUse::Later, cookie).map(|_| ());
    let puts = accepted(start);
    inbox.wait(own, "the puts", |inbox| inbox.done == puts);
    let mut is_put = true;
    let both = accepted(|| {
        is_put = !is_put;
        if is_put {
            start()
        } else {
            get(own, target, &mut read, cookie)
        }
    });
    inbox.wait(own, "gets and puts", |inbox| inbox.done == puts + both);
    assert_eq!(read, local);
    eprintln!("{puts} puts, {both} operations");
    job.stop();
}

#[test]
fn network_depth_is_most_puts_under_way() {
    // All channels have as many places, 64 unless the library says otherwise.
    for (options, depth, channels, puts) in [
        ("", 64, 1, 64),
        ("", 65, 2, 128),
        ("", 1, 1, 64),
        ("throttle=3", 10, 4, 12),
        ("throttle=1", 1, 1, 1),
    ] {
        let variables = format!("GASNET_NETWORKDEPTH={depth} GASNET_NBI_THROTTLE=500");
        let ([own, _], printed) = calls("operations", options, &variables);
        // The barrier has another channel.
        let found = (own.channels, own.most);
        assert_eq!(found, (channels + 1, puts), "{options} {variables}: {printed}");
        assert!(printed.contains(&format!("\n{puts} puts, ")), "{printed}");
    }
    assert_eq!(calls("operations", "", "").0[0].channels, 1024 / 64 + 1);
}

#[test]
fn nbi_throttle_is_most_operations_under_way() {
    for (variables, most) in [
        ("GASNET_NBI_THROTTLE=1", 1_usize),
        ("GASNET_NBI_THROTTLE=7", 7),
        ("GASNET_NETWORKDEPTH=70", 70),
        ("", 1024),
    ] {
        let ([own, _], printed) = calls("operations", "", variables);
        assert!(
            printed.contains(&format!("\n{most} puts, {most} operations\n")),
            "{printed}"
        );
        assert_eq!((own.most, own.gets), (most, most.div_ceil(2)), "{variables}");
    }
}

/// Rank 0 sends a few messages and then many, which rank 1 receives. Prints what else there is.
#[test]
#[ignore = "a child of other tests"]
fn messages() {
    let (job, mut inbox) = (pair(), Inbox::default());
    let (own, mut others) = (job.of(0), Inbox::default());
    let number: usize = std::env::var("SETTINGS_MESSAGES").unwrap().parse().unwrap();
    for sent in 0..number {
        while send(&job, Class::Request, 100) == Err(Busy) {
            own.poll(PollScope::All, &mut inbox);
            job.of(1).poll(PollScope::All, &mut others);
        }
        others.wait(job.of(1), "a message", |others| others.packets.len() > sent);
    }
    let all = own.abilities();
    let abilities = (all.rma.is_some(), all.put_notify.is_some(), all.barrier.is_some());
    eprintln!(
        "puts and gets {}, Longs {}, barriers {}",
        abilities.0, abilities.1, abilities.2
    );
    job.stop();
}

#[test]
fn without_putget_only_credits_are_read() {
    for (number, has_read) in [(10, false), (200, true)] {
        let variables = format!("GASNET_ELAN_PUTGET=0 SETTINGS_MESSAGES={number}");
        let ([own, other], printed) = calls("messages", "", &variables);
        assert_eq!((own.puts, other.puts, other.gets), (0, 0, 0), "{printed}");
        assert_eq!((own.by_queue, own.gets > 0), (number, has_read), "{printed}");
        assert!(
            printed.contains("\nputs and gets false, Longs false, barriers true\n"),
            "{printed}"
        );
    }
    let (_, printed) = calls("messages", "", "GASNET_ELAN_PUTGET=1 SETTINGS_MESSAGES=1");
    assert!(
        printed.contains("\nputs and gets true, Longs true, barriers true\n"),
        "{printed}"
    );
}

/// Its thread waits in libelan, where no other one may be then.
#[test]
fn a_serial_library_has_no_barrier() {
    let ([own, _], printed) = calls("messages", "serial", "SETTINGS_MESSAGES=1");
    assert!(
        printed.contains("\nputs and gets true, Longs true, barriers false\n"),
        "{printed}"
    );
    assert_eq!((own.channels, own.barriers), (16, 0), "{printed}");
}

/// Rank 0 sends short or long messages until no more are accepted, twice.
#[test]
#[ignore = "a child of other tests"]
fn credits() {
    let (job, mut inbox, mut others) = (pair(), Inbox::default(), Inbox::default());
    let bytes = std::env::var("SETTINGS_BYTES").unwrap().parse().unwrap();
    let requests = accepted(|| send(&job, Class::Request, bytes));
    let replies = accepted(|| send(&job, Class::Reply, bytes));
    others.wait(job.of(1), "a message", |others| {
        others.packets.len() == requests + replies
    });
    for class in [Class::Request, Class::Reply] {
        let mut again = 0;
        inbox.wait(job.of(0), "credits", |_| {
            again += accepted(|| send(&job, class, bytes));
            again == requests
        });
    }
    assert_eq!(send(&job, Class::Request, bytes), Err(Busy));
    others.wait(job.of(1), "a message", |others| others.packets.len() == 4 * requests);
    eprintln!("{requests} requests, {replies} replies");
    job.stop();
}

#[test]
fn credits_are_most_messages_not_received() {
    for (variables, most) in [
        ("GASNET_ELAN_AM_CREDITS=1", 1),
        ("GASNET_ELAN_AM_CREDITS=3", 3),
        ("", 64),
    ] {
        for bytes in [100, 3000] {
            let variables = format!("{variables} SETTINGS_BYTES={bytes} GASNET_ELAN_BUFFERS=600");
            let printed = child("credits", "", &variables);
            let line = format!("\n{most} requests, {most} replies\n");
            assert!(printed.contains(&line), "{variables}: {printed}");
        }
    }
}

/// Rank 0 sends long messages, until no buffer is left for them.
#[test]
#[ignore = "a child of other tests"]
fn buffers() {
    let (job, mut others) = (pair(), Inbox::default());
    let requests = accepted(|| send(&job, Class::Request, 20_000));
    let replies = accepted(|| send(&job, Class::Reply, 20_000));
    // Those that were refused have no credit.
    let refused = (0..100).filter(|_| send(&job, Class::Request, 20_000).is_err()).count();
    let short = accepted(|| send(&job, Class::Request, 100));
    let total = requests + replies + short;
    others.wait(job.of(1), "a message", |others| others.packets.len() == total);
    eprintln!("{requests} requests, {replies} replies, {refused} refused, {short} short");
    job.stop();
}

#[test]
fn buffers_are_for_both_ways() {
    for (options, variables, count, requests, replies) in [
        ("", "GASNET_ELAN_BUFFERS=8", 8, 3, 1),
        ("", "GASNET_ELAN_BUFFERS=33", 33, 12, 4),
        ("slots=24", "", 24, 9, 3),
        ("slots=4", "", 8, 3, 1),
    ] {
        let (_, printed) = calls("buffers", options, &format!("{variables} GASNET_ELAN_AM_CREDITS=20"));
        let short = 20 - requests;
        let line = format!("\n{requests} requests, {replies} replies, 100 refused, {short} short\n");
        assert!(printed.contains(&line), "{options} {variables}: {printed}");
        // One more block has the credits of peers.
        let blocks = format!(" stops: {} blocks,", count + 1);
        assert_eq!(printed.matches(&blocks).count(), 2, "{options} {variables}: {printed}");
    }
}

/// Words of a rank in a round, by kind.
fn words(kind: &str, rank: usize, round: usize) -> [u64; 2] {
    let name = round as u64 + 1;
    match kind {
        "anonymous" => [u64::MAX; 2],
        "named" => [name, !name],
        // The rank that is no root has others.
        "mismatched" => [name | 1 << 40, if rank == 0 { 0 } else { !name }],
        // One that is, after many that are not.
        _ => [u64::MAX, if (rank, round) == (1, ROUNDS - 1) { 7 } else { u64::MAX }],
    }
}

/// Rounds of the kind SETTINGS_WORDS.
#[test]
#[ignore = "a child of other tests"]
fn rounds() {
    let kind = std::env::var("SETTINGS_WORDS").unwrap();
    let (job, mut inboxes) = (pair(), [Inbox::default(), Inbox::default()]);
    for round in 0..ROUNDS {
        let own = [0, 1].map(|rank| words(&kind, rank, round));
        for (rank, words) in own.into_iter().enumerate() {
            let barrier = job.of(rank).abilities().barrier.unwrap();
            inboxes[rank].wait(job.of(rank), "room", |_| barrier.enter(words) != Err(Busy));
        }
        let result = [own[0][0] & own[1][0], own[0][1] & own[1][1]];
        for (rank, inbox) in inboxes.iter_mut().enumerate() {
            inbox.wait(job.of(rank), "a round", |inbox| inbox.rounds.len() > round);
            assert_eq!(inbox.rounds[round], result, "round {round} of rank {rank}");
        }
    }
    job.stop();
}

#[test]
fn barriers_use_the_hardware() {
    // A name is broadcast. Whoever has another one puts a report to the root, and that it has to
    // both; then the result is broadcast.
    for (variables, kind, [barriers, broadcasts, puts]) in [
        // The first two rounds agree on what the others expect.
        ("", "anonymous", [10, 2, 0]),
        ("GASNET_BARRIER=ELANFAST", "anonymous", [10, 2, 0]),
        ("GASNET_BARRIER=ELANSLOW", "anonymous", [10, 10, 0]),
        ("", "named", [10, 10, 0]),
        ("GASNET_BARRIER=ELANSLOW", "named", [10, 10, 0]),
        ("", "mismatched", [10, 20, 30]),
        ("GASNET_BARRIER=ELANSLOW", "mismatched", [10, 20, 30]),
        // The last round is repeated with a broadcast. Rank 1 has put twice that it must be; rank 0
        // lacks no bit of rank 1's words.
        ("", "surprising", [11, 3, 0]),
    ] {
        let (ranks, printed) = calls("rounds", "", &format!("{variables} SETTINGS_WORDS={kind}"));
        for calls in ranks {
            let found = (calls.barriers, calls.broadcasts);
            assert_eq!(found, (barriers, broadcasts), "{variables} {kind}: {printed}");
        }
        assert_eq!(ranks[0].puts, puts, "{variables} {kind}: {printed}");
        let surprises = if kind == "surprising" { 2 } else { 0 };
        assert_eq!(ranks[1].puts, surprises, "{variables} {kind}: {printed}");
    }
}

/// Rank 0 sends a message of SETTINGS_BYTES in each class.
#[test]
#[ignore = "a child of other tests"]
fn one_of_each_class() {
    let (job, mut others) = (pair(), Inbox::default());
    let bytes: usize = std::env::var("SETTINGS_BYTES").unwrap().parse().unwrap();
    for class in [Class::Request, Class::Reply] {
        send(&job, class, bytes).unwrap();
        others.wait(job.of(1), "a message", |others| {
            others.packets.pop().is_some_and(|(_, p)| p.len() == bytes)
        });
    }
    job.stop();
}

/// A message in a queue has a head of 16 bytes.
#[test]
fn longer_messages_use_the_port() {
    for (options, slot) in [("flavour=elan3", 320), ("flavour=elan4", 2048)] {
        for (bytes, expected) in [(1, (2, 0)), (slot - 16, (2, 0)), (slot - 15, (0, 2)), (65_000, (0, 2))] {
            let ([own, _], printed) = calls("one_of_each_class", options, &format!("SETTINGS_BYTES={bytes}"));
            assert_eq!(
                (own.by_queue, own.by_port),
                expected,
                "{options}, {bytes} bytes: {printed}"
            );
        }
    }
}

/// libelan copies small puts: their source is free at return. Prints for which sizes that is so.
#[test]
#[ignore = "a child of other tests"]
fn put_sizes() {
    let (job, mut memory) = (pair(), vec![0; 200]);
    let (own, mut inbox) = (job.of(0), Inbox::default());
    let (target, local) = (memory_of_1(&job, &mut memory), [7; 200]);
    let is_copied = |bytes: &usize| {
        let done = put(own, target, &local[..*bytes], SourceUse::Later, Cookie::new(1));
        done == Ok(LocalCompletion::AtReturn)
    };
    let copied = (1..=200).filter(is_copied).count();
    eprintln!("{copied} sizes, as far as {:?}", (1..=200).rfind(is_copied));
    inbox.wait(own, "the puts", |inbox| inbox.done > 200);
    job.stop();
}

#[test]
fn small_puts_are_copied_at_the_call() {
    for (options, limit) in [("", 128), ("small=64", 64), ("small=1", 1)] {
        let printed = child("put_sizes", options, "");
        let line = format!("\n{limit} sizes, as far as Some({limit})\n");
        assert!(printed.contains(&line), "{options}: {printed}");
    }
}

/// Rank 0 announces puts, one at a time, whose source libelan reads late.
#[test]
#[ignore = "a child of other tests"]
fn longs() {
    const BYTES: usize = 5000;
    let (job, mut memory, mut inbox) = (pair(), vec![0; BYTES], Inbox::default());
    let target = memory_of_1(&job, &mut memory);
    for number in 1..=10 {
        let (local, mut others) = (vec![number; BYTES], Inbox::default());
        let put = Put {
            to: target,
            from: LocalMemory {
                address: local.as_ptr() as usize,
                segment: LocalSegment::NONE,
                device: None,
            },
            bytes: BYTES,
            source: SourceUse::Later,
            cookie: Cookie::new(1),
        };
        let notify = job.of(0).abilities().put_notify.unwrap();
        let begun = notify.put_and_notify(&put, None, Class::Request, &[&[number; 50]]);
        assert_eq!(begun, Ok(LocalCompletion::Later));
        others.wait(job.of(1), "a Long", |others| {
            job.of(0).poll(PollScope::All, &mut inbox);
            !others.packets.is_empty()
        });
        assert_eq!(memory, local, "a Long is announced before its payload is there");
    }
    job.stop();
}

#[test]
fn longs_follow_their_payload() {
    child("longs", "late reorder delay=5000", "");
}

/// A poll delivers ten messages of a class at most, those of the queue before those of the port,
/// and replies before requests.
#[test]
#[ignore = "a child of other tests"]
fn one_poll() {
    let job = pair();
    for class in [Class::Request, Class::Reply] {
        send(&job, class, 5000).unwrap();
        for _ in 0..9 {
            send(&job, class, 100).unwrap();
        }
    }
    for _ in 0..2 {
        send(&job, Class::Request, 100).unwrap();
    }
    let lengths = |count: usize, class| {
        let mut others = Inbox::default();
        job.of(1).poll(
            if class == Class::Reply {
                PollScope::Replies
            } else {
                PollScope::All
            },
            &mut others,
        );
        assert!(
            others.packets.len() == count && others.packets.iter().all(|(of, _)| *of == class),
            "{others:?}"
        );
        others
            .packets
            .iter()
            .map(|(_, packet)| packet.len())
            .collect::<Vec<_>>()
    };
    let nine_and_a_long_one = [&[100; 9][..], &[5000]].concat();
    assert_eq!(lengths(10, Class::Reply), nine_and_a_long_one);
    assert_eq!(lengths(10, Class::Request), [100; 10]);
    assert_eq!(lengths(2, Class::Request), [100, 5000]);
    assert_eq!(lengths(0, Class::Request), []);
    job.stop();
}

#[test]
fn a_poll_is_bounded() {
    for options in ["", "flavour=elan3"] {
        child("one_poll", options, "");
    }
}
