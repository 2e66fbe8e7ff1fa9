//! The tree of node agents of a job. Each has a connection to the agent above, except the root, and
//! to those below: agents that it has started, or that have connected to it. Events travel up;
//! decisions of the root travel down.
#![forbid(unsafe_code)]

pub mod frames;
pub mod link;
pub mod listener;
pub mod message;
pub mod secret;

use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Weak;
use std::time::{Duration, Instant};

use gasnet_sys::fd;
use gasnet_sys::process::{self, Pid};
use link::{Link, OutputLink, Up};
use listener::{Caller, Listener};
use message::{AgentMessage, Host, RankCounts};
use secret::Secret;

/// Limit for a remote shell to end after its host, not counting time in which it waits for the
/// reader of this process's output.
const SHELL_END: Duration = Duration::from_secs(5);
/// Limit after SIGTERM.
const SHELL_END_BY_FORCE: Duration = Duration::from_secs(1);

/// A host directly below this one, with all hosts below it.
#[derive(Debug)]
pub struct Branch {
    pub host: Host,
    /// The hosts that it starts.
    pub todo: Vec<Host>,
    /// Number of hosts in the branch.
    pub hosts: usize,
    /// The last report of its ranks.
    pub counts: RankCounts,
    /// The remote shell that has started it.
    pub shell: Option<Pid>,
    /// If rank 0 is on it: where to write rank 0's input, and the start-up line that comes before.
    pub input: Option<(OwnedFd, Vec<u8>)>,
    link: Option<Link>,
    /// Its connections for output, by stream. The forwarding threads own them.
    outputs: Vec<(u32, Weak<TcpStream>)>,
    /// When its agent last sent a message.
    last_message: Instant,
    lost: bool,
}

impl Branch {
    /// A host that has not connected yet, with `ranks` ranks in its branch.
    pub fn new(host: Host, todo: Vec<Host>, ranks: u32) -> Self {
        Self {
            host,
            hosts: 1 + todo.len(),
            todo,
            counts: RankCounts {
                running: ranks,
                present: ranks,
                ..RankCounts::default()
            },
            shell: None,
            input: None,
            link: None,
            outputs: Vec::new(),
            last_message: Instant::now(),
            lost: false,
        }
    }

    /// Whether its agent has opened all connections, of which `outputs` are for output.
    fn has_called(&self, outputs: usize) -> bool {
        self.lost || (self.link.is_some() && self.outputs.len() == outputs)
    }

    /// Its ranks are lost, and so is their output that was not read yet.
    fn lose(&mut self) {
        self.lost = true;
        for connection in self.outputs.iter().filter_map(|(_, connection)| connection.upgrade()) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Whether no more messages can come from it.
    fn is_over(&self) -> bool {
        self.lost || (self.counts.present == 0 && self.link.as_ref().is_some_and(|l| l.broken.is_some()))
    }
}

#[derive(Debug)]
pub enum TreeEvent {
    /// A message from the agent above.
    Down(AgentMessage),
    /// A message from a branch.
    Up(AgentMessage),
    /// A connection for stream 1 or 2 of the output of a branch.
    Output(u32, OutputLink),
    /// A branch and all its ranks are lost, for this reason.
    Lost(String),
    /// The agent above is lost.
    Orphaned,
}

/// The connections of this agent.
#[derive(Debug)]
pub struct Tree {
    pub secret: Secret,
    /// The connections to the agent above, except at the root.
    pub up: Option<Up>,
    /// Connections for output that each branch opens.
    outputs: usize,
    /// None once all branches have connected. Until then checks are due even without input.
    pub listener: Option<Listener>,
    /// The hosts directly below.
    pub branches: Vec<Branch>,
    /// When to give up branches that have not connected.
    give_up: Option<Instant>,
}

impl Tree {
    /// An agent without others.
    pub fn alone() -> Self {
        Self::new(Secret::new(), None, false)
    }

    /// An agent below `up`, if there is one. With `routed` output travels up the tree.
    pub fn new(secret: Secret, up: Option<Up>, routed: bool) -> Self {
        Self {
            secret,
            up,
            outputs: if routed { 2 } else { 0 },
            listener: None,
            branches: Vec::new(),
            give_up: None,
        }
    }

    /// Whether this is the root, which decides.
    pub fn is_root(&self) -> bool {
        self.up.is_none()
    }

    /// Branches will connect to `listener`, within `limit` if there is one.
    pub fn expect(&mut self, listener: Listener, branches: Vec<Branch>, limit: Option<Duration>) {
        self.listener = Some(listener);
        self.branches = branches;
        self.give_up = limit.map(|limit| Instant::now() + limit);
    }

