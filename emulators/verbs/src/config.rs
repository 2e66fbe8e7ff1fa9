//! EMU_VERBS. docs: emulators/README.md.

mod values;

use std::time::Duration;

use emulator_common::unregistrable::Unregistrable;
use emulator_common::words::{check_dir, no, nth, number, percent, text, yes, Words};

use gasnet_ibv_abi as abi;

use crate::damage::{self, Damage};
use crate::forge::Forgery;
use crate::ports::{device_and, keys_of, Ports};
use crate::profiles;
use crate::shm::{DEVICES, PORTS};
use values::{
    abilities, atomics, cqe_error, device_or_all, event_named, failing, failing_call, link, lost_completion, ms,
    odp_bits, port_change, port_down, qp_event, raised, rd_atom, reg_invalid, relaxed, ud_error, ud_outsider, us,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    InfiniBand,
    Roce,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Send,
    Write,
    Read,
    Atomic,
}

/// Calls that may fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    CreateCq,
    CreateQp,
    CreateSrq,
    ForkInit,
    OpenDevice,
    OpenXrcd,
    RegMr,
}

/// Capability bits of paging on demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Odp {
    pub implicit: bool,
    /// `IBV_ODP_SUPPORT_*` of RC.
    pub operations: u32,
}

impl Odp {
    /// A ConnectX-6 reports the same (openucx/ucx#9727).
    const USUAL: Odp = Odp {
        implicit: true,
        operations: abi::IBV_ODP_SUPPORT_SEND
            | abi::IBV_ODP_SUPPORT_RECV
            | abi::IBV_ODP_SUPPORT_WRITE
            | abi::IBV_ODP_SUPPORT_READ
            | abi::IBV_ODP_SUPPORT_SRQ_RECV,
    };

    /// Whether the memory of an operation may be paged, at the end that posts it.
    pub fn has(self, operation: Operation) -> bool {
        let bit = match operation {
            Operation::Send => abi::IBV_ODP_SUPPORT_SEND,
            Operation::Write => abi::IBV_ODP_SUPPORT_WRITE,
            Operation::Read => abi::IBV_ODP_SUPPORT_READ,
            Operation::Atomic => abi::IBV_ODP_SUPPORT_ATOMIC,
        };
        self.operations & bit != 0
    }

    /// The same of posted receives.
    pub fn has_receives(self, are_shared: bool) -> bool {
        let bit = if are_shared {
            abi::IBV_ODP_SUPPORT_SRQ_RECV
        } else {
            abi::IBV_ODP_SUPPORT_RECV
        };
        self.operations & bit != 0
    }
}

/// Calls of a kind that fail with an errno: the first, and their number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failing {
    pub call: Call,
    pub first: u64,
    pub count: u64,
    pub errno: i32,
}

/// An ability that single devices may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ability {
    Atomics,
    Xrc,
    Srq,
    Odp,
}

/// A port that goes down, and comes up again if `up` is not None.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortDown {
    pub device: u32,
    pub port: u32,
    pub after: Duration,
    pub up: Option<Duration>,
}

/// The nth operation of a kind that a process posts completes with a status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CqeError {
    pub operation: Operation,
    pub nth: u64,
    pub status: u32,
}

/// Option `event`: an event of a device, a port, or all objects of a kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Raised {
    pub kind: u32,
    pub device: u32,
    pub port: u32,
    pub after: Duration,
}

