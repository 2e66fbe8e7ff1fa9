//! The message that a handler runs for (`gex_Token_Info`), and the target of its reply.

use std::cell::Cell;

use super::table::AmEntry;
use crate::types::{AmCategory, Location};
use gasnet_conduit::Class;

/// Lives on the stack of the thread that runs the handler; a `gex_Token_t` is its address.
#[derive(Debug)]
pub struct Token {
    /// Sender.
    pub source: Location,
    /// Local endpoint that received; for the runtime's own handlers as the sender named it, perhaps
    /// with [`crate::types::ANYWHERE`].
    pub target_ep: u16,
    /// The handler's entry; None for the runtime's own handlers.
    pub entry: Option<*const AmEntry>,
    /// Request or reply.
    pub class: Class,
    /// Category.
    pub category: AmCategory,
    /// A reply was sent already.
    pub replied: Cell<bool>,
}
