//! The stages of a team's barriers.

use super::blocks::{self, Part};
use super::plan;
use super::stage::Stage;
use crate::coll::choose::{self, Path};
use crate::team::{Barriers, Team};
use crate::types::Rank;

/// Makes the stages of a new team, whose members have these blocks. `oversubscribed` is the same in
/// the whole job.
pub fn make(team: &'static Team, oversubscribed: bool, block_of: impl Fn(Rank) -> u32) -> Barriers {
    let block = block_of(team.rank);
    let stage = |index: u32, count: u32, part, rank_at: &dyn Fn(usize) -> Rank| {
        let steps = plan::of(index as usize, count as usize, oversubscribed);
        let participant = |index: usize| {
            let rank = rank_at(index);
            blocks::participant(team.locate(rank).rank, block_of(rank), part)
        };
        Stage::new(&steps, participant, blocks::words(block, part))
    };
    let members = |part| stage(team.rank.0, team.size, part, &|index| Rank(index as u32));
    let network = match choose::path(team, 0, 1, true) {
        Path::IntraNbrhd(_) => None,
        Path::Hierarchical(groups) => (groups.leaders[groups.own as usize] == team.rank).then(|| {
            let leaders = &groups.leaders;
            stage(groups.own, leaders.len() as u32, Part::Network, &|index| leaders[index])
        }),
        Path::Network => Some(members(Part::Network)),
    };
    Barriers {
        block,
        network,
        end: members(Part::End),
    }
}
