//! Processors and devices of this host, from `/sys`, and the processors that this process may use,
//! from `/proc`.
//!
//! Objects have the logical numbers of hwloc: they are counted from 0 in the order of the packages,
//! their NUMA nodes, and their processors. All processors that are online count, also those that
//! the job may not use.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::PathBuf;

/// Something that contains processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The host.
    Machine,
    /// A socket.
    Package,
    /// A die of a package.
    Die,
    /// A NUMA node.
    Node,
    /// A data cache or unified cache of this level.
    Cache(u8),
    /// A core.
    Core,
    /// A hardware thread.
    Processor,
}

/// Address of a PCI device: domain, bus, device, function.
pub type PciAddress = (u16, u8, u8, u8);

/// Numbers of processors, as the kernel has them.
pub type Processors = BTreeSet<u32>;

/// The host, as the files below `/` or a test's folder describe it.
#[derive(Clone, Debug)]
pub struct Topology {
    root: PathBuf,
    /// Processors that are online.
    online: Processors,
    /// NUMA nodes that are online, with their processors.
    nodes: Vec<(u32, Processors)>,
}

/// A list of the kernel's: "0-3,8". Malformed parts are skipped.
fn list(text: &str) -> Processors {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        Some(first..=last)
    };
    text.trim().split(',').filter_map(part).flatten().collect()
}

