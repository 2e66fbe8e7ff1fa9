//! Output forwarding: labels in front of lines (`gasnetrun -l`), and output routed to the first
//! host (`GASNET_ROUTE_OUTPUT`). Otherwise ranks inherit standard output and error, and only
//! messages of the agent pass through here.
//!
//! Each rank writes to two pipes. One thread per stream reads these pipes, and the output
//! connections of agents below, and writes to one sink: standard output or error, or the output
//! connection to the agent above.
//!
//! The buffers of pipes and sockets are the only buffers. A full buffer blocks the writer: if the
//! sink is full, the thread blocks, and then the ranks. The agent itself never blocks on output. If
//! the sink's reader has closed it, the thread closes its inputs, and ranks get SIGPIPE. A signal
//! that ends the job drops what is left.
#![forbid(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::Arc;
use std::thread;

use super::super::options::StartOptions;
use super::super::tree::link::OutputLink;
use gasnet_sys::{fd, process};

/// Bytes after which an unfinished labelled line is forwarded.
const LABELLED_LINE_MAX: usize = 64 << 10;
/// Most bytes of one write: PIPE_BUF, which a pipe takes in one piece, so that lines of several
/// writers do not mix.
const WRITE_MAX: usize = 4096;
const STACK: usize = 128 << 10;

/// How the agent of a host forwards output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputMode {
    /// Whether each line starts with its rank.
    pub label: bool,
    /// Whether output goes to the agent above, and not to this process's standard output and error.
    pub up: bool,
    /// Bytes up to which a line is kept together; 0: output is forwarded as it comes.
    pub line_max: usize,
}

impl OutputMode {
    /// How the agent of this host forwards output, if it does; `is_root`: it is the first one.
    pub fn of(options: &StartOptions, is_root: bool) -> Option<Self> {
        // Also on the first host, because its ranks flush their buffers in the middle of lines of
        // others.
        (options.label_output || options.route_output.is_some()).then(|| Self {
            label: options.label_output,
            up: options.route_output.is_some() && !is_root,
            line_max: match options.route_output {
                _ if options.label_output => LABELLED_LINE_MAX,
                routed => routed.unwrap_or(0),
            },
        })
    }
}

/// Pipes for the standard output and error of a rank. Returns the ends of the agent, and of the
/// rank.
pub fn pipes() -> io::Result<([OwnedFd; 2], [OwnedFd; 2])> {
    let (out, err) = (fd::pipe()?, fd::pipe()?);
    Ok(([out.0, err.0], [out.1, err.1]))
}

/// In a rank: makes these descriptors its standard output and error.
pub fn become_output(writers: &[OwnedFd; 2]) {
    for (number, writer) in (1..).zip(writers) {
        if let Err(e) = fd::replace(writer.as_raw_fd(), number) {
            eprintln!("gasnet: cannot redirect the output of a rank: {e}");
            process::end(1);
        }
    }
}

enum Sink {
    /// Standard output (1) or error (2) of this process.
    Standard(RawFd),
    /// The output connection to the agent above.
    Agent(OutputLink),
}

enum Input {
    Pipe(OwnedFd),
    /// The output connection of an agent below.
    Agent(OutputLink),
}

impl Input {
    fn fd(&self) -> RawFd {
        match self {
            Self::Pipe(pipe) => pipe.as_raw_fd(),
            Self::Agent(connection) => connection.fd(),
        }
    }

    /// Reads once. Returns nothing at the end.
    fn read(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Pipe(pipe) => {
                let mut buffer = [0; 16 << 10];
                let count = fd::read(pipe.as_raw_fd(), &mut buffer)?;
                Ok(buffer[..count].to_vec())
            }
            Self::Agent(connection) => connection.read(),
        }
    }
}

/// An input and its last, unfinished line.
struct Source {
    /// None after end-of-file.
    input: Option<Input>,
    label: String,
    line_max: usize,
    /// Whether to wait for its end-of-file. Not for pipes of ranks, which a process that a rank
    /// has left behind may hold open for ever.
    to_the_end: bool,
    partial: Vec<u8>,
}

impl Source {
    /// Standard output or error of a rank.
    fn of_rank(pipe: OwnedFd, rank: u32, mode: OutputMode) -> io::Result<Self> {
        fd::set_nonblocking(&pipe)?;
        Ok(Self {
            label: if mode.label {
                format!("[{rank}] ")
            } else {
                String::new()
            },
            to_the_end: false,
            ..Self::unlabelled(Input::Pipe(pipe), mode.line_max)
        })
    }

