//! EMU_ELAN. docs: emulators/README.md.

use emulator_common::damage::Damage;
use emulator_common::words::{check_dir, either, no, number, text, within, yes, Words};

use crate::forge::Forgery;

/// Elan3 addresses of what `map` maps begin here; the window ends below 4 GiB.
pub const WINDOW_START: u64 = 0x8000_0000;
const WINDOW_MOST: u64 = (1 << 32) - WINDOW_START;
const MIB: u64 = 1 << 20;

emulator_common::words! {
    pub struct Config {
        pub dir: String = String::new(), "dir" => text;
        /// 3 or 4.
        pub elan: u32 = 4, "flavour" => either(("elan3", 3), ("elan4", 4));
        pub seed: u64 = 1, "seed" => number;
        pub rails: u32 = 1, "rails" => within(1, 16);
        /// `port_slots`, `small_put` and `throttle` of the information.
        pub slots: u32 = 64, "slots" => within(1, 1 << 16);
        pub small: u32 = 128, "small" => number;
        pub throttle: u32 = 64, "throttle" => within(1, 64);
        /// Bytes of the pools of `alloc` and `symmetric`; 0: those of the flavour.
        alloc: u64 = 0, "alloc" => within(1, 1 << 40);
        symmetric: u64 = 0, "symmetric" => within(1, 1 << 30);
        /// Bytes that `map` makes accessible on Elan3.
        pub window: u64 = 512 * MIB, "window" => within(1, WINDOW_MOST);
        pub has_hardware_broadcast: bool = true, "no-hwbcast" => no;
        /// Two threads in calls of one attachment are fatal.
        pub serial: bool = false, "serial" => yes;
        /// A process's vp is not its rank.
        pub shuffle: bool = false, "shuffle" => yes;
        /// Polls in a row that find nothing until one yields the core; 0: none does.
        pub yields: u32 = 0, "yield" => number;
        /// Longest random delay.
        pub delay_us: u64 = 200, "delay" => number;
        /// Sources of large puts are read a random time after the call.
        pub late: bool = false, "late" => yes;
        /// Puts, gets and messages arrive after random times.
        pub reorder: bool = false, "reorder" => yes;
        /// Under `reorder`, messages of one sender change places as well.
        pub overtake: bool = false, "overtake" => yes;
        /// Channels that the adapter has memory for, in each attachment; 0: any number.
        pub channels: u64 = 0, "channels" => number;
        /// A process attaches once.
        pub one_attachment: bool = false, "one-attachment" => yes;
        /// The nth call in each attachment finds no room; 0: none.
        pub fail_alloc: u64 = 0, "fail-alloc" => number;
        pub fail_symmetric: u64 = 0, "fail-symmetric" => number;
        pub fail_map: u64 = 0, "fail-map" => number;
        pub fail_queue: u64 = 0, "fail-queue" => number;
        /// The nth message of queues that an attachment sends has other bytes; 0: none.
        pub spoil_message: u64 = 0, "spoil-message" => number;
        /// Puts (true) and gets of some lengths whose last byte has other bits.
        pub damage: Vec<Damage<bool>> = Vec::new(),
            "damage" += |text| Damage::parse(text, &[("put", true), ("get", false)]);
        pub forge: Vec<Forgery> = Vec::new(), "forge" += Forgery::parse;
        /// The interface has a later version.
        pub other_version: bool = false, "other-version" => yes;
        /// `start` fails.
        pub fail_start: bool = false, "fail-start" => yes;
        pub start_timeout_s: u64 = 60, "start-timeout" => number;
        /// A `put` or `queue_send` that would wait is fatal.
        pub must_not_wait: bool = false, "must-not-wait" => yes;
        /// Checks of threads.
        pub check: bool = true, "no-check" => no;
        /// Operations that never complete are reported.
        pub trace: bool = false, "trace" => yes;
        /// `stop` and the end of the process report what is left.
        pub report: bool = false, "report" => yes;
    }
}

impl Words for Config {
    const VARIABLE: &'static str = "EMU_ELAN";

    fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        self.set_word(name, value)
    }

    fn names() -> Vec<&'static str> {
        Self::WORDS.to_vec()
    }

    fn check(&self) -> Result<(), String> {
        check_dir(&self.dir)
    }
}

impl Config {
    pub fn is_elan3(&self) -> bool {
        self.elan == 3
    }

    /// Whether anything arrives later than the call that sends it.
    pub fn delays(&self) -> bool {
        self.late || self.reorder
    }

    /// Most bytes of a message in a queue.
    pub fn queue_bytes(&self) -> u32 {
        if self.is_elan3() {
            320
        } else {
            2048
        }
    }

    pub fn alloc_bytes(&self) -> u64 {
        match self.alloc {
            0 if self.is_elan3() => 8 * MIB,
            0 => 64 * MIB,
            bytes => bytes,
        }
    }

    pub fn symmetric_bytes(&self) -> u64 {
        match self.symmetric {
            0 => 64 * MIB,
            bytes => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_options() {
        let config = Config::parse("dir=/d flavour=elan3 late slots=3").unwrap();
        assert_eq!((config.elan, config.slots, config.late), (3, 3, true));
        assert_eq!((config.queue_bytes(), config.alloc_bytes()), (320, 8 << 20));
        let config = Config::parse("dir=/d alloc=4096").unwrap();
        assert_eq!((config.queue_bytes(), config.alloc_bytes()), (2048, 4096));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("seed=1", "dir=FOLDER is missing"),
            ("dir=/d flavour=elan5", "flavour=elan5: must be elan3 or elan4"),
            ("dir=/d throttle=65", "throttle=65: needs a number from 1 to 64"),
            ("dir=/d delay=x", "delay=x: needs a number"),
        ] {
            assert_eq!(Config::parse(text).unwrap_err(), why);
        }
    }
}
