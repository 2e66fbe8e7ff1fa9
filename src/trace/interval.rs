//! Operations that begin in one call and end in another: collectives and team barriers. Both lines
//! carry the same id.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use super::source::{self, Source};
use super::{monotonic_ns, record, recorder, wants, EventKind, TraceCategory, TraceEvent};

/// An operation in progress.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    began: u64,
    id: u32,
    source: Source,
    name: &'static str,
    kinds: (EventKind, EventKind),
    bytes: usize,
    /// A barrier of the primordial team.
    is_of_all: bool,
}

static NEXT: AtomicU32 = AtomicU32::new(1);

impl Interval {
    /// Records the start of operation `name` of a team with this id and size, if its category is
    /// recorded. `bytes`: payload of this rank; ignored for barriers.
    pub fn begin(name: &'static str, bytes: usize, (team, size): (u64, u32)) -> Option<Self> {
        if !wants(TraceCategory::Barrier) && !wants(TraceCategory::Collective) {
            return None;
        }
        let is_barrier = name.contains("Barrier");
        let (category, kinds) = if is_barrier {
            (
                TraceCategory::Barrier,
                (EventKind::BarrierStart, EventKind::BarrierDone),
            )
        } else {
            (TraceCategory::Collective, (EventKind::CollStart, EventKind::CollDone))
        };
        if !wants(category) {
            return None;
        }
        let (began, id) = (monotonic_ns(), NEXT.fetch_add(1, Ordering::Relaxed));
        let is_of_all = is_barrier && team == 0;
        if is_of_all {
            recorder::barrier(kinds.0);
        }
        let bytes_here = (!is_barrier).then_some(bytes);
        record(&TraceEvent {
            bytes: bytes_here,
            ..TraceEvent::new(kinds.0, began)
                .with_fields(format_args!(" id={id} name={name} team={team:#x} size={size}"))
        });
        Some(Self {
            began,
            is_of_all,
            id,
            source: source::here(),
            name,
            kinds,
            bytes,
        })
    }

    /// Records its completion.
    #[cold]
    pub fn end(self) {
        let now = monotonic_ns();
        if self.is_of_all {
            recorder::barrier(self.kinds.1);
        }
        record(&TraceEvent {
            ns: Some(now.saturating_sub(self.began)),
            source: Some(self.source),
            bytes: (self.kinds.1 == EventKind::CollDone).then_some(self.bytes),
            ..TraceEvent::new(self.kinds.1, now).with_fields(format_args!(" id={} name={}", self.id, self.name))
        });
    }
}

/// Awaits `work`, and records the completion of `interval`.
pub async fn around(interval: Option<Interval>, work: impl Future<Output = ()>) {
    work.await;
    if let Some(interval) = interval {
        interval.end();
    }
}
