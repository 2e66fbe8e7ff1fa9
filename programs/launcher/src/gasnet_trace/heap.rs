//! Reports of `GASNET_MALLOCFILE` (debug flavour). `base/tools/src/heap/report.rs` writes
//! them.

use std::collections::BTreeMap;

use super::model::Sums;

/// Totals of a report, in the order of its lines.
pub const TOTALS: [&str; 4] = ["allocated", "freed", "in use", "most"];

/// The report of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// Its rank; 0 for a process without a job.
    pub rank: u32,
    /// Program, host and process number.
    pub program: String,
    /// Bytes and objects for each of [`TOTALS`].
    pub totals: [[u64; 2]; TOTALS.len()],
    pub guards: u64,
    /// Bytes and objects of the library, which it never frees.
    pub library: [u64; 2],
    /// The client's objects in use at the end, by the line that allocated them.
    pub in_use: BTreeMap<String, Sums>,
}

/// Bytes and objects of `N bytes in N objects`, or of `N in N objects`.
fn amount(text: &str) -> Option<[u64; 2]> {
    let mut words = text.split_whitespace().filter(|w| *w != "bytes");
    let bytes = words.next()?.parse().ok()?;
    (words.next() == Some("in")).then_some(())?;
    Some([bytes, words.next()?.parse().ok()?])
}

impl Heap {
    /// The report that begins with this line; none if it is another line.
    pub fn begin(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("# malloc report (")?;
        let (who, about) = rest.split_once("): ")?;
        Some(Self {
            rank: who.strip_prefix("proc ").and_then(|n| n.parse().ok()).unwrap_or(0),
            program: about.to_owned(),
            ..Self::default()
        })
    }

    /// Takes another line of the report. False if it does not belong to one.
    pub fn take(&mut self, line: &str) -> bool {
        match line.strip_prefix("# ") {
            Some(head) => self.take_head(head),
            None => self.take_object(line).is_some(),
        }
    }

    fn take_head(&mut self, head: &str) -> bool {
        if head.starts_with("objects in use:") {
            return true;
        }
        for (total, name) in self.totals.iter_mut().zip(TOTALS) {
            if let Some(amount) = head.strip_prefix(name).and_then(amount) {
                *total = amount;
                return true;
            }
        }
        let guards = head
            .strip_prefix("guards")
            .and_then(|rest| rest.trim().strip_suffix(" bytes")?.parse().ok());
        self.guards = guards.unwrap_or(self.guards);
        guards.is_some()
    }

    /// `BYTES ADDRESS PLACE`, or the sum of the library.
    fn take_object(&mut self, line: &str) -> Option<()> {
        if let Some((amounts, _)) = line.split_once(" objects of libgasnet") {
            self.library = amount(amounts)?;
            return Some(());
        }
        let (bytes, rest) = line.trim_start().split_once(' ')?;
        let (address, place) = rest.split_once(' ')?;
        let bytes = bytes.parse().ok()?;
        address.strip_prefix("0x")?;
        self.in_use.entry(place.to_owned()).or_default().add(bytes);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_line_by_line() {
        let mut heap = Heap::begin("# malloc report (proc 3): /x/prog on host, process 77").unwrap();
        for line in [
            "# allocated          2000 bytes in        12 objects",
            "# freed               500 bytes in         2 objects",
            "# in use             1500 bytes in        10 objects",
            "# most               1900 bytes in        11 objects",
            "# guards              640 bytes",
            "# objects in use: bytes, address, where they were asked for",
            "         100 0x7f00 a b.c:4",
            "          50 0x7f10 a b.c:4",
            "        1350 in 8 objects of libgasnet, which keeps them until the end",
        ] {
            assert!(heap.take(line), "{line}");
        }
        assert_eq!(
            (heap.rank, heap.totals[2], heap.guards, heap.library),
            (3, [1500, 10], 640, [1350, 8])
        );
        let sums = &heap.in_use["a b.c:4"];
        assert_eq!((sums.count, sums.total, sums.least, sums.most), (2, 150, 50, 100));
        for line in [
            "",
            "# ",
            "# allocated x",
            "x 0x1 y",
            "12 34 y",
            "0:* 0.000000000 [-] (U) END",
        ] {
            assert!(!heap.take(line), "{line}");
        }
        assert!(
            Heap::begin("# malloc").is_none()
                && Heap::begin("# malloc report (pid 9): p on h, process 9").unwrap().rank == 0
        );
    }
}
