//! Exact numbers and sizes of the queues that a job makes, by the rules of docs/ibv.md ("Queues").

mod emulated;

use gasnet_conduit::conformance::Job;
use gasnet_conduit_ibv::Ibv;
use std::collections::BTreeMap;

/// Ranks start, connect to each other, and stop. `RANKS` is their number.
#[test]
#[ignore = "a child of other tests"]
fn start() {
    emulated::emulate();
    let ranks = std::env::var("RANKS").unwrap().parse().unwrap();
    Job::start(&|| Box::new(Ibv), ranks).stop();
}

/// Queues by their names and sizes, and how many of them there are.
type Queues = BTreeMap<String, usize>;

/// Adds the numbers of equal queues.
fn sum(queues: impl IntoIterator<Item = (String, usize)>) -> Queues {
    let mut all = Queues::new();
    for (queue, count) in queues {
        *all.entry(queue).or_default() += count;
    }
    all
}

/// The queues that a job makes.
fn made(ranks: usize, options: &str, variables: &str) -> Queues {
    let variables = format!("RANKS={ranks} {variables}");
    let arguments = "--ignored --exact --nocapture start";
    let printed = emulated::run_again(&format!("sizes {options}"), &variables, arguments);
    let queues = printed
        .lines()
        .filter_map(|line| line.strip_prefix("emulator of verbs: "));
    sum(queues.map(|queue| (queue.to_owned(), 1)))
}

/// A job of one host, in which each rank connects to all others at start.
#[derive(Clone, Copy)]
struct Expected {
    ranks: usize,
    /// HCAs, each with as many queue pairs for a peer.
    hcas: usize,
    pairs: usize,
    /// GASNET_NETWORKDEPTH_PP, GASNET_NETWORKDEPTH_TOTAL.
    depth: usize,
    total: usize,
    /// GASNET_AM_CREDITS_PP, GASNET_RBUF_COUNT.
    credits: usize,
    buffers: usize,
    is_shared: bool,
}

/// The defaults of docs/env.md.
const DEFAULT: Expected = Expected {
    ranks: 0,
    hcas: 1,
    pairs: 1,
    depth: 64,
    total: 4096,
    credits: 24,
    buffers: 1024,
    is_shared: false,
};

impl Expected {
    /// Receive buffers of a queue pair.
    fn of_pair(&self) -> usize {
        if self.is_shared {
            0
        } else {
            2 * self.credits + 8
        }
    }

    /// Entries of a completion queue: for the operations under way, and the receive buffers.
    fn completions(&self) -> String {
        let sends = (self.ranks * self.pairs * self.depth).min(self.total);
        let receives = if self.is_shared {
            self.buffers
        } else {
            self.ranks * self.pairs * self.of_pair()
        };
        format!("CQ of {} completions", sends + receives)
    }

    /// The queue pair and the completion queue for datagrams, of the first HCA.
    fn datagrams(&self) -> [(String, usize); 2] {
        let log = (self.ranks - 1).next_power_of_two().ilog2() as usize;
        let (sends, receives) = (4, 6.max(4 + 2 * log));
        [
            (format!("QP UD of {sends} sends, {receives} receives"), self.ranks),
            (format!("CQ of {} completions", sends + receives), self.ranks),
        ]
    }

    /// Without XRC.
    fn queues(&self) -> Queues {
        let (depth, receives) = (self.depth, self.of_pair());
        let rails = self.ranks * self.hcas;
        let mut queues = vec![
            (self.completions(), rails),
            // One finds out what inline data pairs take, and another whether they may be so long.
            (format!("QP RC of 4 sends, {receives} receives"), rails),
            (
                format!("QP RC of {depth} sends, {receives} receives"),
                rails * (1 + (self.ranks - 1) * self.pairs),
            ),
        ];
        if self.is_shared {
            queues.push((format!("SRQ of {} receives", self.buffers), rails));
        }
        queues.extend(self.datagrams());
        sum(queues)
    }

