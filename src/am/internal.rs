//! The runtime's own handlers, below `GEX_AM_INDEX_BASE`.

use super::token::Token;
use super::{pieces, Arg};
use crate::rma::packets;
use crate::{ad, barrier, coll, vis};

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
/// Pieces of a scattered put.
pub const VIS_PUT: u8 = 8;
/// Asks for pieces of a scattered get.
pub const VIS_GET: u8 = 9;
/// Pieces of a scattered get.
pub const VIS_DATA: u8 = 10;
/// Which handler to run when a scattered put is complete.
pub const VIS_PEER: u8 = 11;
/// Header and arguments of a Long that comes in pieces.
pub const LONG_HEAD: u8 = 12;
/// Data of such a Long.
pub const LONG_PIECE: u8 = 13;

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
        VIS_PUT => vis::far::on_put(token, args, payload, bytes),
        VIS_GET => vis::far::on_get(token, args, payload, bytes),
        VIS_DATA => vis::far::on_data(token, args, payload, bytes),
        VIS_PEER => vis::peer::on_peer(token, args, payload, bytes),
        LONG_HEAD => pieces::on_head(token, args, payload, bytes),
        LONG_PIECE => pieces::on_piece(token, args, payload, bytes),
        _ => false,
    }
}
