//! Answers to tools that ask for the ranks of all hosts ([`crate::attach`]).
//!
//! The root of a tree listens at a local socket. Each tool that connects starts a round: agents
//! send a view of their ranks up the tree, the root passes each on to the tool, and closes the
//! connection after the last.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::Ordering;

use super::Agent;
use crate::attach::socket_name;
use crate::control_block::ControlBlock;
use crate::tree::message::AgentMessage;
use crate::view::ranks_here;
use gasnet_sys::mem::random_u64;
use gasnet_sys::{fd, process};
use gasnet_tools::timer::monotonic_ns;

/// A tool that waits for answers.
#[derive(Debug)]
struct Asker {
    stream: UnixStream,
    round: u32,
    /// Hosts that have not answered.
    missing: usize,
    /// Bytes for which the socket had no room.
    output: Vec<u8>,
}

/// The socket for tools, and those that have connected.
#[derive(Debug, Default)]
pub struct Tools {
    listener: Option<UnixListener>,
    askers: Vec<Asker>,
    /// The last round.
    round: u32,
}

impl Tools {
    /// Listens, and publishes the socket's name in the control block. Without a socket a tool sees
    /// the ranks of this host only.
    pub fn listen(control: &ControlBlock) -> Self {
        let number = random_u64();
        let bind = || {
            let name = SocketAddr::from_abstract_name(socket_name(number))?;
            let listener = UnixListener::bind_addr(&name)?;
            listener.set_nonblocking(true)?;
            io::Result::Ok(listener)
        };
        let listener = bind().ok();
        if listener.is_some() {
            control.answers().store(number, Ordering::Relaxed);
        }
        Self {
            listener,
            ..Self::default()
        }
    }

    pub fn poll_items(&self, items: &mut Vec<libc::pollfd>) {
        items.extend(self.listener.iter().map(|listener| fd::readable(listener.as_raw_fd())));
        // Tools send nothing; their end is always reported.
        items.extend(self.askers.iter().map(|asker| libc::pollfd {
            fd: asker.stream.as_raw_fd(),
            events: if asker.output.is_empty() { 0 } else { libc::POLLOUT },
            revents: 0,
        }));
    }

    /// Accepts a tool of the same user, or of root, that waits for this many hosts. Returns its
    /// round.
    fn accept(&mut self, hosts: usize) -> Option<u32> {
        let (stream, _) = self.listener.as_ref()?.accept().ok()?;
        let (_, user) = fd::peer_process(stream.as_raw_fd()).ok()?;
        if ![0, process::user()].contains(&user) || stream.set_nonblocking(true).is_err() {
            return None;
        }
        self.round = self.round.wrapping_add(1);
        self.askers.push(Asker {
            stream,
            round: self.round,
            missing: hosts,
            output: Vec::new(),
        });
        Some(self.round)
    }

    /// Passes a host's view on to the tool of its round.
    fn answer(&mut self, round: u32, frame: &[u8]) {
        for asker in self.askers.iter_mut().filter(|asker| asker.round == round) {
            asker.output.extend(frame);
            asker.missing = asker.missing.saturating_sub(1);
        }
    }

    /// Writes what the sockets take, and closes those that are done or broken.
    fn push(&mut self) {
        self.askers.retain_mut(|asker| {
            if fd::peer_is_gone(asker.stream.as_raw_fd()) {
                return false;
            }
            while !asker.output.is_empty() {
                match asker.stream.write(&asker.output) {
                    Ok(count) => drop(asker.output.drain(..count)),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
                }
            }
            asker.missing > 0
        });
    }
}

impl Agent<'_> {
    /// Starts a round for each new tool, and writes to those that wait.
    pub(super) fn serve_tools(&mut self) {
        let hosts = self.hosts_here();
        while let Some(round) = self.tools.accept(hosts) {
            self.look(round);
        }
        self.tools.push();
    }

    /// Views the ranks of this host, and asks the agents below for theirs.
    pub(super) fn look(&mut self, round: u32) {
        self.setup.tree.send_down(&AgentMessage::Look { round });
        if self.setup.host.is_some() {
            let (at, ranks) = (monotonic_ns(), ranks_here(&self.setup.control));
            self.pass_on(round, &AgentMessage::View { round, at, ranks });
        }
    }

    /// Passes a view on, to the agent above or to its tool.
    pub(super) fn pass_on(&mut self, round: u32, view: &AgentMessage) {
        if self.setup.tree.is_root() {
            self.tools.answer(round, &view.encode());
        } else {
            self.setup.tree.send_up(view);
        }
    }
}
