//! The NIC: takes work in any order, sends fragments, and reports completions late. Its work at the
//! target of operations is in [`crate::target`].
//!
//! Time is counted in passes. A pass advances everything once.

use crate::arrivals::Arrival;
use crate::barrier::Round;
use crate::memory::{self, Memory};
use crate::queue::{Content, Kind, Operation, Source, Work};
use crate::random::Random;
use crate::start::{Net, STOPPED};
use crate::target::Placement;
use crate::wire::{At, Message, FRAGMENT, LARGEST};
use gasnet_conduit::{Completion, JobRank};
use gasnet_sys::{fd, lock};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;

/// Passes after which work is taken, or a completion reported: fewer than this.
const DELAY: usize = 12;
/// Most fragments of an operation that are not answered.
const WINDOW: usize = 4;
/// Messages to a peer that the NIC holds while the link is full, without those that answer.
const HELD: usize = 8;
/// Most messages from a link in a pass.
const RECEIVED: usize = 16;

/// An operation that the NIC has taken.
#[derive(Debug)]
struct Active {
    operation: Operation,
    /// Fragments to be sent, by number.
    unsent: Vec<usize>,
    /// Fragments in all.
    fragments: usize,
    /// Fragments sent but not answered.
    unanswered: usize,
    /// Whether the packet of a put with notification precedes its fragments.
    packet_first: bool,
}

/// The state of the NIC's thread.
#[derive(Debug)]
pub struct Nic {
    random: Random,
    /// Work, and the passes until it is taken.
    waiting: Vec<(usize, Work)>,
    /// By number, so that the order is that of the seed.
    active: BTreeMap<u64, Active>,
    /// Operations so far.
    count: u64,
    /// Completions, and the passes until they are reported.
    late: Vec<(usize, Arrival)>,
    /// Messages to be sent, by rank.
    pub out: Vec<VecDeque<Vec<u8>>>,
    /// Whether the link may have input, by rank.
    pub open: Vec<bool>,
    /// Puts with notification that arrive here, by initiator and number.
    pub placements: HashMap<(JobRank, u64), Placement>,
    /// At the first leader: the round of the barrier.
    pub round: Round,
    /// Whether this pass has received anything.
    received: bool,
    buffer: Vec<u8>,
}

impl Nic {
    /// The NIC of a process in a job with this number of processes and leaders.
    pub fn new(rank: JobRank, size: usize, leaders: usize) -> Self {
        Self {
            random: Random::of(rank),
            waiting: Vec::new(),
            active: BTreeMap::new(),
            count: 0,
            late: Vec::new(),
            out: vec![VecDeque::new(); size],
            open: vec![true; size],
            placements: HashMap::new(),
            round: Round::new(leaders),
            received: false,
            buffer: vec![0; LARGEST + 1],
        }
    }

    /// Advances everything. Returns whether the next pass may do more without input.
    pub fn pass(&mut self, net: &Net) -> bool {
        let (work, credit) = {
            let mut queue = lock(&net.queue);
            (queue.take(), queue.take_credit())
        };
        let credit = credit
            .into_iter()
            .map(|(peer, class, count)| (peer, Message::Credit(class, count)));
        credit.for_each(|(peer, message)| self.send(peer, &message));
        let delayed = work.into_iter().map(|work| (self.random.below(DELAY), work));
        self.waiting.extend(delayed);
        self.received = false;
        self.take_work(net);
        self.send_fragments(net);
        self.report(net);
        self.receive(net);
        self.flush(net);
        self.received || !self.late.is_empty() || self.has_more()
    }

    /// Whether work waits for time only.
    fn has_more(&self) -> bool {
        let is_due = |(passes, work): &(usize, Work)| match work {
            Work::Packet(peer, ..) => *passes > 0 || self.has_room(*peer),
            Work::Operation(_) | Work::Barrier(_) | Work::Word(..) => true,
        };
        let can_send = |active: &Active| {
            !active.unsent.is_empty() && active.unanswered < WINDOW && self.has_room(active.operation.peer)
        };
        let advances = |active: &Active| can_send(active) || matches!(active.operation.source, Source::Due(_));
        self.waiting.iter().any(is_due) || self.active.values().any(advances)
    }

    /// Hands something to the client after a while.
    pub fn arrive_late(&mut self, arrival: Arrival) {
        self.late.push((self.random.below(DELAY), arrival));
    }

    pub fn send(&mut self, peer: JobRank, message: &Message<'_>) {
        self.out[peer.index()].push_back(message.encode());
    }

    fn has_room(&self, peer: JobRank) -> bool {
        self.out[peer.index()].len() < HELD
    }

