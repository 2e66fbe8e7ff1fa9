//! A software libpmi of Cray for tests, and the launcher that starts its processes.
//!
//! - [`protocol`]: messages between a rank and the launcher
//! - [`words`]: the variable `EMU_PMI`
//! - [`client`]: a rank's connection
//! - [`exports`]: the functions of the library
//! - [`launch`]: `aprun`, `srun` and `prun`
//!
//! Ranks communicate through the launcher only, over a local socket. So there is no shared memory
//! that a killed rank could leave locked, and nothing that a killed launcher could leave behind.

mod client;
mod exports;
pub mod launch;
mod protocol;
mod words;

/// Return codes of the library. Only `SUCCESS` is known of Cray's; the others have the
/// numbers of PMI-1.
mod code {
    pub const SUCCESS: i32 = 0;
    pub const FAIL: i32 = -1;
    pub const ERR_INIT: i32 = 1;
    pub const ERR_INVALID_ARG: i32 = 3;
    pub const ERR_INVALID_KEY: i32 = 4;
    pub const ERR_INVALID_KEY_LENGTH: i32 = 5;
    pub const ERR_INVALID_VAL: i32 = 6;
    pub const ERR_INVALID_VAL_LENGTH: i32 = 7;
    pub const ERR_INVALID_LENGTH: i32 = 8;
}

/// Bytes of a key and of a value, with the terminating zero.
const KEY_BYTES: usize = 64;
const VALUE_BYTES: usize = 1024;