    /// With XRC: a process has one pair for each path that sends to the host, and the host one for
    /// each process and path that receives.
    fn queues_of_xrc(&self) -> Queues {
        let rails = self.ranks * self.hcas;
        let of_link = self.depth * self.ranks.min(4);
        let mut queues = vec![
            (self.completions(), rails),
            (format!("XRC SRQ of {} receives", self.buffers), rails),
            // In vain, whether there are such pairs; as above.
            ("QP XRC_RECV of 0 sends, 0 receives".to_owned(), rails),
            ("QP XRC_SEND of 1 sends, 0 receives".to_owned(), rails),
            ("QP XRC_SEND of 4 sends, 0 receives".to_owned(), rails),
            (format!("QP XRC_SEND of {} sends, 0 receives", self.depth), rails),
            (
                format!("QP XRC_SEND of {of_link} sends, 0 receives"),
                rails * self.pairs,
            ),
            ("QP XRC_RECV of 0 sends, 0 receives".to_owned(), rails * self.pairs),
        ];
        queues.extend(self.datagrams());
        sum(queues)
    }
}

#[test]
fn queues_of_jobs() {
    for ranks in [2, 3, 5] {
        let expected = Expected { ranks, ..DEFAULT };
        assert_eq!(made(ranks, "", ""), expected.queues(), "{ranks}");
        let variables = "GASNET_NETWORKDEPTH_PP=21 GASNET_NETWORKDEPTH_TOTAL=50 GASNET_AM_CREDITS_PP=5";
        let few = Expected {
            depth: 21,
            total: 50,
            credits: 5,
            ..expected
        };
        assert_eq!(made(ranks, "", variables), few.queues(), "{ranks}");
    }
}

#[test]
fn queues_of_several_ports_and_hcas() {
    for ranks in [2, 4] {
        let expected = Expected {
            ranks,
            hcas: 2,
            pairs: 2,
            ..DEFAULT
        };
        let variables = "GASNET_IBV_PORTS=emu0:1,2+emu1:1,2";
        assert_eq!(made(ranks, "hcas=2 ports=2", variables), expected.queues(), "{ranks}");
    }
}

/// Receive buffers are shared when peers would need more than there may be.
#[test]
fn shared_receive_queues() {
    for (ranks, is_shared) in [(2, false), (3, true), (5, true)] {
        let expected = Expected {
            ranks,
            buffers: 150,
            is_shared,
            ..DEFAULT
        };
        assert_eq!(made(ranks, "", "GASNET_RBUF_COUNT=150"), expected.queues(), "{ranks}");
    }
    let expected = Expected {
        ranks: 2,
        buffers: 100,
        is_shared: true,
        ..DEFAULT
    };
    let queues = made(2, "max-srq-wr=100", "GASNET_USE_SRQ=1 GASNET_USE_XRC=0");
    assert_eq!(queues, expected.queues());
}

#[test]
fn queues_of_xrc() {
    for ranks in [2, 3, 6] {
        let expected = Expected {
            ranks,
            is_shared: true,
            ..DEFAULT
        };
        let variables = "GASNET_USE_SRQ=1 GASNET_USE_XRC=1";
        assert_eq!(made(ranks, "", variables), expected.queues_of_xrc(), "{ranks}");
    }
    let expected = Expected {
        ranks: 3,
        pairs: 2,
        depth: 10,
        total: 25,
        buffers: 77,
        is_shared: true,
        ..DEFAULT
    };
    let variables = "GASNET_IBV_PORTS=emu0:1,2 GASNET_USE_SRQ=1 GASNET_USE_XRC=1 GASNET_NETWORKDEPTH_PP=10 \
                     GASNET_NETWORKDEPTH_TOTAL=25 GASNET_RBUF_COUNT=77";
    assert_eq!(made(3, "ports=2", variables), expected.queues_of_xrc());
}
