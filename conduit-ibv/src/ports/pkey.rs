//! The index of a partition key in the table of a port.
#![forbid(unsafe_code)]

/// The bit of a key that says that a port is a full member of the partition.
const FULL: u16 = 0x8000;

/// The index of a partition, without regard to membership; of several entries that of a full
/// member. The error is a message without a full stop.
pub fn index_of(partition: u16, keys: &[u16]) -> Result<u16, String> {
    let is_wanted = |key: &u16| key & !FULL == partition & !FULL;
    let full = keys.iter().position(|key| is_wanted(key) && key & FULL != 0);
    let index = full.or_else(|| keys.iter().position(is_wanted));
    index.map(|index| index as u16).ok_or_else(|| {
        let known = keys.iter().filter(|key| **key != 0);
        let known: Vec<String> = known.map(|key| format!("{key:#06x}")).collect();
        format!(
            "it is not in the partition GASNET_IBV_PKEY={partition:#x}. Its partition keys are {}",
            known.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found() {
        let keys = [0xffff, 0x0012, 0x8012, 0, 0x0013];
        assert_eq!(
            [0x7fff, 0x12, 0x8012, 0x8013].map(|key| index_of(key, &keys)),
            [0, 2, 2, 4].map(Ok)
        );
        let why = index_of(0x14, &keys).unwrap_err();
        assert!(
            why.contains("GASNET_IBV_PKEY=0x14") && why.ends_with("0xffff, 0x0012, 0x8012, 0x0013"),
            "{why}"
        );
    }
}