    /// Begins with the work whose time has come, in any order.
    fn take_work(&mut self, net: &Net) {
        let mut waiting = std::mem::take(&mut self.waiting);
        while let Some((passes, work)) = self.random.take(&mut waiting) {
            match work {
                _ if passes > 0 => self.waiting.push((passes - 1, work)),
                Work::Packet(peer, class, content) if self.has_room(peer) => {
                    let packet = self.read(net, content);
                    self.send(peer, &Message::Packet(class, &packet));
                    lock(&net.queue).sent(class);
                }
                Work::Packet(..) => self.waiting.push((0, work)),
                Work::Operation(operation) => self.begin(operation),
                Work::Barrier(words) => self.send(net.leaders[0], &Message::Enter(words)),
                Work::Word(peer, index, word) => self.send(peer, &Message::Word(index, word)),
            }
        }
    }

    /// The bytes of a packet, which are read now. Local completion follows.
    fn read(&mut self, net: &Net, content: Content) -> Vec<u8> {
        match content {
            Content::Copied(packet) => packet,
            Content::Reserved(address, bytes) => {
                // SAFETY: a send buffer that was sent, which nobody writes.
                let packet = unsafe { Memory::new(address, bytes) }.read();
                lock(&net.buffers).free(address);
                packet
            }
            Content::Gathered(mut packet, (address, bytes), cookie) => {
                // SAFETY: the client keeps the payload until local completion, which follows.
                packet.extend(unsafe { Memory::new(address, bytes) }.read());
                let (part, ends) = (Completion::Source, false);
                self.arrive_late(Arrival::Done { cookie, part, ends });
                packet
            }
        }
    }

    fn begin(&mut self, operation: Operation) {
        let fragments = operation.bytes.div_ceil(FRAGMENT);
        let active = Active {
            unsent: (0..fragments).collect(),
            fragments,
            unanswered: 0,
            packet_first: self.random.below(2) == 0,
            operation,
        };
        if active.packet_first {
            self.send_packet(self.count, &active);
        }
        self.active.insert(self.count, active);
        self.count += 1;
    }

    /// Sends the packet of a put with notification, which the target holds.
    fn send_packet(&mut self, id: u64, active: &Active) {
        if let Some((class, packet)) = &active.operation.notice {
            let notice = Message::Notice(id, *class, active.fragments as u32, packet);
            self.send(active.operation.peer, &notice);
        }
    }

    /// Sends what windows and links take: operations and fragments in any order.
    fn send_fragments(&mut self, net: &Net) {
        let has_more = |(id, active): (&u64, &Active)| (!active.unsent.is_empty()).then_some(*id);
        let mut ids: Vec<u64> = self.active.iter().filter_map(has_more).collect();
        while let Some(id) = self.random.take(&mut ids) {
            // Others overtake it.
            if self.random.below(2) == 0 {
                continue;
            }
            let Some(mut active) = self.active.remove(&id) else {
                continue;
            };
            while active.unanswered < WINDOW && self.has_room(active.operation.peer) {
                let Some(number) = self.random.take(&mut active.unsent) else {
                    break;
                };
                active.unanswered += 1;
                self.send_fragment(id, &active.operation, number);
                if active.unsent.is_empty() {
                    self.all_sent(net, id, &mut active);
                }
            }
            self.active.insert(id, active);
        }
    }

    /// Sends a fragment; of a put, its source is read now.
    fn send_fragment(&mut self, id: u64, operation: &Operation, number: usize) {
        let offset = number * FRAGMENT;
        let bytes = FRAGMENT.min(operation.bytes - offset);
        let (key, address) = (operation.key, operation.remote + offset);
        let (at, notified) = (At { id, key, address }, operation.notice.is_some());
        let data;
        let message = match (operation.kind, &operation.source) {
            (Kind::Put, Source::Copied(copy)) => Message::Put(at, notified, &copy[offset..][..bytes]),
            (Kind::Put, _) => {
                // SAFETY: the client keeps the source until local completion, which follows.
                data = unsafe { Memory::new(operation.local + offset, bytes) }.read();
                Message::Put(at, notified, &data)
            }
            (Kind::Get, _) => Message::Get(at, offset, bytes),
            (Kind::Atomic { dt, op, operands }, _) => Message::Atomic(at, dt, op, operands),
        };
        self.send(operation.peer, &message);
    }

    /// The source of the operation is not needed any more. Some puts report that with their remote
    /// completion only.
    fn all_sent(&mut self, net: &Net, id: u64, active: &mut Active) {
        if !active.packet_first {
            self.send_packet(id, active);
        }
        let operation = &mut active.operation;
        if let Source::Reserved(buffer) = operation.source {
            lock(&net.buffers).free(buffer);
            operation.source = Source::Reported;
        }
        let reports = operation.notice.is_some() || self.random.below(4) > 0;
        if operation.kind == Kind::Put && matches!(operation.source, Source::InUse) && reports {
            operation.source = Source::Due(self.random.below(DELAY));
        }
    }