emulator_common::words! {
    pub struct Config {
        pub dir: String = String::new(), "dir" => text;
        /// First letters of the names of devices.
        pub name: String = "emu".to_string(), "name" => text;
        pub hcas: u32 = 1, "hcas" => number;
        pub ports: u32 = 1, "ports" => number;
        link: Link = Link::InfiniBand;
        /// Link layers of single devices.
        links: Vec<(u32, Link)> = Vec::new();
        pub seed: u64 = 1, "seed" => number;
        /// Longest random delay of an operation.
        pub delay: Duration = Duration::from_micros(200), "delay" => us;
        /// Data are read when an operation executes, a random delay after it was posted.
        pub late: bool = false, "late" => yes;
        /// Data land a random delay after an operation was posted.
        pub late_visible: bool = false, "late-visible" => yes;
        /// Writes complete before their data are visible.
        pub early_completion: bool = false, "early-completion" => yes;
        /// Writes overtake each other on the bus, which keeps no order of their bytes either: of as
        /// many bytes stay together.
        pub relaxed: Option<usize> = None;
        /// The nth RC message of a process meets a connection that is cut; 0: none.
        pub drop_connection: u64 = 0, "drop-connection" => nth;
        pub port_down: Vec<PortDown> = Vec::new(), "port-down" += port_down;
        /// The times of faults pass by `emu_verbs_step` alone.
        pub steps: bool = false, "steps" => yes;
        pub slow_hca: Vec<(u32, Duration)> = Vec::new(), "slow-hca" += |text| device_and(text, us);
        pub cqe_error: Vec<CqeError> = Vec::new(), "cqe-error" += cqe_error;
        pub forge: Vec<Forgery> = Vec::new(), "forge" += Forgery::parse;
        pub damage: Vec<Damage> = Vec::new(), "damage" += damage::parse;
        /// Of the atomics of a process each nth changes nothing; 0: none.
        pub lost_update: u64 = 0, "lost-update" => nth;
        /// The nth completion of a successful operation of a kind is lost.
        pub lost_completion: Vec<(Operation, u64)> = Vec::new(), "lost-completion" += lost_completion;
        /// The device reads pages of on-demand regions where they were when it first did.
        pub stale_pages: bool = false, "stale-pages" => yes;
        /// Percent.
        pub ud_loss: u32 = 0, "ud-loss" => percent;
        pub ud_dup: u32 = 0, "ud-dup" => percent;
        pub ud_reorder: u32 = 0, "ud-reorder" => percent;
        /// Bytes and Q_Key of the datagram of an outsider before each datagram.
        pub ud_outsider: Option<(u32, Option<u32>)> = None, "ud-outsider" => ud_outsider;
        /// Datagrams that fail at their sender: the first, and their number.
        pub ud_error: Option<(u64, u64)> = None, "ud-error" => ud_error;
        /// The QP of such a datagram is in state ERR, not SQE.
        pub no_sqe: bool = false, "no-sqe" => yes;
        /// The first calls that resolve the address of a peer fail with an errno: to connect a QP,
        /// and to make an address handle.
        pub resolve_fail: Option<(u64, i32)> = None, "resolve-fail" => failing;
        pub ah_fail: Option<(u64, i32)> = None, "ah-fail" => failing;
        pub fail: Vec<Failing> = Vec::new(), "fail" += failing_call;
        /// Polls of the CQs of their device after which they return, at the latest after a while.
        pub resolve_polls: u64 = 0, "resolve-polls" => number;
        pub rnr: u32 = 0, "rnr" => percent;
        /// Objects that live when their device is closed stay, as they do on hardware.
        pub leaks: bool = false, "leaks" => yes;
        /// A region that a queued work request names must not be deregistered.
        pub strict_lifetimes: bool = false, "strict-lifetimes" => yes;
        /// Processes lack CAP_NET_RAW.
        pub no_net_raw: bool = false, "no-net-raw" => yes;
        /// A CQ that overruns is fatal.
        pub no_overrun: bool = false, "no-overrun" => yes;
        /// The queues that programs make are reported on stderr.
        pub sizes: bool = false, "sizes" => yes;
        /// Work requests that fail are reported on stderr.
        pub trace: bool = false, "trace" => yes;
        /// Devices print what they have done when they are closed.
        pub report: bool = false, "report" => yes;
        /// The nth registration of a process fails; 0: none.
        pub reg_fail: u64 = 0, "reg-fail" => nth;
        /// Memory that cannot be registered, and the errno.
        pub reg_invalid: Vec<(Unregistrable, i32)> = Vec::new(), "reg-invalid" += reg_invalid;
        /// Memory that is unmapped while registered is noticed.
        pub stale: bool = false, "stale" => yes;
        /// Polls in a row that find nothing until one yields the core; 0: none does.
        pub yields: u32 = 0, "yield" => number;
        pub max_mr: u64 = 1 << 40, "max-mr" => number;
        pub pin_limit: u64 = u64::MAX, "pin-limit" => number;
        /// The process's limit on locked memory counts, too.
        pub memlock: bool = false, "memlock" => yes;
        pub dmabuf: bool = true, "no-dmabuf" => no;
        /// Whether `ibv_reg_mr` takes memory of devices.
        pub peer_memory: bool = false, "peer-memory" => yes;
        pub odp: bool = true, "no-odp" => no;
        pub odp_bits: Odp = Odp::USUAL, "odp" => odp_bits;
        /// Whether memory that cannot be written can be registered.
        pub read_only: bool = true, "no-read-only" => no;
        pub srq: bool = true, "no-srq" => no;
        pub xrc: bool = true, "no-xrc" => no;
        /// Automatic path migration, on InfiniBand only.
        pub apm: bool = true, "no-apm" => no;
        /// Whether devices present themselves as iWARP NICs.
        pub iwarp: bool = false, "iwarp" => yes;
        /// `IBV_ATOMIC_*`
        pub atomics: u32 = abi::IBV_ATOMIC_HCA, "atomic" => atomics;
        /// Reads and atomics under way that a QP answers, and that it starts.
        pub rd_atom: [u8; 2] = [16; 2], "rd-atom" => rd_atom;
        /// Whether devices promise that data land in order (`ibv_query_qp_data_in_order`).
        pub order: bool = true, "no-order" => no;
        /// Devices like EFA: of no InfiniBand transport, with UD QPs at most.
        pub srd: bool = false, "srd" => yes;
        /// Whether RoCE ports have GIDs of version 1.
        pub roce_v1: bool = true, "no-v1" => no;
        /// Abilities that single devices lack.
        pub lacks: Vec<(u32, Vec<Ability>)> = Vec::new(), "lacks" += |text| device_and(text, abilities);
        /// Devices that fail, and when.
        pub device_fatal: Vec<(u32, Duration)> = Vec::new(), "device-fatal" += |text| device_and(text, ms);
        /// Failing devices that are unplugged then.
        pub unplug: Vec<u32> = Vec::new();
        /// Calls that destroy an object of a device that has failed fail, too.
        pub destroy_fails: bool = false, "destroy-fails" => yes;
        pub events: Vec<Raised> = Vec::new(), "event" += raised;
        /// Devices whose GIDs of IP addresses vanish at the event.
        pub gid_gone: Vec<u32> = Vec::new();
        /// The nth RC message of a process is the last of its QP, which an event alone reports.
        pub qp_event: Option<(u32, u64)> = None, "qp-event" => qp_event;
        pub max_inline: u32 = 512, "max-inline" => number;
        /// QPs take less inline data than was asked for.
        pub clamp_inline: u32 = u32::MAX, "clamp-inline" => number;
        pub max_qp_wr: u32 = 16384, "max-qp-wr" => number;
        /// Receives of a QP; None: as many as work requests.
        pub max_recv_wr: Option<u32> = None, "max-recv-wr" => |text| number(text).map(Some);
        /// Bytes of the table of extended calls, of which the first are the last that were added;
        /// None: all.
        pub table: Option<usize> = None, "table" => |text| number(text).map(Some);
        /// Completions of a CQ.
        pub max_cqe: u32 = (1 << 20) - 1, "max-cqe" => number;
        /// Work requests of send queues take units, of which a queue has `max_qp_wr`.
        pub wqe_units: bool = false, "wqe-units" => yes;
        /// Queue pairs of all processes together, if they are limited.
        pub max_qp: Option<u32> = None, "max-qp" => |text| number(text).map(Some);
        /// Bytes of the largest message, as ports report it. 0: a driver that leaves it unset.
        pub max_message: u64 = 1 << 30, "max-msg" => number;
        /// Devices without UD QPs; None: all.
        pub without_ud: Vec<Option<u32>> = Vec::new(), "no-ud" += device_or_all;
        /// Receives of an SRQ; None: as many as of a QP.
        pub max_srq_wr: Option<u32> = None, "max-srq-wr" => |text| number(text).map(Some);
        /// Pieces of a read; None: as many as of others.
        pub max_sge_rd: Option<u32> = None, "max-sge-rd" => |text| number(text).map(Some);
        pub max_sge: u32 = 30, "max-sge" => |text| number(text).map(|sges: u32| sges.clamp(1, 30));
        /// Words about single devices and ports.
        pub of_ports: Ports = Ports::default();
    }
}

