//! Parsers of what peers and launchers pass on, for a fuzzer
//! ([`gasnet_conduit::conformance::fuzz`]).
#![forbid(unsafe_code)]

use crate::pmi::order::Order;
use crate::region::REPLY_BUFFERS;
use crate::reply_buffers::ReplyBuffers;
use crate::start::credentials::Credentials;
use crate::wire::{Event, Head};
use gasnet_conduit::conformance::fuzz::{number, Target};

/// All of them.
pub const TARGETS: &[Target] = &[
    ("gni-credentials", credentials),
    ("gni-event", event),
    ("gni-order", order),
];

/// Events of peers, the replies that they free, and the words in front of messages.
fn event(mut bytes: &[u8]) {
    let mut buffers = ReplyBuffers::default();
    while !bytes.is_empty() {
        let (event, head) = (number(&mut bytes, 4) as u32, number(&mut bytes, 8));
        if let Ok(event) = Event::decode(event) {
            assert_eq!(Event::decode(event.encode()), Ok(event));
            let taken = buffers.take(event.source);
            let is_given = buffers.give(event.source, event.index);
            assert!(!is_given || event.index < REPLY_BUFFERS);
            assert!(taken.is_some() || !is_given || buffers.take(event.source).is_some());
        }
        if let Some(head) = Head::decode(head) {
            assert_eq!(Head::decode(head.encode()), Some(head));
        }
    }
}

/// The order of what Cray's library gathers.
fn order(mut bytes: &[u8]) {
    let (size, each) = (number(&mut bytes, 1) as usize, number(&mut bytes, 1) as usize % 16);
    if let Some(order) = Order::new(&bytes[..bytes.len().min(4 * size)], size) {
        let gathered = vec![1; size * each];
        let mut all = vec![0; size * each];
        if size > 0 {
            order.place(&gathered, each, &mut all, 0);
        }
        assert_eq!(all, gathered);
    }
}

/// The variables of Cray's launchers.
fn credentials(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let variable = |name: &str| {
        text.lines()
            .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.into()))
    };
    let _ = Credentials::find(variable, |device, cookie| (cookie == 99).then_some(device as u8));
}

#[cfg(test)]
mod tests {
    #[test]
    fn parsers_take_any_bytes() {
        gasnet_conduit::conformance::fuzz::replay(super::TARGETS);
    }
}
