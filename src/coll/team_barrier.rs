//! The barrier of a team (`gex_Coll_BarrierNB`).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::call::Call;
use super::choose::{self, Way};
use super::pshm::barrier;
use crate::runtime;

/// What tells messages down a tree from those up, which have the distance.
const DOWN: u32 = 0;

/// A barrier: in one step if it can.
pub enum Barrier<T> {
    /// Of neighbours.
    Near(barrier::Meeting),
    /// Any other.
    Other(Pin<Box<T>>),
}

impl<T: Future<Output = ()>> Future for Barrier<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut *self {
            Self::Near(meeting) => Pin::new(meeting).poll(context),
            Self::Other(other) => other.as_mut().poll(context),
        }
    }
}

/// Complete when all members have called.
pub fn over(call: Call) -> Barrier<impl Future<Output = ()> + Send> {
    let way = choose::way(call.team(), 0, 1, true);
    let meeting = match way {
        Way::Near(near) => return Barrier::Near(barrier::Meeting::new(near)),
        Way::Layered(groups) => groups.near.as_ref().map(barrier::enter),
        Way::Far => None,
    };
    Barrier::Other(Box::pin(async move {
        match (way, meeting) {
            (Way::Layered(_), Some(meeting)) => barrier::around(meeting, far(call.among_speakers(0).0)).await,
            (Way::Layered(_), None) => far(call.among_speakers(0).0).await,
            _ => far(call).await,
        }
    }))
}

/// Dissemination (Hensgen, Finkel and Manber 1988), in rounds that double the distance; or a tree, where members share cores.
pub async fn far(call: Call) {
    if runtime::get().crowded {
        return tree(call).await;
    }
    let (rank, size) = (call.rank(), call.size());
    let mut distance = 1;
    while distance < size {
        call.signal((rank + distance) % size, distance).await;
        call.receive((rank + size - distance) % size, distance).await;
        distance = distance.saturating_mul(2);
    }
}

/// Up a binomial tree and down again; [`crate::barrier`] says why.
async fn tree(call: Call) {
    let (rank, size) = (call.rank(), call.size());
    let lowest = if rank == 0 {
        size.next_power_of_two()
    } else {
        rank & rank.wrapping_neg()
    };
    let mut distance = 1;
    while distance < lowest && distance < size - rank {
        call.receive(rank + distance, distance).await;
        distance *= 2;
    }
    if rank > 0 {
        call.signal(rank - lowest, lowest).await;
        call.receive(rank - lowest, DOWN).await;
    }
    while distance > 1 {
        distance /= 2;
        call.signal(rank + distance, DOWN).await;
    }
}