    /// Reports completions whose time has come, in any order.
    fn report(&mut self, net: &Net) {
        for active in self.active.values_mut() {
            let operation = &mut active.operation;
            match &mut operation.source {
                Source::Due(0) => {
                    operation.source = Source::Reported;
                    let (cookie, part, ends) = (operation.cookie, Completion::Source, false);
                    net.arrive(Arrival::Done { cookie, part, ends });
                }
                Source::Due(passes) => *passes -= 1,
                _ => {}
            }
        }
        let mut late = std::mem::take(&mut self.late);
        while let Some((passes, arrival)) = self.random.take(&mut late) {
            match passes {
                0 => net.arrive(arrival),
                _ => self.late.push((passes - 1, arrival)),
            }
        }
    }

    fn receive(&mut self, net: &Net) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for (rank, link) in net.links.iter().enumerate() {
            let Some(link) = link.as_ref().filter(|_| self.open[rank]) else {
                continue;
            };
            let peer = JobRank(rank as u32);
            for _ in 0..RECEIVED {
                match fd::receive(link.as_raw_fd(), &mut buffer) {
                    Ok(0) => {
                        self.open[rank] = false;
                        net.lose(peer, "its process ended");
                        break;
                    }
                    Ok(bytes) => self.accept(net, peer, &buffer[..bytes]),
                    // Data sent before a reset can still be read; end-of-file follows them.
                    Err(why) if why.kind() == ErrorKind::ConnectionReset => {}
                    Err(_) => break,
                }
            }
        }
        self.buffer = buffer;
    }

    /// Sends as much as the links take. Messages to this process arrive at once.
    fn flush(&mut self, net: &Net) {
        for (rank, link) in net.links.iter().enumerate() {
            let Some(link) = link else { continue };
            if !self.open[rank] || net.states[rank].load(Relaxed) == STOPPED {
                self.out[rank].clear();
            }
            while let Some(message) = self.out[rank].front() {
                match fd::send(link.as_raw_fd(), message) {
                    // The peer is gone; end-of-file follows.
                    Err(why) if matches!(why.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
                    Err(_) => break,
                    Ok(_) => {}
                }
                self.out[rank].pop_front();
            }
        }
        while let Some(message) = self.out[net.rank.index()].pop_front() {
            self.accept(net, net.rank, &message);
        }
    }

    fn accept(&mut self, net: &Net, peer: JobRank, bytes: &[u8]) {
        self.received = true;
        let message = Message::decode(bytes);
        if message.and_then(|message| self.process(net, peer, &message)).is_none() {
            net.lose(peer, "it sent a malformed message");
        }
    }

    /// Initiator: a fragment was answered. None if it was not asked for.
    pub fn answered(&mut self, net: &Net, peer: JobRank, id: u64, answer: &Message<'_>) -> Option<()> {
        let Some(active) = self.active.get_mut(&id) else {
            // Another fragment was denied.
            return Some(());
        };
        let operation = &active.operation;
        if operation.peer != peer {
            return None;
        }
        match (*answer, operation.kind) {
            (Message::Data(_, offset, data), Kind::Get) => {
                (offset <= operation.bytes && data.len() <= operation.bytes - offset).then_some(())?;
                // SAFETY: the client keeps the destination of a get until its completion.
                unsafe { Memory::new(operation.local + offset, data.len()) }.write(data);
            }
            (Message::Old(_, value), Kind::Atomic { .. }) if operation.local != 0 => {
                // SAFETY: the client keeps the place of the result until the completion.
                unsafe { Memory::new(operation.local, operation.bytes) }.write(&memory::bytes(value, operation.bytes));
            }
            (Message::Placed(_), Kind::Put) | (Message::Old(..), Kind::Atomic { .. }) => {}
            (Message::Denied(_), _) => {
                self.active.remove(&id);
                net.lose(
                    peer,
                    "remote access error: it has no memory with that key and those bounds",
                );
                return Some(());
            }
            _ => return None,
        }
        active.unanswered = active.unanswered.checked_sub(1)?;
        if active.unanswered == 0 && active.unsent.is_empty() {
            if let Some(active) = self.active.remove(&id) {
                self.complete(net, &active.operation);
            }
        }
        Some(())
    }

    /// The target has answered everything.
    fn complete(&mut self, net: &Net, operation: &Operation) {
        let source_is_reported = matches!(operation.source, Source::Copied(_) | Source::Reported);
        let part = match (&operation.notice, source_is_reported) {
            (Some(_), true) => return lock(&net.queue).ended(),
            (Some(_), false) => Completion::Source,
            (None, true) => Completion::Remote,
            (None, false) => Completion::Both,
        };
        let (cookie, ends) = (operation.cookie, true);
        self.arrive_late(Arrival::Done { cookie, part, ends });
    }
}
