//! The values of `GASNET_IBV_PORTS`: which ports may be used.
#![forbid(unsafe_code)]

use super::{Hca, Port};
use std::str::FromStr;

/// HCAs and their ports: "hca:port,port+hca".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    hca: String,
    /// Empty: the first one that could connect.
    ports: Vec<u32>,
}

/// Accepted values, as a noun phrase.
pub const ACCEPTS: &str = "a list such as mlx5_0+mlx5_1:1,2";

impl FromStr for Filter {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let entry = |text: &str| {
            let (hca, ports) = text.split_once(':').unwrap_or((text, ""));
            let number = |port: &str| port.parse::<u32>().map_err(|_| ());
            Ok(Entry {
                hca: hca.trim().to_owned(),
                ports: parts(ports, ',').map(number).collect::<Result<_, ()>>()?,
            })
        };
        let entries: Vec<Entry> = parts(text, '+').map(entry).collect::<Result<_, ()>>()?;
        let is_valid = !entries.is_empty() && entries.iter().all(|entry| !entry.hca.is_empty());
        if is_valid {
            Ok(Self(entries))
        } else {
            Err(())
        }
    }
}

/// The parts of a list that are not empty.
fn parts(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).map(str::trim).filter(|part| !part.is_empty())
}

impl Filter {
    /// The ports of an HCA that may be used.
    pub fn ports<'a>(&self, hca: &'a Hca) -> Vec<&'a Port> {
        let entries: Vec<&Entry> = self.0.iter().filter(|entry| entry.hca == hca.name).collect();
        let first = hca.usable().next().map(|port| port.number);
        let may_use = |port: &&Port| {
            let names = |entry: &&Entry| match &*entry.ports {
                [] => first == Some(port.number),
                ports => ports.contains(&port.number.into()),
            };
            entries.iter().any(names)
        };
        hca.usable().filter(may_use).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::choose::tests::hca;
    use super::*;

    #[test]
    fn malformed() {
        for text in ["", "+", "mlx5_0:x", "mlx5_0:1:2", ":1", "mlx5_0+:1", "mlx5_0:-1"] {
            assert_eq!(text.parse::<Filter>(), Err(()), "{text}");
        }
    }

    #[test]
    fn ports_that_may_be_used() {
        // Ports 2, 3 and 4 are active.
        let hca = hca("mlx5_1", "DAAA");
        let of = |text: &str| {
            let filter: Filter = text.parse().unwrap();
            filter.ports(&hca).iter().map(|port| port.number).collect::<Vec<_>>()
        };
        assert_eq!(of("mlx5_0+mlx5_1"), [2]);
        assert_eq!(of("mlx5_1:"), [2]);
        assert_eq!(of(" mlx5_1 : 4 , 3 +mlx5_9:1,2"), [3, 4]);
        assert_eq!(of("mlx5_1:4+mlx5_1:4+mlx5_1"), [2, 4]);
        assert!(of("mlx5_1:1,9").is_empty() && of("mlx5_10+mlx5_").is_empty());
    }
}
