//! Tests of the table as a whole.

use super::*;

fn load(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::from_env(&[], pairs.iter().map(|(n, v)| ((*n).into(), (*v).into())))
}

#[test]
fn names_are_unique_and_documented() {
    for (i, v) in TABLE.iter().enumerate() {
        // Variables of gasnetrun have no prefix in the reference either.
        assert!(
            v.name.starts_with("GASNET_") || v.scope == Scope::Gasnetrun,
            "{}",
            v.name
        );
        assert!(TABLE[..i].iter().all(|w| w.name != v.name), "{} twice", v.name);
        assert!(!v.section.is_empty(), "section of {}", v.name);
    }
}

#[test]
fn defaults_and_set_values() {
    let config = load(&[
        ("GASNET_PSHM_NODES", "7"),
        ("GASNET_WAITMODE", "Spin"),
        ("GASNET_FREEZE", ""),
    ])
    .unwrap();
    assert_eq!(config.get(&PSHM_NODES), 7);
    assert_eq!(config.get(&WAITMODE), WaitMode::Spin);
    assert!(!config.get(&FREEZE) && !config.is_set(&FREEZE));
    assert!(config.is_set(&PSHM_NODES));
    assert_eq!(config.get(&EXITTIMEOUT), None);
    assert_eq!(config.get(&COLL_SCRATCH_SIZE), 2 << 20);
    assert_eq!(config.get(&BACKTRACE_TYPE), None);
    assert_eq!(config.get(&MAX_SEGSIZE).per, Per::Host);
}

#[test]
fn all_problems_are_reported_and_name_their_variable() {
    let error = load(&[
        ("GASNET_PSHM_NODES", "abc"),
        ("GASNET_FREEZE", "maybe"),
        ("GASNET_CATCH_EXIT", "QUICK"),
    ])
    .unwrap_err();
    assert_eq!(error.problems.len(), 3);
    assert!(error.to_string().contains(
        "GASNET_PSHM_NODES=abc: a whole number from 1 to 1048576 (ranks) is expected; leave it unset for the default, 1"
    ));
    for bad in ["0", "-1", "1048577", "99999999999999999999", "1.5", "4K"] {
        assert!(load(&[("GASNET_PSHM_NODES", bad)]).is_err(), "{bad}");
    }
}

/// Variables that launchers and job scripts of clients set for every conduit (clients.md, F).
const SET_BY_CLIENTS: &[&str] = &[
    "PSHM_NODES",
    "MAX_SEGSIZE",
    "PHYSMEM_NOPROBE",
    "SUPERNODE_MAXSIZE",
    "HOST_DETECT",
    "COLL_SCRATCH_SEG_SIZE",
    "SPAWNFN",
    "SPAWNER",
    "SMP_SPAWNER",
    "IBV_SPAWNER",
    "OFI_SPAWNER",
    "UCX_SPAWNER",
    "IBV_SPAWNFN",
    "SPAWN_CONTROL",
    "SSH_SERVERS",
    "MASTERIP",
    "WORKERIP",
    "ROUTE_OUTPUT",
    "SPAWN_VERBOSE",
    "QUIET",
    "BACKTRACE",
    "FREEZE_ON_ERROR",
    "VERBOSEENV",
    "SUPPRESS_DEBUG_WARNING",
    "CATCH_EXIT",
    "EXITTIMEOUT_FACTOR",
    "EXITTIMEOUT_MIN",
    "BARRIER",
    "RCV_THREAD",
    "DOMAIN_COUNT",
    "AM_DOMAIN_POLL_MASK",
];

#[test]
fn variables_that_clients_set_are_known() {
    for name in SET_BY_CLIENTS {
        assert!(
            TABLE.iter().any(|v| v.name.strip_prefix("GASNET_") == Some(name)),
            "{name}"
        );
    }
}

#[test]
fn values_without_effect_are_not_checked() {
    let config = load(&[("GASNET_DISABLE_ENVDECODE", "much")]).unwrap();
    assert!(!config.get(&DISABLE_ENVDECODE));
}

