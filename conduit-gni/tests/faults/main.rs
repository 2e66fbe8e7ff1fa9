//! Faults of the network: each ends in a message that names the rank or the NIC, the operation and
//! uGNI's status, after a bounded time.
//!
//! A test runs one of the children in a process of its own, because a process reads the options of
//! the emulator once.

mod deaths;
mod driver;
#[path = "../emulated/mod.rs"]
mod emulated;
mod foreign;
mod forged;
mod posts;
mod processes;
mod registrations;
mod starts;
mod wakes;
