//! Receiving: several datagrams, or trains that the kernel put together again (`UDP_GRO`), by one system call.

use super::{check, Control, Socket, UDP_GRO};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;

/// Datagrams, or trains, received by one call.
pub const BATCH: usize = 16;
/// Bytes for each of them: a train put together again has up to 65,535.
pub const BUFFER: usize = 64 << 10;

impl Socket {
    /// Receives into the first `count` buffers, [`BUFFER`] bytes each; `found` gets, for each that was filled, its bytes, and the length of the datagrams
    /// that it is a train of (0: it is one).
    pub fn receive(&self, buffers: &mut [u8], count: usize, found: &mut Vec<(usize, usize)>) -> io::Result<()> {
        found.clear();
        let mut controls = [const { MaybeUninit::<Control>::uninit() }; BATCH];
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
        let mut room = 0;
        for (i, buffer) in buffers.chunks_exact_mut(BUFFER).take(count.min(BATCH)).enumerate() {
            let vector = vectors[i].write(libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: BUFFER,
            });
            // SAFETY: a msghdr is plain data, for which zero is a value.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = controls[i].as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>() as _;
            messages[i].write(libc::mmsghdr {
                msg_hdr: header,
                msg_len: 0,
            });
            room += 1;
        }
        let first = messages.as_mut_ptr().cast::<libc::mmsghdr>();
        let flags = libc::MSG_DONTWAIT;
        let got = if room == 1 {
            // SAFETY: the first message was written, and all that it points to is live and exclusively borrowed for the call.
            unsafe {
                let bytes = libc::recvmsg(self.fd.as_raw_fd(), &raw mut (*first).msg_hdr, flags);
                (*first).msg_len = bytes.max(0) as libc::c_uint;
                check(bytes.min(1) as libc::c_int).map(|_| 1)?
            }
        } else {
            // SAFETY: `room` messages were written; as above.
            check(unsafe { libc::recvmmsg(self.fd.as_raw_fd(), first, room, flags as _, ptr::null_mut()) })?
        };
        // SAFETY: that many of those written were filled.
        let filled = unsafe { std::slice::from_raw_parts(first, got as usize) };
        for message in filled {
            let cut = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            let bytes = if cut { 0 } else { message.msg_len as usize };
            found.push((bytes, train_length(&message.msg_hdr)));
        }
        Ok(())
    }
}

fn train_length(message: &libc::msghdr) -> usize {
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
