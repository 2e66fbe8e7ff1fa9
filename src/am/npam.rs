//! Negotiated-payload Active Messages (GASNet-EX 0.19, "Negotiated-payload AM APIs").
//!
//! A thread owns one descriptor for requests and one for replies (Prepare/Commit pairs do not nest,
//! but a reply handler may run while a request is being committed). A library buffer is one of the
//! sender's payload blocks when the peer is a neighbour, so that Commit sends it by reference;
//! otherwise it is memory of the descriptor. Small payloads are copied into the ring at Commit and
//! the block is free again at once.

use std::ptr;

use super::prepared::{Prepared, SrcDesc};
use super::token::Token;
use super::{canary, inject, payload_offset, Arg, Message, MAX_PREPARED};
use crate::event::Event;
use crate::progress;
use crate::runtime;
use crate::segment::disposition::narrow;
use crate::shm::layout::MAX_MEDIUM;
use crate::thread::Thread;
use crate::types::{AmCategory, EpIndex, Location};
use gasnet_conduit::{Busy, Class, PollScope};

/// Payloads up to this are copied at Commit rather than sent by reference.
const COPY_BELOW: usize = 1024;

/// Arguments of Prepare.
#[derive(Clone, Copy, Debug)]
pub struct PrepareArgs {
    /// Target endpoint.
    pub target: Location,
    /// Local endpoint.
    pub source_ep: u16,
    /// Request or reply.
    pub class: Class,
    /// Medium or Long.
    pub category: AmCategory,
    /// Endpoint whose segment may hold the client's buffer ([`crate::segment::disposition::own`]).
    pub local_ep: EpIndex,
    /// The client's buffer, or null.
    pub client_buffer: *const u8,
    /// Least payload.
    pub least: usize,
    /// Most payload.
    pub most: usize,
    /// Destination of a Long, if known.
    pub destination: *mut u8,
    /// What destinations count from.
    pub destination_base: usize,
    /// Local completion option.
    pub lc_opt: *mut Event,
    /// Arguments to come.
    pub nargs: usize,
    /// The request that a reply answers, or null.
    pub token: *const Token,
    /// `GEX_FLAG_IMMEDIATE`: fail instead of waiting.
    pub immediate: bool,
}

/// Largest payload of `category` to `target` that Prepare promises, from a client's buffer or in
/// the library's.
#[inline(always)]
pub fn limit(category: AmCategory, target: Location, client_buffer: bool) -> usize {
    let most = match category {
        AmCategory::Long => super::MAX_LONG,
        _ => super::max_medium(Some(target.rank)),
    };
    if client_buffer {
        most
    } else {
        most.min(MAX_PREPARED)
    }
}

/// The end of a thread cancels what it has prepared.
pub fn abandon(thread: &Thread) {
    thread.request_desc.cancel();
    thread.reply_desc.cancel();
}

impl SrcDesc {
    /// Prepares at most `limit` bytes. Fails, with no effect, if it would wait and `wanted` is
    /// immediate.
    #[inline(always)]
    pub fn prepare(&self, wanted: &PrepareArgs, limit: usize) -> Result<(), Busy> {
        let bytes = wanted.most.min(limit);
        let (address, bytes, block) = if wanted.client_buffer.is_null() {
            let buffer = self.library_buffer(wanted, bytes)?;
            if cfg!(feature = "debug-checks") {
                canary::write(buffer.0, buffer.1);
            }
            buffer
        } else {
            (wanted.client_buffer.cast_mut(), bytes, None)
        };
        self.state.set(Some(Prepared {
            target: wanted.target,
            source_ep: wanted.source_ep,
            class: wanted.class,
            category: wanted.category,
            nargs: wanted.nargs,
            token: wanted.token,
            address,
            bytes,
            lc_opt: if wanted.client_buffer.is_null() {
                ptr::null_mut()
            } else {
                wanted.lc_opt
            },
            library_buffer: wanted.client_buffer.is_null(),
            block,
            device_ep: (!wanted.client_buffer.is_null() && runtime::get().may_be_on_device(wanted.local_ep))
                .then_some(wanted.local_ep),
            destination: wanted.destination,
            destination_base: wanted.destination_base,
        }));
        Ok(())
    }

