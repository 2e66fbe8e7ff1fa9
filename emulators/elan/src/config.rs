//! EMU_ELAN: words "name" or "name=value" between spaces. docs: emulators/README.md.

use std::str::FromStr;

use crate::forge::Forgery;

/// Elan3 addresses of what `map` maps begin here; the window ends below 4 GiB.
pub const WINDOW_START: u64 = 0x8000_0000;
const WINDOW_MOST: u64 = (1 << 32) - WINDOW_START;
const MIB: u64 = 1 << 20;

/// The options; each word that has no value is one of the flags.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)]
pub struct Config {
    pub dir: String,
    /// 3 or 4.
    pub elan: u32,
    pub seed: u64,
    pub rails: u32,
    /// `port_slots`, `small_put` and `throttle` of the information.
    pub slots: u32,
    pub small: u32,
    pub throttle: u32,
    /// Bytes of the pools of `alloc` and `symmetric`; 0: those of the flavour.
    alloc: u64,
    symmetric: u64,
    /// Bytes that `map` makes accessible on Elan3.
    pub window: u64,
    pub has_hardware_broadcast: bool,
    /// Two threads in calls of one attachment are fatal.
    pub serial: bool,
    /// A process's vp is not its rank.
    pub shuffle: bool,
    /// Every so many polls in a row that find nothing yield the core; 0: none.
    pub yields: u32,
    /// Longest random delay.
    pub delay_us: u64,
    /// Sources of large puts are read a random time after the call.
    pub late: bool,
    /// Puts, gets and messages arrive after random times.
    pub reorder: bool,
    /// The nth call in each attachment finds no room; 0: none.
    pub fail_alloc: u64,
    pub fail_symmetric: u64,
    pub fail_map: u64,
    pub fail_queue: u64,
    /// The nth message of queues that an attachment sends has other bytes; 0: none.
    pub spoil_message: u64,
    pub forge: Vec<Forgery>,
    /// The interface has a later version.
    pub other_version: bool,
    /// `start` fails.
    pub fail_start: bool,
    pub start_timeout_s: u64,
    /// A `put` or `queue_send` that would wait is fatal.
    pub must_not_wait: bool,
    /// Checks of threads.
    pub check: bool,
    /// What never completes is reported.
    pub trace: bool,
    /// `stop` and the end of the process report what is left.
    pub report: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            dir: String::new(),
            elan: 4,
            seed: 1,
            rails: 1,
            slots: 64,
            small: 128,
            throttle: 64,
            alloc: 0,
            symmetric: 0,
            window: 512 * MIB,
            has_hardware_broadcast: true,
            serial: false,
            shuffle: false,
            yields: 0,
            delay_us: 200,
            late: false,
            reorder: false,
            fail_alloc: 0,
            fail_symmetric: 0,
            fail_map: 0,
            fail_queue: 0,
            spoil_message: 0,
            forge: Vec::new(),
            other_version: false,
            fail_start: false,
            start_timeout_s: 60,
            must_not_wait: false,
            check: true,
            trace: false,
            report: false,
        }
    }
}

impl Config {
    /// Parses the value of EMU_ELAN.
    pub fn parse(text: &str) -> Result<Config, String> {
        let mut config = Config::default();
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            config.set(name, value).map_err(|why| format!("{word}: {why}"))?;
        }
        if config.dir.is_empty() {
            return Err("dir=FOLDER is missing".to_string());
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "dir" => self.dir = value.to_string(),
            "flavour" => {
                self.elan = match value {
                    "elan3" => 3,
                    "elan4" => 4,
                    _ => return Err("must be elan3 or elan4".to_string()),
                }
            }
            "seed" => self.seed = number(value)?,
            "rails" => self.rails = within(value, 1, 16)?,
            "slots" => self.slots = within(value, 1, 1 << 16)?,
            "small" => self.small = number(value)?,
            "throttle" => self.throttle = within(value, 1, 64)?,
            "alloc" => self.alloc = within(value, 1, 1 << 40)?,
            "symmetric" => self.symmetric = within(value, 1, 1 << 30)?,
            "window" => self.window = within(value, 1, WINDOW_MOST)?,
            "no-hwbcast" => self.has_hardware_broadcast = false,
            "serial" => self.serial = true,
            "shuffle" => self.shuffle = true,
            "yield" => self.yields = number(value)?,
            "delay" => self.delay_us = number(value)?,
            "late" => self.late = true,
            "reorder" => self.reorder = true,
            "fail-alloc" => self.fail_alloc = number(value)?,
            "fail-symmetric" => self.fail_symmetric = number(value)?,
            "fail-map" => self.fail_map = number(value)?,
            "fail-queue" => self.fail_queue = number(value)?,
            "spoil-message" => self.spoil_message = number(value)?,
            "forge" => self.forge.push(Forgery::parse(value)?),
            "other-version" => self.other_version = true,
            "fail-start" => self.fail_start = true,
            "start-timeout" => self.start_timeout_s = number(value)?,
            "must-not-wait" => self.must_not_wait = true,
            "no-check" => self.check = false,
            "trace" => self.trace = true,
            "report" => self.report = true,
            _ => return Err("no such option".to_string()),
        }
        Ok(())
    }

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

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "needs a number".to_string())
}

fn within<T: Copy + FromStr + PartialOrd + std::fmt::Display>(text: &str, least: T, most: T) -> Result<T, String> {
    match number::<T>(text) {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("needs a number from {least} to {most}")),
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
            ("dir=/d nonsense", "nonsense: no such option"),
            ("dir=/d flavour=elan5", "flavour=elan5: must be elan3 or elan4"),
            ("dir=/d throttle=65", "throttle=65: needs a number from 1 to 64"),
            ("dir=/d delay=x", "delay=x: needs a number"),
        ] {
            assert_eq!(Config::parse(text).unwrap_err(), why);
        }
    }
}
