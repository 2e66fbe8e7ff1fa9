//! How packets name the pieces at the target: runs of equal pieces at equal distances. A piece
//! alone costs 16 bytes, a regular row of any length 24.

#![forbid(unsafe_code)]

use super::shape::Row;

const ONE: usize = 16;
const STEP: usize = 8;

/// Room that one more piece, or row of pieces, takes at most: the first may make a row with the
/// last one, the others a run of their own.
pub const LARGEST: usize = STEP + ONE + STEP;

/// Contents of one packet.
#[derive(Debug, Default)]
pub struct Records {
    runs: Vec<Row>,
    encoded: usize,
    data: usize,
}

impl Records {
    /// Length when encoded, a multiple of 8.
    pub fn encoded(&self) -> usize {
        self.encoded
    }

    /// Bytes of data that they name.
    pub fn data(&self) -> usize {
        self.data
    }

    /// Adds a piece, to the last run if it continues that.
    pub fn push(&mut self, address: usize, bytes: usize) {
        self.data += bytes;
        if let Some(last) = self.runs.last_mut() {
            if last.count == 1 && last.address.wrapping_add(last.bytes) == address {
                last.bytes += bytes;
                return;
            }
            if last.bytes == bytes && last.count == 1 {
                last.step = address.wrapping_sub(last.address) as isize;
                last.count = 2;
                self.encoded += STEP;
                return;
            }
            let next = last
                .address
                .wrapping_add_signed(last.step.wrapping_mul(last.count as isize));
            if last.bytes == bytes && next == address {
                last.count += 1;
                return;
            }
        }
        self.runs.push(Row {
            address,
            bytes,
            count: 1,
            step: 0,
        });
        self.encoded += ONE;
    }

    /// Adds the pieces of a row.
    pub fn push_row(&mut self, row: &Row) {
        for i in 0..row.count {
            let address = row.address.wrapping_add_signed(row.step.wrapping_mul(i as isize));
            self.push(address, row.bytes);
            let last = self.runs.last_mut();
            if let Some(last) = last.filter(|r| r.count > 1 && r.bytes == row.bytes && r.step == row.step) {
                // It ends with the piece just added, so the others continue it.
                let rest = row.count - i - 1;
                last.count += rest;
                self.data += rest * row.bytes;
                return;
            }
        }
    }

    /// As it travels. The byte order is that of the job's machines.
    pub fn write(&self, out: &mut Vec<u8>) {
        for run in &self.runs {
            out.extend((run.address as u64).to_ne_bytes());
            out.extend((run.bytes as u32).to_ne_bytes());
            out.extend((run.count as u32).to_ne_bytes());
            if run.count > 1 {
                out.extend((run.step as i64).to_ne_bytes());
            }
        }
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*first)
}

/// Decodes runs and the length of their data. None if they are malformed. Addresses are not
/// checked.
pub fn read(mut encoded: &[u8]) -> Option<(Vec<Row>, usize)> {
    let mut runs = Vec::with_capacity(encoded.len() / ONE);
    let mut data = 0_usize;
    while !encoded.is_empty() {
        let address = u64::from_ne_bytes(take(&mut encoded)?);
        let bytes = u32::from_ne_bytes(take(&mut encoded)?);
        let count = u32::from_ne_bytes(take(&mut encoded)?);
        let step = if count > 1 {
            i64::from_ne_bytes(take(&mut encoded)?)
        } else {
            0
        };
        let run = Row {
            address: address as usize,
            bytes: bytes as usize,
            count: count as usize,
            step: step as isize,
        };
        data = data.checked_add(run.data().filter(|&n| n > 0)?)?;
        runs.push(run);
    }
    Some((runs, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(pieces: &[(usize, usize)]) -> Vec<Row> {
        let mut records = Records::default();
        for &(address, bytes) in pieces {
            records.push(address, bytes);
        }
        let mut out = Vec::new();
        records.write(&mut out);
        assert_eq!(out.len(), records.encoded());
        let (runs, data) = read(&out).unwrap();
        assert_eq!((data, &runs), (records.data(), &records.runs));
        runs
    }

    #[test]
    fn pieces_survive_in_order() {
        let mut state = 7_usize;
        for _ in 0..500 {
            let mut pieces = Vec::new();
            let mut address = 1000;
            for _ in 0..20 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                address += [8, 16, 24, 900][(state >> 40) % 4];
                pieces.push((address, [8, 8, 8, 3][(state >> 50) % 4]));
            }
            let bytes = |pieces: &[(usize, usize)]| pieces.iter().flat_map(|&(a, n)| a..a + n).collect::<Vec<_>>();
            let runs = round_trip(&pieces);
            let flat: Vec<_> = runs
                .iter()
                .flat_map(|r| (0..r.count).map(|i| (r.address.wrapping_add_signed(r.step * i as isize), r.bytes)))
                .collect();
            assert_eq!(bytes(&flat), bytes(&pieces));
        }
    }

    #[test]
    fn rows_take_no_more_room_than_they_may() {
        let befores: [&[(usize, usize)]; 6] = [
            &[],
            &[(92, 8)],
            &[(84, 8)],
            &[(60, 8), (80, 8)],
            &[(50, 3), (75, 3)],
            &[(52, 8), (76, 8)],
        ];
        for before in befores {
            for (count, step) in [(2, 20), (3, 24), (9, -20), (5, 8), (4, 0)] {
                let (mut one, mut all) = (Records::default(), Records::default());
                for &(address, bytes) in before {
                    one.push(address, bytes);
                    all.push(address, bytes);
                }
                let encoded = all.encoded();
                all.push_row(&Row {
                    address: 100,
                    bytes: 8,
                    count,
                    step,
                });
                for i in 0..count {
                    one.push(100_usize.wrapping_add_signed(step * i as isize), 8);
                }
                assert!(all.encoded() - encoded <= LARGEST);
                assert_eq!(
                    (all.data(), all.encoded(), all.runs),
                    (one.data(), one.encoded(), one.runs)
                );
            }
        }
    }

    #[test]
    fn rows_are_one_run() {
        assert_eq!(round_trip(&[(96, 8), (64, 8), (32, 8), (0, 8)]).len(), 1);
        assert_eq!(round_trip(&[(0, 8), (8, 8), (16, 16), (100, 1)]).len(), 2);
        assert_eq!(round_trip(&[(0, 8), (16, 8), (24, 8)]).len(), 2);
    }

    #[test]
    fn nonsense_is_refused() {
        let mut good = Records::default();
        good.push(0, 8);
        good.push(16, 8);
        let mut bytes = Vec::new();
        good.write(&mut bytes);
        for cut in 1..bytes.len() {
            assert!(read(&bytes[..cut]).is_none(), "{cut}");
        }
        for zeroed in [8..12, 12..16] {
            let mut bad = bytes.clone();
            bad[zeroed].fill(0);
            assert!(read(&bad).is_none());
        }
        assert_eq!(read(&[]), Some((Vec::new(), 0)));
    }
}
