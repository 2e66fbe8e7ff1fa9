//! EMU_UGNI: words "name" or "name=value" between spaces. docs: emulators/README.md.

use std::ops::RangeInclusive;
use std::str::FromStr;

use gasnet_gni_abi as abi;

use crate::forge::Forgery;
use crate::status;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavour {
    Aries,
    Gemini,
}

/// The nth operation of a kind and a length that a process posts fails with a status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PostError {
    /// `gni_post_type_t`; 0: any.
    pub kind: abi::gni_post_type_t,
    /// In bytes.
    pub lengths: RangeInclusive<u64>,
    pub nth: u64,
    pub status: u8,
}

/// Memory that cannot be registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unregistrable {
    /// The nth registration of a process.
    Nth(u64),
    /// Addresses, the last excluded.
    Range(u64, u64),
    /// Mappings whose name contains this.
    Named(String),
}

/// The options; each word that has no value is one of the flags.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)]
pub struct Config {
    pub dir: String,
    pub flavour: Flavour,
    pub seed: u64,
    /// The node of this process; EMU_UGNI_NODE wins.
    pub node: u32,
    /// Devices of each node.
    pub nics: u32,
    /// Every so many polls in a row that find nothing yield the core; 0: none.
    pub yields: u32,
    /// Longest random delay of an operation or an event.
    pub delay_us: u64,
    /// Operations take effect a random time after they are posted, and so do their events.
    pub reorder: bool,
    /// Sources are read a random time after the post.
    pub late: bool,
    /// REMOTE events may precede the data, in regions without STRICT_PI_ORDERING or PI_FLUSH.
    pub early_event: bool,
    /// Percent of posts and of registrations that find no resources.
    pub busy: u32,
    pub reg_busy: u32,
    /// The nth registration of a process finds no resources; 0: none.
    pub reg_fail: u64,
    pub reg_invalid: Vec<Unregistrable>,
    /// Bytes that a process may register.
    pub reg_bytes: u64,
    pub post_error: Vec<PostError>,
    pub forge: Vec<Forgery>,
    /// Dedicated FMA descriptors, regions, CQs, and engines of a NIC.
    pub fma: u32,
    pub mdd: u32,
    pub cq: Option<u32>,
    pub ce: u32,
    /// A CQ has more entries than were requested, as in the library.
    pub cq_round: bool,
    /// A failed operation kills a process without ERR_NO_KILL.
    pub kill: bool,
    /// Two threads in one domain are fatal.
    pub check: bool,
    /// Operations that fail are reported.
    pub trace: bool,
    /// The end of a process reports what it did not destroy.
    pub report: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            dir: String::new(),
            flavour: Flavour::Aries,
            seed: 1,
            node: 0,
            nics: 1,
            yields: 0,
            delay_us: 200,
            reorder: false,
            late: false,
            early_event: false,
            busy: 0,
            reg_busy: 0,
            reg_fail: 0,
            reg_invalid: Vec::new(),
            reg_bytes: u64::MAX,
            post_error: Vec::new(),
            forge: Vec::new(),
            fma: 123,
            mdd: 4096,
            cq: None,
            ce: 4,
            cq_round: false,
            kill: false,
            check: true,
            trace: false,
            report: false,
        }
    }
}

