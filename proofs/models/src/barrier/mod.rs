//! The network stage of barriers.

#[path = "../../../../src/barrier/plan.rs"]
mod plan;
#[path = "../../../../src/barrier/stage.rs"]
pub mod stage;

pub use plan::of as plan_of;
