//! The common part of emulated networks (emulators/README.md): processes of one host share a
//! fabric, a file that all of them map. Reading order:
//!
//! - `lock`, `heap`, `table`: what a fabric consists of
//! - `fabric`: how a process joins one, and how it detects the death of another
//! - `copy`: copies between processes
//! - `maps`: what a process has mapped
//! - `random`, `timers`, `forge`: random numbers of faults, and what they delay or alter

#![allow(missing_docs, reason = "internal to the emulators")]

pub mod copy;
pub mod fabric;
pub mod forge;
pub mod heap;
pub mod lock;
pub mod maps;
pub mod random;
pub mod table;
pub mod timers;
