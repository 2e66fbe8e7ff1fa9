//! The agents of a job's hosts form a tree. Each has a connection to the one above it, but for the first, and to those that it has started or
//! that have called it. What happens on one host travels up; what is decided at the first host travels down.
#![forbid(unsafe_code)]

pub mod link;
pub mod message;
pub mod secret;

use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use gasnet_sys::fd;
use gasnet_sys::process::{self, Pid};
use link::{Authentication, Link, UnauthenticatedPeer};
use message::{AgentMessage, Host, RankCounts};
use secret::Secret;

/// How long a remote shell may take to end when its host has, not counting the time that it waits for the reader of this process's output.
const SHELL_END: Duration = Duration::from_secs(5);
/// How long it may take when it was told to.
const SHELL_END_BY_FORCE: Duration = Duration::from_secs(1);

/// A host right below this one, and all that are below it.
#[derive(Debug)]
pub struct Branch {
    /// The host.
    pub host: Host,
    /// The hosts that it shall start itself.
    pub todo: Vec<Host>,
    /// Hosts in its part of the job.
    pub hosts: usize,
    /// What it has last said of its part of the job.
    pub counts: RankCounts,
    /// The remote shell that has started it.
    pub shell: Option<Pid>,
    /// Where to write what rank 0 shall read, if it is right there, and what the shell is to read before that.
    pub input: Option<(OwnedFd, Vec<u8>)>,
    link: Option<Link>,
    /// Its connections for output, by stream, and how many of them were handed out.
    outputs: Vec<(u32, TcpStream)>,
    handed_out: usize,
    /// When its agent last said something.
    heard: Instant,
    lost: bool,
}

