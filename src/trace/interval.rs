//! What begins in one call and ends in another: collectives and team barriers. Both lines carry the same number.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use super::source::{self, Source};
use super::{monotonic_ns, record, wants, Category, Event, Kind};

/// Something that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    began: u64,
    id: u32,
    source: Source,
    name: &'static str,
    kinds: (Kind, Kind),
    bytes: usize,
}

static NEXT: AtomicU32 = AtomicU32::new(1);

impl Interval {
    /// Records that `name` begins, if events of its category are recorded: a barrier, or another collective that brings or takes `bytes` here.
    pub fn begin(name: &'static str, bytes: usize, words: fmt::Arguments<'_>) -> Option<Self> {
        if !wants(Category::Barrier) && !wants(Category::Collective) {
            return None;
        }
        let is_barrier = name.contains("Barrier");
        let category = if is_barrier { Category::Barrier } else { Category::Collective };
        if !wants(category) {
            return None;
        }
        let kinds = if is_barrier {
            (Kind::BarrierStart, Kind::BarrierDone)
        } else {
            (Kind::CollStart, Kind::CollDone)
        };
        let (began, id) = (monotonic_ns(), NEXT.fetch_add(1, Ordering::Relaxed));
        let bytes_here = (!is_barrier).then_some(bytes);
        record(&Event {
            bytes: bytes_here,
            ..Event::new(kinds.0, began).saying(format_args!(" id={id} name={name}{words}"))
        });
        Some(Self {
            began,
            id,
            source: source::here(),
            name,
            kinds,
            bytes,
        })
    }

    /// Records that it is over.
    #[cold]
    pub fn end(self) {
        let now = monotonic_ns();
        record(&Event {
            ns: Some(now.saturating_sub(self.began)),
            source: Some(self.source),
            bytes: (self.kinds.1 == Kind::CollDone).then_some(self.bytes),
            ..Event::new(self.kinds.1, now).saying(format_args!(" id={} name={}", self.id, self.name))
        });
    }
}

/// Does `work`, and records its end.
pub async fn around(interval: Option<Interval>, work: impl Future<Output = ()>) {
    work.await;
    if let Some(interval) = interval {
        interval.end();
    }
}
