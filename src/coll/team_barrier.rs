//! The barrier of a team (`gex_Coll_BarrierNB`).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::broadcast::parent_and_children;
use super::call::Call;
use super::choose::{self, Path};
use super::pshm::barrier::{self, PshmBarrier};
use crate::barrier::rounds::{self, Ticket};
use crate::runtime;
use crate::stall;
use crate::types::Rank;

/// Tag of messages down the tree. Messages up have their distance as tag.
const DOWN: u32 = 0;

/// A barrier. The intra-neighbourhood form completes in one poll if all members have arrived.
pub enum Barrier<T> {
    /// All members in one neighbourhood.
    IntraNbrhd(PshmBarrier),
    /// Any other layout.
    Other(Pin<Box<T>>),
}

impl<T: Future<Output = ()>> Future for Barrier<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut *self {
            Self::IntraNbrhd(barrier) => Pin::new(barrier).poll(context),
            Self::Other(other) => other.as_mut().poll(context),
        }
    }
}

/// Completes when all members have called.
pub fn barrier(call: Call) -> Barrier<impl Future<Output = ()> + Send> {
    let path = choose::path(call.team(), 0, 1, true);
    let (among, pshm_call) = match path {
        Path::IntraNbrhd(pshm) => return Barrier::IntraNbrhd(PshmBarrier::new(pshm)),
        Path::Hierarchical(groups) => (
            call.among_leaders(Rank(0)).0,
            groups.pshm.as_ref().map(barrier::begin_around),
        ),
        Path::Network => (call, None),
    };
    let only_leaders = among.size() as usize == call.team().groups.leaders.len();
    let ticket = only_leaders.then(|| rounds::ticket(call.team())).flatten();
    Barrier::Other(Box::pin(async move {
        match pshm_call {
            Some(pshm_call) => barrier::around(pshm_call, leaders(among, ticket)).await,
            None => leaders(among, ticket).await,
        }
    }))
}

/// The stage of the leaders: in rounds of the network's own barrier, or by p2p messages.
async fn leaders(among: Call, ticket: Option<Ticket>) {
    let (Some(ticket), Some(rounds)) = (ticket, rounds::get()) else {
        return network(among).await;
    };
    super::until(|| {
        let passed = rounds.pass(ticket);
        if !passed {
            stall::note(|| "a barrier of the network has not ended".into());
            super::request_poll();
        }
        passed
    })
    .await;
}

/// Dissemination (Hensgen, Finkel and Manber 1988): rounds with doubling distances. A tree if
/// oversubscribed.
pub async fn network(call: Call) {
    if runtime::get().oversubscribed {
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

/// Up and down a binomial tree; see [`crate::barrier`] for the reason.
async fn tree(call: Call) {
    let rank = call.rank();
    let (parent, children) = parent_and_children(rank, 0, call.size());
    for child in children.iter().rev() {
        call.receive(*child, child - rank).await;
    }
    if let Some(parent) = parent {
        call.signal(parent, rank - parent).await;
        call.receive(parent, DOWN).await;
    }
    for child in children {
        call.signal(child, DOWN).await;
    }
}