impl Branch {
    /// A host with `ranks` ranks in its part of the job, which has not called yet.
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
            handed_out: 0,
            heard: Instant::now(),
            lost: false,
        }
    }

    /// A host that has called, with others below it.
    pub fn linked(host: Host, hosts: usize, ranks: u32, link: Link, outputs: Vec<(u32, u32, TcpStream)>) -> Self {
        let mut branch = Self::new(host, Vec::new(), ranks);
        branch.hosts = hosts;
        branch.link = Some(link);
        branch.outputs = outputs
            .into_iter()
            .map(|(_, stream, connection)| (stream, connection))
            .collect();
        branch
    }

    /// Whether its agent has opened all connections, of which so many are for output.
    fn has_called(&self, outputs: usize) -> bool {
        self.lost || (self.link.is_some() && self.outputs.len() == outputs)
    }

    /// Its ranks are lost. What they have written and was not read yet is, too.
    fn lose(&mut self) {
        self.lost = true;
        for (_, connection) in &self.outputs {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Whether nothing more comes from it.
    fn is_over(&self) -> bool {
        self.lost || (self.counts.present == 0 && self.link.as_ref().is_some_and(|l| l.broken().is_some()))
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(&self.host.name).into_owned()
    }
}

/// What has come.
#[derive(Debug)]
pub enum Event {
    /// From the agent above.
    Down(AgentMessage),
    /// From a branch.
    Up(AgentMessage),
    /// A connection for stream 1 or 2 of the output of a branch.
    Output(u32, TcpStream),
    /// A branch is lost; all its ranks are. With the reason.
    Lost(String),
    /// The agent above is lost.
    Orphaned,
}

/// This agent's place in the tree.
#[derive(Debug)]
pub struct Tree {
    secret: Secret,
    up: Option<Link>,
    /// Connections for output to the agent above.
    outputs_up: Option<[TcpStream; 2]>,
    /// Connections for output that each branch opens.
    outputs: usize,
    listener: Option<TcpListener>,
    unauthenticated: Vec<UnauthenticatedPeer>,
    branches: Vec<Branch>,
    /// When it gives up waiting for those who have not called.
    give_up: Option<Instant>,
}

impl Tree {
    /// With nobody above and nobody below.
    pub fn alone() -> Self {
        Self::new(Secret::new(), None, false)
    }

    /// Below `up`. With `routed` output travels up the tree.
    pub fn new(secret: Secret, up: Option<Link>, routed: bool) -> Self {
        Self {
            secret,
            up,
            outputs_up: None,
            outputs: if routed { 2 } else { 0 },
            listener: None,
            unauthenticated: Vec::new(),
            branches: Vec::new(),
            give_up: None,
        }
    }

    /// What all agents know.
    pub fn secret(&self) -> Secret {
        self.secret
    }

    /// Whether this is the first agent, which decides.
    pub fn is_root(&self) -> bool {
        self.up.is_none()
    }

    /// The branches will call here, within `limit` if there is one.
    pub fn expect(&mut self, listener: TcpListener, branches: Vec<Branch>, limit: Option<Duration>) {
        self.listener = Some(listener);
        self.branches = branches;
        self.give_up = limit.map(|limit| Instant::now() + limit);
    }

    /// Those who have not called may only take so much longer.
    pub fn hurry(&mut self, limit: Duration) {
        let at = Instant::now() + limit;
        self.give_up = Some(self.give_up.map_or(at, |given| given.min(at)));
    }

    /// Whether all branches have called.
    pub fn is_complete(&self) -> bool {
        self.branches.iter().all(|branch| branch.has_called(self.outputs))
    }

    /// Connections for output to the agent above.
    pub fn set_outputs(&mut self, outputs: Option<[TcpStream; 2]>) {
        self.outputs_up = outputs;
    }

    /// The connections for output to the agent above, once.
    pub fn take_outputs(&mut self) -> Option<[TcpStream; 2]> {
        self.outputs_up.take()
    }

    /// Adds a branch that has called already.
    pub fn add(&mut self, branch: Branch) {
        self.branches.push(branch);
    }

    /// The branches.
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// Where to write what rank 0 shall read, if it is on a host right below, and what is to be written before that.
    pub fn take_input(&mut self) -> Option<(OwnedFd, Vec<u8>)> {
        self.branches.iter_mut().find_map(|b| b.input.take())
    }

    /// The address of this host that the tree uses, once there is a connection; that of the loop-back interface only if there is no other.
    pub fn own_address(&self) -> Option<IpAddr> {
        let links = self.up.iter().chain(self.branches.iter().filter_map(|b| b.link.as_ref()));
        links.filter_map(Link::own_address).min_by_key(IpAddr::is_loopback)
    }

    /// Ranks below this host.
    pub fn counts(&self, epoch: u32) -> RankCounts {
        let mut sum = RankCounts {
            epoch,
            waiting: u32::MAX,
            idle: u32::MAX,
            ..RankCounts::default()
        };
        for counts in self.branches.iter().filter(|b| !b.is_over()).map(|b| b.counts) {
            sum.running += counts.running;
            sum.present += counts.present;
            if counts.running > 0 {
                let seen = |times| if counts.epoch == epoch { times } else { 0 };
                sum.waiting = sum.waiting.min(seen(counts.waiting));
                sum.idle = sum.idle.min(seen(counts.idle));
            }
        }
        sum
    }

    /// Whether no branch will say anything more.
    pub fn is_over(&self) -> bool {
        self.branches.iter().all(Branch::is_over)
    }

    /// Tells the agent above.
    pub fn send_up(&mut self, message: &AgentMessage) {
        if let Some(up) = &mut self.up {
            up.send(message);
        }
    }

    /// Tells all agents below.
    pub fn send_down(&mut self, message: &AgentMessage) {
        self.branches
            .iter_mut()
            .filter_map(|b| b.link.as_mut())
            .for_each(|link| link.send(message));
    }

    /// Descriptors to wait for.
    pub fn poll_items(&self, items: &mut Vec<libc::pollfd>) {
        let links = self.up.iter().chain(self.branches.iter().filter_map(|b| b.link.as_ref()));
        link::poll_items(links, &self.unauthenticated, self.listener.as_ref(), items);
    }

    /// Whether time matters although nothing comes: strangers and those who have not called wear patience out.
    pub fn is_impatient(&self) -> bool {
        !self.unauthenticated.is_empty() || self.listener.is_some()
    }

    /// What has come. `welcome` is what a branch hears when it calls.
    pub fn events(&mut self, welcome: impl Fn(&Branch) -> Vec<AgentMessage>) -> Vec<Event> {
        self.meet(welcome);
        let mut events = Vec::new();
        if let Some(up) = &mut self.up {
            up.push();
            while let Some(message) = up.receive() {
                events.push(Event::Down(message));
            }
            if up.broken().is_some() {
                events.push(Event::Orphaned);
            }
        }
        for branch in &mut self.branches {
            let new = &branch.outputs[branch.handed_out..];
            let copies = new
                .iter()
                .filter_map(|(stream, c)| Some(Event::Output(*stream, c.try_clone().ok()?)));
            events.extend(copies);
            branch.handed_out = branch.outputs.len();
            let Some(link) = &mut branch.link else { continue };
            link.push();
            while let Some(message) = link.receive() {
                branch.heard = Instant::now();
                if let AgentMessage::Report(counts) = message {
                    branch.counts = counts;
                }
                events.push(Event::Up(message));
            }
            if let Some(why) = link.broken().filter(|_| branch.counts.present > 0 && !branch.lost) {
                let why = format!(
                    "the connection to host {} is lost: {why}",
                    String::from_utf8_lossy(&branch.host.name)
                );
                branch.lose();
                events.push(Event::Lost(why));
            }
        }
        events.extend(self.give_up());
        events
    }

    /// Branches whose agents have said nothing for `limit`, although they should: their systems answer, but they do not run.
    pub fn silent(&mut self, limit: Duration) -> Vec<String> {
        let now = Instant::now();
        let here = |b: &&mut Branch| b.link.is_some() && !b.is_over() && now >= b.heard + limit;
        let lose = |branch: &mut Branch| {
            branch.lose();
            branch.link = None;
            format!(
                "the agent on host {} has said nothing for {} seconds; it may be stopped",
                branch.name(),
                limit.as_secs()
            )
        };
        self.branches.iter_mut().filter(here).map(lose).collect()
    }

    /// Lets callers in who are of the job.
    fn meet(&mut self, welcome: impl Fn(&Branch) -> Vec<AgentMessage>) {
        let Some(listener) = &self.listener else { return };
        link::accept_peers(listener, &mut self.unauthenticated, self.branches.len());
        for peer in std::mem::take(&mut self.unauthenticated) {
            match peer.hear(self.secret) {
                Authentication::Pending(peer) => self.unauthenticated.push(peer),
                Authentication::Rejected => {}
                Authentication::Accepted(host, mut link) => {
                    let is_it = |b: &&mut Branch| b.host.number == host && b.link.is_none() && !b.lost;
                    if let Some(branch) = self.branches.iter_mut().find(is_it) {
                        for message in welcome(branch) {
                            link.send(&message);
                        }
                        branch.link = Some(link);
                    }
                }
                Authentication::Output(host, stream, connection) => {
                    let lacks = |b: &&mut Branch| b.host.number == host && b.outputs.iter().all(|(s, _)| *s != stream);
                    if let Some(branch) = self.branches.iter_mut().find(lacks).filter(|b| !b.lost) {
                        branch.outputs.push((stream, connection));
                    }
                }
            }
        }
        if self.is_complete() {
            self.listener = None;
            self.unauthenticated.clear();
        }
    }

    /// Branches that will never call: their remote shell has ended, or they have had their time.
    fn give_up(&mut self) -> Vec<Event> {
        let late = self.give_up.is_some_and(|at| Instant::now() >= at);
        let mut events = Vec::new();
        let outputs = self.outputs;
        for branch in self.branches.iter_mut().filter(|b| !b.has_called(outputs)) {
            let ended = branch.shell.and_then(process::reap);
            let name = branch.name();
            let why = match ended {
                Some(ended) => {
                    branch.shell = None;
                    format!(
                        "the remote shell for host {name} {ended} before the program there had called back. Its own words, if any, are above; \
                         see whether it can be run by hand, and whether the program is at the same place on that host"
                    )
                }
                None if late => format!(
                    "the program on host {name} has not called back. If the remote shell works, connections from there to this host may be \
                     blocked: GASNET_MASTERIP names the address to use, GASNET_SPAWN_TIMEOUT how long to wait"
                ),
                None => continue,
            };
            branch.lose();
            events.push(Event::Lost(why));
        }
        events
    }

    /// The end: what is still to be said above is said, and remote shells end, which may wait for a reader of this process's output who pauses, until
    /// somebody has asked for the end. Whether shells had to be ended.
    pub fn close(mut self, mut is_asked: impl FnMut() -> bool) -> bool {
        if let Some(up) = &mut self.up {
            up.finish(SHELL_END);
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
            // A shell may be a script: what it runs is in its group.
            for &pid in &shells {
                process::kill(-pid, number);
            }
        }
        shells.into_iter().for_each(process::wait);
        true
    }

    /// Whether there is no other agent.
    pub fn is_alone(&self) -> bool {
        self.up.is_none() && self.branches.is_empty()
    }

    /// In a new rank: closes the copies of all connections.
    pub fn forget(&mut self) {
        *self = Self::alone();
    }

    /// The end of an agent that nobody needs any more: remote shells are killed, connections close.
    pub fn abandon(&mut self) {
        for pid in self.branches.iter_mut().filter_map(|b| b.shell.take()) {
            process::kill(-pid, libc::SIGTERM);
        }
        self.branches.clear();
        self.up = None;
    }
}

/// Collects those of `processes`, which write where this one does, that have ended; whether that was all of them before `limit`, from when the reader has
/// gone on if they may wait for one who pauses.
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
