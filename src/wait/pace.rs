//! The pace of the receive thread: `GASNET_RCV_THREAD_RATE`, `_LOAD` and `_IDLE`.

use gasnet_conduit::config::{self, Config};
use std::time::Duration;

/// Limits of a thread that wakes, works and sleeps again.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Least time from one wake-up to the next.
    interval: Duration,
    /// Most time awake, as a part of all time.
    load: f64,
    /// Time without arrivals after which it sleeps.
    pub idle: Duration,
}

impl Pace {
    /// That of the environment.
    pub fn read(config: &Config) -> Self {
        let rate = config.get(&config::RCV_THREAD_RATE);
        Self {
            interval: if rate == 0 {
                Duration::ZERO
            } else {
                Duration::from_secs(1) / rate
            },
            load: config.get(&config::RCV_THREAD_LOAD),
            idle: Duration::from_nanos(config.get(&config::RCV_THREAD_IDLE).into()),
        }
    }

    /// Pause after the thread was awake for this time.
    pub fn pause(&self, awake: Duration) -> Duration {
        let by_rate = self.interval.saturating_sub(awake);
        let by_load = awake.mul_f64(1.0 / self.load - 1.0);
        by_rate.max(by_load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_pause_counts() {
        let ms = Duration::from_millis;
        let pace = |interval, load| Pace {
            interval: ms(interval),
            load,
            idle: Duration::ZERO,
        };
        assert_eq!(pace(0, 1.0).pause(ms(5)), ms(0));
        assert_eq!(pace(10, 1.0).pause(ms(3)), ms(7));
        assert_eq!(pace(10, 1.0).pause(ms(30)), ms(0));
        assert_eq!(pace(0, 0.25).pause(ms(5)), ms(15));
        assert_eq!(pace(10, 0.5).pause(ms(3)), ms(7));
        assert_eq!(pace(10, 0.5).pause(ms(30)), ms(30));
    }
}
