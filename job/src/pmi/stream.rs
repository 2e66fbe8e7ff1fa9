//! A connection to a process manager: whole messages of bounded length, and waits with limits.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

use gasnet_sys::fd;

/// Longest message that is received.
pub const MESSAGE_MAX: usize = 64 << 10;
/// Columns of the length of a PMI-2 message.
const LENGTH: usize = 6;

/// A connection. Its errors complete messages that start with the manager's name.
#[derive(Debug)]
pub struct Stream {
    connection: OwnedFd,
    /// The inherited descriptor. It stays open, because an MPI in the same process may use it, too.
    /// Once that closes it, the number may be reused by the client.
    inherited: Option<RawFd>,
    unread: Vec<u8>,
}

impl Stream {
    /// The connection of an inherited descriptor.
    pub fn inherited(descriptor: RawFd) -> Result<Self, String> {
        is_socket(descriptor).map_err(|why| {
            format!(
                "the descriptor is not a connection to a process manager ({why}). A script or program between \
                 the manager and this process has closed it, or the variable is left over from another job. \
                 Start this process directly by the manager, or unset the variable"
            )
        })?;
        let connection = fd::duplicate(descriptor).map_err(|why| format!("cannot duplicate its descriptor: {why}"))?;
        Ok(Self {
            connection,
            inherited: Some(descriptor),
            unread: Vec::new(),
        })
    }

    /// Connects to `address`, a host and a port.
    pub fn connected(address: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(address).map_err(|why| format!("cannot connect: {why}"))?;
        // Messages are short request-response pairs. Without this option they are slower.
        let _ = stream.set_nodelay(true);
        Ok(Self {
            connection: stream.into(),
            inherited: None,
            unread: Vec::new(),
        })
    }

    /// Whether this process has opened the connection itself, so that no other library uses it.
    pub fn is_own(&self) -> bool {
        self.inherited.is_none()
    }

    /// The descriptors of the connection. The inherited one is only valid while no other library
    /// closes it.
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.inherited
            .into_iter()
            .chain([self.connection.as_raw_fd()])
            .collect()
    }

    /// Sends a whole message.
    pub fn send(&self, message: &str, limit: Option<Instant>) -> Result<(), String> {
        let mut rest = message.as_bytes();
        while !rest.is_empty() {
            match fd::send(self.connection.as_raw_fd(), rest) {
                Ok(sent) => rest = &rest[sent..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.wait(libc::POLLOUT, limit)?,
                Err(e) => return Err(lost(&e)),
            }
        }
        Ok(())
    }

    /// The next line, without its end.
    pub fn line(&mut self, limit: Option<Instant>) -> Result<String, String> {
        let mut seen = 0;
        loop {
            if let Some(at) = self.unread[seen..].iter().position(|&c| c == b'\n') {
                let line = self.take(seen + at + 1)?;
                return Ok(line.trim_end_matches(['\n', '\r']).to_owned());
            }
            seen = self.unread.len();
            if seen > MESSAGE_MAX {
                return Err(format!("it has sent a line of more than {MESSAGE_MAX} characters"));
            }
            self.receive(limit)?;
        }
    }

    /// The next message that starts with its length, without the length.
    pub fn counted(&mut self, limit: Option<Instant>) -> Result<String, String> {
        while self.unread.len() < LENGTH {
            self.receive(limit)?;
        }
        let columns = self.take(LENGTH)?;
        let digits = columns.trim();
        let length: usize = match digits.parse() {
            Ok(length) if digits.bytes().all(|c| c.is_ascii_digit()) => length,
            _ => {
                return Err(format!(
                    "it has sent {} instead of the length of a message",
                    super::quoted(&columns)
                ))
            }
        };
        if length > MESSAGE_MAX {
            return Err(format!(
                "it announces a message of {length} characters; the limit is {MESSAGE_MAX}"
            ));
        }
        while self.unread.len() < length {
            self.receive(limit)?;
        }
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Result<String, String> {
        let rest = self.unread.split_off(length);
        let bytes = std::mem::replace(&mut self.unread, rest);
        String::from_utf8(bytes).map_err(|_| "it has sent bytes that are not text".into())
    }

    fn receive(&mut self, limit: Option<Instant>) -> Result<(), String> {
        let mut buffer = [0; 4096];
        loop {
            match fd::receive(self.connection.as_raw_fd(), &mut buffer) {
                Ok(0) => return Err(GONE.into()),
                Ok(length) => {
                    self.unread.extend_from_slice(&buffer[..length]);
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.wait(libc::POLLIN, limit)?,
                Err(e) => return Err(lost(&e)),
            }
        }
    }

    /// Waits for an event. An error after the limit.
    fn wait(&self, events: i16, limit: Option<Instant>) -> Result<(), String> {
        let mut item = [libc::pollfd {
            fd: self.connection.as_raw_fd(),
            events,
            revents: 0,
        }];
        let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err("it does not answer".into());
        }
        fd::poll(&mut item, left).map(drop).map_err(|e| lost(&e))
    }
}

const GONE: &str = "it has closed the connection: it has ended, or rejects this process. Its own output may \
 show the reason";

fn lost(why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => GONE.into(),
        _ => format!("the connection is lost: {why}"),
    }
}

/// Whether a descriptor is open and a socket.
pub fn is_socket(descriptor: RawFd) -> io::Result<()> {
    match fd::receive(descriptor, &mut []) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK)) => Err(e),
        _ => Ok(()),
    }
}
