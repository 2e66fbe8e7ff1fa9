//! Network interfaces and RDMA devices, from `/sys/class`.

use super::machine::{fact, Fact, Root};
use gasnet_sys::net;

/// `IFF_LOOPBACK` in `/sys/class/net/*/flags`.
const LOOPBACK: u64 = 0x8;

/// One line per interface: state, speed, addresses. The addresses are not from the root folder.
pub fn interfaces(root: &Root) -> Vec<Fact> {
    let addresses = net::interfaces();
    let mut others = false;
    let mut facts: Vec<Fact> = Vec::new();
    for name in root.names("/sys/class/net") {
        let read = |file: &str| root.read(&format!("/sys/class/net/{name}/{file}"));
        let Some(state) = read("operstate") else { continue };
        let flags = read("flags").and_then(|f| u64::from_str_radix(f.trim_start_matches("0x"), 16).ok());
        let loopback = flags.unwrap_or(0) & LOOPBACK != 0;
        let mut words = vec![if loopback { "loopback".to_owned() } else { state.clone() }];
        // -1 or empty without a link.
        let speed = read("speed").and_then(|s| s.parse::<i64>().ok()).filter(|&s| s > 0);
        words.extend(speed.map(|s| {
            if s % 1000 == 0 {
                format!("{} Gb/s", s / 1000)
            } else {
                format!("{s} Mb/s")
            }
        }));
        words.extend(read("mtu").map(|mtu| format!("MTU {mtu}")));
        let own = addresses.iter().filter(|(interface, ..)| *interface == name);
        let own: Vec<String> = own.map(|(.., own)| own.ip.to_string()).collect();
        others |= !loopback && state != "down" && !own.is_empty();
        words.extend(own);
        facts.push(fact(&name, words.join(", ")));
    }
    let none = facts.is_empty();
    facts.push(
        fact(
            "interfaces to other hosts",
            if none {
                "unknown"
            } else if others {
                "yes"
            } else {
                "none"
            },
        )
        .advise(
            !none && !others,
            "Only the loopback interface has an address, so jobs cannot span hosts. Bring an interface up (ip link set \
             NAME up) and assign an address.",
        ),
    );
    facts
}

/// One line per port of an RDMA device.
pub fn rdma(root: &Root) -> Vec<Fact> {
    let mut facts = Vec::new();
    for device in root.names("/sys/class/infiniband") {
        for port in root.names(&format!("/sys/class/infiniband/{device}/ports")) {
            let read = |file: &str| root.read(&format!("/sys/class/infiniband/{device}/ports/{port}/{file}"));
            // "4: ACTIVE"
            let state = read("state").map_or("unknown".into(), |s| {
                s.rsplit(": ").next().unwrap_or("unknown").to_owned()
            });
            let words = [Some(state.clone()), read("link_layer"), read("rate")]
                .into_iter()
                .flatten();
            facts.push(fact(format!("{device} port {port}"), words.collect::<Vec<_>>().join(", ")).advise(
                state != "ACTIVE",
                "This port is not active. Check its cable, and the subnet manager (InfiniBand) or the address of its \
                 interface (Ethernet).",
            ));
        }
    }
    if facts.is_empty() {
        facts.push(fact("devices", "none"));
        return facts;
    }
    let nodes = root.names("/dev/infiniband");
    let verbs = nodes.iter().filter(|name| name.starts_with("uverbs"));
    let (open, all) = verbs.fold((0, 0), |(open, all), name| {
        let path = root.0.join("dev/infiniband").join(name);
        let can = std::fs::OpenOptions::new().read(true).write(true).open(path).is_ok();
        (open + u32::from(can), all + 1)
    });
    facts.push(fact("device files", format!("{open} of {all} in /dev/infiniband can be opened")).advise(
        open < all || all == 0,
        "Programs of this user need them to use the devices. Load ib_uverbs (modprobe ib_uverbs); in a container pass \
         --device=/dev/infiniband.",
    ));
    facts
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::Machine;
    use super::*;

    #[test]
    fn interfaces_and_their_state() {
        let machine = Machine::new(
            "net",
            &[
                ("/sys/class/net/lo/operstate", "unknown\n"),
                ("/sys/class/net/lo/flags", "0x9\n"),
                ("/sys/class/net/lo/mtu", "65536\n"),
                ("/sys/class/net/fast0/operstate", "up\n"),
                ("/sys/class/net/fast0/flags", "0x1003\n"),
                ("/sys/class/net/fast0/speed", "100000\n"),
                ("/sys/class/net/fast0/mtu", "9000\n"),
                ("/sys/class/net/slow0/operstate", "down\n"),
                ("/sys/class/net/slow0/flags", "0x1002\n"),
                ("/sys/class/net/slow0/speed", "-1\n"),
                ("/sys/class/net/bonding_masters", "\n"),
            ],
        );
        let facts = interfaces(&machine.0);
        assert!(Machine::find(&facts, "lo").text.starts_with("loopback, MTU 65536"));
        assert_eq!(Machine::find(&facts, "fast0").text, "up, 100 Gb/s, MTU 9000");
        assert_eq!(Machine::find(&facts, "slow0").text, "down");
        // Neither interface to other hosts has an address here.
        assert!(Machine::find(&facts, "interfaces to other hosts").advice.is_some());
        assert_eq!(facts.len(), 4);
    }

    #[test]
    fn ports_of_rdma_devices() {
        let machine = Machine::new(
            "rdma",
            &[
                ("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
                ("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n"),
                ("/sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n"),
                ("/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"),
                ("/dev/infiniband/uverbs0", ""),
            ],
        );
        let facts = rdma(&machine.0);
        let up = Machine::find(&facts, "mlx5_0 port 1");
        assert!(up.text == "ACTIVE, InfiniBand, 200 Gb/sec (4X HDR)" && up.advice.is_none());
        assert!(Machine::find(&facts, "mlx5_1 port 1").advice.is_some());
        assert!(Machine::find(&facts, "device files").advice.is_none());
        let none = Machine::new("no-rdma", &[]);
        assert_eq!(rdma(&none.0), vec![fact("devices", "none")]);
    }
}
