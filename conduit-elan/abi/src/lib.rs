//! The types of `conduit-elan/shim.h`, made by scripts/build/elan-bindings.sh. The emulator of Elan
//! implements them, conduit-elan loads a library that does.

#[allow(missing_docs, nonstandard_style, clippy::all, clippy::pedantic)]
mod bindings;

pub use bindings::*;
