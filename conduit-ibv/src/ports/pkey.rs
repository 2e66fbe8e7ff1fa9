//! The choice of a port's partition key.
#![forbid(unsafe_code)]

/// The bit of a key that says that a port is a full member of the partition. Limited members reach
/// full members only.
const FULL: u16 = 0x8000;

/// An entry of the table of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its index.
    pub index: u16,
    /// The key; 0: not known.
    pub key: u16,
}

/// The entry for a partition, or the first one of a full member. The error is a message without a
/// full stop.
pub fn choose(partition: Option<u16>, keys: &[u16]) -> Result<Entry, String> {
    let is_wanted = |key: u16| match partition {
        Some(partition) => key & !FULL == partition & !FULL,
        None => key & !FULL != 0,
    };
    let mut entries = (0..).zip(keys.iter().copied()).filter(|(_, key)| is_wanted(*key));
    let full = entries.clone().find(|(_, key)| key & FULL != 0);
    if let Some((index, key)) = full {
        return Ok(Entry { index, key });
    }
    let known = keys.iter().filter(|key| **key != 0);
    let known: Vec<String> = known.map(|key| format!("{key:#06x}")).collect();
    let known = known.join(", ");
    match (partition, entries.next()) {
        (Some(partition), None) => Err(format!(
            "it is not in the partition GASNET_IBV_PKEY={partition:#x}. Its partition keys are {known}"
        )),
        (Some(partition), Some(_)) => Err(format!(
            "it is only a limited member of the partition GASNET_IBV_PKEY={partition:#x}, and limited members cannot \
             reach each other. Its partition keys are {known}; full members have the bit {FULL:#x}"
        )),
        (None, Some(_)) => Err(format!(
            "it is only a limited member of its partitions, and limited members cannot reach each other. Its \
             partition keys are {known}; full members have the bit {FULL:#x}"
        )),
        // Some drivers for Ethernet have no table.
        (None, None) => Ok(Entry { index: 0, key: 0 }),
    }
}

/// Whether two ports may be in one partition.
pub fn may_agree(one: u16, other: u16) -> bool {
    one == 0 || other == 0 || one & !FULL == other & !FULL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_full_member_is_chosen() {
        let index = |partition, keys: &[u16]| choose(partition, keys).map(|entry| entry.index);
        assert_eq!(index(None, &[0xffff, 0x8012]), Ok(0));
        assert_eq!(index(None, &[0x7fff, 0, 0x8000, 0x0012, 0x8012]), Ok(4));
        assert_eq!(index(None, &[]), Ok(0));
        assert_eq!(index(None, &[0]), Ok(0));
        let why = index(None, &[0x7fff, 0x0012]).unwrap_err();
        assert!(
            why.contains("limited member") && why.contains("0x7fff, 0x0012"),
            "{why}"
        );
    }

    #[test]
    fn a_partition_is_found() {
        let keys = [0xffff, 0x0012, 0x8012, 0, 0x0013];
        let index = |partition| choose(Some(partition), &keys).map(|entry| entry.index);
        assert_eq!([0x7fff, 0x12, 0x8012].map(index), [0, 2, 2].map(Ok));
        let why = index(0x8013).unwrap_err();
        assert!(
            why.contains("only a limited member of the partition GASNET_IBV_PKEY=0x8013"),
            "{why}"
        );
        let why = index(0x14).unwrap_err();
        assert!(
            why.contains("GASNET_IBV_PKEY=0x14") && why.ends_with("0xffff, 0x0012, 0x8012, 0x0013"),
            "{why}"
        );
    }

    #[test]
    fn partitions_agree() {
        assert!(may_agree(0xffff, 0x7fff) && may_agree(0, 0x8012));
        assert!(!may_agree(0xffff, 0x8012));
    }
}
