//! Prefix reductions: rank `i` gets what the ranks up to it (or below it) bring, in order. In shared memory everybody combines what those below
//! show; in messages by recursive doubling (Hillis and Steele 1986).

use std::future::Future;

use super::call::Call;
use super::choose;
use super::operators::Operator;
use super::p2p::{Buffer, Span};
use super::pshm::reduce::up_to;

/// Combines the `source` of ranks 0 to the own one into `target`; with `exclusive` only those below, and rank 0's `target` is left alone.
pub fn over(call: Call, target: Span, source: Span, operator: Operator, exclusive: bool) -> impl Future<Output = ()> + Send {
    let near = choose::near(call.team(), source.bytes, operator.element);
    let passage = near.map(|near| near.enter(source.bytes, operator.element, 1));
    async move {
        match passage {
            Some(passage) => {
                let count = call.rank() as usize + usize::from(!exclusive);
                up_to(passage, count, target, source, operator).await;
            }
            None => far(call, target, source, operator, exclusive).await,
        }
    }
}

async fn far(call: Call, target: Span, source: Span, operator: Operator, exclusive: bool) {
    let (rank, size) = (call.rank(), call.size());
    // What the last `distance` ranks up to this one bring, and the same without this one.
    let mut sum = Buffer::copy_of(source);
    let mut below: Option<Buffer> = None;
    let mut distance = 1;
    while distance < size {
        let mut left = Buffer::default();
        if rank >= distance {
            left = Buffer::copy_of(source);
            call.grant(rank - distance, distance, left.span()).await;
        }
        if rank + distance < size {
            call.deliver(rank + distance, distance, sum.span()).await;
        }
        if rank >= distance {
            call.landed(rank - distance, distance, left.span()).await;
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
