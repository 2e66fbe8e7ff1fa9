//! Where the leader of a host lets the others in, on a thread of its own as long as they may call: a queue of callers has an end, and who finds it full
//! waits. Anybody on the host can see the socket's name and call; users who are not this one are sent away.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gasnet_sys::{fd, process, signal};

/// Connections that may wait at the end, at most: more than kernels let wait.
const MOST_WAITING: usize = 1 << 16;
const PAUSE: Duration = Duration::from_millis(10);
/// It calls nothing of the client's.
const STACK: usize = 128 << 10;

/// The thread.
#[derive(Debug)]
pub struct Acceptor {
    thread: JoinHandle<Vec<UnixStream>>,
    /// It goes on until this is closed.
    open: UnixStream,
}

impl Acceptor {
    /// Opens it.
    pub fn open(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (open, closed) = UnixStream::pair()?;
        // Signals are the client's.
        let mask = signal::block_all();
        let thread = thread::Builder::new()
            .name("gasnet-accept".into())
            .stack_size(STACK)
            .spawn(move || receive(&listener, &closed));
        signal::set_mask(&mask);
        Ok(Self { thread: thread?, open })
    }

    /// Closes it, and gives those of this user's processes that have called until now.
    pub fn close(self) -> Vec<UnixStream> {
        drop(self.open);
        self.thread.join().unwrap_or_default()
    }
}

fn receive(listener: &UnixListener, closed: &UnixStream) -> Vec<UnixStream> {
    let mut callers = Vec::new();
    loop {
        let mut items = [listener.as_raw_fd(), closed.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // A failure is a look too many.
        let _ = fd::poll(&mut items, None);
        let is_closed = items[1].revents != 0;
        for _ in 0..MOST_WAITING {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    // No more descriptors, perhaps: that does not change at once.
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
