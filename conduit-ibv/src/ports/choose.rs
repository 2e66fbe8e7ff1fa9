//! The choice of HCAs and ports.
#![forbid(unsafe_code)]

use super::filter::{self, Filter};
use super::{Hca, LinkLayer, Port, Wanted, MOST_PATHS, MOST_RAILS};
use gasnet_conduit::locality;

/// The ports that a process uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Of each path, the index of its HCA and the number of its port.
    pub paths: Vec<(usize, u8)>,
    /// Of each path, the port that takes over its traffic: another one of the HCA that may be used.
    pub alternates: Vec<Option<u8>>,
    /// A warning for the user, without a full stop.
    pub warning: Option<String>,
}

/// Chooses ports. `distances` ranks HCAs by their distance from the process. The error is a message
/// without a full stop.
pub fn choose(
    hcas: &[Hca],
    wanted: &Wanted,
    distances: impl FnOnce(&[&str]) -> Vec<Option<usize>>,
) -> Result<Choice, String> {
    let filter = wanted.filter()?;
    let ports = wanted.ports_of(hcas);
    let ports: Vec<Vec<&Port>> = match &filter {
        Some(_) => ports,
        None => first_of_each(&ports),
    };
    let usable: Vec<usize> = (0..hcas.len()).filter(|index| !ports[*index].is_empty()).collect();
    if usable.is_empty() {
        return Err(wanted.nothing(hcas));
    }
    let most = wanted.most_hcas();
    let used = if usable.len() <= most || wanted.is_fixed() {
        usable.iter().copied().take(most).collect()
    } else {
        near(hcas, &usable, wanted.turn, most, distances)
    };
    let of = |index: &usize| ports[*index].iter().map(|port| (*index, *port)).collect();
    let mut chosen: Vec<(usize, &Port)> = used.iter().flat_map::<Vec<_>, _>(of).collect();
    let found = chosen.len();
    let (most_paths, count) = match wanted.queue_pairs {
        0 => (MOST_PATHS, found.min(MOST_PATHS)),
        some => (some, some),
    };
    chosen.truncate(most_paths);
    have_one_link_layer(hcas, &chosen)?;
    let may_be_used = |hca: usize| match &filter {
        Some(_) => ports[hca].clone(),
        None => hcas[hca].usable().collect(),
    };
    let paths = || chosen.iter().cycle().take(count);
    let alternates = paths().map(|(hca, port)| alternate(&may_be_used(*hca), port));
    let alternates = alternates.collect();
    let paths = paths().map(|(hca, port)| (*hca, port.number)).collect();
    let is_used = |index: &&usize| chosen.iter().any(|(hca, _)| hca == *index);
    let unused = usable.iter().filter(|index| !is_used(index));
    let unused: Vec<&str> = unused.map(|index| &*hcas[*index].name).collect();
    let warning = warning(wanted, &unused, found, most_paths);
    Ok(Choice {
        paths,
        alternates,
        warning,
    })
}

/// A warning of HCAs that are not used, or of ports beyond the largest number of paths.
fn warning(wanted: &Wanted, unused: &[&str], found: usize, most_paths: usize) -> Option<String> {
    let most = wanted.most_hcas();
    let why = match wanted.queue_pairs {
        0 if found > most_paths => format!("a connection has at most {MOST_PATHS} queue pairs"),
        some if found > most_paths || some == most => format!("GASNET_NUM_QPS is {some}"),
        _ if most == MOST_RAILS => format!("a process uses at most {MOST_RAILS} HCAs"),
        _ if wanted.hcas.is_none() => "it uses one HCA unless GASNET_IBV_MAX_HCAS is 2 or more".into(),
        _ => format!("GASNET_IBV_MAX_HCAS is {most}"),
    };
    let what = if !unused.is_empty() {
        format!("this process does not use {}", unused.join(", "))
    } else if wanted.queue_pairs == 0 && found > most_paths {
        format!("only {most_paths} of {found} ports are used")
    } else {
        return None;
    };
    Some(format!(
        "{what}, because {why}. GASNET_IBV_PORTS names those to use; GASNET_IBV_PORTS_VERBOSE=0 suppresses this warning"
    ))
}

