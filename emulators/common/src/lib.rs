//! The common part of emulated networks (emulators/README.md): processes of one host share a
//! fabric, a file that all of them map. Reading order:
//!
//! - `lock`, `heap`, `table`, `ring`: what a fabric consists of
//! - `fabric`: how a process joins one, detects the death of another, and takes back what it left
//! - `copy`: copies between processes
//! - `words`: options of an emulator
//! - `per_process`, `object`: state of this process, and objects behind handles
//! - `maps`, `unregistrable`: what a process has mapped, and what of it cannot be registered
//! - `wait`, `timers`: waiting, and tasks that are done later
//! - `random`, `forge`, `damage`, `frames`: random numbers of faults, and what they alter

#![allow(missing_docs, reason = "internal to the emulators")]

pub mod copy;
pub mod damage;
pub mod fabric;
pub mod forge;
pub mod frames;
pub mod heap;
pub mod lock;
pub mod maps;
pub mod object;
pub mod per_process;
pub mod random;
pub mod ring;
pub mod table;
pub mod timers;
pub mod unregistrable;
pub mod wait;
pub mod words;
