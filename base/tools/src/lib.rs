//! GASNet tools, specification 1.20 (README-tools): the communication-free part of libgasnet.
//!
//! In reading order:
//!
//! - [`parse`], [`number`]: numbers, memory sizes and signals as text
//! - [`mod@env`]: typed environment variables and `GASNET_VERBOSEENV`
//! - [`process`]: the rank of this process, and its messages on standard error
//! - [`mod@fatal`], [`freeze`], [`backtrace`]: fatal errors and how to debug them
//! - [`heap`]: the debug allocator
//! - [`timer`], [`system`], [`bytes`]: clocks, machine properties, checksums
//! - `abi`: the exported C functions, and C code for what stable Rust cannot define
//!
//! System calls come from `gasnet_sys`.
//!
//! The C library `libgasnet_tools-{seq,par}` is this crate and nothing else; the two differ only in
//! the headers.

pub mod backtrace;
pub mod bytes;
pub mod env;
pub mod fatal;
pub mod freeze;
pub mod number;
pub mod parse;
pub mod process;
pub mod system;
pub mod timer;

pub mod heap;

mod abi;
#[cfg(feature = "debug-checks")]
mod held;

/// Release of the package as (major, minor, patch); `gasnet_config.h` states the same.
pub const RELEASE: (u32, u32, u32) = (2025, 8, 0);
