//! EMU_VERBS: words "name" or "name=value" between spaces. docs: emulators/README.md.

use std::str::FromStr;
use std::time::Duration;

use crate::forge::Forgery;
use crate::ports::Ports;
use crate::raise::{self, Raised};
use crate::text;

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

/// The options; each word that has no value is one of the flags.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)]
pub struct Config {
    pub dir: String,
    /// What the names of devices begin with.
    pub name: String,
    pub hcas: u32,
    pub ports: u32,
    pub link: Link,
    pub seed: u64,
    /// Longest random delay of an operation.
    pub delay: Duration,
    /// Data are read when an operation executes, a random delay after it was posted.
    pub late: bool,
    /// Data land a random delay after an operation was posted.
    pub late_visible: bool,
    /// Writes complete before their data are visible.
    pub early_completion: bool,
    /// Writes overtake each other on the bus, which keeps no order of their bytes either.
    pub relaxed: bool,
    /// The nth RC message of a process meets a connection that is cut; 0: none.
    pub drop_connection: u64,
    pub port_down: Vec<PortDown>,
    /// The times of faults pass by `emu_verbs_step` alone.
    pub steps: bool,
    pub slow_hca: Vec<(u32, Duration)>,
    pub cqe_error: Vec<CqeError>,
    pub forge: Vec<Forgery>,
    /// Percent.
    pub ud_loss: u32,
    pub ud_dup: u32,
    pub ud_reorder: u32,
    /// Bytes and Q_Key of the datagram of an outsider before each datagram.
    pub ud_outsider: Option<(u32, Option<u32>)>,
    /// Datagrams that fail at their sender: the first, and how many.
    pub ud_error: Option<(u64, u64)>,
    /// The QP of such a datagram is in state ERR, not SQE.
    pub no_sqe: bool,
    /// The first calls that resolve the address of a peer fail with an errno: to connect a QP, and
    /// to make an address handle.
    pub resolve_fail: Option<(u64, i32)>,
    pub ah_fail: Option<(u64, i32)>,
    /// They return when the CQs of their device were polled so often, or after a while.
    pub resolve_polls: u64,
    pub rnr: u32,
    /// Devices print what they have done when they are closed.
    pub report: bool,
    /// The nth registration of a process fails; 0: none.
    pub reg_fail: u64,
    /// Memory that is unmapped while registered is noticed.
    pub stale: bool,
    /// Every so many polls in a row that find nothing yield the core; 0: none.
    pub yields: u32,
    pub max_mr: u64,
    pub pin_limit: u64,
    /// The process's limit on locked memory counts, too.
    pub memlock: bool,
    pub dmabuf: bool,
    /// Whether `ibv_reg_mr` takes memory of devices.
    pub peer_memory: bool,
    pub odp: bool,
    /// Whether memory that cannot be written can be registered.
    pub read_only: bool,
    pub srq: bool,
    pub xrc: bool,
    /// Automatic path migration, on InfiniBand only.
    pub apm: bool,
    /// Whether devices present themselves as iWARP NICs.
    pub iwarp: bool,
    pub atomics: bool,
    /// Devices that fail, and when.
    pub device_fatal: Vec<(u32, Duration)>,
    /// Those of them that are unplugged then.
    pub unplug: Vec<u32>,
    pub events: Vec<Raised>,
    /// Devices whose GIDs of IP addresses vanish at the event.
    pub gid_gone: Vec<u32>,
    /// The nth RC message of a process is the last of its QP, which an event alone reports.
    pub qp_event: Option<(u32, u64)>,
    pub max_inline: u32,
    pub max_qp_wr: u32,
    /// Completions of a CQ.
    pub max_cqe: u32,
    /// Work requests of send queues take units, of which a queue has `max_qp_wr`.
    pub wqe_units: bool,
    /// Queue pairs of all processes together, if they are limited.
    pub max_qp: Option<u32>,
    pub max_sge: u32,
    /// Words about single devices and ports.
    pub of_ports: Ports,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            dir: String::new(),
            name: "emu".to_string(),
            hcas: 1,
            ports: 1,
            link: Link::InfiniBand,
            seed: 1,
            delay: Duration::from_micros(200),
            late: false,
            late_visible: false,
            early_completion: false,
            relaxed: false,
            drop_connection: 0,
            port_down: Vec::new(),
            steps: false,
            slow_hca: Vec::new(),
            cqe_error: Vec::new(),
            forge: Vec::new(),
            ud_loss: 0,
            ud_dup: 0,
            ud_reorder: 0,
            ud_outsider: None,
            ud_error: None,
            no_sqe: false,
            resolve_fail: None,
            ah_fail: None,
            resolve_polls: 0,
            rnr: 0,
            report: false,
            reg_fail: 0,
            stale: false,
            yields: 0,
            max_mr: 1 << 40,
            pin_limit: u64::MAX,
            memlock: false,
            dmabuf: true,
            peer_memory: false,
            odp: true,
            read_only: true,
            srq: true,
            xrc: true,
            apm: true,
            iwarp: false,
            atomics: true,
            device_fatal: Vec::new(),
            unplug: Vec::new(),
            events: Vec::new(),
            gid_gone: Vec::new(),
            qp_event: None,
            max_inline: 512,
            max_qp_wr: 16384,
            max_cqe: (1 << 20) - 1,
            wqe_units: false,
            max_qp: None,
            max_sge: 30,
            of_ports: Ports::default(),
        }
    }
}

