//! How blocked calls wait: they yield the core at first, then sleep.

use std::time::Duration;

const YIELDS: u32 = 200;
const SLEEP: Duration = Duration::from_micros(50);

#[derive(Default)]
pub struct Backoff(u32);

impl Backoff {
    pub fn pause(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if self.0 < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(SLEEP);
        }
    }
}
