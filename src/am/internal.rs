//! The runtime's own handlers, below `GEX_AM_INDEX_BASE`.

use super::token::Token;
use super::Arg;
use std::sync::OnceLock;

/// Data of a put.
pub const RMA_PUT: u8 = 0;
/// Acknowledges data of a put.
pub const RMA_PUT_DONE: u8 = 1;
/// Requests data of a get.
pub const RMA_GET: u8 = 2;
/// Data of a get.
pub const RMA_DATA: u8 = 3;
/// A word for a barrier.
pub const BARRIER: u8 = 4;
/// A fragment of a p2p message inside a collective.
pub const COLLECTIVE: u8 = 5;
/// Requests a remote atomic operation.
pub const AD_OPERATION: u8 = 6;
/// A remote atomic operation is done.
pub const AD_DONE: u8 = 7;
/// Data of a scattered put.
pub const VIS_PUT: u8 = 8;
/// Requests data of a scattered get.
pub const VIS_GET: u8 = 9;
/// Data of a scattered get.
pub const VIS_DATA: u8 = 10;
/// The handler to run when a scattered put is complete.
pub const VIS_PEER: u8 = 11;
/// Header and arguments of a segmented Long.
pub const LONG_HEAD: u8 = 12;
/// Data of such a Long.
pub const LONG_DATA: u8 = 13;
/// Header and arguments of a segmented Medium.
pub const MEDIUM_HEAD: u8 = 14;
/// Data of such a Medium.
pub const MEDIUM_DATA: u8 = 15;
/// Data of a put, of which there are more: its acknowledgement may wait for theirs.
pub const RMA_PUT_OF_MANY: u8 = 16;
/// Acknowledges data of several puts.
pub const RMA_PUTS_DONE: u8 = 17;

/// A handler: token, arguments and payload with its length. Returns false if the message is
/// malformed.
pub type Handler = fn(&Token, &[Arg], *mut u8, usize) -> bool;

/// Handlers by index.
pub const COUNT: usize = 18;
static HANDLERS: OnceLock<[Handler; COUNT]> = OnceLock::new();

/// Registers the handlers, by index, before any message can arrive. They are those of higher
/// modules.
pub fn install(handlers: [Handler; COUNT]) {
    let _ = HANDLERS.set(handlers);
}

/// Runs handler `index`. False if there is none, or the message is malformed.
pub fn run(index: u8, token: &Token, args: &[Arg], payload: *mut u8, bytes: usize) -> bool {
    let handler = HANDLERS.get().and_then(|handlers| handlers.get(usize::from(index)));
    handler.is_some_and(|handler| handler(token, args, payload, bytes))
}
