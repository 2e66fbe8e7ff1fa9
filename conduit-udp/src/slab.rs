//! Places for things that are under way, named by a number.
#![forbid(unsafe_code)]

/// Numbers of things that are gone are used again.
#[derive(Debug)]
pub struct Slots<T> {
    all: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    /// Its number.
    pub fn add(&mut self, item: T) -> usize {
        if let Some(at) = self.free.pop() {
            self.all[at] = Some(item);
            return at;
        }
        self.all.push(Some(item));
        self.all.len() - 1
    }

    /// What has a number.
    pub fn get(&mut self, at: usize) -> Option<&mut T> {
        self.all.get_mut(at)?.as_mut()
    }

    /// Takes it out.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let item = self.all.get_mut(at)?.take()?;
        self.free.push(at);
        Some(item)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut slots = Slots::default();
        let (a, b) = (slots.add('a'), slots.add('b'));
        assert_eq!(
            (slots.len(), slots.remove(a), slots.remove(a), slots.get(a)),
            (2, Some('a'), None, None)
        );
        assert_eq!((slots.add('c'), slots.get(b).copied(), slots.len()), (a, Some('b'), 2));
    }
}