impl Words for Config {
    const VARIABLE: &'static str = "EMU_VERBS";

    fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        let result = match name {
            "link" => match value.split_once(':') {
                Some(_) => device_and(value, link).map(|of_device| self.links.push(of_device)),
                None => link(value).map(|of_all| self.link = of_all),
            },
            "relaxed" => relaxed(value).map(|bytes| {
                (self.early_completion, self.relaxed) = (true, Some(bytes));
            }),
            "device" => profiles::words(value).and_then(|words| self.take(words)),
            "unplug" => device_and(value, ms).map(|(device, after)| {
                self.device_fatal.push((device, after));
                self.unplug.push(device);
            }),
            "gid-gone" => device_and(value, ms).and_then(|(device, after)| {
                self.gid_gone.push(device);
                let (kind, port) = (event_named("gid_change")?, 1);
                self.events.push(Raised {
                    kind,
                    device,
                    port,
                    after,
                });
                Ok(())
            }),
            "lid-change" => port_change("lid_change", value).map(|(port, raised, _)| {
                self.of_ports.lid_changes.push(port);
                self.events.push(raised);
            }),
            "pkey-change" => port_change("pkey_change", value).and_then(|(port, raised, keys)| {
                self.of_ports.later_partitions.push((port, keys_of(keys)?));
                self.events.push(raised);
                Ok(())
            }),
            _ => {
                return self
                    .set_word(name, value)
                    .or_else(|| self.of_ports.set_word(name, value))
            }
        };
        Some(result)
    }

    fn names() -> Vec<&'static str> {
        const OTHERS: &[&str] = &[
            "device",
            "link",
            "relaxed",
            "unplug",
            "gid-gone",
            "lid-change",
            "pkey-change",
        ];
        [OTHERS, Self::WORDS, Ports::WORDS].concat()
    }

    fn check(&self) -> Result<(), String> {
        for (name, value, range) in [("hcas", self.hcas, 0..=DEVICES), ("ports", self.ports, 1..=PORTS)] {
            if !range.contains(&(value as usize)) {
                return Err(format!("{name}={value}: must be {} to {}", range.start(), range.end()));
            }
        }
        if let Some(device) = self.devices_of_words().find(|&device| device >= self.hcas) {
            return Err(format!("a word names device {device}, but hcas={}", self.hcas));
        }
        let events = self.events.iter().map(|event| event.port - 1);
        let ports = self.port_down.iter().map(|word| word.port).chain(events);
        if let Some(port) = ports
            .chain(self.of_ports.ports().map(|port| port.port))
            .find(|&port| port >= self.ports)
        {
            return Err(format!("a word names port {}, but ports={}", port + 1, self.ports));
        }
        check_dir(&self.dir)
    }
}