    #[inline(always)]
    fn library_buffer(&self, wanted: &PrepareArgs, bytes: usize) -> Result<(*mut u8, usize, Option<u16>), Busy> {
        let rt = runtime::get();
        // What fits into a record is copied there at Commit: taking and freeing a block would only
        // add cost.
        let by_reference = payload_offset(wanted.nargs) + bytes > rt.comm().inline_bytes(wanted.class);
        if by_reference && wanted.category == AmCategory::Medium && rt.is_neighbour(wanted.target.rank) {
            let blocks = rt.comm().own_blocks(wanted.class);
            if let Some(block) = blocks.take() {
                return Ok((blocks.payload(block), bytes.min(MAX_MEDIUM), Some(block)));
            }
            if wanted.immediate {
                return Err(Busy);
            }
            // All blocks are in use, perhaps by threads that wait for this one before they commit:
            // Commit will copy. Poll once first: blocks in transit may come free.
            progress::poll(match wanted.class {
                Class::Request => PollScope::All,
                Class::Reply => PollScope::Replies,
            });
        }
        let mut buffer = self.buffer.borrow_mut();
        if buffer.len() * size_of::<u128>() < bytes.max(1) {
            grow(&mut buffer, bytes);
        }
        Ok((buffer.as_mut_ptr().cast(), bytes, None))
    }

    /// Sends the first `bytes` of the prepared payload. With `immediate` it may refuse, and
    /// everything stays prepared.
    #[inline(always)]
    pub fn commit(
        &self,
        p: &Prepared,
        handler: u8,
        bytes: usize,
        destination: *mut u8,
        args: &[Arg],
        immediate: bool,
    ) -> Result<(), Busy> {
        let message = Message {
            target: narrow(p.target, destination as usize, bytes),
            source_ep: p.source_ep,
            class: p.class,
            category: p.category,
            handler,
            args,
            payload: p.address,
            bytes,
            destination: destination as usize,
            block: None,
            lc_opt: p.lc_opt,
        };
        if p.block.is_some() || p.device_ep.is_some() || immediate {
            return self.commit_rarer(*p, message, immediate);
        }
        // Sending may run handlers that prepare replies, never requests on this thread: the state
        // stays ours.
        inject::send_inline(&message);
        self.state.set(None);
        Ok(())
    }

    /// The same when the payload lies in a block or on a device, or nothing may be waited for.
    #[inline(never)]
    fn commit_rarer(&self, p: Prepared, mut message: Message<'_>, immediate: bool) -> Result<(), Busy> {
        let bytes = message.bytes;
        let mut bounce = Vec::new();
        if let Some(ep) = p.device_ep.filter(|_| bytes > 0) {
            let mem = runtime::get().local_mem(ep, p.address, bytes);
            // SAFETY: memory of the client's, which `local_mem` knows.
            message.payload = unsafe { mem.readable(bytes, &mut bounce) };
            // The copy does not outlive the call.
            message.lc_opt = ptr::null_mut();
        }
        // A payload that is copied must fit into the ring: asking for another block while holding
        // one could wait for itself.
        let fits = || payload_offset(message.args.len()) + bytes <= runtime::get().comm().inline_bytes(p.class);
        message.block = p.block.filter(|_| bytes > COPY_BELOW || !fits());
        if immediate {
            inject::try_send(&message)?;
        } else {
            inject::send(&message);
        }
        self.state.set(None);
        if let (Some(block), None) = (p.block, message.block) {
            runtime::get().comm().own_blocks(p.class).free(block);
        }
        Ok(())
    }

    /// Forgets what was prepared and frees its buffer.
    pub fn cancel(&self) {
        if let Some(Prepared {
            block: Some(block),
            class,
            ..
        }) = self.state.take()
        {
            runtime::get().comm().own_blocks(class).free(block);
        }
    }
}

#[cold]
fn grow(buffer: &mut Vec<u128>, bytes: usize) {
    buffer.resize(bytes.div_ceil(size_of::<u128>()).max(1), 0);
}
