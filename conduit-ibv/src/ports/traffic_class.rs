//! The traffic class of RoCE v2 packets, unless the user names one. By it a lossless network knows
//! them; in the class of all other packets they are dropped under load.
#![forbid(unsafe_code)]

use std::path::Path;

/// DSCP 26 and "ECN capable": what vendors recommend for RoCE, and UCX uses. A network without such
/// classes ignores it.
const USUAL: u8 = 106;

/// That of a port: the one that its administrator has set for all packets, or the usual one.
/// `root`: where `/sys` is.
pub fn of_port(root: &Path, hca: &str, port: u8) -> u8 {
    const NAME: &str = "Global tclass=";
    let file = root.join(format!("sys/class/infiniband/{hca}/tc/{port}/traffic_class"));
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let set = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(NAME)?.parse().ok());
    set.unwrap_or(USUAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_administrator_decides() {
        let root = std::env::temp_dir().join(format!("gasnet-ibv-classes-{}", std::process::id()));
        let folder = root.join("sys/class/infiniband/mlx5_0/tc/2");
        std::fs::create_dir_all(&folder).unwrap();
        let classes = [
            "Global tclass=160\nsrc_ip=10.0.0.1,tclass=32\n",
            "",
            "Global tclass=-1\n",
        ]
        .map(|text| {
            std::fs::write(folder.join("traffic_class"), text).unwrap();
            of_port(&root, "mlx5_0", 2)
        });
        let none = of_port(&root, "mlx5_0", 1);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((classes, none), ([160, USUAL, USUAL], USUAL));
    }
}
