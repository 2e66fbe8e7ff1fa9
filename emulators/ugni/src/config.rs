//! EMU_UGNI. docs: emulators/README.md.

use std::ops::RangeInclusive;

use emulator_common::damage::Damage;
use emulator_common::unregistrable::Unregistrable;
use emulator_common::words::{check_dir, either, fields, no, nth, number, percent, text, yes, Words};
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
    /// Lengths in bytes.
    pub lengths: RangeInclusive<u64>,
    pub nth: u64,
    pub status: u8,
}

emulator_common::words! {
    pub struct Config {
        pub dir: String = String::new(), "dir" => text;
        pub flavour: Flavour = Flavour::Aries,
            "flavour" => either(("aries", Flavour::Aries), ("gemini", Flavour::Gemini));
        pub seed: u64 = 1, "seed" => number;
        /// The node of this process; EMU_UGNI_NODE wins.
        pub node: u32 = 0, "node" => number;
        /// Devices of each node.
        pub nics: u32 = 1, "nics" => number;
        /// Polls in a row that find nothing until one yields the core; 0: none does.
        pub yields: u32 = 0, "yield" => number;
        /// Longest random delay of an operation or an event.
        pub delay_us: u64 = 200, "delay" => number;
        /// Operations take effect a random time after they are posted, and so do their events.
        pub reorder: bool = false, "reorder" => yes;
        /// Sources are read a random time after the post.
        pub late: bool = false, "late" => yes;
        /// The LOCAL event of a post may follow the error that its GLOBAL event is.
        pub late_event: bool = false, "late-event" => yes;
        /// The nth REMOTE event of a process arrives as an error; 0: none.
        pub arrival_error: u64 = 0, "arrival-error" => number;
        /// REMOTE events may precede the data, in regions without STRICT_PI_ORDERING or PI_FLUSH.
        pub early_event: bool = false, "early-event" => yes;
        /// Halves of a plain put land in any order, with a pause between them.
        pub relaxed: bool = false, "relaxed" => yes;
        /// The NIC goes on using the pages that local memory had when it was registered.
        pub stale_pages: bool = false, "stale-pages" => yes;
        /// Microseconds that a thread stays in a call that programs make beside others.
        pub stay_us: u64 = 0, "stay" => number;
        /// Microseconds until a channel is armed.
        pub slow_arm_us: u64 = 0, "slow-arm" => number;
        /// Percent of posts and of registrations that find no resources.
        pub busy: u32 = 0, "busy" => percent;
        pub reg_busy: u32 = 0, "reg-busy" => percent;
        /// The nth registration of a process finds no resources; 0: none.
        pub reg_fail: u64 = 0, "reg-fail" => nth;
        pub reg_invalid: Vec<Unregistrable> = Vec::new(), "reg-invalid" += Unregistrable::parse;
        /// Bytes that a process may register.
        pub reg_bytes: u64 = u64::MAX, "reg-bytes" => number;
        pub post_error: Vec<PostError> = Vec::new(), "post-error" += post_error;
        pub damage: Vec<Damage<abi::gni_post_type_t>> = Vec::new(), "damage" += damage;
        /// Of the AMOs of a process each nth changes nothing; 0: none.
        pub lost_update: u64 = 0, "lost-update" => nth;
        /// The GLOBAL event of the nth operation of a kind that has one is lost.
        pub lost_event: Option<(abi::gni_post_type_t, u64)> = None, "lost-event" => lost_event;
        pub forge: Vec<Forgery> = Vec::new(), "forge" += Forgery::parse;
        /// Dedicated FMA descriptors, regions, CQs, and engines of a NIC.
        pub fma: u32 = 123, "fma" => number;
        pub mdd: u32 = 4096, "mdd" => number;
        pub cq: Option<u32> = None, "cq" => |text| number(text).map(Some);
        pub ce: u32 = 4, "ce" => number;
        /// Pages of the memory relocation table of a NIC. Aries has none.
        pub mrt: Option<u32> = None, "mrt" => |text| number(text).map(Some);
        /// The first attachments of a process are interrupted by a signal.
        pub attach_signals: u64 = 0, "attach-signals" => number;
        /// The nth reduction whose result a process makes fails; 0: none.
        pub ce_error: u64 = 0, "ce-error" => number;
        /// A post to the engine clears the control word of its result.
        pub ce_clear: bool = false, "ce-clear" => yes;
        /// A reduction that fails has no result, only the entry that CQE_ONERR makes.
        pub ce_silent: bool = false, "ce-silent" => yes;
        /// A CQ has more entries than were requested, as in the library.
        pub cq_round: bool = false, "cq-round" => yes;
        /// A failed operation kills a process without ERR_NO_KILL.
        pub kill: bool = false, "kill" => yes;
        /// Two threads in one domain are fatal.
        pub check: bool = true, "no-check" => no;
        /// Also in calls that programs make beside others.
        pub check_all: bool = false, "check-all" => yes;
        /// Operations that fail are reported.
        pub trace: bool = false, "trace" => yes;
        /// The end of a process reports what it did not destroy.
        pub report: bool = false, "report" => yes;
    }
}