    fn unlabelled(input: Input, line_max: usize) -> Self {
        Self {
            input: Some(input),
            label: String::new(),
            line_max,
            to_the_end: true,
            partial: Vec::new(),
        }
    }

    /// Reads once and writes the result. Returns whether there may be more; errors are the sink's.
    fn forward(&mut self, sink: &mut Sink) -> io::Result<bool> {
        let Some(input) = &mut self.input else { return Ok(false) };
        let mut ready = Vec::new();
        let more = match input.read() {
            Ok(bytes) if !bytes.is_empty() => {
                self.split(&bytes, &mut ready);
                true
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => false,
            ended => {
                if let Some(why) = ended.err().filter(|why| why.kind() == io::ErrorKind::InvalidData) {
                    report(format_args!("the output of another host ends here: {why}"));
                }
                self.end(&mut ready);
                false
            }
        };
        sink.write(&ready)?;
        Ok(more)
    }

    fn split(&mut self, bytes: &[u8], ready: &mut Vec<u8>) {
        for part in bytes.split_inclusive(|&b| b == b'\n') {
            self.partial.extend_from_slice(part);
            if part.ends_with(b"\n") || self.partial.len() >= self.line_max {
                self.flush(ready);
            }
        }
    }

    fn flush(&mut self, ready: &mut Vec<u8>) {
        if self.partial.is_empty() {
            return;
        }
        if !self.label.is_empty() && !self.partial.ends_with(b"\n") {
            self.partial.push(b'\n');
        }
        ready.extend_from_slice(self.label.as_bytes());
        ready.append(&mut self.partial);
    }

    fn end(&mut self, ready: &mut Vec<u8>) {
        self.input = None;
        self.flush(ready);
    }
}

/// The bytes of the next write: whole lines, if there are any.
fn piece(bytes: &[u8]) -> &[u8] {
    let most = &bytes[..bytes.len().min(WRITE_MAX)];
    match most.iter().rposition(|&byte| byte == b'\n') {
        Some(end) => &most[..=end],
        None => most,
    }
}

impl Sink {
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let next = piece(bytes);
            match self {
                Self::Standard(stream) => fd::write_all(*stream, next)?,
                Self::Agent(connection) => connection.write(next)?,
            }
            bytes = &bytes[next.len()..];
        }
        Ok(())
    }

    /// Whether an error of a write is a failure: not if the reader has closed its end. Reports
    /// failures of standard output.
    fn is_failure(&self, why: &io::Error) -> bool {
        let Self::Standard(stream) = *self else { return false };
        if why.kind() == io::ErrorKind::BrokenPipe || fd::peer_is_gone(stream) {
            return false;
        }
        if stream == 1 {
            report(format_args!("standard output cannot be written: {why}"));
        }
        true
    }
}

/// Prints a message from a stream's thread, which may wait for its reader.
fn report(what: fmt::Arguments<'_>) {
    let _ = fd::write_all(2, super::message(what).as_bytes());
}

/// The thread of a stream: forwards until no sources are left and no more can be added. Errors are
/// the sink's.
fn forward(sink: &mut Sink, mut sources: Vec<Source>, more: &Receiver<Source>, wake: &OwnedFd) -> io::Result<()> {
    loop {
        let is_open = loop {
            match more.try_recv() {
                Ok(source) => sources.push(source),
                Err(error) => break error == TryRecvError::Empty,
            }
        };
        if !is_open {
            for source in sources.iter_mut().filter(|source| !source.to_the_end) {
                while source.forward(sink)? {}
                let mut last = Vec::new();
                source.end(&mut last);
                sink.write(&last)?;
            }
        }
        sources.retain(|source| source.input.is_some());
        if !is_open && sources.is_empty() {
            return Ok(());
        }
        let inputs = sources.iter().flat_map(|source| &source.input).map(Input::fd);
        // poll ignores negative descriptors.
        let wake_fd = if is_open { wake.as_raw_fd() } else { -1 };
        let mut items: Vec<_> = [wake_fd].into_iter().chain(inputs).map(fd::readable).collect();
        fd::poll(&mut items, None)?;
        if items[0].revents != 0 {
            let _ = fd::read(wake_fd, &mut [0; 64]);
        }
        for (item, source) in items[1..].iter().zip(&mut sources) {
            if item.revents != 0 {
                source.forward(sink)?;
            }
        }
    }
}

/// The agent's side of a stream's thread.
struct Forwarder {
    /// Sends more sources, with a pipe that wakes the thread. None once there are no more.
    more: Option<(Sender<Source>, OwnedFd)>,
    /// A pipe whose other end is closed when the thread ends.
    running: OwnedFd,
    has_failed: Arc<AtomicBool>,
}

