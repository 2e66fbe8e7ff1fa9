//! Records of fixed length that processes exchange: their fields one after another, numbers in
//! little-endian order.
#![forbid(unsafe_code)]

use gasnet_conduit::{Class, JobRank, StartInfo};

/// A record, or a field of one.
pub trait Record: Sized {
    /// Length of its encoding.
    const BYTES: usize;

    /// Writes it into [`Record::BYTES`] bytes.
    fn put(&self, to: &mut [u8]);

    /// Reads it from [`Record::BYTES`] bytes.
    fn decode(from: &[u8]) -> Self;

    /// Its encoding.
    fn encode<const N: usize>(&self) -> [u8; N] {
        const { assert!(N == Self::BYTES) };
        let mut bytes = [0; N];
        self.put(&mut bytes);
        bytes
    }
}

impl Record for u8 {
    const BYTES: usize = 1;

    fn put(&self, to: &mut [u8]) {
        to[0] = *self;
    }

    fn decode(from: &[u8]) -> Self {
        from[0]
    }
}

impl<R: Record, const N: usize> Record for [R; N] {
    const BYTES: usize = N * R::BYTES;

    fn put(&self, to: &mut [u8]) {
        for (record, place) in self.iter().zip(to.chunks_exact_mut(R::BYTES)) {
            record.put(place);
        }
    }

    fn decode(from: &[u8]) -> Self {
        std::array::from_fn(|index| R::decode(&from[index * R::BYTES..][..R::BYTES]))
    }
}

/// Implements [`Record`] for a type by another one.
#[macro_export]
macro_rules! record_as {
    ($($type:ty, $other:ty: $to:expr, $from:expr;)*) => {$(
        impl $crate::record::Record for $type {
            const BYTES: usize = <$other as $crate::record::Record>::BYTES;
            fn put(&self, to: &mut [u8]) {
                let other: $other = $to(*self);
                other.put(to);
            }
            fn decode(from: &[u8]) -> Self {
                $from(<$other as $crate::record::Record>::decode(from))
            }
        }
    )*};
}

record_as! {
    u16, [u8; 2]: u16::to_le_bytes, u16::from_le_bytes;
    u32, [u8; 4]: u32::to_le_bytes, u32::from_le_bytes;
    u64, [u8; 8]: u64::to_le_bytes, u64::from_le_bytes;
    usize, u64: |number| number as u64, |number| number as usize;
    bool, u8: u8::from, |byte| byte != 0;
    Class, bool: |class| class == Class::Reply, |is_reply| if is_reply { Class::Reply } else { Class::Request };
}

/// Declares a struct that is a [`record::Record`](crate::record::Record).
#[macro_export]
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* $vis:vis $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* $vis $field: $type,)*
        }

        impl $crate::record::Record for $name {
            const BYTES: usize = 0 $(+ <$type as $crate::record::Record>::BYTES)*;
            fn put(&self, to: &mut [u8]) {
                $(
                    let (place, to) = to.split_at_mut(<$type as $crate::record::Record>::BYTES);
                    $crate::record::Record::put(&self.$field, place);
                )*
                let _ = to;
            }
            fn decode(from: &[u8]) -> Self {
                $(
                    let (place, from) = from.split_at(<$type as $crate::record::Record>::BYTES);
                    let $field = $crate::record::Record::decode(place);
                )*
                let _ = from;
                Self { $($field,)* }
            }
        }
    };
}

/// The records that lie in memory one after another.
pub fn records<R: Record>(bytes: &[u8]) -> impl Iterator<Item = R> + use<'_, R> {
    bytes.chunks_exact(R::BYTES).map(R::decode)
}

/// The records of all processes, by rank. Collective.
pub fn exchange<R: Record>(info: &StartInfo<'_>, own: &R) -> Vec<R> {
    let mut bytes = vec![0; R::BYTES];
    own.put(&mut bytes);
    records(&(info.exchange)(&bytes)).collect()
}

/// Error of a rank that has started, because another has not.
pub fn failed(rank: usize) -> String {
    format!("rank {rank} failed to start; its message precedes")
}

/// Error of a conduit that cannot read the key of a peer's segment.
pub fn bad_key(conduit: &str, peer: JobRank) -> String {
    format!("{conduit}: rank {peer} sent a malformed segment key. Do all ranks run the same build?")
}

/// The result of this process, if all processes have one. The error is a message without a full
/// stop. Collective.
pub fn all_can<T>(info: &StartInfo<'_>, own: Result<T, String>) -> Result<T, String> {
    let all = exchange(info, &own.is_ok());
    let own = own?;
    match all.iter().position(|can| !can) {
        Some(rank) => Err(failed(rank)),
        None => Ok(own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    record! {
        #[derive(Debug, PartialEq, Eq)]
        pub struct Sample {
            whole: u32,
            class: Class,
            place: usize,
            has_more: bool,
            words: [u16; 2],
        }
    }

    #[test]
    fn a_record_comes_back() {
        let sample = Sample {
            whole: 0x0403_0201,
            class: Class::Reply,
            place: 5,
            has_more: true,
            words: [6, 0x0807],
        };
        let bytes: [u8; Sample::BYTES] = sample.encode();
        assert_eq!(bytes, [1, 2, 3, 4, 1, 5, 0, 0, 0, 0, 0, 0, 0, 1, 6, 0, 7, 8]);
        assert_eq!(Sample::decode(&bytes), sample);
    }
}