/// The `most` nearest of the usable HCAs; where no distance is known, processes take turns.
fn near(
    hcas: &[Hca],
    usable: &[usize],
    turn: usize,
    most: usize,
    distances: impl FnOnce(&[&str]) -> Vec<Option<usize>>,
) -> Vec<usize> {
    let names: Vec<&str> = usable.iter().map(|index| &*hcas[*index].name).collect();
    let mut ranks = distances(&names);
    if ranks.iter().all(Option::is_none) {
        ranks = vec![Some(1); names.len()];
    }
    let near = locality::nearest(&ranks, turn, most);
    near.into_iter().map(|index| usable[index]).collect()
}

/// The first usable port of each HCA. Where there are InfiniBand ports, those on Ethernet are for
/// other purposes.
fn first_of_each<'a>(ports: &[Vec<&'a Port>]) -> Vec<Vec<&'a Port>> {
    let is_infiniband = |port: &&Port| port.link == LinkLayer::InfiniBand;
    let has_infiniband = ports.iter().flatten().any(is_infiniband);
    let first = |ports: &Vec<&'a Port>| {
        let port = ports.iter().find(|port| !has_infiniband || is_infiniband(port));
        port.into_iter().copied().collect()
    };
    ports.iter().map(first).collect()
}

/// The next InfiniBand port after one, in a circle.
fn alternate(ports: &[&Port], port: &Port) -> Option<u8> {
    let others = ports.iter().filter(|other| other.number != port.number);
    let on_infiniband = others.filter(|other| [port.link, other.link] == [LinkLayer::InfiniBand; 2]);
    let next = on_infiniband.min_by_key(|other| (other.number < port.number, other.number));
    next.map(|next| next.number)
}

fn have_one_link_layer(hcas: &[Hca], ports: &[(usize, &Port)]) -> Result<(), String> {
    let (first, port) = ports[0];
    match ports.iter().find(|(_, other)| other.link != port.link) {
        None => Ok(()),
        Some((index, other)) => Err(format!(
            "{} port {} is on {}, but {} port {} is on {}. Choose ports of one kind with GASNET_IBV_PORTS",
            hcas[first].name, port.number, port.link, hcas[*index].name, other.number, other.link
        )),
    }
}

impl Wanted {
    /// Whether all ports that a filter names are used.
    pub fn is_fixed(&self) -> bool {
        self.ports.is_some() && !self.is_nearest
    }

    /// Most HCAs that are used.
    fn most_hcas(&self) -> usize {
        let most = self.hcas.unwrap_or(if self.is_fixed() { MOST_RAILS } else { 1 });
        most.min(match self.queue_pairs {
            0 => MOST_RAILS,
            some => some,
        })
    }

