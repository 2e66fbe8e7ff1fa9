//! Prefix reductions: rank `i` combines the operands of the ranks up to (or below) `i`, in order.
//! In shared memory each member combines the operands of lower ranks; over the network by recursive
//! doubling (Hillis and Steele 1986).

use std::future::Future;

use super::call::Call;
use super::choose;
use super::operators::Operator;
use super::p2p::{Buffer, Span};
use super::pshm::reduce::up_to;

/// Combines the `source` of ranks 0 to the own rank into `target`. With `exclusive`, only of lower
/// ranks; rank 0 leaves its `target` unchanged.
pub fn scan(
    call: Call,
    target: Span,
    source: Span,
    operator: Operator,
    exclusive: bool,
) -> impl Future<Output = ()> + Send {
    let pshm = choose::intra_nbrhd(call.team(), source.bytes, operator.element);
    let pshm_call = pshm.map(|pshm| pshm.begin(source.bytes, operator.element, 1));
    async move {
        match pshm_call {
            Some(pshm_call) => {
                let count = call.rank() as usize + usize::from(!exclusive);
                up_to(pshm_call, count, target, source, operator).await;
            }
            None => network(call, target, source, operator, exclusive).await,
        }
    }
}

async fn network(call: Call, target: Span, source: Span, operator: Operator, exclusive: bool) {
    let (rank, size) = (call.rank(), call.size());
    // The operands of the last `distance` ranks up to this one; `below` is without this one.
    let mut sum = Buffer::copy_of(source);
    let mut below: Option<Buffer> = None;
    let mut distance = 1;
    while distance < size {
        let mut left = Buffer::default();
        if rank >= distance {
            left = Buffer::copy_of(source);
            call.post_rendezvous(rank - distance, distance, left.span()).await;
        }
        if rank + distance < size {
            call.send_rendezvous(rank + distance, distance, sum.span()).await;
        }
        if rank >= distance {
            call.wait_receive(rank - distance, distance, left.span()).await;
            operator.combine(left.span(), sum.span());
            if let Some(below) = &mut below {
                operator.combine(left.span(), below.span());
            } else {
                below = Some(left);
            }
        }
        distance *= 2;
    }
    match below {
        Some(mut below) if exclusive => target.copy_from(below.span()),
        None if exclusive => {}
        _ => target.copy_from(sum.span()),
    }
}
