//! Work that found no room, or no poll that may do it, until a later poll. A poll that finds none
//! takes no lock.
#![forbid(unsafe_code)]

use gasnet_conduit::Busy;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;

/// A queue in order of arrival.
#[derive(Debug)]
pub struct PendingQueue<T> {
    items: Mutex<VecDeque<T>>,
    /// Length of the queue.
    count: AtomicUsize,
}

impl<T> Default for PendingQueue<T> {
    fn default() -> Self {
        Self {
            items: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }
}

impl<T> PendingQueue<T> {
    /// Number of items that wait, as of a moment ago.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether none waits, as of a moment ago.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether another item may be added on behalf of the client, which waits otherwise.
    #[inline]
    pub fn admit(&self) -> Result<(), Busy> {
        /// Most items that wait for room.
        const MOST: usize = 256;
        if self.len() < MOST {
            Ok(())
        } else {
            Err(Busy)
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut VecDeque<T>) -> R) -> R {
        let mut items = lock(&self.items);
        let result = change(&mut items);
        self.count.store(items.len(), Ordering::Release);
        result
    }

    /// Adds an item behind the others.
    #[cold]
    pub fn push(&self, item: T) {
        self.change(|items| items.push_back(item));
    }

    /// Takes the first.
    #[cold]
    pub fn pop(&self) -> Option<T> {
        self.change(VecDeque::pop_front)
    }

    /// Takes all. The caller pushes those again that still find no room.
    #[cold]
    pub fn take_all(&self) -> VecDeque<T> {
        self.change(std::mem::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_in_order() {
        let queue = PendingQueue::default();
        assert!(queue.is_empty() && queue.pop().is_none() && queue.take_all().is_empty());
        for item in 0..4 {
            queue.push(item);
        }
        assert_eq!((queue.len(), queue.pop()), (4, Some(0)));
        for item in queue.take_all() {
            if item != 2 {
                queue.push(item);
            }
        }
        assert_eq!(
            (queue.len(), queue.pop(), queue.pop(), queue.pop()),
            (2, Some(1), Some(3), None)
        );
        assert!(queue.is_empty());
    }

    #[test]
    fn clients_wait_for_a_long_queue() {
        let queue = PendingQueue::default();
        while queue.admit().is_ok() {
            queue.push(());
        }
        assert_eq!(queue.len(), 256);
        // The conduit itself adds more.
        queue.push(());
        assert!(queue.pop().is_some() && queue.admit().is_err());
        assert!(queue.pop().is_some() && queue.admit().is_ok());
    }
}
