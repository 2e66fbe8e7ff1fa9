//! The HCAs and ports of this host.
#![forbid(unsafe_code)]

use super::choose::{self, Choice};
use super::subnet::{self, Prefix};
use super::{local_port, Link, Wanted};
use crate::ffi::{Context, Devices, Functions, LocalPort};
use crate::settings::PortSettings;
use gasnet_conduit::locality::{self, Topology};
use gasnet_ibv_abi as abi;
use std::net::IpAddr;
use std::path::Path;
use std::{fmt, fs};

/// Link layer of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE.
    Ethernet,
}

/// A port.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its number, from 1.
    pub number: u8,
    /// `IBV_PORT_*`; NOP: it cannot be queried.
    pub state: u32,
    /// Its link layer.
    pub link: LinkLayer,
    /// How packets leave it, or why it could not connect. The error is a message without a full
    /// stop.
    pub local: Result<(LocalPort, Link), String>,
}

/// An HCA.
#[derive(Clone, Debug)]
pub struct Hca {
    /// Its name: "mlx5_0".
    pub name: String,
    /// Its ports, or why they are not known.
    pub ports: Result<Vec<Port>, String>,
}

/// The HCAs of this host, opened.
pub struct Host {
    /// In the order of detection.
    pub hcas: Vec<Hca>,
    /// Of each, if it could be opened.
    pub contexts: Vec<Option<Context>>,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
        })
    }
}

impl Port {
    /// Whether it carries data.
    pub fn is_active(&self) -> bool {
        self.state == abi::IBV_PORT_ACTIVE
    }

    /// Prefix of its subnet, on InfiniBand.
    pub fn subnet(&self) -> Option<u64> {
        let (local, _) = self
            .local
            .as_ref()
            .ok()
            .filter(|_| self.link == LinkLayer::InfiniBand)?;
        let prefix = (u128::from_be_bytes(local.address.gid) >> 64) as u64;
        (prefix != 0).then_some(prefix)
    }

    fn obstacle(&self) -> &str {
        self.local.as_ref().map_or_else(|why| &**why, |_| "in an unknown state")
    }

    /// Whether it could connect to another one.
    pub fn is_usable(&self) -> bool {
        self.is_active() && self.local.is_ok()
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            abi::IBV_PORT_NOP => return write!(f, "port {}: {}", self.number, self.obstacle()),
            abi::IBV_PORT_DOWN => "down",
            abi::IBV_PORT_INIT => "waiting for a subnet manager",
            abi::IBV_PORT_ARMED => "armed by a subnet manager",
            abi::IBV_PORT_ACTIVE => "active",
            _ => "in an unknown state",
        };
        write!(f, "port {}: {}, {state}", self.number, self.link)?;
        if self.is_active() && !self.is_usable() {
            write!(f, ", but {}", self.obstacle())?;
        }
        if let Some(subnet) = self.subnet().filter(|subnet| *subnet != subnet::DEFAULT) {
            write!(f, ", subnet {}", Prefix(subnet))?;
        }
        Ok(())
    }
}

impl Hca {
    /// Its ports that could connect.
    pub fn usable(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().flatten().filter(|port| port.is_usable())
    }

    /// Prefix of the subnet of a port.
    pub fn subnet(&self, number: u8) -> Option<u64> {
        self.usable().find(|port| port.number == number)?.subnet()
    }

    /// How packets leave a port.
    pub fn local(&self, number: u8) -> Option<(LocalPort, Link)> {
        self.usable().find(|port| port.number == number)?.local.clone().ok()
    }

    /// A line for each port, or one about the HCA.
    pub fn lines(&self) -> Vec<String> {
        match &self.ports {
            Ok(ports) if ports.is_empty() => vec![format!("{} without ports", self.name)],
            Ok(ports) => ports.iter().map(|port| format!("{} {port}", self.name)).collect(),
            Err(why) => vec![format!("{}: {why}", self.name)],
        }
    }
}

impl Host {
    /// Opens all HCAs of the host with this address. The error is a message without a full stop.
    pub fn open(settings: &PortSettings, address: IpAddr) -> Result<Self, String> {
        // A job reports the failure.
        let _ = Functions::get()?.prepare_fork();
        let devices = Devices::list()?;
        let (mut hcas, mut contexts) = (Vec::new(), Vec::new());
        for index in 0..devices.count {
            let context = match devices.transport(index) {
                abi::IBV_TRANSPORT_IB => devices.open(index),
                // It lacks datagrams, messages with 32 bits beside them, and mostly atomics.
                abi::IBV_TRANSPORT_IWARP => {
                    Err("not supported, as it is for iWARP. The ofi conduit may use it (GASNET_CONDUIT=ofi)".to_owned())
                }
                abi::IBV_TRANSPORT_UNSPECIFIED => Err(
                    "not supported, as it has no reliable connections. It may be EFA of AWS, which the ofi conduit \
                     uses (GASNET_CONDUIT=ofi)"
                        .to_owned(),
                ),
                _ => Err("not a device for InfiniBand or RoCE".to_owned()),
            };
            let (context, ports) = match context {
                Ok(context) => {
                    let numbers = 1..=context.attributes.phys_port_cnt;
                    let ports = numbers.map(|number| port(&context, number, settings, address));
                    let ports = ports.collect();
                    (Some(context), Ok(ports))
                }
                Err(why) => (None, Err(why)),
            };
            hcas.push(Hca {
                name: devices.name(index),
                ports,
            });
            contexts.push(context);
        }
        if hcas.is_empty() {
            return Err(why_none(Path::new("/")));
        }
        Ok(Self { hcas, contexts })
    }

