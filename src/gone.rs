//! Objects that were destroyed, for the debug flavour: their memory stays, so that a later use of the handle is noticed.

use std::collections::BTreeSet;

use gasnet_sys::atomic::Mutex;

/// Addresses of destroyed objects of one kind.
#[derive(Debug)]
pub struct Gone(Mutex<BTreeSet<usize>>);

impl Gone {
    /// None.
    pub const fn none() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    /// One more.
    pub fn note<T>(&self, object: &'static T) {
        let mut gone = gasnet_sys::lock(&self.0);
        gone.insert(std::ptr::from_ref(object) as usize);
    }

    /// Whether the object at `address` is one of them.
    pub fn has(&self, address: usize) -> bool {
        gasnet_sys::lock(&self.0).contains(&address)
    }
}
