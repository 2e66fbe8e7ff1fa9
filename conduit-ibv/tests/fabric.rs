//! Ports that a process must not choose, or must address in a special way: two ranks exchange
//! messages over the emulator, or do not start, with a message.

mod emulated;

use gasnet_conduit::conformance::Job;
use gasnet_conduit::{Busy, Class, Completion, Cookie, JobRank, Network, PollScope, Stop, Upcalls};
use gasnet_conduit_ibv::Ibv;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Counts ranks that a message has reached.
struct Arrivals<'a>(&'a AtomicU32);

impl Upcalls for Arrivals<'_> {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {
        self.0.fetch_add(1, SeqCst);
    }
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer} is lost: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        panic!("the network is lost: {why}");
    }
}

/// Each of two ranks sends the other a message of several packets.
#[test]
#[ignore = "a child of other tests"]
fn talk() {
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 2);
    let (arrivals, begun) = (AtomicU32::new(0), Instant::now());
    job.run(|rank, network: &dyn Network| {
        let mut upcalls = Arrivals(&arrivals);
        let message = [7; 10_000];
        while network.send(JobRank(1 - rank.0), Class::Request, &[&message]) == Err(Busy) {
            network.poll(PollScope::All, &mut upcalls);
        }
        while arrivals.load(SeqCst) < 2 {
            network.poll(PollScope::All, &mut upcalls);
            assert!(begun.elapsed() < Duration::from_secs(60), "a message did not arrive");
        }
        network.stop(Stop::Orderly);
    });
}

mod plans {
    use super::emulated::{run, run_again};

    /// The paths of the ranks when they talk: HCA and port of each path, and what follows.
    fn used(options: &str, variables: &str) -> [String; 2] {
        let variables = format!("{variables} GASNET_IBV_PORTS_VERBOSE=2 GASNET_QP_TIMEOUT=10");
        let output = run_again(options, &variables, "talk --ignored");
        ["rank 0 uses ", "rank 1 uses "].map(|start| {
            let lines = output
                .lines()
                .filter_map(|line| Some(&line[line.find(start)? + start.len()..]));
            lines
                .map(|line| line.replace(" port ", ":"))
                .collect::<Vec<_>>()
                .join("\n")
        })
    }

    /// The HCAs and ports of it, with connections at the start and by datagrams.
    fn ports(options: &str, variables: &str) -> [String; 2] {
        let of = |variables: &str| {
            used(options, variables).map(|text| {
                let port = |line: &str| line.splitn(3, ':').take(2).collect::<Vec<_>>().join(":");
                text.lines().map(port).collect::<Vec<_>>().join(" ")
            })
        };
        let found = of(variables);
        assert_eq!(
            of(&format!("{variables} GASNET_CONNECT_STATIC=0")),
            found,
            "{options} {variables}"
        );
        found
    }

    /// The start fails with a message that contains these words.
    fn fails(options: &str, variables: &str, words: &[&str]) {
        let (has_passed, output) = run(options, variables, "talk --ignored");
        let has_all = words.iter().all(|word| output.contains(word));
        assert!(!has_passed && has_all, "{options} {variables}: {output}");
    }

    #[test]
    fn ports_that_cannot_connect_are_left_out() {
        assert_eq!(ports("hcas=2 link=roce gid=0:1:*:none", ""), ["emu1:1"; 2]);
        assert_eq!(ports("hcas=2 no-lid=0:1", ""), ["emu1:1"; 2]);
        assert_eq!(ports("ports=2 unreadable-port=0:1", ""), ["emu0:2"; 2]);
        assert_eq!(ports("hcas=2 no-open=0", ""), ["emu1:1"; 2]);
        fails(
            "no-open=0",
            "",
            &["this host has emu0: cannot open emu0: Permission denied"],
        );
        fails(
            "link=roce gid=0:1:*:foreign",
            "",
            &["no port of an HCA can connect: this host has emu0 port 1: Ethernet, active, but it has no GID."],
        );
        fails(
            "unreadable-port=0:1",
            "",
            &["this host has emu0 port 1: cannot be queried: Input/output error"],
        );
    }

