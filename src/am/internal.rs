//! The runtime's own handlers, below `GEX_AM_INDEX_BASE`.

use super::token::Token;
use super::Arg;
use crate::rma::packets;
use crate::{ad, barrier, coll};

/// A piece of a put.
pub const RMA_PUT: u8 = 0;
/// Acknowledges a piece of a put.
pub const RMA_PUT_DONE: u8 = 1;
/// Asks for a piece of a get.
pub const RMA_GET: u8 = 2;
/// A piece of a get.
pub const RMA_DATA: u8 = 3;
/// A step of a barrier between neighbourhoods.
pub const BARRIER: u8 = 4;
/// A piece of a letter inside a collective.
pub const COLLECTIVE: u8 = 5;
/// Asks for a remote atomic operation.
pub const AD_OPERATION: u8 = 6;
/// A remote atomic operation is done.
pub const AD_DONE: u8 = 7;

/// Runs handler `index`. False if there is none, or the message makes no sense.
pub fn run(index: u8, token: &Token, args: &[Arg], payload: *mut u8, bytes: usize) -> bool {
    match index {
        RMA_PUT => packets::on_put(token, args, payload, bytes),
        RMA_PUT_DONE => packets::on_put_done(args),
        RMA_GET => packets::on_get(token, args),
        RMA_DATA => packets::on_data(args, payload, bytes),
        BARRIER => barrier::on_step(args),
        COLLECTIVE => coll::mail::on_piece(args, payload, bytes),
        AD_OPERATION => ad::packets::on_operation(token, args),
        AD_DONE => ad::packets::on_done(args),
        _ => false,
    }
}