#[test]
fn families_have_numbered_members() {
    const FAMILY: Key<Option<String>> = text("GASNET_FAMILY_*", "A test's.");
    static TABLES: [&[Variable]; 1] = [&[FAMILY.variable]];
    let set = [
        ("GASNET_FAMILY_1_0", "b"),
        ("GASNET_FAMILY_0", "a"),
        ("GASNET_FAMILY_2", ""),
        ("GASNET_FAMILY_", "x"),
        ("GASNET_FAMILY_0_X", "x"),
    ];
    let config = Config::from_env(&TABLES, set.iter().map(|(n, v)| ((*n).into(), (*v).into()))).unwrap();
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let members = [("GASNET_FAMILY_0", "a"), ("GASNET_FAMILY_1_0", "b")].map(owned);
    assert_eq!(config.members_of(&FAMILY), members);
    assert_eq!(config.unknown(), ["GASNET_FAMILY_", "GASNET_FAMILY_0_X"]);
    let lines = config.verbose();
    assert!(lines.contains("ENV parameter: GASNET_FAMILY_0 = a\n"), "{lines}");
    assert!(!lines.contains("GASNET_FAMILY_* ="), "{lines}");
}

#[test]
fn unknown_names_are_listed_with_a_suggestion() {
    let config = load(&[("GASNET_PSHM_NODE", "4"), ("GASNET_MY_CLIENT", "x"), ("HOME", "/")]).unwrap();
    assert_eq!(config.unknown(), ["GASNET_MY_CLIENT", "GASNET_PSHM_NODE"]);
    let lines = config.verbose();
    assert!(
        lines.contains("GASNET_PSHM_NODE is set, but unknown to GASNet; did you mean GASNET_PSHM_NODES?\n"),
        "{lines}"
    );
    assert!(
        lines.contains("GASNET_MY_CLIENT is set, but unknown to GASNet\n"),
        "{lines}"
    );
}

#[test]
fn misspelt_names_are_known_without_verboseenv() {
    const PORTS: Key<Option<String>> = text("GASNET_IBV_PORTS", "A test's.");
    const MOST: Key<u32> = count("GASNET_IBV_MAX_HCAS", "1", 1, 8, "A test's.");
    static TABLES: [&[Variable]; 1] = [&[PORTS.variable, MOST.variable]];
    let load = |tables: &[&'static [Variable]], pairs: &[(&str, &str)]| {
        Config::from_env(tables, pairs.iter().map(|(n, v)| ((*n).into(), (*v).into()))).unwrap()
    };
    let misspelt = |name, value| {
        load(&TABLES, &[(name, value)])
            .misspelt()
            .first()
            .map(|(_, meant)| *meant)
    };
    assert_eq!(misspelt("GASNET_IBV_PORT", "mlx5_0"), Some("GASNET_IBV_PORTS"));
    assert_eq!(misspelt("GASNET_IBV_MAX_HCA", "2"), Some("GASNET_IBV_MAX_HCAS"));
    assert_eq!(misspelt("GASNET_PSHM_NODE", "4"), Some("GASNET_PSHM_NODES"));
    for (name, value) in [
        ("GASNET_IBV_PORT", ""),
        // The variable does not take the value.
        ("GASNET_IBV_MAX_HCA", "many"),
        // Of a conduit that is not here.
        ("GASNET_OFI_PORT", "x"),
        // Without effect.
        ("GASNET_PHYSMEM_PROBE", "0"),
    ] {
        assert_eq!(misspelt(name, value), None, "{name}");
    }
    // A library of another conduit.
    let config = load(&[], &[("GASNET_IBV_MAX_HCAS", "2"), ("GASNET_IBV_PORT", "mlx5_0")]);
    assert_eq!(config.misspelt(), []);
    let lines = config.verbose();
    for name in ["GASNET_IBV_MAX_HCAS", "GASNET_IBV_PORT"] {
        let line = format!("ENV parameter: {name} is set, but this library has no conduit ibv\n");
        assert!(lines.contains(&line), "{lines}");
    }
}

