//! A failure of the network of which no single peer is the reason.
#![forbid(unsafe_code)]

use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::sync::atomic::AtomicBool;

/// Whether the network failed, and why.
#[derive(Default)]
pub struct Failure {
    /// The reason, until it is reported.
    why: Mutex<Option<String>>,
    has_failed: AtomicBool,
}

impl Failure {
    /// The network failed. The first reason counts, and is reported once.
    #[cold]
    pub fn note(&self, why: &str) {
        let mut first = lock(&self.why);
        if !self.has_failed() {
            *first = Some(why.to_owned());
            self.has_failed.store(true, Ordering::Release);
        }
    }

    /// Whether it did.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// The reason, to be reported.
    #[cold]
    pub fn take(&self) -> Option<String> {
        lock(&self.why).take()
    }
}