    #[test]
    fn the_partition_is_one_of_full_members() {
        let uses =
            |options: &str, variables: &str| used(options, variables).map(|text| text.contains("key 1 (0xffff)"));
        assert_eq!(
            uses("hcas=2 pkeys=0:1:0x7fff,0xffff pkeys=1:1:0x7fff,0xffff", ""),
            [true; 2]
        );
        assert_eq!(
            uses("hcas=2 pkeys=0:1:0x8012,0xffff", "GASNET_IBV_PKEY=0x7fff"),
            [true, false]
        );
        let alternate = |options: &str| used(options, "")[0].contains("alternate");
        assert_eq!(["ports=2", "ports=2 pkeys=0:2:0x8012"].map(alternate), [true, false]);
        fails(
            "pkeys=0:1:0x7fff",
            "",
            &[
                "it is only a limited member of its partitions",
                "Its partition keys are 0x7fff",
            ],
        );
        fails(
            "pkeys=0:1:0xffff,0x12",
            "GASNET_IBV_PKEY=0x12",
            &[
                "it is only a limited member of the partition GASNET_IBV_PKEY=0x12",
                "are 0xffff, 0x0012",
            ],
        );
        fails(
            "hcas=2 pkeys=1:1:0x7fff,0x8012",
            "",
            &[
                "this rank is in the partition 0xffff, but rank 1 in 0x8012",
                "GASNET_IBV_PKEY",
            ],
        );
        // The second paths are emu1 and emu2.
        fails(
            "hcas=3 pkeys=2:1:0x7fff,0x8012",
            "GASNET_IBV_MAX_HCAS=2",
            &["path 2 of this rank is in the partition 0xffff, but that of rank 1 in 0x8012"],
        );
    }

    #[test]
    fn packets_have_a_global_header_where_a_port_requires_it() {
        for options in ["grh=0:1 grh=1:1", "grh=0:1", "grh=1:1", "grh=0:1 no-lid=0:1"] {
            assert_eq!(ports(&format!("hcas=2 {options}"), "")[0], "emu0:1", "{options}");
        }
        let xrc = "GASNET_USE_SRQ=1 GASNET_USE_XRC=1";
        assert_eq!(ports("hcas=2 grh=0:1", xrc), ["emu0:1", "emu1:1"]);
        // An alternate port would need it, too.
        let uses = |options: &str| used(options, "")[0].contains("alternate");
        assert_eq!(
            ["ports=2", "ports=2 grh=0:2", "ports=2 grh=0:1"].map(uses),
            [true, false, false]
        );
        assert_eq!(
            ports("ports=2 grh=0:2", "GASNET_IBV_PORTS=emu0:1,2"),
            ["emu0:1 emu0:2"; 2]
        );
    }

    #[test]
    fn ranks_agree_on_a_subnet() {
        let subnets = "hcas=3 subnet=0:0xfec0000000000002 subnet=1:0xfec0000000000001 subnet=2:0xfec0000000000001";
        // Rank 0 would take the first HCA, rank 1 the second.
        assert_eq!(ports(subnets, ""), ["emu1:1", "emu2:1"]);
        // Each path may be in a subnet of its own.
        assert_eq!(
            ports(subnets, "GASNET_IBV_MAX_HCAS=2"),
            ["emu0:1 emu1:1", "emu0:1 emu2:1"]
        );
        let named = "GASNET_IBV_PORTS_TYPE=HRank GASNET_IBV_PORTS=emu0 GASNET_IBV_PORTS_1=emu2";
        let why = "emu0 of this rank is in the InfiniBand subnet fec0:0:0:2::/64, but emu2 of rank 1 in \
                   fec0:0:0:1::/64, and no subnet is common to all ranks. Name HCAs of one subnet with \
                   GASNET_IBV_PORTS";
        fails(subnets, named, &[why]);
        // The subnets of two paths.
        assert_eq!(
            ports("hcas=2 subnet=1:0xfec0000000000002", "GASNET_IBV_MAX_HCAS=2"),
            ["emu0:1 emu1:1"; 2]
        );
        let output = run_again(subnets, "GASNET_IBV_LIST_PORTS=1", "talk --ignored");
        let detected = "rank 1 detects emu0 port 1: InfiniBand, active, subnet fec0:0:0:2::/64";
        assert!(output.contains(detected), "{output}");
        let warning = "WARNING: ibv: the HCAs nearest to the ranks are in different InfiniBand subnets, so all ranks \
                       use those in fec0:0:0:1::/64, rank 0 emu1. GASNET_IBV_PORTS names others;";
        assert!(output.contains(warning), "{output}");
    }

    #[test]
    fn addresses_and_classes_of_roce() {
        let of = |options: &str, variables: &str| used(&format!("link=roce {options}"), variables)[0].clone();
        let usual = of("", "");
        assert!(
            usual.contains("GID 3 (::ffff:10.0.0.1), ") && usual.contains("traffic class 106,"),
            "{usual}"
        );
        assert!(of("", "GASNET_IBV_TRAFFIC_CLASS=0").contains("traffic class 0,"));
        assert!(used("", "")[0].contains("traffic class 0,"));
        // Of an address of a VLAN it is of no importance that it resembles the host's (127.0.0.1).
        let vlan = of("hcas=2 gid=0:1:4:126.0.0.1", "");
        assert!(vlan.contains("GID 3 (::ffff:10.0.0.1), "), "{vlan}");
        // Holes, and entries of others.
        let foreign = of("gid=0:1:3:foreign gid=0:1:2:none gid=0:1:1:none gid=0:1:9:10.0.0.9", "");
        assert!(foreign.contains("GID 9 (::ffff:10.0.0.9), "), "{foreign}");
        let six = "hcas=2 link=roce gid=1:1:*:none gid=1:1:5:2001:db8::7";
        fails(
            six,
            "",
            &["GID of this rank is ::ffff:10.0.0.1, but that of rank 1 2001:db8::7"],
        );
        fails(
            "hcas=3 link=roce gid=2:1:*:none gid=2:1:5:2001:db8::7",
            "GASNET_IBV_MAX_HCAS=2",
            &["GID of path 2 of this rank is an IPv4 address, but that of rank 1 an IPv6 address"],
        );
        let old = of("gid=0:1:1:none gid=0:1:3:none", "");
        assert!(old.starts_with("emu0:1: RoCE v1, GID 2 (::ffff:10.0.0.1), "), "{old}");
    }

