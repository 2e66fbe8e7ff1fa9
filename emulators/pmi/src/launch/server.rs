//! The launcher's socket: reads requests of ranks, and writes answers when they can be written.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use super::os;
use super::state::{Answer, State};
use crate::protocol::{encode_answer, first_frame, Request};

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    rank: Option<u32>,
    input: Vec<u8>,
    output: Vec<u8>,
    is_open: bool,
}

/// The socket, and all connections.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    connections: Vec<Connection>,
}

impl Server {
    /// Listens at an abstract name, which disappears with the launcher.
    pub fn open(name: &str) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            connections: Vec::new(),
        })
    }

    /// Descriptors to wait for: the listener, then connections.
    pub fn items(&self) -> Vec<libc::pollfd> {
        let connections = self.connections.iter().map(|connection| {
            let mut item = os::readable(&connection.stream);
            item.events |= if connection.output.is_empty() { 0 } else { libc::POLLOUT };
            item
        });
        [os::readable(&self.listener)].into_iter().chain(connections).collect()
    }

    /// Accepts, reads, and writes what can be.
    pub fn serve(&mut self, state: &mut State) {
        while let Ok((stream, _)) = self.listener.accept() {
            // The user of a process that connects to another's socket finds no answer.
            if stream.set_nonblocking(true).is_ok() && is_ours(&stream) {
                self.connections.push(Connection {
                    stream,
                    rank: None,
                    input: Vec::new(),
                    output: Vec::new(),
                    is_open: true,
                });
            }
        }
        for index in 0..self.connections.len() {
            self.connections[index].read();
            while let Some(request) = self.connections[index].next() {
                match (request, self.connections[index].rank) {
                    (Request::Join(rank), None) => {
                        let (code, bytes) = state.join(rank);
                        let connection = &mut self.connections[index];
                        connection.rank = (code == crate::code::SUCCESS).then_some(rank);
                        connection.output.extend(encode_answer(code, &bytes));
                    }
                    (request, Some(rank)) => {
                        let answers = state.request(rank, request);
                        self.answer(answers);
                    }
                    (_, None) => self.connections[index].is_open = false,
                }
            }
        }
        self.connections.iter_mut().for_each(Connection::write);
        self.connections.retain(|connection| connection.is_open);
    }

    pub fn answer(&mut self, answers: Vec<Answer>) {
        for (rank, code, bytes) in answers {
            for connection in self.connections.iter_mut().filter(|of| of.rank == Some(rank)) {
                connection.output.extend(encode_answer(code, &bytes));
                connection.write();
            }
        }
    }
}

/// Whether the process at the other end is of this user.
fn is_ours(stream: &UnixStream) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the buffer has room for its length.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut bytes,
        )
    };
    // SAFETY: no memory.
    result == 0 && peer.uid == unsafe { libc::geteuid() }
}

impl Connection {
    fn read(&mut self) {
        let mut buffer = [0; 1 << 13];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.is_open = false,
                Ok(count) => {
                    self.input.extend(&buffer[..count]);
                    continue;
                }
                Err(why) => self.is_open &= why.kind() == io::ErrorKind::WouldBlock,
            }
            return;
        }
    }

    fn next(&mut self) -> Option<Request> {
        let (body, length) = first_frame(&self.input)?;
        let request = Request::decode(body);
        self.input.drain(..length);
        self.is_open &= request.is_some();
        request
    }

    fn write(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(why) => {
                    self.is_open &= why.kind() == io::ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }
}
