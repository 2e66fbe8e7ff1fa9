//! Models of libgasnet's lock-free structures. loom runs each in every interleaving, up to a number
//! of preemptions, and with every value that the C11 memory model allows a load to return. It finds
//! errors that x86 hides.
//!
//! The structures are the library's own source files, compiled against [`atomic`] (loom's
//! primitives), [`doubles`] (what they use of the rest) and [`shm::memory`].
//!
//! `gasnet-models [NAME...]` runs all models, or those whose names contain a NAME. `weakenings.txt`
//! lists orderings to weaken one by one; a model must fail for each.

/// The models stand in for the lower crates.
extern crate self as gasnet_conduit;
extern crate self as gasnet_job;
extern crate self as gasnet_sys;
extern crate self as gasnet_tools;

#[macro_use]
mod doubles;

mod atomic;
#[allow(dead_code)]
mod barrier;
mod checks;
#[allow(dead_code)]
mod shm;

pub use atomic::lock;
pub use cookie::{Completion, Cookie};
pub use doubles::conduit::{Busy, Class, JobRank, PollScope};
pub use doubles::{check_exit, futex, membarrier, timer, Inside};

#[allow(dead_code)]
#[path = "../../../conduit/src/cookie.rs"]
mod cookie;
#[allow(dead_code)]
#[path = "../../../src/event.rs"]
mod event;
#[path = "../../../src/wait/followers.rs"]
mod followers;
#[allow(dead_code)]
#[path = "../../../src/hsl.rs"]
mod hsl;
#[path = "../../../job/src/control_block/barrier.rs"]
mod job_barrier;
#[path = "../../../base/sys/src/padded.rs"]
pub mod padded;
#[allow(dead_code)]
#[path = "../../../src/sync.rs"]
mod sync;
#[path = "../../../src/thread/count.rs"]
mod thread_count;
#[allow(dead_code)]
#[path = "../../../base/sys/src/word_mutex.rs"]
pub mod word_mutex;

use std::time::Instant;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for (name, model, preemptions) in checks::ALL {
        if !wanted.is_empty() && !wanted.iter().any(|w| name.contains(w.as_str())) {
            continue;
        }
        println!("model {name}");
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(*preemptions);
        builder.max_branches = 20_000;
        let start = Instant::now();
        builder.check(model);
        println!("  holds ({} ms)", start.elapsed().as_millis());
    }
}