impl Config {
    /// Parses the value of EMU_UGNI.
    pub fn parse(text: &str) -> Result<Config, String> {
        let mut config = Config::default();
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            config.set(name, value).map_err(|why| format!("{word}: {why}"))?;
        }
        if config.dir.is_empty() {
            return Err("dir=FOLDER is missing".to_string());
        }
        config.check_node()?;
        Ok(config)
    }

    fn check_node(&self) -> Result<(), String> {
        let all = u64::from(self.nics) * (u64::from(self.node) + 1);
        if self.nics == 0 || all > crate::shm::NICS as u64 {
            return Err(format!(
                "node {} of {} NICs: NIC addresses end at {}",
                self.node,
                self.nics,
                crate::shm::NICS
            ));
        }
        Ok(())
    }

    /// Puts this process on a node.
    pub fn set_node(&mut self, text: &str) -> Result<(), String> {
        self.node = number(text)?;
        self.check_node()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "dir" => self.dir = value.to_string(),
            "flavour" => {
                self.flavour = match value {
                    "aries" => Flavour::Aries,
                    "gemini" => Flavour::Gemini,
                    _ => return Err("must be aries or gemini".to_string()),
                }
            }
            "seed" => self.seed = number(value)?,
            "node" => self.node = number(value)?,
            "nics" => self.nics = number(value)?,
            "yield" => self.yields = number(value)?,
            "delay" => self.delay_us = number(value)?,
            "reorder" => self.reorder = true,
            "late" => self.late = true,
            "early-event" => self.early_event = true,
            "busy" => self.busy = percent(value)?,
            "reg-busy" => self.reg_busy = percent(value)?,
            "reg-fail" => self.reg_fail = number(value)?,
            "reg-invalid" => self.reg_invalid.push(unregistrable(value)?),
            "reg-bytes" => self.reg_bytes = number(value)?,
            "post-error" => self.post_error.push(post_error(value)?),
            "forge" => self.forge.push(Forgery::parse(value)?),
            "fma" => self.fma = number(value)?,
            "mdd" => self.mdd = number(value)?,
            "cq" => self.cq = Some(number(value)?),
            "ce" => self.ce = number(value)?,
            "cq-round" => self.cq_round = true,
            "kill" => self.kill = true,
            "no-check" => self.check = false,
            "trace" => self.trace = true,
            "report" => self.report = true,
            _ => return Err("no such option".to_string()),
        }
        Ok(())
    }

    pub fn is_gemini(&self) -> bool {
        self.flavour == Flavour::Gemini
    }

    /// Whether operations or their events happen later than they are posted.
    pub fn delays(&self) -> bool {
        self.reorder || self.late || self.early_event
    }

    /// CQs of a NIC. What Aries has is not known.
    pub fn cqs(&self) -> u32 {
        self.cq.unwrap_or(if self.is_gemini() { 1024 } else { 2048 })
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

/// N, 0xFROM-0xTO, or part of a name.
fn unregistrable(text: &str) -> Result<Unregistrable, String> {
    if let Ok(nth) = text.parse() {
        return Ok(Unregistrable::Nth(nth));
    }
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    match text.split_once('-') {
        Some((from, to)) if from.starts_with("0x") => Ok(Unregistrable::Range(
            hex(from).ok_or("needs hexadecimal addresses")?,
            hex(to).ok_or("needs hexadecimal addresses")?,
        )),
        _ if text.is_empty() => Err("needs N, 0xFROM-0xTO, or part of the name of a mapping".to_string()),
        _ => Ok(Unregistrable::Named(text.to_string())),
    }
}

fn post_error(text: &str) -> Result<PostError, String> {
    let fields: Vec<&str> = text.split(':').collect();
    let [kind, nth, status] = fields[..] else {
        return Err("needs KIND:N:STATUS".to_string());
    };
    let (kind, lengths) = match kind.split_once('/') {
        None => (kind, 0..=u64::MAX),
        Some((kind, lengths)) => {
            let (least, most) = lengths.split_once('-').ok_or("needs LEAST-MOST behind a /")?;
            (kind, number(least)?..=number(most)?)
        }
    };
    let kind = match kind {
        "any" => 0,
        "rdma-put" => abi::GNI_POST_RDMA_PUT,
        "rdma-get" => abi::GNI_POST_RDMA_GET,
        "fma-put" => abi::GNI_POST_FMA_PUT,
        "fma-flag" => abi::GNI_POST_FMA_PUT_W_SYNCFLAG,
        "fma-get" => abi::GNI_POST_FMA_GET,
        "amo" => abi::GNI_POST_AMO,
        "cqwrite" => abi::GNI_POST_CQWRITE,
        "ce" => abi::GNI_POST_CE,
        _ => {
            return Err(
                "begins with any, rdma-put, rdma-get, fma-put, fma-flag, fma-get, amo, cqwrite or ce".to_string(),
            )
        }
    };
    let hexadecimal = status.strip_prefix("0x").map(|digits| u8::from_str_radix(digits, 16));
    let status = match hexadecimal.map_or_else(|| number(status), |status| status.map_err(|why| why.to_string())) {
        Ok(status) => status,
        Err(_) => status::named(status).ok_or("ends in no status of completions")?,
    };
    if status == 0 || status >= 64 {
        return Err("needs a status from 1 to 63".to_string());
    }
    let nth = number(nth)?;
    Ok(PostError {
        kind,
        lengths,
        nth,
        status,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_options() {
        let config = Config::parse(
            "dir=/d flavour=gemini late reg-invalid=3 reg-invalid=0x10-0x20 reg-invalid=xpmem \
             post-error=rdma-put:3:at_bounds_err post-error=fma-put/8-64:1:0x12",
        )
        .unwrap();
        assert_eq!((config.flavour, config.late), (Flavour::Gemini, true));
        assert_eq!(
            config.reg_invalid,
            [
                Unregistrable::Nth(3),
                Unregistrable::Range(16, 32),
                Unregistrable::Named("xpmem".to_string())
            ]
        );
        assert_eq!(
            config.post_error,
            [
                PostError {
                    kind: abi::GNI_POST_RDMA_PUT,
                    lengths: 0..=u64::MAX,
                    nth: 3,
                    status: 0x12
                },
                PostError {
                    kind: abi::GNI_POST_FMA_PUT,
                    lengths: 8..=64,
                    nth: 1,
                    status: 0x12
                }
            ]
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("dir=/d nics=0", "node 0 of 0 NICs: NIC addresses end at 1024"),
            ("dir=/d nonsense", "nonsense: no such option"),
            ("dir=/d busy=101", "busy=101: needs a number up to 100"),
            (
                "dir=/d post-error=amo:1:0",
                "post-error=amo:1:0: needs a status from 1 to 63",
            ),
            (
                "dir=/d post-error=amo/8:1:1",
                "post-error=amo/8:1:1: needs LEAST-MOST behind a /",
            ),
            ("dir=/d forge=event:1:x", "forge=event:1:x: x is no number"),
            ("seed=1", "dir=FOLDER is missing"),
        ] {
            assert_eq!(Config::parse(text).unwrap_err(), why);
        }
    }
}
