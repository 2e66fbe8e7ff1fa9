//! The progress engine: what a poll does. Handlers run here and nowhere else.

use crate::am::deliver::Delivery;
use crate::conduit::PollScope;
use crate::runtime;

/// Takes what has arrived, a bounded amount; returns how much. `Replies` when called for a reply that waits inside a request handler.
#[inline]
pub fn poll(scope: PollScope) -> usize {
    let rt = runtime::get();
    let mut delivery = Delivery::new(rt);
    let mut count = rt.comm.poll(scope, &mut delivery);
    if !rt.single_neighbourhood() {
        count += rt.conduit.poll(scope, &mut delivery);
    }
    if scope == PollScope::All {
        count += crate::coll::progress();
    }
    count
}
