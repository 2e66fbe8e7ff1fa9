//! Ranks that a process manager has started: hydra, srun, prterun and their like. They have no agent, so they make one for each host.
//!
//! The ranks of a host find each other at a local socket, whose name follows from the job's: who binds it first leads. All tell the manager's store
//! where their host can be called; two fences, and the manager is not needed any more before the end. The leader forks the agent, which is nobody's
//! child. The agents call each other in a tree that follows from the numbers of the ranks, tell the first one which ranks they have, and hear from it
//! what the job looks like. Then each gives its ranks what forked ones are born with: lifeline, board, memory.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::agent::{self, Child, Post};
use super::board::Board;
use super::launch::{self, Common};
use super::map::Map;
use super::pmi::{self, PmiError, ProcessManager};
use super::spawn::Contact;
use super::tree::link::{self, Known, Link, Stranger};
use super::tree::message::{Host, Message};
use super::tree::secret::Secret;
use super::tree::{Branch, Tree};
use super::{lifeline, Job, JobError, StartOptions};
use crate::os::mem::AnonMemory;
use crate::os::process::{self, Fork, Pid, PidFd};
use crate::os::{cpus, fd, mem, net, signal};

/// Hosts that call one host, at most, if each has one rank.
const DEGREE: u32 = 16;
/// Addresses that a host tells.
const MOST_PLACES: usize = 16;
/// How long a rank waits for its leader beyond what its hosts may take.
const MARGIN: Duration = Duration::from_secs(30);

type Manager = Box<dyn ProcessManager>;

/// The manager, from [`meet`] to [`take_leave`].
static MANAGER: Mutex<Option<Manager>> = Mutex::new(None);

impl From<PmiError> for JobError {
    fn from(error: PmiError) -> Self {
        Self {
            message: error.to_string(),
        }
    }
}

fn failed(what: &str, error: &io::Error) -> JobError {
    JobError {
        message: format!("{what} failed: {error}"),
    }
}

/// Speaks to the manager: sets how many ranks there are.
pub(super) fn meet(kind: pmi::Kind, options: &mut StartOptions) -> Result<(), JobError> {
    let manager = pmi::connect(kind)?;
    if options.verbose && manager.rank() == 0 {
        eprintln!("gasnet: {} ranks of {}", manager.size(), manager.describe());
    }
    options.set_ranks(manager.size());
    *MANAGER.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(manager);
    Ok(())
}

/// This rank ends in order. May be called when there is no manager, and from any thread.
pub(super) fn take_leave() {
    // Somebody who holds it is on the way out, too.
    if let Some(mut manager) = MANAGER.try_lock().ok().and_then(|mut held| held.take()) {
        manager.finalize();
    }
}

/// What the ranks of a host meet at.
struct Meeting {
    rank: u32,
    /// To the leader, which may be this process.
    leader: UnixStream,
    /// At the leader: where the others of this host call.
    listener: Option<UnixListener>,
    /// At the leader: the other end of `leader`.
    own_end: Option<UnixStream>,
}

/// A rank, as its agent comes to know it.
struct Member {
    pid: Pid,
    process: PidFd,
    stream: UnixStream,
    cpus: Vec<u16>,
}

/// Where a host is called: its first rank, a port, addresses.
struct Place {
    first: u32,
    port: u16,
    places: Vec<String>,
}