impl Topology {
    /// The host below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let mut host = Self {
            root: root.into(),
            online: Processors::new(),
            nodes: Vec::new(),
        };
        let list = |path: &str| host.list(path).unwrap_or_default();
        let online = list("sys/devices/system/cpu/online");
        let nodes = list("sys/devices/system/node/online");
        let members = |node| list(&format!("sys/devices/system/node/node{node}/cpulist"));
        let nodes = nodes.into_iter().map(|node| (node, members(node))).collect();
        (host.online, host.nodes) = (online, nodes);
        host
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok()
    }

    /// A file with a list.
    fn list(&self, path: &str) -> Option<Processors> {
        self.read(path).map(|text| list(&text)).filter(|list| !list.is_empty())
    }

    /// The processors that this thread may use, or those that any thread of this process may use.
    pub fn allowed(&self, whole_process: bool) -> Processors {
        let of = |status: &str| {
            let text = self.read(status)?;
            let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            Some(list(line))
        };
        let mut allowed = Processors::new();
        if whole_process {
            let tasks = std::fs::read_dir(self.root.join("proc/self/task"));
            for task in tasks.into_iter().flatten().flatten() {
                let status = format!("proc/self/task/{}/status", task.file_name().to_string_lossy());
                allowed.extend(of(&status).unwrap_or_default());
            }
        } else {
            allowed.extend(of("proc/thread-self/status").unwrap_or_default());
        }
        allowed.intersection(&self.online).copied().collect()
    }

    /// The lowest processor of the object that contains `processor`. None if there is no such
    /// object.
    fn first_of(&self, object: Object, processor: u32) -> Option<u32> {
        let folder = format!("sys/devices/system/cpu/cpu{processor}");
        // The second name is that of Linux before 5.3.
        let either = |new: &str, old: &str| {
            self.list(&format!("{folder}/topology/{new}"))
                .or_else(|| self.list(&format!("{folder}/topology/{old}")))
        };
        let members = match object {
            Object::Machine => return Some(0),
            Object::Processor => return Some(processor),
            Object::Package => either("package_cpus_list", "core_siblings_list"),
            Object::Die => self.list(&format!("{folder}/topology/die_cpus_list")),
            Object::Core => either("core_cpus_list", "thread_siblings_list"),
            Object::Node => {
                let node = self.nodes.iter().find(|(_, members)| members.contains(&processor));
                return node?.1.first().copied();
            }
            Object::Cache(level) => self.cache_members(&folder, level),
        };
        members?.first().copied()
    }

    /// The processors that share the cache of a level with that of a folder.
    fn cache_members(&self, folder: &str, level: u8) -> Option<Processors> {
        for index in 0.. {
            let cache = format!("{folder}/cache/index{index}");
            let (found, kind) = (
                self.read(&format!("{cache}/level"))?,
                self.read(&format!("{cache}/type"))?,
            );
            if found.trim() == level.to_string() && kind.trim() != "Instruction" {
                return self.list(&format!("{cache}/shared_cpu_list"));
            }
        }
        None
    }

    /// Logical numbers of the objects that contain any of `processors`, ascending. Empty if this
    /// host has no such objects.
    pub fn numbers(&self, object: Object, processors: &Processors) -> Vec<u32> {
        const ORDER: [Object; 4] = [Object::Package, Object::Node, Object::Die, Object::Core];
        let mut ordered: Vec<_> = self
            .online
            .iter()
            .map(|&processor| (ORDER.map(|outer| self.first_of(outer, processor)), processor))
            .collect();
        ordered.sort_unstable();
        let (mut seen, mut found) = (Vec::new(), BTreeSet::new());
        for (_, processor) in ordered {
            let Some(first) = self.first_of(object, processor) else {
                continue;
            };
            let number = seen.iter().position(|other| *other == first).unwrap_or_else(|| {
                seen.push(first);
                seen.len() - 1
            });
            if processors.contains(&processor) {
                found.insert(number as u32);
            }
        }
        found.into_iter().collect()
    }

    /// The NUMA node of a device, by its PCI address or else its name: that of a network interface,
    /// an HCA or a Slingshot adapter.
    pub fn node_of_device(&self, pci: Option<PciAddress>, name: &str) -> Option<u32> {
        let by_address = pci.map(|(domain, bus, device, function)| {
            self.root.join(format!(
                "sys/bus/pci/devices/{domain:04x}:{bus:02x}:{device:02x}.{function:x}"
            ))
        });
        let classes = ["net", "infiniband", "cxi"];
        let by_name = classes.map(|class| self.root.join(format!("sys/class/{class}/{name}/device")));
        let folder = by_address.into_iter().chain(by_name).find(|folder| folder.exists())?;
        // A virtual function or a virtio device lies below the device that has a node.
        let folder = folder.canonicalize().ok()?;
        let file = folder
            .ancestors()
            .find_map(|folder| std::fs::read_to_string(folder.join("numa_node")).ok())?;
        match (file.trim().parse::<u32>(), self.nodes.as_slice()) {
            (Ok(node), _) => Some(node),
            // "-1": the firmware does not say. A host with one node leaves no choice.
            (Err(_), [(only, _)]) => Some(*only),
            _ => None,
        }
    }

    /// Distance of the memory of `node` from these processors: the sum of the distances between
    /// nodes that the firmware reports (10 within a node).
    pub fn distance(&self, node: u32, processors: &Processors) -> Option<u64> {
        let column = self.nodes.iter().position(|(other, _)| *other == node)?;
        let mut sum = 0;
        for (near, members) in &self.nodes {
            let count = members.intersection(processors).count() as u64;
            if count > 0 {
                let row = self.read(&format!("sys/devices/system/node/node{near}/distance"))?;
                sum += count * row.split_whitespace().nth(column)?.parse::<u64>().ok()?;
            }
        }
        Some(sum)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A folder with a simulated host, removed when it is dropped.
    pub struct Host(pub PathBuf);

    impl Drop for Host {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    impl Host {
        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }

        /// Two packages with two NUMA nodes each, two cores per node, two threads per core:
        /// processors n and n + 8 are core n. The nodes of a package alternate. Adapters cxi0 to
        /// cxi3 are near the nodes 3, 1, 2, and unknown. The thread may use the processors of
        /// `allowed`.
        pub fn new(name: &str, allowed: &str) -> Self {
            let host = Self(std::env::temp_dir().join(format!("gasnet-locality-{}-{name}", std::process::id())));
            host.write("sys/devices/system/cpu/online", "0-15");
            host.write("sys/devices/system/node/online", "0-3");
            host.write(
                "proc/thread-self/status",
                &format!("Name:\tx\nCpus_allowed_list:\t{allowed}"),
            );
            host.write("proc/self/task/1/status", &format!("Cpus_allowed_list:\t{allowed}"));
            host.write("proc/self/task/2/status", "Cpus_allowed_list:\t15");
            // Node of a core: 0 and 1 in package 0, 2 and 3 in package 1.
            let node = |core: u32| core / 4 * 2 + core % 2;
            for cpu in 0..16 {
                let (core, folder) = (cpu % 8, format!("sys/devices/system/cpu/cpu{cpu}"));
                let package = if core < 4 { "0-3,8-11" } else { "4-7,12-15" };
                let threads = format!("{core},{}", core + 8);
                host.write(&format!("{folder}/topology/package_cpus_list"), package);
                host.write(&format!("{folder}/topology/core_cpus_list"), &threads);
                for (index, level, kind, shared) in [(0, "1", "Data", &*threads), (1, "3", "Unified", package)] {
                    host.write(&format!("{folder}/cache/index{index}/level"), level);
                    host.write(&format!("{folder}/cache/index{index}/type"), kind);
                    host.write(&format!("{folder}/cache/index{index}/shared_cpu_list"), shared);
                }
            }
            for this in 0..4 {
                let members: Vec<_> = (0..16)
                    .filter(|cpu| node(cpu % 8) == this)
                    .map(|cpu| cpu.to_string())
                    .collect();
                let distance = |other| {
                    if this == other {
                        "10"
                    } else if this / 2 == other / 2 {
                        "12"
                    } else {
                        "32"
                    }
                };
                let row: Vec<_> = (0..4).map(distance).collect();
                host.write(
                    &format!("sys/devices/system/node/node{this}/cpulist"),
                    &members.join(","),
                );
                host.write(&format!("sys/devices/system/node/node{this}/distance"), &row.join(" "));
            }
            for (adapter, node) in [(0, "3"), (1, "1"), (2, "2"), (3, "-1")] {
                let device = format!("sys/devices/pci0000:00/0000:{adapter:02x}:00.0");
                host.write(&format!("{device}/numa_node"), node);
                let class = host.0.join(format!("sys/class/cxi/cxi{adapter}"));
                fs::create_dir_all(&class).unwrap();
                symlink(host.0.join(&device), class.join("device")).unwrap();
                let bus = host.0.join("sys/bus/pci/devices");
                fs::create_dir_all(&bus).unwrap();
                symlink(host.0.join(&device), bus.join(format!("0000:{adapter:02x}:00.0"))).unwrap();
            }
            host
        }

        /// The topology that is read from it.
        pub fn topology(&self) -> Topology {
            Topology::new(&self.0)
        }
    }

    #[test]
    fn lists() {
        assert_eq!(list("0-2,8\n"), Processors::from([0, 1, 2, 8]));
        assert_eq!(list("\n"), Processors::new());
    }

    #[test]
    fn allowed_processors() {
        let host = Host::new("allowed", "3,8-9,20-63");
        let topology = host.topology();
        assert_eq!(topology.allowed(false), Processors::from([3, 8, 9]));
        assert_eq!(topology.allowed(true), Processors::from([3, 8, 9, 15]));
    }

    #[test]
    fn logical_numbers() {
        let host = Host::new("numbers", "0");
        let numbers =
            |object, processors: &[u32]| host.topology().numbers(object, &processors.iter().copied().collect());
        assert_eq!(numbers(Object::Machine, &[3, 9]), [0]);
        assert_eq!(numbers(Object::Package, &[3]), [0]);
        assert_eq!(numbers(Object::Package, &[3, 12]), [0, 1]);
        assert_eq!(numbers(Object::Node, &[9]), [1]);
        assert_eq!(numbers(Object::Node, &[0, 6]), [0, 2]);
        // By nodes: processors 0, 8, 2, 10 are in node 0, and 1, 9, 3, 11 in node 1.
        assert_eq!(numbers(Object::Core, &[2, 1]), [1, 2]);
        assert_eq!(numbers(Object::Processor, &[8, 1]), [1, 4]);
        assert_eq!(numbers(Object::Cache(3), &[15]), [1]);
        assert_eq!(numbers(Object::Cache(1), &[3]), [3]);
        assert!(numbers(Object::Cache(2), &[3]).is_empty() && numbers(Object::Die, &[3]).is_empty());
    }

    #[test]
    fn distances_of_devices() {
        let host = Host::new("distances", "0");
        let topology = host.topology();
        let node = |name| topology.node_of_device(None, name);
        assert_eq!(
            [node("cxi0"), node("cxi1"), node("cxi3"), node("cxi4")],
            [Some(3), Some(1), None, None]
        );
        // The address counts, where it is known.
        assert_eq!(topology.node_of_device(Some((0, 2, 0, 0)), "cxi0"), Some(2));
        let distance = |node, processors: &[u32]| topology.distance(node, &processors.iter().copied().collect());
        assert_eq!(distance(1, &[1]), Some(10));
        assert_eq!(distance(1, &[0, 1]), Some(22));
        assert_eq!(distance(1, &[1, 9]), Some(20));
        assert_eq!(distance(3, &[0]), Some(32));
        assert_eq!(distance(7, &[0]), None);
    }
}