    /// A line for each port, with the rank of its HCA's distance from this process: 1 for the
    /// nearest.
    pub fn lines(&self, whole_process: bool) -> Vec<String> {
        let names: Vec<&str> = self.hcas.iter().map(|hca| &*hca.name).collect();
        let ranks = distances(whole_process, &names);
        let of = |(hca, rank): (&Hca, Option<usize>)| {
            let distance = rank.map_or(String::new(), |rank| format!(", distance {rank}"));
            hca.lines().into_iter().map(move |line| line + &distance)
        };
        self.hcas.iter().zip(ranks).flat_map(of).collect()
    }
}

impl PortSettings {
    /// Chooses ports for a process that wants these. The error is a message without a full stop.
    pub fn choose(&self, hcas: &[Hca], wanted: &Wanted) -> Result<Choice, String> {
        choose::choose(hcas, wanted, |names| distances(self.whole_process(), names))
    }
}

/// The ranks of HCAs by their distance from this process.
fn distances(whole_process: bool, names: &[&str]) -> Vec<Option<usize>> {
    let devices: Vec<_> = names.iter().map(|name| (None, (*name).to_owned())).collect();
    locality::ranking(&Topology::new("/"), whole_process, &devices)
}

/// Why the library lists no device, by the files below `root`. It leaves those out for which it has
/// no provider, or no device file (rdma-core@00d0f994: libibverbs/init.c, `try_access_device`).
fn why_none(root: &Path) -> String {
    let names = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let known = names("sys/class/infiniband");
    if known.is_empty() {
        return "ibv_get_device_list lists no HCA, nor does the kernel (/sys/class/infiniband)".to_owned();
    }
    let is_open = names("dev/infiniband").iter().any(|name| name.starts_with("uverbs"));
    let cause = if is_open {
        "The provider library of rdma-core for these devices is missing (Debian: package ibverbs-providers; Fedora and \
         RHEL: libibverbs)"
    } else {
        "There is no /dev/infiniband/uverbs*, which a container must be given"
    };
    let known = known.join(", ");
    format!("ibv_get_device_list lists no HCA, but the kernel has {known} (/sys/class/infiniband). {cause}")
}

fn port(context: &Context, number: u8, settings: &PortSettings, host: IpAddr) -> Port {
    match context.port(number) {
        Ok(attributes) => {
            let is_ethernet = u32::from(attributes.link_layer) == abi::IBV_LINK_LAYER_ETHERNET;
            Port {
                number,
                state: attributes.state,
                link: if is_ethernet {
                    LinkLayer::Ethernet
                } else {
                    LinkLayer::InfiniBand
                },
                local: if attributes.state == abi::IBV_PORT_ACTIVE {
                    local_port(context, number, &attributes, settings, host)
                } else {
                    Err("it is not active".to_owned())
                },
            }
        }
        Err(why) => Port {
            number,
            state: abi::IBV_PORT_NOP,
            link: LinkLayer::InfiniBand,
            local: Err(format!("cannot be queried: {why}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_the_library_leaves_out() {
        let root = std::env::temp_dir().join(format!("gasnet-ibv-none-{}", std::process::id()));
        let none = why_none(&root);
        for name in ["mlx5_1", "mlx5_0"] {
            fs::create_dir_all(root.join("sys/class/infiniband").join(name)).unwrap();
        }
        let without_files = why_none(&root);
        fs::create_dir_all(root.join("dev/infiniband/uverbs0")).unwrap();
        let without_provider = why_none(&root);
        fs::remove_dir_all(&root).unwrap();
        assert!(none.contains("lists no HCA, nor does the kernel"), "{none}");
        let known = "lists no HCA, but the kernel has mlx5_0, mlx5_1";
        for (why, cause) in [
            (without_files, "no /dev/infiniband/uverbs*"),
            (without_provider, "package ibverbs-providers"),
        ] {
            assert!(why.contains(known) && why.contains(cause), "{why}");
        }
    }
}
