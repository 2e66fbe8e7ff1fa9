//! Output that passes through agents: with a rank in front of each line (an option of the launcher), or brought to the first host
//! (`GASNET_ROUTE_OUTPUT`). Each rank writes into pipes then. Otherwise ranks inherit standard output and error unchanged, and none of this runs.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use gasnet_sys::{fd, process};

/// A line with a label is passed on without an end when it gets this long.
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
        become_output(self.0.each_ref().map(|(_, writer)| writer.as_raw_fd()));
    }

    /// The write ends.
    pub fn writers(&self) -> [RawFd; 2] {
        self.0.each_ref().map(|(_, writer)| writer.as_raw_fd())
    }

    /// In the agent: keeps the read ends only.
    pub fn keep_readers(self, rank: u32, manner: Manner) -> [Pump; 2] {
        let [(out, _), (err, _)] = self.0;
        [Pump::new(rank, out, 1, manner), Pump::new(rank, err, 2, manner)]
    }
}

/// Makes descriptors of this process its standard output and error.
pub fn become_output(writers: [RawFd; 2]) {
    for (number, writer) in (1..).zip(writers) {
        if let Err(e) = fd::replace(writer, number) {
            eprintln!("gasnet: output cannot be redirected: {e}");
            process::end(1);
        }
    }
}

/// What is done with output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Whether lines get a label.
    pub label: bool,
    /// Whether it goes to the agent above. Otherwise it is written here.
    pub up: bool,
    /// Without labels: lines are kept together up to this length; 0: output is passed on as it comes.
    pub line: usize,
}

/// Passes on what comes out of one pipe.
#[derive(Debug)]
pub struct Pump {
    label: String,
    source: Option<OwnedFd>,
    /// 1 or 2.
    stream: RawFd,
    manner: Manner,
    partial: Vec<u8>,
    /// What is to go on.
    ready: Vec<u8>,
}

impl Pump {
    fn new(rank: u32, source: OwnedFd, stream: RawFd, manner: Manner) -> Self {
        // A reader that must not wait: whatever the rank's own children do with the pipe, the agent goes on.
        let source = fd::set_nonblocking(&source).is_ok().then_some(source);
        let label = if manner.label { format!("[{rank}] ") } else { String::new() };
        Self {
            label,
            source,
            stream,
            manner,
            partial: Vec::new(),
            ready: Vec::new(),
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
            if !self.ready.is_empty() {
                // So that a rank which writes without end leaves time for others.
                return;
            }
        }
        self.finish();
    }

    /// Passes on a last line without an end.
    pub fn finish(&mut self) {
        if !self.partial.is_empty() {
            if self.manner.label {
                self.partial.push(b'\n');
            }
            self.flush();
        }
    }

    /// What is to go on, and of which stream.
    pub fn ready(&mut self) -> Option<(RawFd, Vec<u8>)> {
        (!self.ready.is_empty()).then(|| (self.stream, std::mem::take(&mut self.ready)))
    }

    /// Nobody reads that stream any more: the rank learns it when it writes next.
    pub fn close(&mut self, stream: RawFd) {
        if self.stream == stream {
            self.source = None;
            self.partial.clear();
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let longest = if self.manner.label { LONGEST_LINE } else { self.manner.line };
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.flush();
            } else if self.partial.len() >= longest {
                self.finish();
            }
        }
    }

    fn flush(&mut self) {
        self.ready.extend_from_slice(self.label.as_bytes());
        self.ready.append(&mut self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out of a pump into which this was written.
    fn pumped(manner: Manner, pieces: &[&[u8]]) -> Vec<u8> {
        let (reader, writer) = fd::pipe().unwrap();
        let mut pump = Pump::new(12, reader, 2, Manner { up: true, ..manner });
        let mut come = Vec::new();
        let mut writer = Some(writer);
        for piece in pieces {
            fd::write_all(writer.as_ref().unwrap().as_raw_fd(), piece).unwrap();
            pump.pass();
            come.extend(pump.ready().map_or_else(Vec::new, |(_, bytes)| bytes));
            come.push(b'|');
        }
        writer.take();
        while pump.source().is_some() {
            pump.pass();
        }
        come.extend(pump.ready().map_or_else(Vec::new, |(stream, bytes)| {
            assert_eq!(stream, 2);
            bytes
        }));
        come
    }

    #[test]
    fn lines_get_labels() {
        let manner = Manner {
            label: true,
            up: true,
            line: 0,
        };
        let come = pumped(manner, &[b"one\ntw", b"o\n\nthree"]);
        assert_eq!(come, b"[12] one\n|[12] two\n[12] \n|[12] three\n");
    }

    #[test]
    fn lines_stay_together_up_to_a_length() {
        let manner = |line| Manner {
            label: false,
            up: true,
            line,
        };
        assert_eq!(pumped(manner(4), &[b"a\nbc", b"d\nlong", b"er"]), b"a\n|bcd\nlong||er");
        assert_eq!(pumped(manner(0), &[b"a\nbc", b"d"]), b"a\nbc|d|");
    }
}
