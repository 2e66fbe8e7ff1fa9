//! Copies between the memory of two processes by the kernel, which also finds memory that is not
//! mapped. Also within one process: a wrong address is an error, not a signal.

use emulator_common::copy as kernel;

/// Most pieces of one side of a copy.
pub const PIECES: usize = 32;

pub type Pieces = kernel::Pieces<PIECES>;

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

/// A gather or scatter element.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// The end that a fault of a copy is at.
fn located(fault: kernel::Fault, local: &Pieces) -> Fault {
    match fault {
        kernel::Fault::Dead => Fault::Dead,
        kernel::Fault::Unmapped if is_mapped(local) => Fault::Remote,
        kernel::Fault::Unmapped => Fault::Local,
    }
}

/// Whether this process can read the first byte of each of its pieces.
fn is_mapped(pieces: &Pieces) -> bool {
    let mut pieces = pieces.slice().iter();
    pieces.all(|piece| kernel::gather(&kernel::Pieces::<1>::of(piece.iov_base as u64, 1)).is_some())
}

/// Copies `local` into `remote` memory of process `pid`, as much as both have.
pub fn write(pid: libc::pid_t, local: &Pieces, remote: &Pieces) -> Result<(), Fault> {
    kernel::scatter(pid, local, remote).map_err(|fault| located(fault, local))
}

/// Copies `remote` memory of process `pid` into `local`.
pub fn read(pid: libc::pid_t, local: &Pieces, remote: &Pieces) -> Result<(), Fault> {
    kernel::collect(pid, local, remote).map_err(|fault| located(fault, local))
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
    kernel::gather(local).ok_or(Fault::Local)
}