    /// The ports of each HCA that may be used.
    pub fn ports_of<'a>(&self, hcas: &'a [Hca]) -> Vec<Vec<&'a Port>> {
        let filter = self.filter().ok().flatten();
        let is_reached = |port: &&Port| self.subnet.is_none() || self.subnet == port.subnet();
        let of = |hca: &'a Hca| match &filter {
            Some(filter) => filter.ports(hca).into_iter().filter(is_reached).collect(),
            None => hca.usable().filter(is_reached).collect(),
        };
        hcas.iter().map(of).collect()
    }

    fn filter(&self) -> Result<Option<Filter>, String> {
        let Some((variable, value)) = &self.ports else {
            return Ok(None);
        };
        let filter = value.parse();
        let filter = filter.map_err(|()| format!("{variable}={value}: {} is expected", filter::ACCEPTS))?;
        Ok(Some(filter))
    }

    /// Why no port can be used.
    fn nothing(&self, hcas: &[Hca]) -> String {
        let all: Vec<String> = hcas.iter().flat_map(Hca::lines).collect();
        let has_usable = hcas.iter().flat_map(Hca::usable).next().is_some();
        let has_active = hcas
            .iter()
            .flat_map(|hca| hca.ports.iter().flatten())
            .any(Port::is_active);
        let found = format!("this host has {}", all.join("; "));
        match &self.ports {
            Some((variable, value)) if has_usable => {
                format!("{variable}={value} names no active port: {found}. Name one that is active")
            }
            _ if hcas.iter().all(|hca| hca.ports.is_err()) => format!("no HCA can be used: {found}"),
            _ if has_active => format!("no port of an HCA can connect: {found}"),
            _ => format!("no port of an HCA is active: {found}. ibv_devinfo shows what it waits for"),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::ffi::LocalPort;
    use crate::ports::Link;
    use gasnet_ibv_abi as abi;

    /// An HCA with a port for each letter: A: active, D: down, I: waiting for a subnet manager, X:
    /// active, but without a GID; on Ethernet in lower case.
    pub fn hca(name: &str, ports: &str) -> Hca {
        let port = |(index, letter): (usize, char)| Port {
            number: index as u8 + 1,
            state: match letter.to_ascii_uppercase() {
                'A' | 'X' => abi::IBV_PORT_ACTIVE,
                'D' => abi::IBV_PORT_DOWN,
                _ => abi::IBV_PORT_INIT,
            },
            link: if letter.is_ascii_lowercase() {
                LinkLayer::Ethernet
            } else {
                LinkLayer::InfiniBand
            },
            local: match letter.to_ascii_uppercase() {
                'A' => Ok((LocalPort::default(), Link::InfiniBand)),
                _ => Err("it has no GID".to_owned()),
            },
        };
        Hca {
            name: name.to_owned(),
            ports: Ok(ports.chars().enumerate().map(port).collect()),
        }
    }

    fn hcas(ports: &[&str]) -> Vec<Hca> {
        let name = |(index, ports): (usize, &&str)| hca(&format!("mlx5_{index}"), ports);
        ports.iter().enumerate().map(name).collect()
    }

    /// `filter`, HCAs (0: not set), queue pairs.
    fn wanted(filter: &str, hcas: usize, queue_pairs: usize) -> Wanted {
        Wanted {
            ports: (!filter.is_empty()).then(|| ("GASNET_IBV_PORTS".to_owned(), filter.to_owned())),
            hcas: (hcas > 0).then_some(hcas),
            queue_pairs,
            ..Wanted::default()
        }
    }

    fn unknown(names: &[&str]) -> Vec<Option<usize>> {
        vec![None; names.len()]
    }

    fn paths(ports: &[&str], wanted: &Wanted) -> Vec<(usize, u8)> {
        choose(&hcas(ports), wanted, unknown).unwrap().paths
    }

    #[test]
    fn one_port_of_one_hca_without_a_filter() {
        assert_eq!(paths(&["DAA"], &wanted("", 0, 0)), [(0, 2)]);
        assert_eq!(paths(&["D", "A"], &wanted("", 0, 0)), [(1, 1)]);
        // Ethernet only where there is no InfiniBand.
        assert_eq!(paths(&["a", "aA", "aI"], &wanted("", 8, 0)), [(1, 2)]);
        assert_eq!(paths(&["da", "I"], &wanted("", 0, 0)), [(0, 2)]);
        // Only ports that can connect.
        assert_eq!(paths(&["xa", "X"], &wanted("", 0, 0)), [(0, 2)]);
        assert_eq!(paths(&["x", "a"], &wanted("mlx5_0+mlx5_1", 0, 0)), [(1, 1)]);
    }

    #[test]
    fn processes_use_near_hcas_and_take_turns() {
        let all = hcas(&["A", "D", "A", "A"]);
        let of = |turn, most, ranks: [Option<usize>; 3]| {
            let wanted = Wanted {
                turn,
                ..wanted("", most, 0)
            };
            let choice = choose(&all, &wanted, |names| {
                assert_eq!(names, ["mlx5_0", "mlx5_2", "mlx5_3"]);
                ranks.to_vec()
            });
            choice.unwrap().paths.iter().map(|(hca, _)| *hca).collect::<Vec<_>>()
        };
        assert_eq!([0, 1, 3].map(|turn| of(turn, 1, [None; 3])), [[0], [2], [0]]);
        let ranks = [Some(2), Some(1), Some(1)];
        assert_eq!([0, 1, 2].map(|turn| of(turn, 1, ranks)), [[2], [3], [2]]);
        assert_eq!([0, 1].map(|turn| of(turn, 2, ranks)), [[2, 3]; 2]);
    }

    #[test]
    fn a_filter_names_hcas_and_ports() {
        let all = ["AA", "AA", "A", "D"];
        assert_eq!(paths(&all, &wanted("mlx5_1+mlx5_0+mlx5_3+x", 0, 0)), [(0, 1), (1, 1)]);
        assert_eq!(paths(&all, &wanted("mlx5_1:2,1+mlx5_1:2", 0, 0)), [(1, 1), (1, 2)]);
        assert_eq!(paths(&all, &wanted("mlx5_1+mlx5_0:2", 1, 0)), [(0, 2)]);
        assert_eq!(
            paths(&["AAAA"; 4], &wanted("mlx5_0:1,2,3,4+mlx5_1:1,2,3,4+mlx5_2", 0, 0)).len(),
            8
        );
    }

    #[test]
    fn the_nearest_of_those_that_a_filter_names() {
        let all = hcas(&["A", "A", "AA", "A"]);
        let wanted = Wanted {
            is_nearest: true,
            ..wanted("mlx5_0+mlx5_2:2+mlx5_3", 0, 0)
        };
        let choice = choose(&all, &wanted, |names| {
            assert_eq!(names, ["mlx5_0", "mlx5_2", "mlx5_3"]);
            vec![Some(3), Some(1), Some(2)]
        });
        assert_eq!(choice.unwrap().paths, [(2, 2)]);
    }

    #[test]
    fn queue_pairs_take_turns_at_ports() {
        let all = ["AA", "AA"];
        assert_eq!(paths(&all, &wanted("", 0, 3)), [(0, 1); 3]);
        let filter = "mlx5_0:1,2+mlx5_1";
        assert_eq!(
            paths(&all, &wanted(filter, 0, 5)),
            [(0, 1), (0, 2), (1, 1), (0, 1), (0, 2)]
        );
        assert_eq!(paths(&all, &wanted(filter, 0, 1)), [(0, 1)]);
        assert_eq!(paths(&all, &wanted("", 2, 1)), [(0, 1)]);
    }

    #[test]
    fn another_port_takes_over() {
        let of = |ports: &[&str], wanted: &Wanted| choose(&hcas(ports), wanted, unknown).unwrap().alternates;
        assert_eq!(of(&["A", "AA"], &wanted("", 2, 0)), [None, Some(2)]);
        assert_eq!(of(&["DADA"], &wanted("", 0, 2)), [Some(4); 2]);
        assert_eq!(of(&["aa"], &wanted("", 0, 0)), [None]);
        assert_eq!(of(&["Aa"], &wanted("", 0, 0)), [None]);
        // Only ports that the filter names.
        assert_eq!(of(&["AAA"], &wanted("mlx5_0", 0, 0)), [None]);
        assert_eq!(of(&["AAA"], &wanted("mlx5_0:3,1", 0, 0)), [Some(3), Some(1)]);
        assert_eq!(of(&["AAA"], &wanted("mlx5_0:2,3", 0, 1)), [Some(3)]);
    }

    #[test]
    fn what_is_left_out_is_reported() {
        let warning = |ports: &[&str], wanted: &Wanted| choose(&hcas(ports), wanted, unknown).unwrap().warning;
        assert_eq!(warning(&["AA", "D"], &wanted("", 0, 0)), None);
        assert_eq!(warning(&["AA", "A"], &wanted("mlx5_1", 0, 0)), None);
        assert_eq!(warning(&["A", "a"], &wanted("", 0, 0)), None);
        for (ports, wanted, start) in [
            (
                vec!["A"; 2],
                wanted("", 0, 0),
                "this process does not use mlx5_1, because it uses one HCA unless GASNET_IBV_MAX_HCAS is 2 or more.",
            ),
            (
                vec!["A"; 2],
                wanted("", 1, 0),
                "this process does not use mlx5_1, because GASNET_IBV_MAX_HCAS is 1.",
            ),
            (
                vec!["A"; 9],
                wanted("", MOST_RAILS, 0),
                "this process does not use mlx5_8, because a process uses at most 8 HCAs.",
            ),
            (
                vec!["A"; 4],
                wanted("", 2, 3),
                "this process does not use mlx5_2, mlx5_3, because GASNET_IBV_MAX_HCAS is 2.",
            ),
            (
                vec!["A"; 2],
                wanted("mlx5_0+mlx5_1", 0, 1),
                "this process does not use mlx5_1, because GASNET_NUM_QPS is 1.",
            ),
            (
                vec!["AA"; 2],
                wanted("mlx5_0:1,2+mlx5_1", 2, 2),
                "this process does not use mlx5_1, because GASNET_NUM_QPS is 2.",
            ),
            (
                vec!["AAAAAAAAA"],
                wanted("mlx5_0:1,2,3,4,5,6,7,8,9", 0, 0),
                "only 8 of 9 ports are used, because a connection",
            ),
        ] {
            let why = warning(&ports, &wanted).unwrap();
            assert!(why.starts_with(start), "{why}");
        }
    }

    #[test]
    fn errors_name_what_was_found() {
        let error = |ports: &[&str], wanted: &Wanted| choose(&hcas(ports), wanted, unknown).unwrap_err();
        let why = error(&["A", "dI"], &wanted("mlx5_0:2+mlx5_1", 0, 0));
        assert_eq!(
            why,
            "GASNET_IBV_PORTS=mlx5_0:2+mlx5_1 names no active port: this host has mlx5_0 port 1: InfiniBand, active; \
             mlx5_1 port 1: Ethernet, down; mlx5_1 port 2: InfiniBand, waiting for a subnet manager. Name one that is \
             active"
        );
        for wanted in [wanted("", 0, 0), wanted("mlx5_0", 0, 0)] {
            let why = error(&["D"], &wanted);
            assert!(
                why.starts_with("no port of an HCA is active: this host has mlx5_0 port 1: "),
                "{why}"
            );
        }
        let why = error(&["xD"], &wanted("", 0, 0));
        assert!(
            why.starts_with(
                "no port of an HCA can connect: this host has mlx5_0 port 1: Ethernet, active, but it has no GID; "
            ),
            "{why}"
        );
        let why = error(&["A", "a"], &wanted("mlx5_0+mlx5_1", 0, 0));
        assert!(
            why.starts_with("mlx5_0 port 1 is on InfiniBand, but mlx5_1 port 1 is on Ethernet"),
            "{why}"
        );
        let why = error(&["A"], &wanted("mlx5_0:one", 0, 0));
        assert!(why.starts_with("GASNET_IBV_PORTS=mlx5_0:one: a list such as "), "{why}");
        let refused = Hca {
            name: "mlx5_7".to_owned(),
            ports: Err("cannot open mlx5_7: Permission denied".to_owned()),
        };
        let why = choose(&[refused], &Wanted::default(), unknown).unwrap_err();
        assert!(why.contains("Permission denied"), "{why}");
    }
}
