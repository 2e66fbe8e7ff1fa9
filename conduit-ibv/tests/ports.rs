//! Effects of the variables that choose ports, in jobs of two processes over the emulator.

mod emulated;

use gasnet_conduit::conformance::Job;
use gasnet_conduit::Conduit;
use gasnet_conduit_ibv::Ibv;

/// Starts a job, and prints what `gasnet_info -p` would.
#[test]
#[ignore = "a child of other tests"]
fn job_of_two() {
    emulated::emulate();
    for report in Ibv.providers() {
        let facts: Vec<String> = report
            .facts
            .iter()
            .map(|(label, text)| format!("{label} = {text}"))
            .collect();
        gasnet_conduit::print_line(format_args!("{}: {}", report.name, facts.join("; ")));
    }
    Job::start(&|| Box::new(Ibv), 2);
}

mod plans {
    use super::emulated::{run, run_again};

    /// Of a job that starts: the lines that contain a word, without what precedes it, sorted.
    fn lines(options: &str, variables: &str, word: &str) -> Vec<String> {
        let output = run_again(options, variables, "job_of_two --ignored");
        let mut lines: Vec<String> = output
            .lines()
            .filter_map(|line| Some(line[line.find(word)?..].to_owned()))
            .collect();
        lines.sort();
        lines
    }

    /// The ports that the ranks use, by rank.
    fn used(options: &str, variables: &str) -> [String; 2] {
        let variables = format!("{variables} GASNET_IBV_PORTS_VERBOSE=2");
        let lines = lines(options, &variables, "rank ");
        ["rank 0 uses ", "rank 1 uses "].map(|start| {
            let of = lines.iter().filter_map(|line| line.strip_prefix(start));
            of.map(|line| line.replace(" port ", ":"))
                .collect::<Vec<_>>()
                .join("\n")
        })
    }

