//! Output that has come through an agent goes out here, by a thread for each stream, so that a reader who pauses holds up the ranks, and not the agent.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use gasnet_sys::fd;

/// More bytes that wait are much; less than half of that is not much any more.
const FULL: usize = 1 << 20;
/// What a pipe takes in one piece, so that lines of several writers do not mix.
const PIECE: usize = 4096;
const STACK: usize = 64 << 10;

/// Standard output and error of this process.
#[derive(Debug)]
pub struct Console {
    sinks: [Option<Arc<Sink>>; 2],
    /// Readable when a thread has written something.
    news: Option<OwnedFd>,
    full: bool,
    /// Streams whose readers are gone, as far as that was told.
    told: [bool; 2],
    /// Something could not be written, and not because nobody reads it.
    failed: bool,
}

#[derive(Debug)]
struct Sink {
    queue: Mutex<Queue>,
    more: Condvar,
    news: OwnedFd,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<u8>,
    /// Bytes that the thread has taken and not written.
    taken: usize,
    /// Nobody reads any more.
    closed: bool,
    /// Why it could not be written, if not because the reader has gone.
    failure: Option<io::Error>,
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first of `bytes` to write in one piece: whole lines, if there are any.
fn piece(bytes: &[u8]) -> &[u8] {
    let most = &bytes[..bytes.len().min(PIECE)];
    match most.iter().rposition(|&byte| byte == b'\n') {
        Some(end) => &most[..=end],
        None => most,
    }
}

impl Sink {
    /// Writes what comes, until nobody reads it.
    fn work(&self, stream: RawFd) {
        loop {
            let mut queue = lock(&self.queue);
            while queue.waiting.is_empty() {
                queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let bytes = std::mem::take(&mut queue.waiting);
            queue.taken = bytes.len();
            drop(queue);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let next = piece(rest);
                let written = fd::write_all(stream, next);
                let mut queue = lock(&self.queue);
                let is_over = written.is_err();
                if let Err(why) = written {
                    *queue = Queue {
                        closed: true,
                        failure: (why.kind() != io::ErrorKind::BrokenPipe && !fd::peer_is_gone(stream)).then_some(why),
                        ..Queue::default()
                    };
                } else {
                    queue.taken -= next.len();
                }
                drop(queue);
                // A full pipe has news enough.
                fd::write_pair(self.news.as_raw_fd(), 1, true);
                if is_over {
                    return;
                }
                rest = &rest[next.len()..];
            }
        }
    }
}

impl Console {
    /// No thread begins before there is something to write.
    pub fn new() -> Self {
        Self {
            sinks: [None, None],
            news: None,
            full: false,
            told: [false; 2],
            failed: false,
        }
    }

    fn start(&mut self, stream: RawFd) -> io::Result<Arc<Sink>> {
        let (reader, news) = if let Some(other) = &self.sinks[usize::from(stream == 1)] {
            // The pipe of the other stream.
            (None, other.news.try_clone()?)
        } else {
            let (reader, writer) = fd::pipe()?;
            fd::set_nonblocking(&reader)?;
            fd::set_nonblocking(&writer)?;
            (Some(reader), writer)
        };
        let sink = Arc::new(Sink {
            queue: Mutex::default(),
            more: Condvar::new(),
            news,
        });
        let its = Arc::clone(&sink);
        thread::Builder::new()
            .name("gasnet-output".into())
            .stack_size(STACK)
            .spawn(move || its.work(stream))?;
        self.news = reader.or(self.news.take());
        Ok(sink)
    }

    /// Takes bytes for stream 1 or 2.
    pub fn write(&mut self, stream: RawFd, bytes: &[u8]) {
        let index = usize::from(stream == 2);
        if self.sinks[index].is_none() {
            self.sinks[index] = self.start(stream).ok();
        }
        let Some(sink) = &self.sinks[index] else {
            // No thread can be had: the agent waits itself.
            let _ = fd::write_all(stream, bytes);
            return;
        };
        let mut queue = lock(&sink.queue);
        if !queue.closed {
            queue.waiting.extend_from_slice(bytes);
            sink.more.notify_one();
        }
    }

