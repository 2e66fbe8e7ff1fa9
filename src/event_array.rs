//! Arrays of events, as `gex_Event_WaitSome` and its like take them (GASNet-EX 0.19, "Event
//! test/wait operations").

use crate::event::{Event, FreeList};

/// A number of events at the start of an array none of which is open: usually nearly all, since
/// operations on neighbours are complete when they return. In blocks, of which the compiler makes
/// one comparison each.
fn leading_invalid(events: &[Event]) -> usize {
    const BLOCK: usize = 16;
    let clear = |block: &[Event]| block.iter().fold(0, |bits, event| bits | event.0) == 0;
    let mut blocks = events.chunks_exact(BLOCK);
    match blocks.position(|block| !clear(block)) {
        Some(block) => block * BLOCK,
        None => events.len() - blocks.remainder().len(),
    }
}

/// The first of `events` that is open; [`Event::INVALID`] if none is.
pub fn first_open(events: &[Event]) -> Event {
    let mut rest = events[leading_invalid(events)..].iter();
    rest.find(|event| !event.is_done()).copied().unwrap_or(Event::INVALID)
}

/// Syncs those of `events` that are complete: each becomes `INVALID`. Returns (synced now, still
/// outstanding).
///
/// A leaf may stand anywhere relative to its root (GASNet-EX 0.19, "Event test/wait operations"):
/// when a root is consumed, its leaves in the array go with it.
pub fn sync_array(events: &mut [Event], free: &mut FreeList) -> (usize, usize) {
    let start = leading_invalid(events);
    let events = &mut events[start..];
    let (mut synced, mut open, mut leaves) = (0, 0, false);
    for event in events.iter_mut().filter(|e| !e.is_invalid()) {
        if event.is_leaf() {
            leaves = true;
        }
    }
    for i in 0..events.len() {
        let event = events[i];
        if event.is_invalid() {
            continue;
        }
        if !event.is_done() {
            open += 1;
            continue;
        }
        events[i] = Event::INVALID;
        synced += 1;
        if leaves && !event.is_leaf() {
            for (j, other) in events.iter_mut().enumerate() {
                if other.is_leaf_of(event) {
                    *other = Event::INVALID;
                    synced += 1;
                    // A leaf seen before its root was counted as outstanding.
                    open -= usize::from(j < i);
                }
            }
        }
        event.consume(free);
    }
    (synced, open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Category;

    #[test]
    fn array_sync_finds_an_open_event_at_every_place() {
        let mut free = FreeList::new();
        for length in [1, 15, 16, 17, 40, 64] {
            for place in 0..length {
                let op = free.take();
                op.begin(Category::Get);
                let mut events = vec![Event::INVALID; length];
                events[place] = op.event();
                assert_eq!(sync_array(&mut events, &mut free), (0, 1), "{place} of {length}");
                op.complete(Category::Get);
                assert_eq!(sync_array(&mut events, &mut free), (1, 0), "{place} of {length}");
                assert!(events[place].is_invalid());
            }
        }
    }

    #[test]
    fn array_sync_takes_leaves_along_with_their_root_in_any_order() {
        let mut free = FreeList::new();
        let op = free.take();
        op.begin(Category::Put);
        op.begin(Category::Local);
        let (root, leaf) = (op.event(), op.event().leaf(2));
        let mut events = [leaf, Event::INVALID, root, leaf];
        assert_eq!(sync_array(&mut events, &mut free), (0, 3));
        op.complete(Category::Local);
        op.complete(Category::Put);
        assert_eq!(sync_array(&mut events, &mut free), (3, 0));
        assert!(events.iter().all(|e| e.is_invalid()));
        assert_eq!(sync_array(&mut events, &mut free), (0, 0));
    }
}
