//! Destroyed objects, for the debug flavour: their memory stays allocated, so that a later use of
//! the handle is detected.

use std::collections::BTreeSet;

use gasnet_sys::atomic::Mutex;

/// Addresses of the destroyed objects of one type.
#[derive(Debug)]
pub struct Graveyard(Mutex<BTreeSet<usize>>);

impl Graveyard {
    /// Without objects.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    /// Adds a destroyed object.
    pub fn bury<T>(&self, object: &'static T) {
        let mut destroyed = gasnet_sys::lock(&self.0);
        destroyed.insert(std::ptr::from_ref(object) as usize);
    }

    /// Whether the object at `address` was destroyed.
    pub fn has(&self, address: usize) -> bool {
        gasnet_sys::lock(&self.0).contains(&address)
    }
}

impl Default for Graveyard {
    fn default() -> Self {
        Self::new()
    }
}
