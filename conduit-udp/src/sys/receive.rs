//! Reception: several datagrams, or super-packets that the kernel reassembled (`UDP_GRO`), in one
//! system call.

use super::{check, ControlBuffer, Socket, UDP_GRO};
use crate::memory::ClientMemory;
use gasnet_sys::cancel;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Datagrams or super-packets received by one call.
pub const RECV_BATCH: usize = 16;
/// Bytes of a receive buffer; a super-packet has up to 65,535.
pub const RECV_BUFFER: usize = 64 << 10;

/// Contents of one receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes received; 0 if they did not fit.
    pub bytes: usize,
    /// Bytes of each datagram of a super-packet but the last; 0 for a single datagram.
    pub gso_size: usize,
}

impl Received {
    /// Bytes of each datagram but the last; at least 1.
    pub fn datagram_bytes(self) -> usize {
        if self.gso_size == 0 {
            self.bytes.max(1)
        } else {
            self.gso_size
        }
    }
}

impl Socket {
    /// Receives into the first `count` buffers of [`RECV_BUFFER`] bytes each. `found` gets one
    /// entry for each buffer that was filled.
    #[inline(never)] // Its arrays need not lie on the stack of handlers.
    pub fn receive(&self, buffers: &mut [u8], count: usize, found: &mut Vec<Received>) -> io::Result<()> {
        found.clear();
        let mut controls = [const { MaybeUninit::<ControlBuffer>::uninit() }; RECV_BATCH];
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; RECV_BATCH];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; RECV_BATCH];
        let mut room = 0;
        for (i, buffer) in buffers
            .chunks_exact_mut(RECV_BUFFER)
            .take(count.min(RECV_BATCH))
            .enumerate()
        {
            let vector = vectors[i].write(iovec(buffer.as_mut_ptr(), RECV_BUFFER));
            // SAFETY: a msghdr is plain data, for which zero is a value.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = controls[i].as_mut_ptr().cast();
            header.msg_controllen = size_of::<ControlBuffer>() as _;
            messages[i].write(libc::mmsghdr {
                msg_hdr: header,
                msg_len: 0,
            });
            room += 1;
        }
        let first = messages.as_mut_ptr().cast::<libc::mmsghdr>();
        let _whole = cancel::disable();
        let got = if room == 1 {
            // SAFETY: the first message was written, and all that it points to is live and
            // exclusively borrowed for the call.
            unsafe {
                (*first).msg_len = self.receive_one(&mut (*first).msg_hdr, 0)? as libc::c_uint;
                1
            }
        } else {
            // SAFETY: `room` messages were written; as above.
            check(unsafe { libc::recvmmsg(self.raw(), first, room, libc::MSG_DONTWAIT as _, ptr::null_mut()) })?
        };
        // SAFETY: that many of the messages were filled.
        let filled = unsafe { std::slice::from_raw_parts(first, got as usize) };
        found.extend(
            filled
                .iter()
                .map(|message| received_in(&message.msg_hdr, message.msg_len as usize)),
        );
        Ok(())
    }

    /// Copies the beginning of the next datagram, which stays in the queue, and returns its full
    /// length.
    pub fn peek(&self, head: &mut [u8]) -> io::Result<Received> {
        let bytes = head.len();
        self.receive_into(&mut [iovec(head.as_mut_ptr(), bytes)], libc::MSG_PEEK | libc::MSG_TRUNC)
    }

    /// Receives one datagram or super-packet: the first bytes into `buffer[..first]`, the next into
    /// client memory, and the rest into `buffer` behind a gap of that length.
    pub fn receive_split(&self, buffer: &mut [u8], first: usize, memory: ClientMemory) -> io::Result<Received> {
        let (head, rest) = buffer.split_at_mut(first);
        let rest = &mut rest[memory.bytes..];
        let mut parts = [
            iovec(head.as_mut_ptr(), head.len()),
            iovec(memory.as_mut_ptr(), memory.bytes),
            iovec(rest.as_mut_ptr(), rest.len()),
        ];
        self.receive_into(&mut parts, 0)
    }

    fn receive_into(&self, parts: &mut [libc::iovec], flags: libc::c_int) -> io::Result<Received> {
        let mut control = MaybeUninit::<ControlBuffer>::uninit();
        // SAFETY: a msghdr is plain data, for which zero is a value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = parts.as_mut_ptr();
        header.msg_iovlen = parts.len() as _;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of::<ControlBuffer>() as _;
        // SAFETY: the parts belong to the caller, or are client memory; the rest is live and
        // exclusively borrowed for the call.
        let bytes = unsafe { self.receive_one(&mut header, flags)? };
        // With this flag the call returns the full length of a truncated datagram.
        if flags & libc::MSG_TRUNC != 0 {
            return Ok(Received {
                bytes,
                gso_size: gro_size(&header),
            });
        }
        Ok(received_in(&header, bytes))
    }

    /// # Safety
    ///
    /// All that the message points to is live and may be written.
    unsafe fn receive_one(&self, message: &mut libc::msghdr, flags: libc::c_int) -> io::Result<usize> {
        let _whole = cancel::disable();
        // SAFETY: by the contract.
        let bytes = unsafe { libc::recvmsg(self.raw(), message, libc::MSG_DONTWAIT | flags) };
        check(bytes.min(1) as libc::c_int).map(|_| bytes as usize)
    }
}

fn iovec(base: *mut u8, bytes: usize) -> libc::iovec {
    libc::iovec {
        iov_base: base.cast(),
        iov_len: bytes,
    }
}

/// The result of one message; truncated datagrams count as empty.
fn received_in(message: &libc::msghdr, bytes: usize) -> Received {
    let is_truncated = message.msg_flags & libc::MSG_TRUNC != 0;
    Received {
        bytes: if is_truncated { 0 } else { bytes },
        gso_size: gro_size(message),
    }
}

fn gro_size(message: &libc::msghdr) -> usize {
    // SAFETY: the kernel has filled the control buffer, whose messages these calls walk through.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while !head.is_null() {
            if (*head).cmsg_level == libc::IPPROTO_UDP && (*head).cmsg_type == UDP_GRO {
                return libc::CMSG_DATA(head).cast::<libc::c_int>().read_unaligned() as usize;
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
    0
}
