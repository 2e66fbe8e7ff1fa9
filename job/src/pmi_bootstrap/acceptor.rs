//! Accepts the connections of the ranks of a host, on a thread of the leader, for as long as they
//! may connect: the kernel's queue is bounded, and a full one would block them. Any user of the
//! host can see the socket's name and connect. Connections of other users are closed.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gasnet_sys::{fd, process, signal};

/// Most connections in the queue when it is closed. No kernel queues more.
const MOST_WAITING: usize = 1 << 16;
const PAUSE: Duration = Duration::from_millis(10);
/// The thread calls no client code.
const STACK: usize = 128 << 10;

#[derive(Debug)]
pub struct Acceptor {
    thread: JoinHandle<Vec<UnixStream>>,
    /// The thread runs until this is closed.
    open: UnixStream,
}

impl Acceptor {
    pub fn open(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (open, closed) = UnixStream::pair()?;
        // Signals are for the client's threads.
        let mask = signal::block_all();
        let thread = thread::Builder::new()
            .name("gasnet-accept".into())
            .stack_size(STACK)
            .spawn(move || receive(&listener, &closed));
        signal::set_mask(&mask);
        Ok(Self { thread: thread?, open })
    }

    /// Stops the thread, and returns the connections of this user's processes so far.
    pub fn close(self) -> Vec<UnixStream> {
        drop(self.open);
        self.thread.join().unwrap_or_default()
    }
}

fn receive(listener: &UnixListener, closed: &UnixStream) -> Vec<UnixStream> {
    let mut callers = Vec::new();
    loop {
        let mut items = [listener.as_raw_fd(), closed.as_raw_fd()].map(fd::readable);
        // An error only causes one more iteration.
        let _ = fd::poll(&mut items, None);
        let is_closed = items[1].revents != 0;
        for _ in 0..MOST_WAITING {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    // Perhaps there are no descriptors left. That does not change at once.
                    thread::sleep(PAUSE);
                    break;
                }
            };
            let is_ours = fd::peer_process(stream.as_raw_fd()).is_ok_and(|(_, user)| user == process::user());
            if is_ours {
                callers.push(stream);
            }
        }
        if is_closed {
            return callers;
        }
    }
}
