//! Ticks: the time-stamp counter if it runs at one rate in all power states, else the monotonic
//! clock in nanoseconds. Ticks of different processes are not comparable.

// Rates and errors are ratios: the 52 bits of a double are plenty.
#![allow(clippy::cast_precision_loss)]

use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use gasnet_sys::clock::{self, tsc};
use gasnet_sys::float;

use crate::abi::native;
use crate::{env, fatal, process};

pub use gasnet_sys::clock::monotonic_ns;

/// Values of the exported `gasnetti_tick_source`, which inline code in the header reads.
const SOURCE_TSC: i32 = 1;
const SOURCE_CLOCK: i32 = 2;

/// The current tick count.
pub fn now() -> u64 {
    if source() == SOURCE_TSC {
        tsc()
    } else {
        monotonic_ns()
    }
}

/// The clock that ticks come from; chosen at the first call.
fn source() -> i32 {
    // Relaxed: every thread chooses the same, and no other data depends on the value.
    match native::tick_source().load(Ordering::Relaxed) {
        0 => {
            let chosen = if clock::tsc_is_invariant() {
                SOURCE_TSC
            } else {
                SOURCE_CLOCK
            };
            native::tick_source().store(chosen, Ordering::Relaxed);
            chosen
        }
        chosen => chosen,
    }
}

/// Converts an interval to nanoseconds.
pub fn to_ns(ticks: u64) -> u64 {
    static SCALE: OnceLock<u64> = OnceLock::new();
    // Fixed point with 32 fractional bits: exact to a nanosecond over years of ticks.
    let scale = *SCALE.get_or_init(|| float::quietly(|| (ns_per_tick() * 4_294_967_296.0) as u64));
    ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
}

/// Microseconds of the system's wall clock since 1970.
pub fn wall_us() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_micros() as u64)
}

fn ns_per_tick() -> f64 {
    if source() != SOURCE_TSC {
        return 1.0;
    }
    let rate = env::text("GASNET_TSC_RATE", Some("walltime")).unwrap_or_default();
    let tolerance = Tolerance::get();
    let hz = match rate.trim().to_ascii_lowercase().as_str() {
        "" | "walltime" | "wallclock" => tolerance.calibrated().hz,
        "cpuinfo" => tolerance.checked(cpuinfo_hz().unwrap_or_else(|| {
            fatal::fatal(format_args!(
                "GASNET_TSC_RATE=cpuinfo: /proc/cpuinfo states no rate; set GASNET_TSC_RATE to the rate in Hz"
            ))
        })),
        number => match number.parse::<u64>() {
            Ok(hz @ 1_000_000..=100_000_000_000) => tolerance.checked(hz as f64),
            _ => fatal::fatal(format_args!(
                "environment variable GASNET_TSC_RATE='{rate}' must be 'walltime', 'cpuinfo' or ticks per second \
                 between 1000000 and 100000000000 without suffix"
            )),
        },
    };
    if env::bool("GASNET_TSC_VERBOSE", false) {
        process::print_line(format_args!(
            "TSC ({}): {hz:.0} ticks per second ({rate})",
            process::Label
        ));
    }
    1e9 / hz
}

/// One instant on both clocks.
struct Instant {
    ticks: u64,
    ns: u64,
    /// Most ticks between the two readings.
    slack: u64,
}

/// The tightest of several readings: an interrupt between the two clocks widens one.
fn instant() -> Instant {
    (0..20)
        .map(|_| {
            let before = tsc();
            let ns = monotonic_ns();
            let slack = tsc().wrapping_sub(before);
            Instant {
                ticks: before + slack / 2,
                ns,
                slack,
            }
        })
        .min_by_key(|i| i.slack)
        .unwrap_or(Instant {
            ticks: 0,
            ns: 0,
            slack: u64::MAX,
        })
}

/// Shortest calibration, in nanoseconds. A reading of both clocks is exact to tens of nanoseconds.
const MIN_CALIBRATION_NS: u64 = 2_000_000;

/// Start of the calibration.
static START: OnceLock<Instant> = OnceLock::new();

/// Starts the calibration. An early start makes the first conversion of ticks faster and more
/// exact.
pub fn begin() {
    if source() == SOURCE_TSC {
        START.get_or_init(instant);
    }
}

/// A measured rate.
struct Measured {
    hz: f64,
    /// Most that `hz` may be wrong, relative.
    error: f64,
}

/// Relative errors of the tick rate that bring a warning (`soft`) and end the job (`hard`).
struct Tolerance {
    soft: f64,
    hard: f64,
}

impl Tolerance {
    fn get() -> Self {
        Self {
            soft: env::double("GASNET_TSC_RATE_TOLERANCE", 0.0005),
            hard: env::double("GASNET_TSC_RATE_HARD_TOLERANCE", 0.02),
        }
    }

