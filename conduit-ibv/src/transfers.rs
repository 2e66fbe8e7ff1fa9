//! Operations of several work requests: longer than the network's largest message, across the
//! border of two regions, or of local memory that must be registered first.
//!
//! The work requests of an operation follow one another on one queue pair. They complete in order,
//! so the last one stands for all. If memory cannot be registered, it is copied in pieces, of which
//! each waits for the one before. Large operations may be divided into stripes, one for each path.

use crate::buffers::Buffer;
use crate::memory::Registered;
use gasnet_conduit::{LocalMemory, RemoteMemory};
use gasnet_conduit_util::aligned_copy::copy_out;
use gasnet_conduit_util::report::Report;

/// Source, destination and direction of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Whether the local memory is written.
    pub is_get: bool,
    pub peer_memory: RemoteMemory,
    pub memory: LocalMemory,
    pub bytes: usize,
}

impl Extent {
    /// Without its first bytes.
    pub fn after(mut self, bytes: usize) -> Self {
        self.memory.address += bytes;
        self.peer_memory.address += bytes;
        self.bytes -= bytes;
        self
    }
}

/// The rest of an operation.
#[derive(Debug)]
pub struct Transfer {
    /// The part that is not posted yet.
    pub rest: Extent,
    pub path: usize,
    pub way: LocalAccess,
    /// The message that follows.
    pub message: Option<Following>,
    /// Whether its last work request is posted.
    pub is_last: bool,
    pub report: Report,
}

/// A message that follows a put.
#[derive(Debug)]
pub struct Following {
    pub buffer: Buffer,
    pub bytes: usize,
    /// The word beside it ([`crate::wire`]).
    pub word: u32,
}

/// How work requests reach the local memory.
#[derive(Debug)]
pub enum LocalAccess {
    /// By the key of its segment, or of all memory.
    InPlace,
    /// By a registration with the path's HCA for this operation only.
    Registered(Registered),
    /// It lies in a reserved buffer.
    Reserved(Buffer),
    /// In copies of pieces: the one under way, and its length.
    Copied(Option<(Buffer, usize)>),
}

/// Sizes above which operations are striped over the paths.
#[derive(Clone, Copy, Debug)]
pub struct Stripes {
    pub put: usize,
    pub get: usize,
}

impl Stripes {
    /// With the sizes that are wanted, of which 0 means none, for `paths` paths with messages of up
    /// to `most` bytes.
    pub fn new(put: usize, get: usize, paths: usize, most: usize) -> Self {
        let size = |wanted: usize| match (paths, wanted) {
            (1, _) => usize::MAX,
            (_, 0) => most,
            _ => wanted.min(most),
        };
        Self {
            put: size(put),
            get: size(get),
        }
    }
}

impl Transfer {
    /// All of an operation, in place if that is possible.
    pub fn new(extent: Extent, path: usize, report: Report) -> Box<Self> {
        Box::new(Self {
            rest: extent,
            path,
            way: LocalAccess::InPlace,
            message: None,
            is_last: false,
            report,
        })
    }

    /// A put from a reserved buffer, or from a place that is to be found, and a message that
    /// follows it.
    pub fn with_message(mut self: Box<Self>, source: Option<Buffer>, message: Following) -> Box<Self> {
        self.way = source.map_or(LocalAccess::InPlace, LocalAccess::Reserved);
        self.message = Some(message);
        self
    }

    /// Its name in messages.
    pub fn name(&self) -> &'static str {
        if self.rest.is_get {
            "a get"
        } else {
            "a put"
        }
    }

    /// A piece has arrived: what was read is copied to its destination, and the buffer is free.
    pub fn take_piece(&mut self) {
        let LocalAccess::Copied(piece) = &mut self.way else {
            return;
        };
        let Some((buffer, bytes)) = piece.take() else { return };
        if self.rest.is_get {
            // SAFETY: the runtime keeps the destination writable until the operation is reported.
            unsafe { copy_out(buffer.address(), self.rest.memory.address, bytes) };
        }
        buffer.release();
        self.rest = self.rest.after(bytes);
    }

    /// A piece was not posted.
    pub fn forget_piece(&mut self) {
        if let LocalAccess::Copied(piece) = &mut self.way {
            if let Some((buffer, _)) = piece.take() {
                buffer.release();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_striped_only_over_several_paths() {
        let sizes = |(put, get), paths| {
            let stripes = Stripes::new(put, get, paths, 1 << 30);
            (stripes.put, stripes.get)
        };
        assert_eq!(sizes((4096, 0), 1), (usize::MAX, usize::MAX));
        assert_eq!(sizes((4096, 0), 2), (4096, 1 << 30));
        assert_eq!(sizes((1 << 40, 8192), 2), (1 << 30, 8192));
    }
}