    /// Limits the time for branches that have not connected yet.
    pub fn limit_connect_time(&mut self, limit: Duration) {
        let at = Instant::now() + limit;
        self.give_up = Some(self.give_up.map_or(at, |given| given.min(at)));
    }

    /// Whether all branches have connected.
    pub fn is_complete(&self) -> bool {
        self.branches.iter().all(|branch| branch.has_called(self.outputs))
    }

    /// The hosts of branches that have connected, and of all.
    pub fn connected(&self) -> (usize, usize) {
        let called = self.branches.iter().filter(|branch| branch.has_called(self.outputs));
        let all = self.branches.iter();
        (called.map(|b| b.hosts).sum(), all.map(|b| b.hosts).sum())
    }

    /// The address of this host that the tree uses, once there is a connection; a loopback address
    /// only if there is no other.
    pub fn own_address(&self) -> Option<IpAddr> {
        self.links()
            .filter_map(Link::own_address)
            .min_by_key(IpAddr::is_loopback)
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        let up = self.up.iter().map(|up| &up.link);
        up.chain(self.branches.iter().filter_map(|b| b.link.as_ref()))
    }

    /// The ranks below this host.
    pub fn counts(&self, epoch: u32) -> RankCounts {
        let mut sum = RankCounts {
            epoch,
            waiting: u32::MAX,
            idle: u32::MAX,
            ..RankCounts::default()
        };
        for branch in self.branches.iter().filter(|b| !b.is_over()) {
            sum.add(&branch.counts);
        }
        sum
    }

    /// Whether no branch will send any more messages.
    pub fn is_over(&self) -> bool {
        self.branches.iter().all(Branch::is_over)
    }

    pub fn send_up(&mut self, message: &AgentMessage) {
        if let Some(up) = &mut self.up {
            up.link.send(message);
        }
    }

    pub fn send_down(&mut self, message: &AgentMessage) {
        self.branches
            .iter_mut()
            .filter_map(|b| b.link.as_mut())
            .for_each(|link| link.send(message));
    }

    pub fn poll_items(&self, items: &mut Vec<libc::pollfd>) {
        items.extend(self.links().map(Link::poll_item));
        self.listener.iter().for_each(|listener| listener.poll_items(items));
    }

    /// New events. `first_messages` returns the first messages for a branch that connects.
    pub fn events(&mut self, first_messages: impl Fn(&Branch) -> Vec<AgentMessage>) -> Vec<TreeEvent> {
        let mut events = self.accept_branches(first_messages);
        if let Some(up) = &mut self.up {
            while let Some(message) = up.link.receive() {
                events.push(TreeEvent::Down(message));
            }
            if up.link.broken.is_some() {
                events.push(TreeEvent::Orphaned);
            }
        }
        for branch in &mut self.branches {
            let Some(link) = &mut branch.link else { continue };
            while let Some(message) = link.receive() {
                branch.last_message = Instant::now();
                if let AgentMessage::Report { counts } = message {
                    branch.counts = counts;
                }
                events.push(TreeEvent::Up(message));
            }
            if let Some(why) = link
                .broken
                .as_ref()
                .filter(|_| branch.counts.present > 0 && !branch.lost)
            {
                let why = format!("the connection to host {} is lost: {why}", branch.host.shown());
                branch.lose();
                events.push(TreeEvent::Lost(why));
            }
        }
        events.extend(self.give_up());
        events
    }

    /// Gives up branches that were silent for `limit`: their hosts respond, but their agents do not
    /// run. Returns a message for each.
    pub fn silent(&mut self, limit: Duration) -> Vec<String> {
        let now = Instant::now();
        let here = |b: &&mut Branch| b.link.is_some() && !b.is_over() && now >= b.last_message + limit;
        let lose = |branch: &mut Branch| {
            branch.lose();
            branch.link = None;
            format!(
                "the node agent on host {} has been silent for {} seconds; it may be stopped",
                branch.host.shown(),
                limit.as_secs()
            )
        };
        self.branches.iter_mut().filter(here).map(lose).collect()
    }