impl Config {
    /// Parses the value of EMU_VERBS.
    pub fn parse(text: &str) -> Result<Config, String> {
        let mut config = Config::default();
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            config.set(name, value).map_err(|why| format!("{word}: {why}"))?;
        }
        for (name, value, most) in [
            ("hcas", config.hcas, crate::shm::DEVICES),
            ("ports", config.ports, crate::shm::PORTS),
        ] {
            if value == 0 || value as usize > most {
                return Err(format!("{name}={value}: must be 1 to {most}"));
            }
        }
        if config.dir.is_empty() {
            return Err("dir=FOLDER is missing".to_string());
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "dir" => self.dir = value.to_string(),
            "name" => self.name = value.to_string(),
            "hcas" => self.hcas = number(value)?,
            "ports" => self.ports = number(value)?,
            "link" => {
                self.link = match value {
                    "ib" => Link::InfiniBand,
                    "roce" => Link::Roce,
                    _ => return Err("must be ib or roce".to_string()),
                }
            }
            "seed" => self.seed = number(value)?,
            "delay" => self.delay = Duration::from_micros(number(value)?),
            "steps" => self.steps = true,
            "late" => self.late = true,
            "late-visible" => self.late_visible = true,
            "early-completion" => self.early_completion = true,
            "no-sqe" => self.no_sqe = true,
            "relaxed" => (self.early_completion, self.relaxed) = (true, true),
            "drop-connection" => self.drop_connection = number(value)?,
            "port-down" => self.port_down.push(port_down(value)?),
            "slow-hca" => {
                let [device, us] = fields(value)?;
                self.slow_hca
                    .push((number(device)?, Duration::from_micros(number(us)?)));
            }
            "device-fatal" | "unplug" => {
                let [device, ms] = fields(value)?;
                let device = number(device)?;
                self.device_fatal.push((device, Duration::from_millis(number(ms)?)));
                self.unplug.extend((name == "unplug").then_some(device));
            }
            "event" => self.events.push(raised(value)?),
            "gid-gone" => {
                let raised = raised(&format!("gid_change:{value}"))?;
                self.gid_gone.push(raised.device);
                self.events.push(raised);
            }
            "qp-event" => {
                let [name, nth] = fields(value)?;
                self.qp_event = Some((event_named(name)?, number(nth)?));
            }
            "cqe-error" => self.cqe_error.push(cqe_error(value)?),
            "forge" => self.forge.push(Forgery::parse(value)?),
            "ud-loss" => self.ud_loss = percent(value)?,
            "ud-dup" => self.ud_dup = percent(value)?,
            "ud-reorder" => self.ud_reorder = percent(value)?,
            "ud-outsider" => {
                let (bytes, qkey) = value
                    .split_once(':')
                    .map_or((value, None), |(bytes, qkey)| (bytes, Some(qkey)));
                self.ud_outsider = Some((number(bytes)?, qkey.map(number).transpose()?));
            }
            "ud-error" => {
                let (first, count) = value.split_once(':').unwrap_or((value, "1"));
                self.ud_error = Some((number(first)?, number(count)?));
            }
            "resolve-fail" => self.resolve_fail = Some(failing(value)?),
            "resolve-polls" => self.resolve_polls = number(value)?,
            "ah-fail" => self.ah_fail = Some(failing(value)?),
            "rnr" => self.rnr = percent(value)?,
            "report" => self.report = true,
            "reg-fail" => self.reg_fail = number(value)?,
            "stale" => self.stale = true,
            "yield" => self.yields = number(value)?,
            "max-mr" => self.max_mr = number(value)?,
            "memlock" => self.memlock = true,
            "pin-limit" => self.pin_limit = number(value)?,
            "no-dmabuf" => self.dmabuf = false,
            "peer-memory" => self.peer_memory = true,
            "no-odp" => self.odp = false,
            "no-read-only" => self.read_only = false,
            "no-srq" => self.srq = false,
            "no-xrc" => self.xrc = false,
            "no-apm" => self.apm = false,
            "iwarp" => self.iwarp = true,
            "atomic" => {
                self.atomics = match value {
                    "none" => false,
                    "hca" => true,
                    _ => return Err("must be none or hca".to_string()),
                }
            }
            "max-inline" => self.max_inline = number(value)?,
            "max-qp-wr" => self.max_qp_wr = number(value)?,
            "max-cqe" => self.max_cqe = number(value)?,
            "wqe-units" => self.wqe_units = true,
            "max-qp" => self.max_qp = Some(number(value)?),
            "max-sge" => self.max_sge = number::<u32>(value)?.clamp(1, 30),
            _ => {
                let other = self.of_ports.set(name, value);
                return other.unwrap_or_else(|| Err("no such option".to_string()));
            }
        }
        Ok(())
    }

    /// Whether devices have automatic path migration.
    pub fn has_migration(&self) -> bool {
        self.apm && self.link == Link::InfiniBand
    }

    /// Whether operations of this device execute later than they are posted.
    pub fn delays(&self, device: u32) -> bool {
        self.late || self.late_visible || self.slow_hca.iter().any(|slow| slow.0 == device)
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "needs a number".to_string())
}

