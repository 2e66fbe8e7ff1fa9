//! Fault `forge`: a message of a process is altered below it, as a corrupted process would post it.

use gasnet_ibv_abi as abi;

use crate::send::Wqe;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// An RDMA write with immediate data instead, whose completion has this length.
    Write(u32),
    /// So many bytes.
    Length(u32),
    /// An immediate word with these bits flipped.
    Imm(u32),
    /// No immediate word.
    NoImm,
}

/// The nth message of a process that has immediate data is altered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forgery {
    pub change: Change,
    pub nth: u64,
}

impl Forgery {
    /// `CHANGE:N[:VALUE]`. A value may be hexadecimal.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split(':').collect();
        let value = || match fields.get(2) {
            Some(text) => text
                .strip_prefix("0x")
                .map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16))
                .map_err(|_| "ends in no number".to_string()),
            None => Err("needs CHANGE:N:VALUE".to_string()),
        };
        let change = match fields[0] {
            "write" => Change::Write(value()?),
            "length" => Change::Length(value()?),
            "imm" => Change::Imm(value()?),
            "no-imm" => Change::NoImm,
            _ => return Err("begins with write, length, imm or no-imm".to_string()),
        };
        let nth = fields.get(1).and_then(|text| text.parse().ok());
        let nth = nth.ok_or("needs CHANGE:N")?;
        Ok(Self { change, nth })
    }

    pub fn apply(&self, wqe: &mut Wqe) {
        let mut fill = |bytes: u32| {
            wqe.sges.clear();
            wqe.data = Some(vec![0xa5; bytes as usize]);
        };
        match self.change {
            Change::Write(bytes) => {
                fill(0);
                wqe.opcode = abi::IBV_WR_RDMA_WRITE_WITH_IMM;
                wqe.reported = Some(bytes);
            }
            Change::Length(bytes) => fill(bytes),
            Change::Imm(word) => wqe.imm ^= word.to_be(),
            Change::NoImm => wqe.opcode = abi::IBV_WR_SEND,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_forgeries() {
        let forgery = |change, nth| Ok(Forgery { change, nth });
        assert_eq!(Forgery::parse("write:3:8000000"), forgery(Change::Write(8_000_000), 3));
        assert_eq!(Forgery::parse("imm:1:0xffffff"), forgery(Change::Imm(0xff_ffff), 1));
        assert_eq!(Forgery::parse("no-imm:2"), forgery(Change::NoImm, 2));
        for text in ["write:3", "imm:x:1", "nothing:1", "no-imm"] {
            assert!(Forgery::parse(text).is_err(), "{text}");
        }
    }
}