    /// Accepts connections of the job's agents. Returns those for output.
    fn accept_branches(&mut self, first_messages: impl Fn(&Branch) -> Vec<AgentMessage>) -> Vec<TreeEvent> {
        let mut events = Vec::new();
        let Some(listener) = &mut self.listener else {
            return events;
        };
        for caller in listener.accept(self.secret, self.branches.len()) {
            match caller {
                Caller::Agent(host, mut link) => {
                    let is_it = |b: &&mut Branch| b.host.number == host && b.link.is_none() && !b.lost;
                    if let Some(branch) = self.branches.iter_mut().find(is_it) {
                        for message in first_messages(branch) {
                            link.send(&message);
                        }
                        branch.link = Some(link);
                    }
                }
                Caller::Output(host, stream, connection) => {
                    let lacks = |b: &&mut Branch| {
                        b.host.number == host && !b.lost && b.outputs.iter().all(|(known, _)| *known != stream)
                    };
                    if let Some(branch) = self.branches.iter_mut().find(lacks) {
                        branch.outputs.push((stream, connection.stream()));
                        events.push(TreeEvent::Output(stream, connection));
                    }
                }
            }
        }
        if self.is_complete() {
            self.listener = None;
        }
        events
    }

    /// Gives up branches that cannot connect any more: their remote shell has ended, or their time
    /// is over.
    fn give_up(&mut self) -> Vec<TreeEvent> {
        let late = self.give_up.is_some_and(|at| Instant::now() >= at);
        let mut events = Vec::new();
        let outputs = self.outputs;
        for branch in self.branches.iter_mut().filter(|b| !b.has_called(outputs)) {
            let ended = branch.shell.and_then(process::reap);
            let name = branch.host.shown().into_owned();
            let why = match ended {
                Some(ended) => {
                    branch.shell = None;
                    format!(
                        "the remote shell for host {name} {ended} before the program there called back. See \
                         its own messages above. Check that it runs by hand, and that the program has the same \
                         path on that host"
                    )
                }
                None if late => format!(
                    "the program on host {name} has not called back. If the remote shell works, connections \
                     from there to this host may be blocked. GASNET_MASTERIP (GASNET_WORKERIP with a process \
                     manager) sets the address to use, GASNET_SPAWN_TIMEOUT the time limit"
                ),
                None => continue,
            };
            branch.lose();
            events.push(TreeEvent::Lost(why));
        }
        events
    }

    /// Ends the tree: sends what is queued for the agent above, and waits for remote shells. These
    /// may wait for a stalled reader of this process's output until a signal asks for the end.
    /// Whether shells had to be killed.
    pub fn close(mut self, mut is_asked: impl FnMut() -> bool) -> bool {
        if let Some(up) = &mut self.up {
            up.link.finish(SHELL_END);
        }
        for branch in &mut self.branches {
            (branch.link, branch.input) = (None, None);
        }
        let mut shells: Vec<Pid> = self.branches.iter().filter_map(|b| b.shell).collect();
        for (limit, number) in [(SHELL_END, libc::SIGTERM), (SHELL_END_BY_FORCE, libc::SIGKILL)] {
            let may_wait = || number == libc::SIGTERM && !is_asked();
            if ended_within(&mut shells, limit, may_wait) {
                return number == libc::SIGKILL;
            }
            // A shell may be a script: its children are in its process group.
            for &pid in &shells {
                process::kill(-pid, number);
            }
        }
        for shell in shells {
            process::wait(shell);
        }
        true
    }

    pub fn is_alone(&self) -> bool {
        self.up.is_none() && self.branches.is_empty()
    }

    /// Ends the tree at once: terminates remote shells and closes connections.
    pub fn abandon(&mut self) {
        for pid in self.branches.iter_mut().filter_map(|b| b.shell.take()) {
            process::kill(-pid, libc::SIGTERM);
        }
        self.branches.clear();
        self.up = None;
    }
}

/// Reaps those of `processes` that have ended; whether all have within `limit`. They write to the
/// same output as this process: while its reader stalls and `may_wait` says so, the limit does not
/// run.
fn ended_within(processes: &mut Vec<Pid>, limit: Duration, mut may_wait: impl FnMut() -> bool) -> bool {
    let mut end = Instant::now() + limit;
    let mut step = Duration::from_micros(200);
    loop {
        processes.retain(|&pid| process::reap(pid).is_none());
        if (!fd::is_writable(1) || !fd::is_writable(2)) && may_wait() {
            end = Instant::now() + limit;
        }
        if processes.is_empty() || Instant::now() >= end {
            return processes.is_empty();
        }
        std::thread::sleep(step);
        step = (step * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_broken_agent_do_not_wrap() {
        let host = |number| Host {
            number,
            name: Vec::new(),
        };
        let mut tree = Tree::alone();
        tree.branches = vec![
            Branch::new(host(1), Vec::new(), u32::MAX),
            Branch::new(host(2), Vec::new(), 2),
        ];
        let counts = tree.counts(0);
        assert_eq!((counts.running, counts.present), (u32::MAX, u32::MAX));
    }
}
