//! Faults of the network: a start that fails does so in all ranks, with a message; memory that runs
//! out costs time only; and no call waits for a rank that is gone. libelan reports no loss of a
//! peer, so the conduit reports none: the node agents do.
//!
//! A test runs one of the children in processes of their own, because a process reads the options
//! of the emulator once.

mod deaths;
#[path = "../driver/mod.rs"]
mod driver;
#[path = "../emulated/mod.rs"]
mod emulated;
mod forged;
mod memory;
// Jobs of processes are those of the other emulated network.
#[path = "../../../conduit-gni/tests/faults/processes.rs"]
mod processes;
mod starts;
