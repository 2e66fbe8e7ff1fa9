//! Memory of devices, as the NIC reaches it: a dmabuf that is mapped. The host may access that of
//! the stand-ins (`emulators/devices`) and of few real devices.

use gasnet_conduit::Dmabuf;
use gasnet_sys::mem;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;

/// The mapping of a segment.
#[derive(Debug)]
pub struct Mapping {
    /// Of the buffer from its beginning.
    base: usize,
    bytes: usize,
    /// Of the segment.
    offset: usize,
}

impl Mapping {
    /// Maps a segment of `bytes` bytes. None if that is not possible. The descriptor is closed.
    pub fn new(dmabuf: Dmabuf, bytes: usize) -> Option<Self> {
        let Dmabuf { fd, offset } = dmabuf;
        let mut file = File::from(fd);
        let end = offset + bytes;
        let length = file.seek(SeekFrom::End(0)).ok()?;
        assert!(
            end as u64 <= length,
            "defect: a segment up to byte {end} of a dmabuf of {length} bytes"
        );
        let base = mem::map_shared(file.as_raw_fd(), end, None).ok()?;
        let bytes = end;
        Some(Self { base, bytes, offset })
    }

    /// Address of the segment's first byte.
    pub const fn first(&self) -> usize {
        self.base + self.offset
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; the segment has no operation under way and no peer uses it
        // (`Segments::deregister`).
        unsafe { mem::unmap(self.base, self.bytes) };
    }
}
