//! Where a received message lies. Providers copy lengths from the headers that peers send them, and
//! anybody can be such a peer: nothing is read before its bytes are known to lie in the buffer that
//! was posted.
#![forbid(unsafe_code)]

/// The part of a message that lies in its receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// From the start of the buffer.
    pub offset: usize,
    /// At most what is left of the buffer from there.
    pub bytes: usize,
    /// The message lies inside. If not, it is an unauthenticated peer's, or was cut off.
    pub is_whole: bool,
}

/// The part of a message of `bytes` bytes at `address` in a buffer of `room` bytes at `first`. None
/// if it does not begin in the buffer.
#[inline]
pub fn extent((address, bytes): (usize, usize), (first, room): (usize, usize)) -> Option<Extent> {
    let offset = address.checked_sub(first)?;
    let rest = room.checked_sub(offset)?;
    Some(Extent {
        offset,
        bytes: bytes.min(rest),
        is_whole: bytes <= rest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: (usize, usize) = (0x1000, 100);

    #[test]
    fn messages_lie_in_their_buffer() {
        let whole = |address, bytes| extent((address, bytes), BUFFER).is_some_and(|extent| extent.is_whole);
        assert!(whole(0x1000, 0) && whole(0x1000, 100) && whole(0x1001, 99) && whole(0x1000 + 100, 0));
        for (address, bytes) in [
            (0x1000, 101),
            (0x1001, 100),
            (0xfff, 1),
            (0x1000 + 101, 0),
            (0, 0),
            (usize::MAX, 1),
            (0x1000, usize::MAX),
            (usize::MAX, usize::MAX),
        ] {
            assert!(!whole(address, bytes), "{bytes} bytes at {address:#x}");
        }
    }

    #[test]
    fn a_message_that_is_too_long_takes_the_rest() {
        let expected = Extent {
            offset: 40,
            bytes: 60,
            is_whole: false,
        };
        for bytes in [61, 1 << 30, 0xff_ffff_ffff, usize::MAX] {
            assert_eq!(extent((0x1000 + 40, bytes), BUFFER), Some(expected));
        }
        // A buffer at the end of the address space.
        assert_eq!(extent((usize::MAX, 1), (usize::MAX - 9, 9)).unwrap().bytes, 0);
    }
}