fn percent(text: &str) -> Result<u32, String> {
    number(text)
        .ok()
        .filter(|&p| p <= 100)
        .ok_or_else(|| "needs a number up to 100".to_string())
}

fn fields<const N: usize>(text: &str) -> Result<[&str; N], String> {
    let fields: Vec<&str> = text.split(':').collect();
    fields
        .try_into()
        .map_err(|_| format!("needs {N} numbers between colons"))
}

/// So many calls that fail, and their errno.
fn failing(text: &str) -> Result<(u64, i32), String> {
    let [calls, errno] = fields(text)?;
    let errno = match errno {
        "EAGAIN" => libc::EAGAIN,
        "EHOSTUNREACH" => libc::EHOSTUNREACH,
        "ENETUNREACH" => libc::ENETUNREACH,
        "ETIMEDOUT" => libc::ETIMEDOUT,
        other => number(other)?,
    };
    Ok((number(calls)?, errno))
}

fn event_named(name: &str) -> Result<u32, String> {
    raise::named(name).ok_or_else(|| format!("{name} is no event"))
}

fn raised(text: &str) -> Result<Raised, String> {
    let fields: Vec<&str> = text.split(':').collect();
    let (3 | 4) = fields.len() else {
        return Err("needs NAME:DEVICE:AFTER_MS[:PORT]".to_string());
    };
    Ok(Raised {
        kind: event_named(fields[0])?,
        device: number(fields[1])?,
        port: fields.get(3).map_or(Ok(1), |port| number(port))?,
        after: Duration::from_millis(number(fields[2])?),
    })
}

fn port_down(text: &str) -> Result<PortDown, String> {
    let fields: Vec<&str> = text.split(':').collect();
    let (3 | 4) = fields.len() else {
        return Err("needs DEVICE:PORT:AFTER_MS[:UP_MS]".to_string());
    };
    let up = fields.get(3).map(|ms| number(ms)).transpose()?;
    let port: u32 = number(fields[1])?;
    Ok(PortDown {
        device: number(fields[0])?,
        port: port.checked_sub(1).ok_or("ports count from 1")?,
        after: Duration::from_millis(number(fields[2])?),
        up: up.map(Duration::from_millis),
    })
}

fn cqe_error(text: &str) -> Result<CqeError, String> {
    let [operation, nth, status] = fields(text)?;
    let operation = match operation {
        "send" => Operation::Send,
        "write" => Operation::Write,
        "read" => Operation::Read,
        "atomic" => Operation::Atomic,
        _ => return Err("must begin with send, write, read or atomic".to_string()),
    };
    let status = match number(status) {
        Ok(status) => status,
        Err(_) => text::status_named(status).ok_or("ends in no status of completions")?,
    };
    Ok(CqeError {
        operation,
        nth: number(nth)?,
        status,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_options() {
        let config =
            Config::parse("dir=/d hcas=2 link=roce late port-down=1:1:50:70 cqe-error=write:3:rem_access").unwrap();
        assert_eq!((config.hcas, config.link, config.late), (2, Link::Roce, true));
        let down = PortDown {
            device: 1,
            port: 0,
            after: Duration::from_millis(50),
            up: Some(Duration::from_millis(70)),
        };
        assert_eq!(config.port_down, [down]);
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
            ("dir=/d hcas=99", "hcas=99: must be 1 to 16"),
            ("dir=/d nonsense", "nonsense: no such option"),
            ("dir=/d rnr=101", "rnr=101: needs a number up to 100"),
            ("dir=/d port-down=0:0:1", "port-down=0:0:1: ports count from 1"),
            ("hcas=1", "dir=FOLDER is missing"),
        ] {
            assert_eq!(Config::parse(text).unwrap_err(), why);
        }
    }
}
