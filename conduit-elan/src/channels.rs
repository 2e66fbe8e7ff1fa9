//! Channels, each with places for puts under way.

use crate::ffi::{Channel, ChannelSlot};
use gasnet_sys::atomic::{AtomicUsize, Ordering};

/// The channels of a process.
#[derive(Debug)]
pub struct Channels {
    all: Vec<Channel>,
    /// The channel that had a place last.
    last: AtomicUsize,
}

impl Channels {
    /// These, which have the numbers from 0.
    pub fn new(all: Vec<Channel>) -> Self {
        let last = AtomicUsize::new(0);
        Self { all, last }
    }

    /// A place for a put, if any channel has one.
    #[inline]
    pub fn take(&self) -> Option<ChannelSlot<'_>> {
        let last = self.last.load(Ordering::Relaxed);
        let mut numbers = (last..self.all.len()).chain(0..last);
        let place = numbers.find_map(|number| self.all[number].take())?;
        if place.number() != last {
            self.last.store(place.number(), Ordering::Relaxed);
        }
        Some(place)
    }

    /// A put of a channel is complete.
    #[inline]
    pub fn give_back(&self, channel: usize) {
        self.all[channel].give_back();
    }
}
