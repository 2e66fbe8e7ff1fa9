//! Counts of the calls of an attachment, for option `report`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Default)]
pub struct Traffic {
    pub channels: AtomicU64,
    pub puts: AtomicU64,
    /// Puts whose events are not gone, and the most there were at a time.
    puts_under_way: AtomicU64,
    most_puts: AtomicU64,
    pub gets: AtomicU64,
    /// Messages that were sent.
    pub by_queue: AtomicU64,
    pub by_port: AtomicU64,
    pub barriers: AtomicU64,
    pub broadcasts: AtomicU64,
}

/// Counts a call. Returns how many there are now.
pub fn count(calls: &AtomicU64) -> u64 {
    calls.fetch_add(1, Relaxed) + 1
}

impl Traffic {
    /// A put begins.
    pub fn put(&self) {
        count(&self.puts);
        self.most_puts.fetch_max(count(&self.puts_under_way), Relaxed);
    }

    /// The event of a put is gone.
    pub fn end_put(&self) {
        self.puts_under_way.fetch_sub(1, Relaxed);
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { channels, puts, .. } = self;
        let (channels, puts, most) = (channels.load(Relaxed), puts.load(Relaxed), self.most_puts.load(Relaxed));
        write!(f, "{channels} channels, {puts} puts, {most} at a time, ")?;
        let [gets, queue, port, barriers, broadcasts] = [
            &self.gets,
            &self.by_queue,
            &self.by_port,
            &self.barriers,
            &self.broadcasts,
        ]
        .map(|n| n.load(Relaxed));
        write!(
            f,
            "{gets} gets, {queue} by queue, {port} by port, {barriers} barriers, {broadcasts} broadcasts"
        )
    }
}
