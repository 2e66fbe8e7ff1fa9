//! The report of an operation that may be a part of a larger one.
#![forbid(unsafe_code)]

use gasnet_conduit::{Completion, Cookie};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// The report of an operation that is complete.
#[derive(Debug)]
pub enum Report {
    /// Nothing.
    Nothing,
    /// This completion.
    Part(Cookie, Completion),
    /// That of the operation of which this is a part, if it is the last one.
    Parent(Arc<ParentOperation>),
}

/// An operation that was divided into parts.
#[derive(Debug)]
pub struct ParentOperation {
    left: AtomicUsize,
    report: (Cookie, Completion),
}

impl ParentOperation {
    /// An operation of `parts` parts.
    pub fn new(parts: usize, report: (Cookie, Completion)) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(parts),
            report,
        })
    }
}

impl Report {
    /// The operation is complete: the completions to report now.
    pub fn completed(self) -> Option<(Cookie, Completion)> {
        match self {
            Self::Nothing => None,
            Self::Part(cookie, part) => Some((cookie, part)),
            Self::Parent(whole) => (whole.left.fetch_sub(1, Ordering::AcqRel) == 1).then_some(whole.report),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_reports() {
        let report = (Cookie::new(7), Completion::Both);
        let whole = ParentOperation::new(3, report);
        let reports: Vec<_> = (0..3).map(|_| Report::Parent(Arc::clone(&whole)).completed()).collect();
        assert_eq!(reports, [None, None, Some(report)]);
        assert_eq!(Report::Nothing.completed(), None);
        assert_eq!(Report::Part(report.0, report.1).completed(), Some(report));
    }
}