impl Place {
    fn encode(&self) -> Vec<u8> {
        let text = self.places.join(" ");
        [&self.first.to_le_bytes()[..], &self.port.to_le_bytes(), text.as_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first_chunk::<4>()?;
        let (port, text) = rest.split_first_chunk::<2>()?;
        Some(Self {
            first: u32::from_le_bytes(*first),
            port: u16::from_le_bytes(*port),
            places: std::str::from_utf8(text).ok()?.split(' ').map(str::to_owned).collect(),
        })
    }
}

/// Joins the job of the manager that [`meet`] has met.
pub(super) fn join(options: &StartOptions) -> Result<Job, JobError> {
    let mut held = MANAGER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(manager) = held.as_mut() else {
        return Err(JobError {
            message: "defect: no process manager was met".into(),
        });
    };
    let joined = join_with(manager, options);
    if let Err(error) = &joined {
        eprintln!("gasnet: rank {}: {error}", manager.rank());
        manager.abort(1, &error.message);
    }
    joined
}

fn join_with(manager: &mut Manager, options: &StartOptions) -> Result<Job, JobError> {
    let rank = manager.rank();
    let mut meeting = Meeting::at(manager.job_id(), rank).map_err(|e| failed("meeting the other ranks of this host", &e))?;
    meeting
        .introduce()
        .map_err(|e| failed("meeting the other ranks of this host", &e))?;
    let secret = Secret::new();
    if rank == 0 {
        manager.put("secret", &secret.bytes())?;
    }
    manager.fence()?;
    let leading = match meeting.listener.take() {
        Some(listener) => Some(Leading::new(&listener, &mut meeting, options)?),
        None => None,
    };
    let place = read_block(&mut meeting.leader).map_err(|e| failed("hearing from the first rank of this host", &e))?;
    manager.put("at", &place)?;
    manager.fence()?;
    if let Some(leading) = leading {
        leading.start_agent(manager, options)?;
    }
    Welcome::wait(&mut meeting, options)?.job(rank, options)
}

impl Meeting {
    /// Binds or calls the socket of the job on this host.
    fn at(job: &str, rank: u32) -> io::Result<Self> {
        let name = format!("gasnet-{}-{job}", process::user());
        let address = SocketAddr::from_abstract_name(&name.as_bytes()[..name.len().min(100)])?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => {
                let (leader, own_end) = UnixStream::pair()?;
                Ok(Self {
                    rank,
                    leader,
                    listener: Some(listener),
                    own_end: Some(own_end),
                })
            }
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                let leader = UnixStream::connect_addr(&address)?;
                let (_, user) = fd::peer_process(leader.as_raw_fd())?;
                if user != process::user() {
                    return Err(io::Error::other(format!(
                        "user {user} holds the local socket {name} of this job"
                    )));
                }
                Ok(Self {
                    rank,
                    leader,
                    listener: None,
                    own_end: None,
                })
            }
            Err(e) => Err(e),
        }
    }

    /// Tells the leader who this is.
    fn introduce(&mut self) -> io::Result<()> {
        let process = PidFd::open(process::pid())?;
        let cpus: Vec<u8> = cpus::numbers().iter().flat_map(|&cpu| (cpu as u16).to_le_bytes()).collect();
        let hello = [&self.rank.to_le_bytes()[..], &cpus].concat();
        let length = (hello.len() as u32).to_le_bytes();
        fd::send_descriptors(self.leader.as_raw_fd(), &length, &[process.fd()])?;
        self.leader.write_all(&hello)
    }
}

/// Reads a length and as many bytes.
fn read_block(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    read_rest(stream, length)
}

