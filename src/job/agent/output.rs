//! Lines with a rank in front: an option of the launcher. Each rank writes into pipes, and the supervisor passes whole lines on.
//! Without the option ranks inherit standard output and error unchanged, and none of this runs.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::os::{fd, process};

/// A line without an end is passed on when it gets this long.
const LONGEST_LINE: usize = 64 << 10;

/// Pipes for a rank's standard output and error: read ends and write ends.
pub struct Pipes([(OwnedFd, OwnedFd); 2]);

impl Pipes {
    /// Before the fork.
    pub fn create() -> io::Result<Self> {
        Ok(Self([fd::pipe()?, fd::pipe()?]))
    }

    /// In the rank: output goes into the pipes from here on.
    pub fn become_output(self) {
        for (i, (_, writer)) in self.0.iter().enumerate() {
            if let Err(e) = fd::replace(writer.as_raw_fd(), i as RawFd + 1) {
                eprintln!("gasnet: output cannot be redirected: {e}");
                process::end(1);
            }
        }
    }

    /// In the supervisor: keeps the read ends only.
    pub fn keep_readers(self, rank: u32) -> [Labeller; 2] {
        let [(out, _), (err, _)] = self.0;
        [Labeller::new(rank, out, 1), Labeller::new(rank, err, 2)]
    }
}

/// Passes on the lines of one pipe.
#[derive(Debug)]
pub struct Labeller {
    label: String,
    source: Option<OwnedFd>,
    destination: RawFd,
    partial: Vec<u8>,
}

impl Labeller {
    fn new(rank: u32, source: OwnedFd, destination: RawFd) -> Self {
        // A reader that must not wait: whatever the rank's own children do with the pipe, the supervisor goes on.
        let source = fd::set_nonblocking(&source).is_ok().then_some(source);
        Self {
            label: format!("[{rank}] "),
            source,
            destination,
            partial: Vec::new(),
        }
    }

    /// The pipe, until it has ended.
    pub fn source(&self) -> Option<RawFd> {
        self.source.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Passes on what is there.
    pub fn pass(&mut self) {
        let mut buffer = [0; 16 << 10];
        while let Some(source) = self.source() {
            match fd::read(source, &mut buffer) {
                Ok(0) => self.source = None,
                Ok(n) => self.take(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.source = None,
            }
        }
        self.finish();
    }

    /// Passes on a last line without an end.
    pub fn finish(&mut self) {
        if !self.partial.is_empty() {
            self.partial.push(b'\n');
            self.flush_line();
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.flush_line();
            } else if self.partial.len() >= LONGEST_LINE {
                self.finish();
            }
        }
    }

    fn flush_line(&mut self) {
        let mut line = Vec::with_capacity(self.label.len() + self.partial.len());
        line.extend_from_slice(self.label.as_bytes());
        line.append(&mut self.partial);
        // One write per line, so that lines of different ranks do not mix. A reader that went away is the ranks' affair no longer.
        let _ = fd::write_all(self.destination, &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_get_labels() {
        let (in_reader, in_writer) = fd::pipe().unwrap();
        let (out_reader, out_writer) = fd::pipe().unwrap();
        let mut labeller = Labeller::new(12, in_reader, out_writer.as_raw_fd());
        fd::write_all(in_writer.as_raw_fd(), b"one\ntw").unwrap();
        labeller.pass();
        fd::write_all(in_writer.as_raw_fd(), b"o\n\nthree").unwrap();
        drop(in_writer);
        labeller.pass();
        assert_eq!(labeller.source(), None);
        drop(out_writer);
        let mut buffer = [0; 256];
        let n = fd::read(out_reader.as_raw_fd(), &mut buffer).unwrap();
        assert_eq!(&buffer[..n], b"[12] one\n[12] two\n[12] \n[12] three\n");
    }
}