    #[test]
    fn ends_agree_on_their_packets() {
        assert_eq!(ports("hcas=2 mtu=1:1024", ""), ["emu0:1", "emu1:1"]);
        assert_eq!(
            ports("hcas=2 mtu=0:256", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1"),
            ["emu0:1", "emu1:1"]
        );
        assert_eq!(ports("hcas=2 ports=2 lmc=3", ""), ["emu0:1", "emu1:1"]);
        // A router is between two IP subnets.
        let other = "GASNET_IBV_PORTS_TYPE=HRank GASNET_IBV_PORTS=emu0:1 GASNET_IBV_PORTS_1=emu0:2";
        assert_eq!(ports("ports=2 link=roce", other), ["emu0:1", "emu0:2"]);
    }

    #[test]
    fn ranks_without_datagrams_connect_at_start() {
        for options in ["hcas=2 no-ud", "hcas=2 no-ud=0", "hcas=2 no-ud=1"] {
            let found = used(options, "");
            assert!(
                found[0].starts_with("emu0:1") && found[1].starts_with("emu1:1"),
                "{found:?}"
            );
        }
        fails(
            "hcas=2 no-ud=1",
            "GASNET_CONNECT_STATIC=0",
            &[
                "the HCA of rank 1 has no queue pairs for datagrams",
                "GASNET_CONNECT_STATIC=0",
            ],
        );
    }

    /// Fabrics of one prefix have equal LIDs.
    #[test]
    fn networks_that_look_alike() {
        let advice = "If hosts have several networks, GASNET_IBV_PORTS must name HCAs of one of them";
        for link in ["ib", "roce"] {
            let options = format!("hcas=2 link={link} fabric=1:1");
            let retries = "port 1: sending a message failed: transport retry counter exceeded";
            fails(&options, "GASNET_QP_TIMEOUT=10", &["is lost: emu", retries, advice]);
            let later = "GASNET_CONNECT_STATIC=0 GASNET_CONNECT_RETRANS_MAX=1500000";
            let requests = "it has not answered connection requests for 1 seconds";
            fails(&options, later, &[requests, advice]);
            assert_eq!(ports(&options, "GASNET_IBV_PORTS=emu1"), ["emu1:1"; 2]);
        }
    }

    #[test]
    fn ethernet_beside_infiniband() {
        // Each rank would take an HCA of its own.
        assert_eq!(ports("hcas=2 link=0:roce", ""), ["emu1:1"; 2]);
        assert_eq!(ports("hcas=2 link=1:roce", "GASNET_IBV_PORTS=emu1"), ["emu1:1"; 2]);
        fails(
            "hcas=2 link=0:roce",
            "GASNET_IBV_PORTS=emu0+emu1",
            &["emu0 port 1 is on Ethernet, but emu1 port 1 is on InfiniBand"],
        );
    }

    #[test]
    fn ports_without_partitions() {
        for link in ["ib", "roce"] {
            assert_eq!(ports(&format!("link={link} pkeys=0:1:"), ""), ["emu0:1"; 2]);
        }
    }

    #[test]
    fn memory_that_another_library_has_registered() {
        let warning = "ibv: ibv_fork_init failed: Invalid argument (os error 22). Another library";
        let output = run_again("huge-pages fail=fork_init:1:1:EINVAL", "", "talk --ignored");
        assert_eq!(output.matches(warning).count(), 1, "{output}");
        let output = run_again("fail=fork_init:1:1:EINVAL", "", "talk --ignored");
        assert!(!output.contains("ibv_fork_init"), "{output}");
    }

    #[test]
    fn memory_in_huge_pages_is_registered() {
        for variables in [
            "RDMAV_HUGEPAGES_SAFE=1",
            "HUGETLB_MORECORE=yes",
            "HUGETLB_DEFAULT_PAGE_SIZE=2M",
        ] {
            assert_eq!(ports("huge-pages", variables), ["emu0:1"; 2], "{variables}");
        }
        fails(
            "huge-pages",
            "",
            &["Invalid argument", "memory in huge pages needs RDMAV_HUGEPAGES_SAFE=1"],
        );
    }
}