fn read_rest(stream: &mut UnixStream, length: [u8; 4]) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(length) as usize;
    if length > 1 << 26 {
        return Err(io::Error::other("a message of an impossible length"));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn block(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

/// What the leader of a host has before it forks the agent.
struct Leading {
    members: BTreeMap<u32, Member>,
    listener: TcpListener,
    first: u32,
}

impl Leading {
    /// Lets all ranks of this host in, which have called before the fence, and tells them where it is called.
    fn new(calls: &UnixListener, meeting: &mut Meeting, options: &StartOptions) -> Result<Self, JobError> {
        let failed = |e: &io::Error| failed("letting in the other ranks of this host", e);
        let mut members = BTreeMap::new();
        calls.set_nonblocking(true).map_err(|e| failed(&e))?;
        let own = meeting.own_end.take();
        let others = std::iter::from_fn(|| match calls.accept() {
            Ok((stream, _)) => Some(stream),
            Err(_) => None,
        });
        for stream in own.into_iter().chain(others) {
            let (rank, member) = Member::admit(stream).map_err(|e| failed(&e))?;
            members.insert(rank, member);
        }
        let Some(&first) = members.keys().next() else {
            return Err(failed(&io::Error::other("not even this rank has called")));
        };
        let listener = link::listen(None).map_err(|e| failed(&e))?;
        let port = listener.local_addr().map_err(|e| failed(&e))?.port();
        let own: Vec<String> = match options.workers {
            Some(network) => vec![super::address_in(network)?.to_string()],
            None => net::addresses()
                .into_iter()
                .filter(|a| !a.ip.is_loopback())
                .map(|a| a.ip.to_string())
                .collect(),
        };
        let places = own.into_iter().take(MOST_PLACES).chain([net::host_name()]).collect();
        let place = block(&Place { first, port, places }.encode());
        for member in members.values_mut() {
            member.stream.write_all(&place).map_err(|e| failed(&e))?;
        }
        Ok(Self {
            members,
            listener,
            first,
        })
    }

    /// Forks the agent, as nobody's child, so that the client finds none that it does not know.
    fn start_agent(self, manager: &mut Manager, options: &StartOptions) -> Result<(), JobError> {
        let secret = manager.get(0, "secret")?;
        let secret: [u8; 16] = secret.try_into().map_err(|_| JobError {
            message: "the secret of the job did not come as it was sent".into(),
        })?;
        let secret = Secret::from_bytes(secret);
        let above = match self.first.checked_sub(1) {
            Some(before) => {
                let place = manager.get(before / DEGREE, "at")?;
                Some(Place::decode(&place).ok_or_else(|| JobError {
                    message: format!("what rank {} says of its host cannot be read", before / DEGREE),
                })?)
            }
            None => None,
        };
        process::flush_streams();
        let mask = signal::block_all();
        // SAFETY: as in a forked job: the child goes on with the allocator, which glibc keeps usable, and our own state.
        let forked = unsafe { process::fork() }.map_err(|e| failed("forking the agent of this host", &e));
        match forked {
            Ok(Fork::Parent(pid)) => {
                process::wait(pid);
                signal::set_mask(&mask);
                Ok(())
            }
            Ok(Fork::Child) => {
                // SAFETY: as above.
                if !matches!(unsafe { process::fork() }, Ok(Fork::Child)) {
                    process::end(0);
                }
                if let Some(descriptor) = manager.descriptor() {
                    fd::close_copy(descriptor);
                }
                signal::set_default(libc::SIGCHLD);
                self.be_agent(secret, above, options)
            }
            Err(error) => {
                signal::set_mask(&mask);
                Err(error)
            }
        }
    }

    fn be_agent(self, secret: Secret, above: Option<Place>, options: &StartOptions) -> ! {
        let end = |why: String| -> ! {
            eprintln!("gasnet: host {}: {why}", net::host_name());
            process::end(1);
        };
        let ranks: Vec<u32> = self.members.keys().copied().collect();
        let up = above.map(|place| {
            let contact = Contact {
                host: self.first,
                secret,
                port: place.port,
                places: place.places,
                chosen: true,
            };
            Link::call(&contact.addresses(None), secret, self.first).unwrap_or_else(|why| {
                end(format!(
                    "the host of rank {} cannot be connected ({why}); GASNET_WORKERIP names the network to use",
                    place.first
                ))
            })
        });
        let wanted = Discovery::new(self.first, ranks, up, secret, options);
        let (map, host, tree) = wanted.run(&self.listener).unwrap_or_else(|why| end(why));
        drop(self.listener);
        let post = welcome_all(options, map, host, tree, self.members).unwrap_or_else(|e| end(e.message));
        agent::serve(post);
    }
}

impl Member {
    fn admit(mut stream: UnixStream) -> io::Result<(u32, Self)> {
        let (pid, user) = fd::peer_process(stream.as_raw_fd())?;
        if user != process::user() {
            return Err(io::Error::other(format!(
                "process {pid} of user {user} called in the job's name"
            )));
        }
        stream.set_read_timeout(Some(MARGIN))?;
        let mut length = [0; 4];
        let (got, mut descriptors) = fd::receive_descriptors(stream.as_raw_fd(), &mut length)?;
        let process = descriptors.pop().filter(|_| got == 4).ok_or(io::ErrorKind::InvalidData)?;
        let hello = read_rest(&mut stream, length)?;
        let (rank, cpus) = hello.split_first_chunk::<4>().ok_or(io::ErrorKind::InvalidData)?;
        let cpus = cpus.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect();
        let member = Self {
            pid,
            process: PidFd::from(process),
            stream,
            cpus,
        };
        Ok((u32::from_le_bytes(*rank), member))
    }
}

/// How the agents find out what the job looks like.
struct Discovery<'a> {
    first: u32,
    up: Option<Link>,
    secret: Secret,
    options: &'a StartOptions,
    /// First rank, name and ranks of hosts that are known here: of this one and those below.
    hosts: BTreeMap<u32, (Vec<u8>, Vec<u32>)>,
    /// Those right below, by first rank: their connection, and the first ranks of the hosts that they have told of.
    below: Vec<(u32, Link, Vec<u32>)>,
    strangers: Vec<Stranger>,
}

impl<'a> Discovery<'a> {
    fn new(first: u32, ranks: Vec<u32>, up: Option<Link>, secret: Secret, options: &'a StartOptions) -> Self {
        let mut new = Self {
            first,
            up,
            secret,
            options,
            hosts: BTreeMap::new(),
            below: Vec::new(),
            strangers: Vec::new(),
        };
        new.note(first, net::host_name().into_bytes(), ranks);
        new
    }

    fn note(&mut self, first: u32, name: Vec<u8>, ranks: Vec<u32>) {
        if let Some(up) = &mut self.up {
            let (name, ranks) = (name.clone(), ranks.clone());
            up.send(&Message::Here { first, name, ranks });
        }
        self.hosts.insert(first, (name, ranks));
    }

    fn ranks_known(&self) -> usize {
        self.hosts.values().map(|(_, ranks)| ranks.len()).sum()
    }

    /// The layout of the job, this host's number, and the place in the tree.
    fn run(mut self, listener: &TcpListener) -> Result<(Map, u32, Tree), String> {
        let limit = self.options.remote.limit;
        let end = (!limit.is_zero()).then(|| Instant::now() + limit);
        let runs = loop {
            self.hear(listener)?;
            if let Some(up) = &mut self.up {
                up.push();
                match up.receive() {
                    Some(Message::Start { runs, .. }) => break runs,
                    Some(_) => return Err("it was told something else than what the job looks like".into()),
                    None => {}
                }
                if let Some(why) = up.broken() {
                    return Err(format!("the connection to the host above is lost: {why}"));
                }
            } else if self.ranks_known() >= self.options.ranks as usize {
                break self.layout()?;
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Err(format!(
                    "of {} ranks {} have been heard of after {} seconds, of {} hosts; connections between hosts may be blocked, or another \
                     network may be needed (GASNET_WORKERIP, GASNET_SPAWN_TIMEOUT)",
                    self.options.ranks,
                    self.ranks_known(),
                    limit.as_secs(),
                    self.hosts.len()
                ));
            }
            self.sleep(listener);
        };
        let map = Map::new(runs.clone(), self.options.nbrhd_max).ok_or("it was told of a job that cannot be")?;
        let number = |first: u32| {
            if first < map.size() {
                Ok(map.host_of(first))
            } else {
                Err("a rank is not in the job".to_owned())
            }
        };
        let host = number(self.first)?;
        let mut tree = Tree::new(self.secret, self.up);
        for (first, mut link, firsts) in self.below {
            link.send(&Message::Start {
                runs: runs.clone(),
                todo: Vec::new(),
            });
            let ranks = firsts
                .iter()
                .filter_map(|f| self.hosts.get(f))
                .map(|(_, ranks)| ranks.len() as u32)
                .sum();
            let name = self.hosts.get(&first).map(|(name, _)| name.clone()).unwrap_or_default();
            let number = number(first)?;
            tree.add(Branch::linked(Host { number, name }, firsts.len(), ranks, link));
        }
        Ok((map, host, tree))
    }

    /// At the first host: numbers hosts in the order of their first ranks.
    fn layout(&self) -> Result<Vec<super::map::Run>, String> {
        let mut hosts = vec![u32::MAX; self.options.ranks as usize];
        for (number, (_, ranks)) in self.hosts.values().enumerate() {
            for &rank in ranks {
                match hosts.get_mut(rank as usize) {
                    Some(place) if *place == u32::MAX => *place = number as u32,
                    _ => return Err(format!("rank {rank} was told of twice, or is not in the job")),
                }
            }
        }
        let map = Map::from_hosts(&hosts, 0).ok_or("not all ranks are on a host")?;
        Ok(map.runs().to_vec())
    }

    fn hear(&mut self, listener: &TcpListener) -> Result<(), String> {
        while let Some(stranger) = Stranger::accept(listener) {
            self.strangers.push(stranger);
        }
        for stranger in std::mem::take(&mut self.strangers) {
            match stranger.hear(self.secret) {
                Known::NotYet(stranger) => self.strangers.push(stranger),
                Known::Nobody => {}
                Known::Agent(first, link) => self.below.push((first, link, Vec::new())),
            }
        }
        let mut told = Vec::new();
        for (first, link, firsts) in &mut self.below {
            while let Some(message) = link.receive() {
                let Message::Here { first, name, ranks } = message else {
                    return Err("a host below said something else than which ranks it has".into());
                };
                firsts.push(first);
                told.push((first, name, ranks));
            }
            if let Some(why) = link.broken() {
                return Err(format!("the connection to the host of rank {first} is lost: {why}"));
            }
        }
        for (first, name, ranks) in told {
            self.note(first, name, ranks);
        }
        Ok(())
    }

    fn sleep(&self, listener: &TcpListener) {
        let links = self.up.iter().chain(self.below.iter().map(|(_, link, _)| link));
        let fds = links
            .map(Link::fd)
            .chain(self.strangers.iter().map(Stranger::fd))
            .chain([listener.as_raw_fd()]);
        let mut items: Vec<libc::pollfd> = fds
            .map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let _ = fd::poll(&mut items, Some(Duration::from_millis(100)));
    }
}

/// Makes what the ranks of this host share, and gives each its part.
fn welcome_all(
    options: &StartOptions,
    map: Map,
    host: u32,
    tree: Tree,
    members: BTreeMap<u32, Member>,
) -> Result<Post<'_>, JobError> {
    let map: &Map = Box::leak(Box::new(map));
    let ranks = map.ranks_on(host);
    let relayed = !tree.is_alone();
    let memory = launch::anon_memory(options, "gasnet-board")?;
    memory
        .resize(Board::bytes(map.size()))
        .map_err(|e| failed("making the memory of the job", &e))?;
    let board =
        Board::on(memory.fd(), map.size(), ranks.len() as u32, relayed).map_err(|e| failed("mapping the memory of the job", &e))?;
    let mut cpus: Vec<u16> = members.values().flat_map(|m| m.cpus.iter().copied()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let runs = Message::Start {
        runs: map.runs().to_vec(),
        todo: Vec::new(),
    };
    let mut children = Vec::new();
    let mut shared: Option<(u32, (AnonMemory, AnonMemory))> = None;
    for (rank, mut member) in members {
        let nbrhd = map.nbrhd_of(rank);
        let (_, (comm, segment)) = match shared.take().filter(|(of, _)| *of == nbrhd) {
            Some(same) => shared.insert(same),
            None => shared.insert((nbrhd, launch::nbrhd_memory(options)?)),
        };
        let (ours, theirs) = fd::seqpacket_pair().map_err(|e| failed("a socket", &e))?;
        let head = [
            tree.secret().token().to_le_bytes(),
            (u64::from(cpus::capped(cpus.len() as u32)) << 32 | u64::from(relayed)).to_le_bytes(),
        ]
        .concat();
        let words = block(&[&head[..], &runs.encode()].concat());
        let descriptors = [theirs.as_raw_fd(), memory.fd(), comm.fd(), segment.fd()];
        let sent = fd::send_descriptors(member.stream.as_raw_fd(), &words[..4], &descriptors);
        // A rank that has died is noticed by its end.
        let _ = sent.and_then(|()| member.stream.write_all(&words[4..]));
        children.push(Child::adopted(rank, member.pid, member.process, ours));
    }
    Ok(Post {
        options,
        map,
        host: Some(host),
        board,
        children,
        tree,
    })
}

/// What a rank is given by its agent.
struct Welcome {
    map: Map,
    token: u64,
    cpus: u32,
    relayed: bool,
    descriptors: [OwnedFd; 4],
}

impl Welcome {
    fn wait(meeting: &mut Meeting, options: &StartOptions) -> Result<Self, JobError> {
        let gone = |e: &io::Error| JobError {
            message: format!(
                "the agent of host {} could not start the job ({e}); what it says is above",
                net::host_name()
            ),
        };
        let limit = options.remote.limit;
        let limit = (!limit.is_zero()).then(|| limit + MARGIN);
        meeting.leader.set_read_timeout(limit).map_err(|e| gone(&e))?;
        let mut length = [0; 4];
        let (got, descriptors) = fd::receive_descriptors(meeting.leader.as_raw_fd(), &mut length).map_err(|e| gone(&e))?;
        let descriptors = descriptors.try_into().ok().filter(|_| got == 4);
        let descriptors: [OwnedFd; 4] = descriptors.ok_or_else(|| gone(&io::Error::other("it is gone")))?;
        let words = read_rest(&mut meeting.leader, length).map_err(|e| gone(&e))?;
        Self::decode(&words, descriptors, options).ok_or_else(|| gone(&io::Error::other("its words cannot be read")))
    }

    fn decode(words: &[u8], descriptors: [OwnedFd; 4], options: &StartOptions) -> Option<Self> {
        let (token, rest) = words.split_first_chunk::<8>()?;
        let (numbers, runs) = rest.split_first_chunk::<8>()?;
        let numbers = u64::from_le_bytes(*numbers);
        let Ok(Some(Message::Start { runs, .. })) = Message::decode(&mut runs.to_vec()) else {
            return None;
        };
        Some(Self {
            map: Map::new(runs, options.nbrhd_max)?,
            token: u64::from_le_bytes(*token),
            cpus: (numbers >> 32) as u32,
            relayed: numbers & 1 != 0,
            descriptors,
        })
    }

    fn job(self, rank: u32, options: &StartOptions) -> Result<Job, JobError> {
        let [own_end, board, comm, segment] = self.descriptors;
        if rank >= self.map.size() {
            return Err(JobError {
                message: format!(
                    "rank {rank} is not in the job of {} ranks that its agent tells of",
                    self.map.size()
                ),
            });
        }
        let host = self.map.host_of(rank);
        let here = self.map.ranks_on(host).len() as u32;
        let board = Board::on(board.as_raw_fd(), self.map.size(), here, self.relayed)
            .map_err(|e| failed("mapping the memory of the job", &e))?;
        lifeline::attach(own_end.as_fd());
        lifeline::check(own_end.as_raw_fd());
        let common = Common {
            board,
            token: self.token,
            cpus: self.cpus,
            map: self.map,
            host: Some(host),
        };
        let memory = (mem::AnonMemory::from_fd(comm), mem::AnonMemory::from_fd(segment));
        Ok(launch::job(options, &common, rank, memory, Some(own_end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_travel() {
        let place = Place {
            first: 9,
            port: 4711,
            places: vec!["10.0.0.1".into(), "fd77::1".into()],
        };
        let back = Place::decode(&place.encode()).unwrap();
        assert_eq!((back.first, back.port, back.places), (place.first, place.port, place.places));
        assert!(Place::decode(&[0; 5]).is_none() && Place::decode(&[0xff; 9]).is_none());
    }

    #[test]
    fn who_binds_first_leads_and_the_others_are_let_in() {
        let job = format!("test-{}", mem::random_u64());
        let mut first = Meeting::at(&job, 5).unwrap();
        let mut second = Meeting::at(&job, 3).unwrap();
        assert!(first.listener.is_some() && second.listener.is_none());
        first.introduce().unwrap();
        second.introduce().unwrap();
        let listener = first.listener.take().unwrap();
        let options = StartOptions::from_config(&crate::config::Config::defaults(&[]), &["smp"], false).unwrap();
        let leading = Leading::new(&listener, &mut first, &options).unwrap();
        assert_eq!(leading.members.keys().copied().collect::<Vec<_>>(), [3, 5]);
        let place = Place::decode(&read_block(&mut second.leader).unwrap()).unwrap();
        assert_eq!((place.first, leading.first), (3, 3));
    }
}
