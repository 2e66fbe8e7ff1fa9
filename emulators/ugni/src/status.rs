//! Statuses of completions. The emulator counts as Aries does; Gemini's four bits are derived.

pub const OKAY: u8 = 0;
pub const REQ_ILLEGAL_CMD: u8 = 0x02;
pub const AT_MDD_INV: u8 = 0x0f;
pub const AT_MDD_WR_PERMISSION_ERR: u8 = 0x11;
pub const AT_BOUNDS_ERR: u8 = 0x12;
pub const AT_PROTECTION_ERR: u8 = 0x14;
pub const CQ_ERR: u8 = 0x30;
pub const CE_UNCORRECTABLE: u8 = 0x31;
pub const CE_OPERATION_UNEXPECTED: u8 = 0x32;
pub const CE_JOIN_DUPLICATE: u8 = 0x33;
pub const CE_JOIN_CHILD_INV: u8 = 0x34;
pub const CE_JOIN_INCONSISTENT: u8 = 0x35;
pub const CE_PROTECTION_ERR: u8 = 0x36;
pub const CE_REDUCTION_ID_MISMATCH: u8 = 0x37;
pub const PI_ERR: u8 = 0x3a;
pub const ENDPOINT_UNREACHABLE: u8 = 0x3d;

/// Names that are known, by Aries's status.
const NAMES: [(u8, &str); 44] = [
    (0x00, "OKAY"),
    (0x01, "REQ_DISABLED"),
    (0x02, "REQ_ILLEGAL_CMD"),
    (0x03, "REQ_ILLEGAL_ADDR"),
    (0x04, "REQ_ILLEGAL_SIZE"),
    (0x05, "REQ_INSUFFICIENT_PRIV"),
    (0x06, "PKT_MALFORMED_CMD"),
    (0x07, "PKT_MALFORMED_ADDR"),
    (0x08, "PKT_MALFORMED_SIZE"),
    (0x09, "PKT_MALFORMED_RESERVED"),
    (0x0a, "PKT_MISROUTED"),
    (0x0b, "DATA_ERR"),
    (0x0c, "DATA_POISON"),
    (0x0d, "AT_VMDHCAM_MALFORMED"),
    (0x0e, "AT_MDD_UNCORRECTABLE"),
    (0x0f, "AT_MDD_INV"),
    (0x10, "AT_MDD_MALFORMED"),
    (0x11, "AT_MDD_WR_PERMISSION_ERR"),
    (0x12, "AT_BOUNDS_ERR"),
    (0x13, "AT_PTT_UNCORRECTABLE"),
    (0x14, "AT_PROTECTION_ERR"),
    (0x1d, "AT_UNCORRECTABLE"),
    (0x1e, "PE_BOUNDS_ERR"),
    (0x1f, "FMA_UNCORRECTABLE"),
    (0x20, "DLA_OVERFLOW"),
    (0x24, "MSG_PROTOCOL_ERR"),
    (0x2f, "CQ_OVERRUN"),
    (0x30, "CQ_ERR"),
    (0x31, "CE_UNCORRECTABLE"),
    (0x32, "CE_OPERATION_UNEXPECTED"),
    (0x33, "CE_JOIN_DUPLICATE"),
    (0x34, "CE_JOIN_CHILD_INV"),
    (0x35, "CE_JOIN_INCONSISTENT"),
    (0x36, "CE_PROTECTION_ERR"),
    (0x37, "CE_REDUCTION_ID_MISMATCH"),
    (0x38, "AMO_CACHE_ERR"),
    (0x39, "ORB_TIMEOUT"),
    (0x3a, "PI_ERR"),
    (0x3b, "PI_TIMEOUT"),
    (0x3c, "WC_TAG_UNCORRECTABLE"),
    (0x3d, "ENDPOINT_UNREACHABLE"),
    (0x3e, "RESERVED_3E"),
    (0x3f, "RESERVED_3F"),
    (0x21, "BTE"),
];

/// Whether the software may recover from a status.
pub fn recoverable(status: u8) -> bool {
    matches!(
        status,
        0x06..=0x09 | 0x0b | 0x18 | 0x1d | 0x20..=0x23 | 0x26..=0x2c | 0x2e | 0x2f | 0x39 | 0x3b..=0x3d
    )
}

/// The status of a name of any case.
pub fn named(name: &str) -> Option<u8> {
    let found = NAMES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
    found.map(|(status, _)| *status)
}

pub fn name(status: u8) -> &'static str {
    NAMES
        .iter()
        .find(|(known, _)| *known == status)
        .map_or("UNNAMED", |(_, name)| name)
}

/// The status of Gemini, which has four bits.
pub fn gemini(status: u8) -> u8 {
    match status {
        OKAY => 0,
        0x0a => 1,
        0x01..=0x05 => 3,
        0x06..=0x09 => 4,
        0x0d => 6,
        AT_MDD_INV => 7,
        AT_PROTECTION_ERR => 8,
        AT_BOUNDS_ERR => 9,
        AT_MDD_WR_PERMISSION_ERR => 10,
        0x39 | 0x3b | ENDPOINT_UNREACHABLE => 11,
        _ => 2,
    }
}

/// The name of Gemini's status.
pub fn gemini_name(status: u8) -> &'static str {
    [
        "OK",
        "MISROUTED_PACKET",
        "UNCORRECTABLE",
        "INVALID_COMMAND",
        "MALFORMED_PACKET",
        "TRANSLATION_UNCORRECTABLE",
        "VMDH_INVALID",
        "MDD_INVALID",
        "PROTECTION_VIOLATION",
        "MEMORY_BOUNDS",
        "WRITE_PERMISSION",
        "REQUEST_TIMEOUT",
        "SSID_STATE",
        "STALE_SSID",
        "PROTOCOL",
        "CQ_ERROR",
    ][usize::from(status & 15)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_names_and_classes() {
        assert_eq!(named("at_mdd_inv"), Some(AT_MDD_INV));
        assert_eq!(name(ENDPOINT_UNREACHABLE), "ENDPOINT_UNREACHABLE");
        assert!(recoverable(0x0b) && !recoverable(AT_MDD_INV));
        assert_eq!(gemini_name(gemini(AT_BOUNDS_ERR)), "MEMORY_BOUNDS");
    }
}
