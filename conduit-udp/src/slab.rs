//! A slab: items in a vector, under keys that are reused.
#![forbid(unsafe_code)]

/// A slab of items.
#[derive(Debug)]
pub struct Slab<T> {
    all: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Adds an item and returns its key.
    pub fn add(&mut self, item: T) -> usize {
        if let Some(at) = self.free.pop() {
            self.all[at] = Some(item);
            return at;
        }
        self.all.push(Some(item));
        self.all.len() - 1
    }

    /// The item under a key.
    pub fn get(&mut self, at: usize) -> Option<&mut T> {
        self.all.get_mut(at)?.as_mut()
    }

    /// Removes the item under a key.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let item = self.all.get_mut(at)?.take()?;
        self.free.push(at);
        Some(item)
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_reused() {
        let mut slab = Slab::default();
        let (a, b) = (slab.add('a'), slab.add('b'));
        assert_eq!(
            (slab.len(), slab.remove(a), slab.remove(a), slab.get(a)),
            (2, Some('a'), None, None)
        );
        assert_eq!((slab.add('c'), slab.get(b).copied(), slab.len()), (a, Some('b'), 2));
    }
}
