//! Copies between the memory of two processes by the kernel, which also finds memory that is not
//! mapped. Also within one process: a wrong address is an error, not a signal.

use std::io::Error;

use libc::{c_ulong, iovec, pid_t};

use crate::receive::Sge;

/// Most pieces of one side of a copy.
pub const PIECES: usize = 32;

/// Why a copy failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Memory of this process is not mapped.
    Local,
    /// Memory of the other one is not mapped.
    Remote,
    /// The other process does not exist any more.
    Dead,
}

/// Pieces of memory, in order.
#[derive(Clone, Copy)]
pub struct Pieces {
    pieces: [iovec; PIECES],
    count: usize,
}

impl Default for Pieces {
    fn default() -> Self {
        Pieces {
            pieces: [iovec {
                iov_base: std::ptr::null_mut(),
                iov_len: 0,
            }; PIECES],
            count: 0,
        }
    }
}

impl Pieces {
    pub fn of(addr: u64, bytes: u64) -> Pieces {
        let mut pieces = Pieces::default();
        pieces.push(addr, bytes);
        pieces
    }

    /// Empty pieces do not count.
    pub fn push(&mut self, addr: u64, bytes: u64) {
        if bytes != 0 {
            self.pieces[self.count] = iovec {
                iov_base: addr as *mut _,
                iov_len: bytes as usize,
            };
            self.count += 1;
        }
    }

    pub fn bytes(&self) -> u64 {
        self.slice().iter().map(|piece| piece.iov_len as u64).sum()
    }

    fn slice(&self) -> &[iovec] {
        &self.pieces[..self.count]
    }

    /// Leaves out the first bytes.
    pub fn skip(&mut self, mut bytes: usize) {
        let mut kept = Pieces::default();
        for piece in self.slice() {
            let skipped = bytes.min(piece.iov_len);
            bytes -= skipped;
            kept.push(piece.iov_base as u64 + skipped as u64, (piece.iov_len - skipped) as u64);
        }
        *self = kept;
    }

    /// Leaves out what is beyond so many bytes.
    pub fn truncate(&mut self, mut bytes: u64) {
        let mut kept = Pieces::default();
        for piece in self.slice() {
            let taken = bytes.min(piece.iov_len as u64);
            bytes -= taken;
            kept.push(piece.iov_base as u64, taken);
        }
        *self = kept;
    }
}

type Call = unsafe extern "C" fn(pid_t, *const iovec, c_ulong, *const iovec, c_ulong, c_ulong) -> isize;

fn copy(call: Call, pid: pid_t, local: &Pieces, remote: &Pieces) -> Result<(), Fault> {
    let left = local.bytes().min(remote.bytes());
    if left == 0 {
        return Ok(());
    }
    let (here, there) = (local.slice(), remote.slice());
    // SAFETY: the lists are valid; the kernel checks the addresses in them.
    let copied = unsafe { call(pid, here.as_ptr(), here.len() as _, there.as_ptr(), there.len() as _, 0) };
    if copied as u64 == left {
        return Ok(());
    }
    if copied <= 0 {
        return Err(match Error::last_os_error().raw_os_error() {
            Some(libc::ESRCH) => Fault::Dead,
            _ if !mapped(local) => Fault::Local,
            _ => Fault::Remote,
        });
    }
    // The kernel copies less than 2 GiB at once, and stops in front of what is not mapped.
    let (mut local, mut remote) = (*local, *remote);
    local.skip(copied as usize);
    remote.skip(copied as usize);
    copy(call, pid, &local, &remote)
}

/// Whether this process can read the first byte of each of its pieces.
fn mapped(pieces: &Pieces) -> bool {
    pieces.slice().iter().all(|piece| {
        let mut byte = 0_u8;
        let here = [iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        }];
        let there = [iovec {
            iov_base: piece.iov_base,
            iov_len: 1,
        }];
        // SAFETY: one byte into `byte`.
        unsafe { libc::process_vm_readv(libc::getpid(), here.as_ptr(), 1, there.as_ptr(), 1, 0) == 1 }
    })
}

/// Copies `local` into `remote` memory of process `pid`, as much as both have.
pub fn write(pid: pid_t, local: &Pieces, remote: &Pieces) -> Result<(), Fault> {
    copy(libc::process_vm_writev, pid, local, remote)
}

/// Copies `remote` memory of process `pid` into `local`.
pub fn read(pid: pid_t, local: &Pieces, remote: &Pieces) -> Result<(), Fault> {
    copy(libc::process_vm_readv, pid, local, remote)
}

/// Reads memory of this process as its own code would: a wrong address is fatal.
pub fn gather_inline(sges: &[Sge], bytes: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(bytes);
    for sge in sges.iter().filter(|sge| sge.length != 0) {
        // SAFETY: the caller of ibv_post_send owns what its list names.
        data.extend_from_slice(unsafe { std::slice::from_raw_parts(sge.addr as *const u8, sge.length as usize) });
    }
    data
}

/// Reads memory of this process.
pub fn gather(local: &Pieces) -> Result<Vec<u8>, Fault> {
    let mut bytes = vec![0; local.bytes() as usize];
    let here = Pieces::of(bytes.as_mut_ptr() as u64, bytes.len() as u64);
    // SAFETY: a plain call.
    read(unsafe { libc::getpid() }, &here, local).map_err(|_| Fault::Local)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_at_both_ends() {
        let mut pieces = Pieces::of(100, 10);
        pieces.push(200, 0);
        pieces.push(300, 10);
        pieces.skip(12);
        pieces.truncate(5);
        assert_eq!(
            (pieces.count, pieces.pieces[0].iov_base as u64, pieces.bytes()),
            (1, 302, 5)
        );
    }

    #[test]
    fn unmapped_memory_is_an_error() {
        assert_eq!(gather(&Pieces::of(16, 8)), Err(Fault::Local));
        let word = 7_u64;
        assert_eq!(
            gather(&Pieces::of(&raw const word as u64, 8)),
            Ok(word.to_ne_bytes().to_vec())
        );
    }
}