    /// The HCAs and ports of it.
    fn ports(options: &str, variables: &str) -> [String; 2] {
        used(options, variables).map(|text| {
            let port = |line: &str| line.splitn(3, ':').take(2).collect::<Vec<_>>().join(":");
            text.lines().map(port).collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn hcas_and_ports() {
        let of = |variables| ports("hcas=3 ports=2", variables);
        assert_eq!(of(""), ["emu0:1", "emu1:1"]);
        assert_eq!(of("GASNET_IBV_MAX_HCAS=2"), ["emu0:1 emu1:1", "emu0:1 emu2:1"]);
        assert_eq!(of("GASNET_IBV_PORTS=emu2:2"), ["emu2:2"; 2]);
        assert_eq!(of("GASNET_IBV_PORTS=emu2:2,1+emu1"), ["emu1:1 emu2:1 emu2:2"; 2]);
        assert_eq!(of("GASNET_IBV_PORTS=emu2+emu1 GASNET_IBV_MAX_HCAS=1"), ["emu1:1"; 2]);
        let by_host = "GASNET_IBV_PORTS_TYPE=HRank GASNET_IBV_PORTS=emu0 GASNET_IBV_PORTS_1=emu1:2";
        assert_eq!(of(by_host), ["emu0:1", "emu1:2"]);
        assert_eq!(of("GASNET_NUM_QPS=2 GASNET_IBV_PORTS=emu1"), ["emu1:1 emu1:1"; 2]);
    }

    #[test]
    fn what_packets_carry() {
        assert_eq!(
            used("", "")[0],
            "emu0:1: InfiniBand, LID 1, partition key 0 (0xffff), service level 0, traffic class 0, MTU 4096, 16 gets \
             of a peer at a time"
        );
        let all = "GASNET_IBV_GID_INDEX=2 GASNET_IBV_PKEY=0xffff GASNET_MAX_MTU=512 GASNET_IBV_SERVICE_LEVEL=5 \
                   GASNET_IBV_TRAFFIC_CLASS=104 GASNET_QP_RD_ATOM=3";
        assert_eq!(
            used("link=roce", all)[0],
            "emu0:1: RoCE v1, GID 2 (::ffff:10.0.0.1), partition key 0 (0xffff), service level 5, traffic class 104, \
             MTU 512, 3 gets of a peer at a time"
        );
        assert!(used("ports=2", "")[0].ends_with(" at a time, alternate:2"));
        let chosen = &used("link=roce ports=2", "GASNET_IBV_PORTS=emu0:2")[0];
        assert!(
            chosen.starts_with("emu0:2: RoCE v2, GID 3 (::ffff:10.1.0.1), "),
            "{chosen}"
        );
        // One without versions, of which there is no file either.
        let unknown = &used("old-library link=roce", "")[0];
        assert!(
            unknown.starts_with("emu0:1: RoCE v2, GID 2 (::ffff:10.0.0.1), "),
            "{unknown}"
        );
        let infiniband = &used("", "GASNET_IBV_GID_INDEX=0")[0];
        assert!(
            infiniband.starts_with("emu0:1: InfiniBand, GID 0 (fe80::"),
            "{infiniband}"
        );
    }

    /// Emulated by word `device` (emulators/README.md), except EFA, which is an error.
    #[test]
    fn devices_of_the_field() {
        let link_of = |device: &str| {
            let used = used(&format!("device={device}"), "")[0].clone();
            let (start, reads) = used.rsplit_once(", ").unwrap();
            let link = start.split(", ").take(2).collect::<Vec<_>>().join(", ");
            format!("{link}, {reads}")
        };
        let infiniband = |name, reads| format!("{name}0:1: InfiniBand, LID 1, {reads} gets of a peer at a time");
        let roce =
            |name, reads| format!("{name}0:1: RoCE v2, GID 3 (::ffff:10.0.0.1), {reads} gets of a peer at a time");
        assert_eq!(link_of("mlx4"), infiniband("mlx4_", 16));
        assert_eq!(link_of("mlx5"), infiniband("mlx5_", 16));
        assert_eq!(link_of("hfi1"), infiniband("hfi1_", 16));
        assert_eq!(link_of("bnxt_re"), roce("bnxt_re", 126));
        assert_eq!(link_of("irdma"), roce("irdma", 8));
        assert_eq!(link_of("hns"), roce("hns_", 128));
        assert_eq!(link_of("rxe"), roce("rxe", 128));
        assert_eq!(link_of("mana"), roce("mana_", 16));
        assert_eq!(link_of("qedr"), roce("qedr", 32));
        for (device, atomics) in [
            ("mlx5", "HCA (IBV_ATOMIC_HCA)"),
            ("hfi1", "HCA, also with CPUs (IBV_ATOMIC_GLOB)"),
            ("mana", "Active Messages (the HCA has none)"),
        ] {
            let reports = lines(&format!("device={device}"), "", "0: use = chosen; ");
            let text = format!("; atomics = {atomics}; ");
            assert!(reports[0].contains(&text), "{reports:?}");
        }
    }

    #[test]
    fn reports() {
        let listed = lines(
            "hcas=2 ports=2",
            "GASNET_IBV_LIST_PORTS=1 GASNET_IBV_LIST_PORTS_NODES=1",
            "GASNet: ibv: rank ",
        );
        let port = |name| format!("GASNet: ibv: rank 1 detects {name}: InfiniBand, active");
        assert_eq!(
            listed,
            ["emu0 port 1", "emu0 port 2", "emu1 port 1", "emu1 port 2"].map(port)
        );
        let warning = |variables| lines("hcas=2", variables, "WARNING: ");
        let unused =
            "WARNING: ibv: this process does not use emu1, because it uses one HCA unless GASNET_IBV_MAX_HCAS is 2 \
                      or more. GASNET_IBV_PORTS names those to use; GASNET_IBV_PORTS_VERBOSE=0 suppresses this \
                      warning.";
        assert_eq!(warning(""), [unused]);
        assert_eq!(warning("GASNET_IBV_PORTS_VERBOSE=0"), [""; 0]);
        assert_eq!(warning("GASNET_QUIET=1"), [""; 0]);
        assert_eq!(
            warning("GASNET_IBV_PORTS=emu0 GASNET_HCA_ID=emu1"),
            ["WARNING: ibv: GASNET_HCA_ID has no effect. GASNET_IBV_PORTS selects HCAs and ports."]
        );
        let hcas = lines("hcas=2 no-srq", "GASNET_IBV_PORTS=emu1", "emu");
        for (line, start) in hcas.iter().zip([
            "emu0: use = possible: GASNET_IBV_PORTS=emu0 selects it; firmware = 1.0.0; ports = port 1: InfiniBand, \
             active, LID 1; receive buffers = of each connection (no SRQ); ",
            "emu1: use = chosen; firmware = 1.0.0; ports = port 1: InfiniBand, active, LID 5; receive buffers = of ",
        ]) {
            assert!(line.starts_with(start), "{line}");
        }
        let hcas = lines("link=roce", "", "emu0: ");
        let port = "ports = port 1: Ethernet, active, RoCE v2, GID 3 (::ffff:10.0.0.1); ";
        assert!(hcas[0].contains(port), "{hcas:?}");
    }

    #[test]
    fn errors() {
        for (options, variables, what) in [
            (
                "",
                "GASNET_IBV_PORTS=emu1",
                "GASNET_IBV_PORTS=emu1 names no active port: this host has emu0 port 1: ",
            ),
            (
                "port-down=0:1:0",
                "",
                "no port of an HCA is active: this host has emu0 port 1: InfiniBand, down",
            ),
            ("hcas=0", "", "ibv_get_device_list lists no HCA"),
            (
                "device=efa",
                "",
                "no HCA can be used: this host has efa_0: not supported, as it has no reliable connections. It may be \
                 EFA of AWS, which the ofi conduit uses (GASNET_CONDUIT=ofi).",
            ),
            (
                "iwarp",
                "",
                "no HCA can be used: this host has emu0: not supported, as it is for iWARP",
            ),
            (
                "",
                "GASNET_IBV_PKEY=0x12",
                "emu0 port 1: InfiniBand, active, but it is not in the partition GASNET_IBV_PKEY=0x12",
            ),
            (
                "link=roce",
                "GASNET_IBV_GID_INDEX=4",
                "emu0 port 1: Ethernet, active, but it has no GID at the index GASNET_IBV_GID_INDEX=4",
            ),
            (
                "ports=2",
                "GASNET_IBV_PORTS_TYPE=HRank GASNET_IBV_PORTS=emu0 GASNET_IBV_PORTS_1=emu0:1,2",
                "this rank uses 1 queue pairs on 1 HCAs for each peer, but rank 1 uses 2 on 1",
            ),
            (
                "hcas=2 ports=2",
                "GASNET_IBV_PORTS_TYPE=HRank GASNET_IBV_PORTS=emu0:1,2+emu1 GASNET_IBV_PORTS_1=emu0+emu1:1,2",
                "this rank and rank 1 use different numbers of ports of their HCAs",
            ),
        ] {
            let (has_passed, output) = run(options, variables, "job_of_two --ignored");
            assert!(!has_passed && output.contains(what), "{options} {variables}: {output}");
        }
    }
}