    /// The rate that the user gave, unless the clock contradicts it. Nothing else finds a wrong
    /// one: all intervals are wrong by the same factor.
    fn checked(&self, hz: f64) -> f64 {
        let measured = self.measure();
        let error = (hz / measured.hz - 1.0).abs() - measured.error;
        if error > self.hard {
            fatal::fatal(format_args!(
                "GASNET_TSC_RATE gives {hz:.0} ticks per second, the monotonic clock {:.0}, and \
                 GASNET_TSC_RATE_HARD_TOLERANCE is {}; leave GASNET_TSC_RATE unset or correct it",
                measured.hz, self.hard
            ));
        }
        if error > self.soft {
            process::warn(format_args!(
                "GASNET_TSC_RATE gives {hz:.0} ticks per second, the monotonic clock {:.0}; \
                 GASNET_TSC_RATE_TOLERANCE is {}",
                measured.hz, self.soft
            ));
        }
        hz
    }

    /// The measured rate, if it is exact enough.
    fn calibrated(&self) -> Measured {
        let measured = self.measure();
        if measured.error > self.hard {
            fatal::fatal(format_args!(
                "the time-stamp counter could only be calibrated to {:.2e} (relative), and \
                 GASNET_TSC_RATE_HARD_TOLERANCE is {}; set GASNET_TSC_RATE to its rate",
                measured.error, self.hard
            ));
        }
        if measured.error > self.soft {
            process::warn(format_args!(
                "the time-stamp counter is calibrated to {:.2e} (relative) only; GASNET_TSC_RATE_TOLERANCE is {}",
                measured.error, self.soft
            ));
        }
        measured
    }

    /// Measures the rate of the counter against the monotonic clock since [`begin`], for at least
    /// 2 ms, and longer while the error is above the tolerance.
    fn measure(&self) -> Measured {
        let start = START.get_or_init(instant);
        let mut wait_ns = MIN_CALIBRATION_NS.saturating_sub(monotonic_ns().saturating_sub(start.ns));
        loop {
            if wait_ns > 0 {
                clock::sleep_ns(wait_ns);
            }
            let end = instant();
            let ticks = end.ticks.wrapping_sub(start.ticks) as f64;
            let error = (start.slack + end.slack) as f64 / ticks;
            if error > self.soft.max(1e-6) && wait_ns < 400_000_000 {
                wait_ns = (2 * wait_ns).max(MIN_CALIBRATION_NS);
                continue;
            }
            let hz = ticks / (end.ns - start.ns) as f64 * 1e9;
            return Measured { hz, error };
        }
    }
}

/// The nominal rate in the name of the processor, else its current frequency.
fn cpuinfo_hz() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let value = |key: &str| {
        text.lines()
            .find(|l| l.starts_with(key))
            .and_then(|l| l.split_once(':'))
            .map(|(_, v)| v.trim().to_owned())
    };
    let nominal = value("model name")
        .and_then(|name| name.rsplit_once('@').map(|(_, r)| r.trim().to_owned()))
        .and_then(|r| r.strip_suffix("GHz").and_then(|g| g.trim().parse::<f64>().ok()))
        .map(|ghz| ghz * 1e9);
    nominal.or_else(|| {
        value("cpu MHz")
            .and_then(|mhz| mhz.parse::<f64>().ok())
            .map(|mhz| mhz * 1e6)
    })
}

/// Average cost of one reading, in microseconds; measured once.
pub fn overhead_us() -> f64 {
    static COST: OnceLock<f64> = OnceLock::new();
    *COST.get_or_init(|| {
        let rounds = 1000_u32;
        let start = now();
        for _ in 1..rounds {
            std::hint::black_box(now());
        }
        let ns = to_ns(now() - start).max(1);
        float::quietly(|| ns as f64 / f64::from(rounds) / 1000.0)
    })
}

/// Smallest difference between two readings, in microseconds; measured once.
pub fn granularity_us() -> f64 {
    static STEP: OnceLock<f64> = OnceLock::new();
    *STEP.get_or_init(|| {
        let mut least = u64::MAX;
        let mut last = now();
        for _ in 0..1000 {
            let next = now();
            if next > last {
                least = least.min(next - last);
            }
            last = next;
        }
        let ns = to_ns(if least == u64::MAX { 1 } else { least }).max(1);
        float::quietly(|| ns as f64 / 1000.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_the_clock() {
        begin();
        // The thread may be descheduled between any two readings.
        let (outer_begin, ticks, inner_begin) = (monotonic_ns(), now(), monotonic_ns());
        clock::sleep_ns(50_000_000);
        let (inner_end, ticks_end, outer_end) = (monotonic_ns(), now(), monotonic_ns());
        let (least, most) = (inner_end - inner_begin, outer_end - outer_begin);
        let elapsed = to_ns(ticks_end - ticks);
        let is_near = least - least / 50 <= elapsed && elapsed <= most + most / 50;
        assert!(is_near, "{elapsed} is not from {least} to {most}");
        assert!(granularity_us() > 0.0 && overhead_us() > 0.0);
        assert!(to_ns(0) == 0);
        let _ = cpuinfo_hz();
    }
}