impl Forwarder {
    fn start(mut sink: Sink, sources: Vec<Source>) -> io::Result<Self> {
        let (wake, waker) = fd::pipe()?;
        fd::set_nonblocking(&waker)?;
        let (running, ended) = fd::pipe()?;
        let (sender, receiver) = channel();
        let has_failed = Arc::new(AtomicBool::new(false));
        let failed = Arc::clone(&has_failed);
        thread::Builder::new()
            .name("gasnet-output".into())
            .stack_size(STACK)
            .spawn(move || {
                if let Err(why) = forward(&mut sink, sources, &receiver, &wake) {
                    // Close new inputs first: the report may block.
                    drop(receiver);
                    failed.store(sink.is_failure(&why), Ordering::Release);
                }
                drop(ended);
            })?;
        Ok(Self {
            more: Some((sender, waker)),
            running,
            has_failed,
        })
    }

    fn add(&self, source: Source) {
        if let Some((sender, waker)) = &self.more {
            // If the thread has ended, this closes the source.
            let _ = sender.send(source);
            fd::write_pair(waker.as_raw_fd(), 0, true);
        }
    }

    fn is_done(&self) -> bool {
        fd::peer_is_gone(self.running.as_raw_fd())
    }
}

/// The streams that an agent forwards.
pub struct Output {
    mode: Option<OutputMode>,
    /// Standard output and error if they are forwarded, then the agent's messages.
    forwarders: Vec<Forwarder>,
    messages: Option<File>,
}

impl Output {
    /// Starts to forward the output of these ranks, if `mode` is set; to `up` if that is the mode.
    pub fn start(
        mode: Option<OutputMode>,
        ranks: Vec<(u32, [OwnedFd; 2])>,
        up: Option<[OutputLink; 2]>,
    ) -> io::Result<Self> {
        let mut new = Self {
            mode,
            forwarders: Vec::new(),
            messages: None,
        };
        let Some(mode) = mode else { return Ok(new) };
        let mut sources = [Vec::new(), Vec::new()];
        for (rank, pipes) in ranks {
            for (stream, pipe) in sources.iter_mut().zip(pipes) {
                stream.push(Source::of_rank(pipe, rank, mode)?);
            }
        }
        let sinks = match up.filter(|_| mode.up) {
            Some(connections) => connections.map(Sink::Agent),
            None => [1, 2].map(Sink::Standard),
        };
        for (sink, sources) in sinks.into_iter().zip(sources) {
            new.forwarders.push(Forwarder::start(sink, sources)?);
        }
        Ok(new)
    }

    /// Forwards stream 1 or 2 of an agent below.
    pub fn add(&mut self, stream: u32, connection: OutputLink) {
        let input = Input::Agent(connection);
        if let (Some(mode), Some(forwarder)) = (self.mode, self.forwarders.get(stream as usize - 1)) {
            forwarder.add(Source::unlabelled(input, mode.line_max));
        }
    }

    /// Writes a message of the agent to standard error, without blocking. Drops messages that do
    /// not fit into a pipe.
    pub fn report(&mut self, message: &str) {
        if self.messages.is_none() {
            self.messages = self.start_messages().ok();
        }
        let _ = match &mut self.messages {
            Some(pipe) => pipe.write_all(message.as_bytes()),
            None => fd::write_all(2, message.as_bytes()),
        };
    }

    fn start_messages(&mut self) -> io::Result<File> {
        let (reader, writer) = fd::pipe()?;
        fd::set_nonblocking(&reader)?;
        fd::set_nonblocking(&writer)?;
        let source = Source::unlabelled(Input::Pipe(reader), WRITE_MAX);
        let mut forwarder = Forwarder::start(Sink::Standard(2), vec![source])?;
        forwarder.more = None;
        self.forwarders.push(forwarder);
        Ok(writer.into())
    }

    /// Accepts no more output and forwards what is left. Returns whether all is written; call it
    /// until then.
    pub fn finish(&mut self) -> bool {
        self.messages = None;
        self.forwarders.iter_mut().for_each(|forwarder| forwarder.more = None);
        self.forwarders.iter().all(Forwarder::is_done)
    }

