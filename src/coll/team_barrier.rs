//! The barrier of a team (`gex_Coll_BarrierNB`).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::choose::{self, Path};
use super::pshm::barrier::{self, PshmBarrier};
use crate::barrier::rounds::{self, Ticket};
use crate::barrier::stage::Stage;
use crate::barrier::{blocks, Name};
use crate::stall;
use crate::team::Team;

/// A barrier. All forms but the hierarchical one complete in one poll if all members have arrived.
pub enum Barrier<T> {
    /// All members in one neighbourhood.
    IntraNbrhd(PshmBarrier),
    /// No members share memory.
    Network(NetworkStage),
    /// Shared memory, and the network among leaders.
    Hierarchical(Pin<Box<T>>),
}

impl<T: Future<Output = ()>> Future for Barrier<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut *self {
            Self::IntraNbrhd(barrier) => Pin::new(barrier).poll(context),
            Self::Network(stage) if stage.passes() => Poll::Ready(()),
            Self::Network(_) => Poll::Pending,
            Self::Hierarchical(hierarchical) => hierarchical.as_mut().poll(context),
        }
    }
}

/// The network stage of a barrier, at a member that takes part in it.
#[derive(Clone, Copy)]
pub enum NetworkStage {
    /// Rounds of the network's own barrier.
    Rounds(Ticket),
    /// Words. The number counts the barriers of the stage.
    Words(&'static Stage, u32),
}

impl NetworkStage {
    /// That of the next barrier of `team`. `leads`: one member of each neighbourhood takes part.
    fn next(team: &'static Team, leads: bool) -> Option<Self> {
        let ticket = if leads { rounds::ticket(team) } else { None };
        let stage = team.barriers().network.as_ref();
        ticket.map(Self::Rounds).or_else(|| stage.map(Self::words))
    }

    fn words(stage: &'static Stage) -> Self {
        Self::Words(stage, stage.next())
    }

    /// The own group has reached it. Returns whether all have; if not, call again.
    fn passes(self) -> bool {
        let passes = match self {
            Self::Rounds(ticket) => rounds::get().is_none_or(|rounds| rounds.pass(ticket)),
            Self::Words(stage, number) => stage.advance(number, Name::Anonymous, blocks::write).is_some(),
        };
        if !passes {
            stall::note(|| self.describe());
            // Words come without a message.
            super::request_poll();
        }
        passes
    }

    /// For stall reports.
    fn describe(self) -> String {
        match self {
            Self::Rounds(_) => "a barrier of the network has not ended".into(),
            Self::Words(stage, number) => match stage.waits_for() {
                Some(rank) => format!("barrier {number} of a team waits for rank {rank}"),
                None => format!("barrier {number} of a team waits for room to send"),
            },
        }
    }
}

/// Completes when all members have called.
pub fn barrier(team: &'static Team) -> Barrier<impl Future<Output = ()> + Send> {
    let (pshm_call, stage) = match choose::path(team, 0, 1, true) {
        Path::IntraNbrhd(pshm) => return Barrier::IntraNbrhd(PshmBarrier::new(pshm)),
        Path::Hierarchical(groups) => (
            groups.pshm.as_ref().map(barrier::begin_around),
            NetworkStage::next(team, true),
        ),
        Path::Network => (
            None,
            NetworkStage::next(team, team.groups.leaders.len() == team.size as usize),
        ),
    };
    match (pshm_call, stage) {
        (None, Some(stage)) => Barrier::Network(stage),
        (pshm_call, stage) => Barrier::Hierarchical(Box::pin(async move {
            let leaders = super::until(move || stage.is_none_or(NetworkStage::passes));
            match pshm_call {
                Some(pshm_call) => barrier::around(pshm_call, leaders).await,
                None => leaders.await,
            }
        })),
    }
}

/// Completes when all members have called, without collective buffers, which a member may leave
/// after it.
pub async fn end(team: &'static Team) {
    let end = NetworkStage::words(&team.barriers().end);
    super::until(|| end.passes()).await;
}
