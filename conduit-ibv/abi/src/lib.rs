//! The types and constants of `<infiniband/verbs.h>`, made by scripts/build/ibv-bindings.sh. The
//! crate links no library: the emulator of verbs implements these types, conduit-ibv loads a
//! library that does.

#[allow(missing_docs, nonstandard_style, clippy::all, clippy::pedantic)]
mod bindings;

pub use bindings::*;