    fn queues(&self) -> impl Iterator<Item = MutexGuard<'_, Queue>> {
        self.sinks.iter().flatten().map(|sink| lock(&sink.queue))
    }

    fn pending(&self) -> usize {
        self.queues().map(|queue| queue.waiting.len() + queue.taken).sum()
    }

    /// Whether everything has been written.
    pub fn is_done(&self) -> bool {
        self.pending() == 0
    }

    /// The descriptor that becomes readable when something has been written.
    pub fn fd(&self) -> Option<RawFd> {
        self.news.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Looks how much waits, and whether that is much, so that nobody should add to it who can wait.
    pub fn look(&mut self) -> bool {
        if let Some(news) = self.fd() {
            let mut bytes = [0; 256];
            while fd::read(news, &mut bytes).is_ok_and(|n| n == bytes.len()) {}
        }
        let limit = if self.full { FULL / 2 } else { FULL };
        self.full = self.pending() > limit;
        self.full
    }

    /// Whether much waited at the last look.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Why streams could not be written, other than that their readers have gone. Each is told once.
    pub fn failures(&mut self) -> Vec<(RawFd, io::Error)> {
        let failure = |sink: &Option<Arc<Sink>>| lock(&sink.as_ref()?.queue).failure.take();
        let streams = (1..).zip(&self.sinks);
        let failures: Vec<_> = streams.filter_map(|(stream, sink)| Some((stream, failure(sink)?))).collect();
        self.failed |= !failures.is_empty();
        failures
    }

    /// Whether there were failures.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Streams that nobody reads any more. Each is told once.
    pub fn closed(&mut self) -> Vec<RawFd> {
        let mut closed = Vec::new();
        for (index, sink) in self.sinks.iter().enumerate() {
            let is_closed = sink.as_ref().is_some_and(|sink| lock(&sink.queue).closed);
            if is_closed && !std::mem::replace(&mut self.told[index], true) {
                closed.push(index as RawFd + 1);
            }
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_lines_as_far_as_possible() {
        assert_eq!(piece(b"a\nbc\nd"), b"a\nbc\n");
        assert_eq!(piece(b"abc"), b"abc");
        let long = vec![b'x'; 10_000];
        assert_eq!(piece(&long).len(), PIECE);
        let lines = [&long[..PIECE - 2], b"\n", &long].concat();
        assert_eq!(piece(&lines).len(), PIECE - 1);
    }

    /// A sink, and what reads from it.
    fn sink() -> (Arc<Sink>, OwnedFd, OwnedFd) {
        let (news, ring) = fd::pipe().unwrap();
        let (reader, writer) = fd::pipe().unwrap();
        let sink = Arc::new(Sink {
            queue: Mutex::default(),
            more: Condvar::new(),
            news: ring,
        });
        let its = Arc::clone(&sink);
        thread::spawn(move || its.work(writer.as_raw_fd()));
        (sink, reader, news)
    }

    #[test]
    fn a_reader_who_pauses_loses_nothing() {
        let (sink, reader, news) = sink();
        let mut console = Console {
            sinks: [Some(Arc::clone(&sink)), None],
            news: Some(news),
            full: false,
            told: [false; 2],
            failed: false,
        };
        fd::set_nonblocking(console.news.as_ref().unwrap()).unwrap();
        let all: Vec<u8> = (0..3 * FULL)
            .map(|i| if i % 61 == 60 { b'\n' } else { b'a' + (i % 26) as u8 })
            .collect();
        for part in all.chunks(100_000) {
            console.write(1, part);
        }
        assert!(console.look() && !console.is_done());
        let (mut come, mut buffer) = (Vec::new(), [0; 4000]);
        while come.len() < all.len() {
            let n = fd::read(reader.as_raw_fd(), &mut buffer).unwrap();
            come.extend_from_slice(&buffer[..n]);
        }
        assert!(come == all);
        while !console.is_done() {
            thread::yield_now();
        }
        assert!(!console.look() && console.closed().is_empty());
        drop(reader);
        console.write(1, b"nobody");
        while !lock(&sink.queue).closed {
            thread::yield_now();
        }
        assert_eq!((console.closed(), console.closed()), (vec![1], vec![]));
        console.write(1, b"nobody");
        assert!(console.is_done());
    }
}
