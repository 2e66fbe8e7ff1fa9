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

/// A place for a put.
pub struct Place<'a> {
    pub slot: ChannelSlot<'a>,
    /// Number of its channel.
    pub channel: usize,
}

impl Channels {
    /// These.
    pub fn new(all: Vec<Channel>) -> Self {
        let last = AtomicUsize::new(0);
        Self { all, last }
    }

    /// A place, if any channel has one.
    #[inline]
    pub fn take(&self) -> Option<Place<'_>> {
        let last = self.last.load(Ordering::Relaxed);
        let numbers = (last..self.all.len()).chain(0..last);
        let mut places = numbers.filter_map(|channel| {
            let slot = self.all[channel].take()?;
            Some(Place { slot, channel })
        });
        let place = places.next()?;
        if place.channel != last {
            self.last.store(place.channel, Ordering::Relaxed);
        }
        Some(place)
    }

    /// A put of a channel is complete.
    #[inline]
    pub fn give_back(&self, channel: usize) {
        self.all[channel].give_back();
    }
}
