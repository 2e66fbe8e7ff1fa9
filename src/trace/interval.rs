//! Operations that begin in one call and end in another: collectives and team barriers. Both lines
//! carry the same id.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use super::recorder::{self, Call};
use super::source::{self, Source};
use super::{monotonic_ns, record, wants, EventKind, TraceCategory, TraceEvent};
use gasnet_conduit::JobRank;

/// An operation in progress.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    began: u64,
    id: u32,
    source: Source,
    name: &'static str,
    kinds: (EventKind, EventKind),
    bytes: usize,
    /// In the recording.
    call: Option<Call>,
}

static NEXT: AtomicU32 = AtomicU32::new(1);

impl Interval {
    /// Records the start of operation `name` of a team with this id and size, if its category is
    /// recorded. `bytes`: payload of this rank; ignored for barriers. `root`: if there is one.
    pub fn begin(
        name: &'static str,
        bytes: usize,
        root: impl FnOnce() -> Option<JobRank>,
        (team, size): (u64, u32),
    ) -> Option<Self> {
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
        let bytes = if is_barrier { 0 } else { bytes };
        let call = recorder::is_on().then(|| recorder::collective(kinds.0, name, team, root(), bytes));
        let bytes_here = (!is_barrier).then_some(bytes);
        record(&TraceEvent {
            bytes: bytes_here,
            ..TraceEvent::new(kinds.0, began)
                .with_fields(format_args!(" id={id} name={name} team={team:#x} size={size}"))
        });
        Some(Self {
            began,
            call,
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
        if let Some(call) = self.call {
            recorder::write(&Call {
                kind: self.kinds.1,
                ..call
            });
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
