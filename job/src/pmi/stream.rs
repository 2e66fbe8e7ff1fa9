//! A connection to a process manager: whole messages of bounded length, and waits with limits.

use std::io;
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

use super::message::{Version, LENGTH};
use gasnet_sys::fd;

/// Longest message that is received.
pub const MESSAGE_MAX: usize = 64 << 10;
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
    /// The connection of an inherited descriptor, whose number is `text`.
    pub fn inherited(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|&number: &RawFd| number >= 0);
        let descriptor = number.ok_or("not a descriptor")?;
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

    /// The next message, without its length or the end of its line.
    pub fn message(&mut self, version: Version, limit: Option<Instant>) -> Result<String, String> {
        loop {
            if let Some((text, end)) = first_message(&self.unread, version)? {
                let message = std::str::from_utf8(&self.unread[text]).map(str::to_owned);
                self.unread.drain(..end);
                return message.map_err(|_| "it has sent bytes that are not text".into());
            }
            self.receive(limit)?;
        }
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

/// The place of the first message in bytes that have arrived, if it is complete, and where it ends.
pub fn first_message(unread: &[u8], version: Version) -> Result<Option<(Range<usize>, usize)>, String> {
    if version == Version::One {
        let end = unread.iter().position(|&c| c == b'\n');
        if end.is_none() && unread.len() > MESSAGE_MAX {
            return Err(format!("it has sent a line of more than {MESSAGE_MAX} characters"));
        }
        return Ok(end.map(|end| (0..end, end + 1)));
    }
    let Some(columns) = unread.first_chunk::<LENGTH>() else {
        return Ok(None);
    };
    let columns = String::from_utf8_lossy(columns);
    let digits = Some(columns.trim()).filter(|digits| digits.bytes().all(|c| c.is_ascii_digit()));
    let Some(length) = digits.and_then(|digits| digits.parse::<usize>().ok()) else {
        return Err(format!(
            "it has sent {} instead of the length of a message",
            super::quoted(&columns)
        ));
    };
    if length > MESSAGE_MAX {
        return Err(format!(
            "it announces a message of {length} characters; the limit is {MESSAGE_MAX}"
        ));
    }
    let end = LENGTH + length;
    Ok((unread.len() >= end).then_some((LENGTH..end, end)))
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
