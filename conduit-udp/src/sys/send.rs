//! Transmission: batches of datagrams to one peer in one system call. Consecutive datagrams of
//! equal length form a super-packet (`UDP_SEGMENT`, Linux 4.18), which passes through the kernel as
//! one.

use super::{check, Address, ControlBuffer, Socket, MAX_PAYLOAD, UDP_SEGMENT};
use gasnet_sys::cancel;
use std::io::{self, IoSlice};
use std::mem::{size_of, MaybeUninit};
use std::ptr;

/// Datagrams in a batch. Kernels accept super-packets of at least 64.
pub const SEND_BATCH: usize = 32;
/// Messages of one system call, datagrams or super-packets: they lie on a stack that may be small.
const AT_ONCE: usize = 12;

/// Header and payload of a datagram.
pub type DatagramSlices<'a> = [IoSlice<'a>; 2];

/// Bytes of a datagram up to which a copy costs less than a second I/O vector.
const COPY_BELOW: usize = 256;

const SEND_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

fn datagram_bytes(datagram: &DatagramSlices<'_>) -> usize {
    datagram[0].len() + datagram[1].len()
}

/// Number of datagrams at the start of a batch that may form a super-packet: of equal length,
/// except for a shorter last one.
fn super_packet_len(batch: &[DatagramSlices<'_>]) -> usize {
    let (each, mut sum) = (datagram_bytes(&batch[0]), 0);
    for (i, datagram) in batch.iter().enumerate() {
        let more = datagram_bytes(datagram);
        sum += more;
        if more > each || sum > MAX_PAYLOAD {
            return i.max(1);
        }
        if more < each {
            return i + 1;
        }
    }
    batch.len()
}

/// Pointer and length of an address; null if there is none.
fn raw(to: Option<&Address>) -> (*const libc::c_void, libc::socklen_t) {
    to.map_or((ptr::null(), 0), |to| (to.as_ptr().cast(), to.addr_len()))
}

impl Socket {
    /// Sends a batch of datagrams; `to` is `None` on a connected socket. Returns how many were
    /// sent; an error is that of the first. Without `gso`, each datagram is a message of its own.
    pub fn send(&self, to: Option<&Address>, batch: &[DatagramSlices<'_>], gso: bool) -> io::Result<usize> {
        if let [datagram] = batch {
            if datagram_bytes(datagram) <= COPY_BELOW {
                return self.send_copied(to, datagram).map(|()| 1);
            }
        }
        let mut sent = 0;
        while sent < batch.len() {
            match self.send_messages(to, &batch[sent..], gso) {
                Ok((passed, offered)) if passed == offered => sent += passed,
                Ok((passed, _)) => return Ok(sent + passed),
                Err(error) if sent == 0 => return Err(error),
                // The next call of the caller gets it again.
                Err(_) => break,
            }
        }
        Ok(sent)
    }

    /// Sends the beginning of a batch by one system call. Returns how many datagrams were sent, and
    /// offered to the kernel.
    fn send_messages(
        &self,
        to: Option<&Address>,
        batch: &[DatagramSlices<'_>],
        gso: bool,
    ) -> io::Result<(usize, usize)> {
        let (name, name_bytes) = raw(to);
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; AT_ONCE];
        let mut controls = [const { MaybeUninit::<ControlBuffer>::uninit() }; AT_ONCE];
        let mut lengths = [0; AT_ONCE];
        let (mut count, mut at) = (0, 0);
        while at < batch.len() && count < AT_ONCE {
            let length = if gso { super_packet_len(&batch[at..]) } else { 1 };
            // SAFETY: a msghdr is plain data, for which zero is a value.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            header.msg_name = name.cast_mut();
            header.msg_namelen = name_bytes;
            // An IoSlice is documented to be an iovec.
            header.msg_iov = batch[at..].as_ptr().cast_mut().cast();
            header.msg_iovlen = (2 * length) as _;
            if length > 1 {
                let control = controls[count].write(ControlBuffer([0; 32]));
                header.msg_control = control.0.as_mut_ptr().cast();
                // SAFETY: no pointers.
                header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as _;
                // SAFETY: the control buffer has room for one message of two bytes, and is aligned
                // for it.
                unsafe {
                    let head = libc::CMSG_FIRSTHDR(&raw const header);
                    (*head).cmsg_level = libc::IPPROTO_UDP;
                    (*head).cmsg_type = UDP_SEGMENT;
                    (*head).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
                    libc::CMSG_DATA(head)
                        .cast::<u16>()
                        .write_unaligned(datagram_bytes(&batch[at]) as u16);
                }
            }
            messages[count].write(libc::mmsghdr {
                msg_hdr: header,
                msg_len: 0,
            });
            lengths[count] = length;
            count += 1;
            at += length;
        }
        let first = messages.as_mut_ptr().cast::<libc::mmsghdr>();
        let _whole = cancel::disable();
        if count == 1 {
            // SAFETY: the first message was written, and all that it points to is live for the
            // call, which only reads it.
            let sent = unsafe { libc::sendmsg(self.raw(), &raw const (*first).msg_hdr, SEND_FLAGS) };
            return if sent < 0 {
                Err(io::Error::last_os_error())
            } else {
                Ok((at, at))
            };
        }
        // SAFETY: `count` messages were written, and all that they point to is live for the call.
        let sent = check(unsafe { libc::sendmmsg(self.raw(), first, count as libc::c_uint, SEND_FLAGS as _) })?;
        Ok((lengths[..sent as usize].iter().sum(), at))
    }

    fn send_copied(&self, to: Option<&Address>, datagram: &DatagramSlices<'_>) -> io::Result<()> {
        let (mut whole, mut at) = ([0; COPY_BELOW], 0);
        for slice in datagram {
            whole[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        let (name, name_bytes) = raw(to);
        let _whole = cancel::disable();
        // SAFETY: the bytes and the address are live and of the lengths given.
        let sent = unsafe {
            libc::sendto(
                self.raw(),
                whole.as_ptr().cast(),
                at,
                SEND_FLAGS,
                name.cast(),
                name_bytes,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{enable, RECV_BATCH, RECV_BUFFER};
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};

    fn socket() -> Socket {
        Socket::open(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), 1 << 20).unwrap()
    }

    /// Sends datagrams of these lengths and checks what arrives.
    fn exchange(from: &Socket, to: &Socket, lengths: &[usize], gso: bool) -> io::Result<()> {
        let address = Address::from(to.address);
        exchange_by(from, Some(&address), to, lengths, gso)
    }

    /// The same from a connected socket (`None`), or to an address.
    fn exchange_by(from: &Socket, name: Option<&Address>, to: &Socket, lengths: &[usize], gso: bool) -> io::Result<()> {
        let all: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, &n)| vec![i as u8; n]).collect();
        let batch: Vec<DatagramSlices<'_>> = all
            .iter()
            .map(|bytes| bytes.split_at(bytes.len().min(3)))
            .map(|(a, b)| [IoSlice::new(a), IoSlice::new(b)])
            .collect();
        let mut sent = 0;
        while sent < batch.len() {
            sent += from.send(name, &batch[sent..], gso)?;
        }
        let (mut memory, mut found, mut received) = (vec![0; RECV_BATCH * RECV_BUFFER], Vec::new(), Vec::new());
        while received.len() < all.len() {
            if to.receive(&mut memory, RECV_BATCH, &mut found).is_ok() {
                for (buffer, one) in memory.chunks(RECV_BUFFER).zip(&found) {
                    let datagrams = buffer[..one.bytes].chunks(one.datagram_bytes());
                    received.extend(datagrams.map(<[u8]>::to_vec));
                }
            }
        }
        assert!(received == all, "received data differs: {lengths:?}");
        Ok(())
    }

    #[test]
    fn batches_of_all_lengths_arrive() {
        let (a, b) = (socket(), socket());
        let socket = a.connected(b.address, 1 << 20).unwrap();
        for lengths in [
            &[100][..],
            &[100; 32],
            &[100, 100, 70, 100, 100],
            &[50, 60, 60, 60, 70],
            &[30_000, 30_000, 30_000, 5],
            &[65_472, 65_472],
            &[1; 32],
        ] {
            for gso in [true, false] {
                exchange(&a, &b, lengths, gso).unwrap();
                exchange_by(&socket, None, &b, lengths, gso).unwrap();
            }
        }
    }

    #[test]
    fn gso_may_be_refused() {
        let (a, b) = (socket(), socket());
        // Without checksums the kernel refuses GSO.
        enable(&a.udp, libc::SOL_SOCKET, libc::SO_NO_CHECK).unwrap();
        let refused = exchange(&a, &b, &[100; 8], true).unwrap_err();
        assert!(super::super::is_gso_refusal(&refused), "{refused}");
        exchange(&a, &b, &[100; 8], false).unwrap();
    }
}