impl Config {
    /// Devices that words name.
    fn devices_of_words(&self) -> impl Iterator<Item = u32> + '_ {
        let links = self.links.iter().map(|word| word.0);
        let lacks = self.lacks.iter().map(|word| word.0);
        let ends = self.device_fatal.iter().map(|word| word.0);
        let slow = self.slow_hca.iter().map(|word| word.0);
        let downs = self.port_down.iter().map(|word| word.device);
        let events = self.events.iter().map(|word| word.device);
        let all = links.chain(lacks).chain(ends).chain(slow).chain(downs).chain(events);
        all.chain(self.without_ud.iter().copied().flatten())
            .chain(self.of_ports.devices())
    }

    /// The link layer of a device.
    pub fn link(&self, device: u32) -> Link {
        let own = self.links.iter().rfind(|word| word.0 == device);
        own.map_or(self.link, |word| word.1)
    }

    /// Whether a device has automatic path migration.
    pub fn has_migration(&self, device: u32) -> bool {
        self.apm && self.link(device) == Link::InfiniBand
    }

    /// Bytes of the largest message that devices take: where ports do not report it, that of the
    /// InfiniBand specification.
    pub fn largest_message(&self) -> u64 {
        match self.max_message {
            0 => 1 << 31,
            bytes => bytes,
        }
    }

    /// Whether a device has an ability.
    pub fn has(&self, device: u32, ability: Ability) -> bool {
        let others_have = match ability {
            Ability::Atomics => self.atomics != abi::IBV_ATOMIC_NONE,
            Ability::Xrc => self.xrc,
            Ability::Srq => self.srq,
            Ability::Odp => self.odp,
        };
        let lacks_it = |(lacking, what): &(u32, Vec<Ability>)| *lacking == device && what.contains(&ability);
        others_have && !self.lacks.iter().any(lacks_it)
    }

    /// Receives that an SRQ takes at most.
    pub fn most_shared(&self) -> u32 {
        self.max_srq_wr.unwrap_or(self.max_qp_wr)
    }

    /// Receives that a QP takes at most.
    pub fn most_received(&self) -> u32 {
        self.max_recv_wr.unwrap_or(self.max_qp_wr)
    }

    /// Pieces that a read has at most.
    pub fn most_read(&self) -> u32 {
        self.max_sge_rd.unwrap_or(self.max_sge)
    }

    /// Whether a device has UD QPs.
    pub fn has_ud(&self, device: u32) -> bool {
        let lacks_it = |word: &Option<u32>| word.is_none_or(|lacking| lacking == device);
        !self.without_ud.iter().any(lacks_it)
    }

    /// Whether operations of this device execute later than they are posted.
    pub fn delays(&self, device: u32) -> bool {
        self.late || self.late_visible || self.slow_hca.iter().any(|slow| slow.0 == device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_options() {
        let config = Config::parse(
            "dir=/d hcas=2 link=roce late port-down=1:1:50:70 cqe-error=write:3:rem_access damage=inline:8 \
             lost-completion=read:2",
        )
        .unwrap();
        assert_eq!((config.hcas, config.link(0), config.late), (2, Link::Roce, true));
        let down = PortDown {
            device: 1,
            port: 0,
            after: Duration::from_millis(50),
            up: Some(Duration::from_millis(70)),
        };
        assert_eq!(config.port_down, [down]);
        assert_eq!(config.damage, [damage::parse("inline:8-8").unwrap()]);
        assert_eq!(config.lost_completion, [(Operation::Read, 2)]);
        assert_eq!(
            config.cqe_error,
            [CqeError {
                operation: Operation::Write,
                nth: 3,
                status: 10
            }]
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("dir=/d hcas=99", "hcas=99: must be 0 to 16"),
            ("dir=/d ports=0", "ports=0: must be 1 to 4"),
            ("dir=/d rnr=101", "rnr=101: needs a number up to 100"),
            ("dir=/d port-down=0:0:1", "port-down=0:0:1: ports count from 1"),
            ("hcas=1", "dir=FOLDER is missing"),
            ("dir=/d lost-update=0", "lost-update=0: needs a number from 1"),
            ("dir=/d mtu=1:256", "a word names device 1, but hcas=1"),
            ("dir=/d port-down=0:2:1", "a word names port 2, but ports=1"),
            (
                "dir=/d event=port_err:0:1:0",
                "event=port_err:0:1:0: ports count from 1",
            ),
            ("dir=/d gid-gone=0", "gid-gone=0: needs DEVICE:VALUE"),
            ("dir=/d hcas=2 lacks=2:srq", "a word names device 2, but hcas=2"),
        ] {
            assert_eq!(Config::parse(text).unwrap_err(), why);
        }
    }
}