    /// Descriptors of the running threads; each becomes readable when its thread ends.
    pub fn running(&self) -> impl Iterator<Item = RawFd> + '_ {
        let running = self.forwarders.iter().filter(|forwarder| !forwarder.is_done());
        running.map(|forwarder| forwarder.running.as_raw_fd())
    }

    /// Whether a write has failed, unless because the reader has closed its end. Final once
    /// [`Output::finish`] returns true.
    pub fn has_failed(&self) -> bool {
        self.forwarders.iter().any(|f| f.has_failed.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tree::listener::tests::output_connection;
    use super::*;
    use std::io::Read;
    use std::time::Duration;

    fn mode(label: bool, line_max: usize) -> OutputMode {
        OutputMode {
            label,
            up: true,
            line_max,
        }
    }

    fn split(mode: OutputMode, parts: &[&[u8]]) -> Vec<u8> {
        let (reader, _writer) = fd::pipe().unwrap();
        let mut source = Source::of_rank(reader, 12, mode).unwrap();
        let mut ready = Vec::new();
        for part in parts {
            source.split(part, &mut ready);
            ready.push(b'|');
        }
        source.end(&mut ready);
        ready
    }

    #[test]
    fn lines_get_labels() {
        let ready = split(mode(true, LABELLED_LINE_MAX), &[b"one\ntw", b"o\n\nthree"]);
        assert_eq!(ready, b"[12] one\n|[12] two\n[12] \n|[12] three\n");
    }

    #[test]
    fn lines_stay_together_up_to_a_length() {
        let parts: [&[u8]; 3] = [b"a\nbc", b"d\nlong", b"er"];
        assert_eq!(split(mode(false, 4), &parts), b"a\n|bcd\nlong||er");
        assert_eq!(split(mode(false, 0), &[b"a\nbc", b"d"]), b"a\nbc|d|");
    }

    #[test]
    fn writes_are_whole_lines_if_possible() {
        assert_eq!(piece(b"a\nbc\nd"), b"a\nbc\n");
        assert_eq!(piece(b"abc"), b"abc");
        let long = vec![b'x'; 10_000];
        assert_eq!(piece(&long).len(), WRITE_MAX);
        let lines = [&long[..WRITE_MAX - 2], b"\n", &long].concat();
        assert_eq!(piece(&lines).len(), WRITE_MAX - 1);
    }

    #[test]
    fn a_reader_that_stalls_blocks_the_writers_and_loses_nothing() {
        let (reader, sink) = fd::pipe().unwrap();
        let (ours, theirs) = fd::pipe().unwrap();
        let (mut below, connection) = output_connection();
        let sources = vec![Source::of_rank(ours, 0, mode(false, 100)).unwrap()];
        let mut forwarder = Forwarder::start(Sink::Standard(sink.as_raw_fd()), sources).unwrap();
        forwarder.add(Source::unlabelled(Input::Agent(connection), 100));
        let lines = [&[b'x'; 60][..], b"\n"].concat().repeat(200_000);
        let (from_rank, from_below) = (lines.clone(), lines.clone());
        let rank = thread::spawn(move || fd::write_all(theirs.as_raw_fd(), &from_rank));
        let agent = thread::spawn(move || from_below.chunks(6100).try_for_each(|lines| below.write(lines)));
        thread::sleep(Duration::from_millis(50));
        assert!(!rank.is_finished() && !agent.is_finished());
        let mut all = vec![0; 2 * lines.len()];
        File::from(reader).read_exact(&mut all).unwrap();
        assert!(all.chunks(61).all(|line| line == &lines[..61]), "lines are mixed");
        rank.join().unwrap().unwrap();
        agent.join().unwrap().unwrap();
        forwarder.more = None;
        while !forwarder.is_done() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_reader_that_is_gone_ends_the_writers() {
        let (sink, reader) = output_connection();
        let (errors, _errors_reader) = output_connection();
        let (readers, writers) = pipes().unwrap();
        let mut output = Output::start(Some(mode(false, 0)), vec![(0, readers)], Some([sink, errors])).unwrap();
        let (mut below, connection) = output_connection();
        output.add(1, connection);
        let mut rank = File::from(writers.into_iter().next().unwrap());
        let writers = [
            thread::spawn(move || while rank.write(&[b'x'; 1000]).is_ok() {}),
            thread::spawn(move || while below.write(&[b'x'; 1000]).is_ok() {}),
        ];
        // The buffers may be full when the reader closes its end.
        thread::sleep(Duration::from_millis(50));
        drop(reader);
        for writer in writers {
            writer.join().unwrap();
        }
        while !output.finish() {
            thread::yield_now();
        }
        assert!(!output.has_failed());
    }

    #[test]
    fn messages_are_never_waited_for() {
        let mut output = Output::start(None, Vec::new(), None).unwrap();
        output.report("gasnet: a message of the test\n");
        while !output.finish() {
            thread::yield_now();
        }
        assert!(!output.has_failed() && output.running().next().is_none());
    }
}
