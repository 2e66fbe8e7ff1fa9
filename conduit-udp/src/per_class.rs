//! One value for each message class.
#![forbid(unsafe_code)]

use gasnet_conduit::Class;
use std::ops::{Index, IndexMut};

/// Both classes, in the order of their encoding in a header.
pub const CLASSES: [Class; 2] = [Class::Request, Class::Reply];

/// A value for requests and one for replies, indexed by [`Class`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerClass<T>([T; 2]);

impl<T> PerClass<T> {
    /// From the value for requests and the one for replies.
    pub const fn new(requests: T, replies: T) -> Self {
        Self([requests, replies])
    }

    /// The value that `make` returns for each class.
    pub fn from_fn(make: impl FnMut(Class) -> T) -> Self {
        Self(CLASSES.map(make))
    }

    /// The value for requests.
    pub const fn requests(&self) -> &T {
        &self.0[0]
    }

    /// The value for replies.
    pub const fn replies(&self) -> &T {
        &self.0[1]
    }

    /// Both values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// Both values, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }

    /// Applies a function to both values.
    pub fn map<U>(self, function: impl FnMut(T) -> U) -> PerClass<U> {
        PerClass(self.0.map(function))
    }
}

impl<T> Index<Class> for PerClass<T> {
    type Output = T;

    #[inline]
    fn index(&self, class: Class) -> &T {
        &self.0[class as usize]
    }
}

impl<T> IndexMut<Class> for PerClass<T> {
    #[inline]
    fn index_mut(&mut self, class: Class) -> &mut T {
        &mut self.0[class as usize]
    }
}