/// Names of clients and of their build scripts.
#[test]
fn names_of_clients_are_not_misspelt() {
    for name in [
        "CONFIGURE_ARGS",
        "ROOT",
        "DIR",
        "HOME",
        "VERSION",
        "CONDUITS",
        "SPAWNER_ARGS",
        "SPAWN_ARGS",
        "TESTS_PATH",
        "NODES",
        "IBV_PORTS_0",
        "OFI_DEVICE_0",
        "PHYSMEM_PROBE",
        "ODP_VERBOSE",
        "USE_ODP",
        "USE_XRC",
        "CLIENT_SETTING",
        "FH_STATS",
        "NPAM_BYTES",
        "SSH_NODE_COUNT",
        "LOCAL_RANK",
        "HOST_FILE",
    ] {
        let name = format!("GASNET_{name}");
        let config = load(&[(name.as_str(), "1")]).unwrap();
        assert_eq!(config.misspelt(), [], "{name}");
    }
}

#[test]
fn verbose_lines_have_the_documented_form() {
    let lines = load(&[("GASNET_PSHM_NODES", "2")]).unwrap().verbose();
    assert!(
        lines.contains("ENV parameter: GASNET_SPAWN_VERBOSE = NO                        (default)\n"),
        "{lines}"
    );
    assert!(lines.contains("ENV parameter: GASNET_PSHM_NODES = 2\n"), "{lines}");
}

#[test]
fn conduit_tables_join() {
    static EXTRA: &[Variable] = &[count::<u32>("GASNET_EXTRA_DEPTH", "8", 1, 64, "Depth.")
        .variable
        .section("extra")];
    const DEPTH: Key<u32> = count("GASNET_EXTRA_DEPTH", "8", 1, 64, "Depth.");
    let config = Config::from_env(&[EXTRA], [("GASNET_EXTRA_DEPTH".into(), "16".into())].into_iter()).unwrap();
    assert_eq!(config.get(&DEPTH), 16);
}

#[test]
fn conduits_read_their_own_declaration_of_a_name() {
    const NARROW: Key<u32> = count("GASNET_EXTRA_DEPTH", "64", 1, 64, "Depth of one.");
    const WIDE: Key<u32> = count("GASNET_EXTRA_DEPTH", "256", 1, 1000, "Depth of the other.");
    static TABLES: [&[Variable]; 2] = [&[NARROW.variable], &[WIDE.variable]];
    let load = |value: &str| Config::from_env(&TABLES, [("GASNET_EXTRA_DEPTH".into(), value.into())].into_iter());
    let config = load("").unwrap();
    assert_eq!((config.get(&NARROW), config.get(&WIDE)), (64, 256));
    assert!(!config.is_set(&NARROW) && config.check(TABLES[0]).is_ok());
    let config = load("32").unwrap();
    assert_eq!((config.get(&NARROW), config.get(&WIDE)), (32, 32));
    let config = load("100").unwrap();
    assert_eq!((config.get(&NARROW), config.get(&WIDE)), (64, 100));
    assert!(config.check(TABLES[1]).is_ok() && !config.is_set(&NARROW) && config.is_set(&WIDE));
    let refused = config.check(TABLES[0]).unwrap_err().to_string();
    assert!(refused.starts_with("GASNET_EXTRA_DEPTH"), "{refused}");
    assert_eq!(load("1001").unwrap_err().problems.len(), 1);
}

/// Every variable with random texts: no panic, and an accepted value is shown as text that parses
/// to the same value.
#[test]
fn random_values_never_panic_and_show_what_they_are() {
    const ALPHABET: &[u8] = b"0123456789.-+/eExXKMGTPBHbygsSIGHUPno,*:=^ kildeaytorsnp";
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let mut accepted = 0;
    for round in 0..3000 {
        for v in TABLE {
            let text = if round % 2 == 0 && !v.default.is_empty() {
                let mut bytes = v.default.as_bytes().to_vec();
                let at = next() % bytes.len();
                bytes[at] = ALPHABET[next() % ALPHABET.len()];
                String::from_utf8_lossy(&bytes).into_owned()
            } else {
                (0..next() % 12)
                    .map(|_| ALPHABET[next() % ALPHABET.len()] as char)
                    .collect()
            };
            match v.parse(&text) {
                Err(message) => assert!(message.starts_with(v.name), "{message}"),
                Ok(value) => {
                    accepted += 1;
                    let shown = v.kind.show(&value);
                    if !matches!(v.kind, ValueType::Path | ValueType::Text) {
                        assert_eq!(v.kind.parse(&shown), Ok(value), "{}={text} shown as {shown}", v.name);
                    }
                }
            }
        }
    }
    assert!(accepted > 10_000);
}