impl Words for Config {
    const VARIABLE: &'static str = "EMU_UGNI";

    fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        self.set_word(name, value)
    }

    fn names() -> Vec<&'static str> {
        Self::WORDS.to_vec()
    }

    fn check(&self) -> Result<(), String> {
        check_dir(&self.dir)?;
        self.check_node()
    }
}

impl Config {
    /// EMU_UGNI, and EMU_UGNI_NODE.
    pub fn of_process() -> Result<Config, String> {
        let mut config = Config::of_environment()?;
        if let Ok(node) = std::env::var("EMU_UGNI_NODE") {
            config.set_node(&node).map_err(|why| format!("EMU_UGNI_NODE: {why}"))?;
        }
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
    fn set_node(&mut self, text: &str) -> Result<(), String> {
        self.node = number(text)?;
        self.check_node()
    }

    pub fn is_gemini(&self) -> bool {
        self.flavour == Flavour::Gemini
    }

    /// Whether operations or their events happen later than they are posted.
    pub fn delays(&self) -> bool {
        self.reorder || self.late || self.early_event || self.late_event
    }

    /// CQs of a NIC. The number of Aries is not known.
    pub fn cqs(&self) -> u32 {
        self.cq.unwrap_or(if self.is_gemini() { 1024 } else { 2048 })
    }

    /// Pages of the memory relocation table of a NIC.
    pub fn mrt_pages(&self) -> u32 {
        self.mrt.unwrap_or(if self.is_gemini() { 16384 } else { u32::MAX })
    }
}

/// Kinds of operations; `any` is 0.
const KINDS: [(&str, abi::gni_post_type_t); 9] = [
    ("any", 0),
    ("rdma-put", abi::GNI_POST_RDMA_PUT),
    ("rdma-get", abi::GNI_POST_RDMA_GET),
    ("fma-put", abi::GNI_POST_FMA_PUT),
    ("fma-flag", abi::GNI_POST_FMA_PUT_W_SYNCFLAG),
    ("fma-get", abi::GNI_POST_FMA_GET),
    ("amo", abi::GNI_POST_AMO),
    ("cqwrite", abi::GNI_POST_CQWRITE),
    ("ce", abi::GNI_POST_CE),
];

fn kind_named(name: &str) -> Result<abi::gni_post_type_t, String> {
    let kind = KINDS.iter().find(|kind| kind.0 == name).map(|kind| kind.1);
    let names = || KINDS.map(|kind| kind.0).join(", ");
    kind.ok_or_else(|| format!("must begin with one of {}", names()))
}

/// Puts and gets.
fn damage(text: &str) -> Result<Damage<abi::gni_post_type_t>, String> {
    Damage::parse(text, &KINDS[1..6])
}

fn lost_event(text: &str) -> Result<Option<(abi::gni_post_type_t, u64)>, String> {
    let [kind, nth] = fields(text)?;
    Ok(Some((kind_named(kind)?, number(nth)?)))
}

fn post_error(text: &str) -> Result<PostError, String> {
    let [kind, nth, status] = fields(text).map_err(|_| "needs KIND:N:STATUS")?;
    let (kind, lengths) = match kind.split_once('/') {
        None => (kind, 0..=u64::MAX),
        Some((kind, lengths)) => {
            let (least, most) = lengths.split_once('-').ok_or("needs LEAST-MOST behind a /")?;
            (kind, number(least)?..=number(most)?)
        }
    };
    let kind = kind_named(kind)?;
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
