//! Completions that the queues of an HCA report.

use crate::fabric::Fabric;
use crate::ffi::Wc;
use crate::operations::CompletionAction;
use crate::peers::pair_name;
use crate::ports::SEVERAL_NETWORKS;
use crate::rail::{Batch, Rail};
use crate::send::queue::{named, Named, SendQueue};
use gasnet_conduit::{Completion, Cookie};
use gasnet_ibv_abi as abi;

/// The subject of a completion.
#[repr(u64)]
pub enum Event {
    Message(Arrived),
    /// A work request of ours that leaves more to do than [`CompletionAction::settle`] does.
    CompletionAction(CompletionAction),
}

/// A message.
pub struct Arrived {
    /// Its receive buffer.
    pub index: usize,
    /// The word beside it.
    pub word: u32,
    pub bytes: u32,
    /// The number of the queue pair that received it.
    pub pair: u32,
    /// Whether a handler may run on it in place.
    pub in_place: bool,
}

/// Completions of a poll.
pub struct Polled {
    pub events: Batch<Event>,
    /// Work requests of ours.
    pub sent: usize,
}

impl Fabric {
    /// Takes a completion, under the lock of the reader. What is only to be reported is reported.
    #[inline(always)]
    pub fn take(&self, rail: &Rail, completion: &Wc, polled: &mut Polled, mut report: impl FnMut(Cookie, Completion)) {
        let Polled { events, sent } = polled;
        // SAFETY: a completion of a queue of this process, whose connections live as long.
        match unsafe { named(completion.wr_id) } {
            Named::Receive(index) if completion.status == abi::IBV_WC_SUCCESS && rail.receives.holds(completion) => {
                let in_place = rail.receives.note_arrival(index);
                // SAFETY: a message that carries a word.
                let word = u32::from_be(unsafe { completion.__bindgen_anon_1.imm_data });
                events.push(Event::Message(Arrived {
                    index,
                    word,
                    bytes: completion.byte_len,
                    pair: completion.qp_num,
                    in_place,
                }));
            }
            Named::Receive(index) => self.receive_failed(rail, index, completion),
            Named::Sent(queue, low) if completion.status == abi::IBV_WC_SUCCESS => {
                // SAFETY: under the lock of the reader, in the order of completions.
                *sent += unsafe {
                    queue.retire(low, |done| {
                        if let Some(done) = done.settle(&mut report) {
                            events.push(Event::CompletionAction(done));
                        }
                    })
                };
            }
            Named::Sent(queue, low) => {
                let has_answered = queue.has_retired();
                let mut what = None;
                // SAFETY: as above.
                *sent += unsafe { queue.retire(low, |done| what = Some(done.name())) };
                let what = what.unwrap_or(CompletionAction::Nothing.name());
                self.sent_failed(queue, low, (what, has_answered), completion);
            }
        }
    }

    /// A receive failed, or is no message of this conduit. Those of connections that are gone are
    /// flushed.
    #[cold]
    fn receive_failed(&self, rail: &Rail, index: usize, completion: &Wc) {
        let status = rail.context.library.status(completion.status);
        let why = match completion.status {
            abi::IBV_WC_WR_FLUSH_ERR => return,
            abi::IBV_WC_SUCCESS => format!(
                "it sent what is no message: opcode {}, flags {:#x}, {} bytes",
                completion.opcode, completion.wc_flags, completion.byte_len
            ),
            // The peer chooses how long its messages are.
            abi::IBV_WC_LOC_LEN_ERR => format!("it sent more than a receive buffer holds: {status}"),
            _ => {
                return self
                    .peers
                    .states
                    .fail(&format!("{}: a receive failed: {status}", rail.context.name))
            }
        };
        self.lose_sender(pair_name(rail.place, completion.qp_num), why);
        rail.receives.note_arrival(index);
        self.post_again(rail, &[index]);
    }

    /// The process whose messages a queue pair receives sent what it must not, and is lost.
    #[cold]
    pub fn lose_sender(&self, pair: u32, why: String) {
        match self.peers.receives_from(pair) {
            Some(peer) => self.peers.states.lose(peer, why),
            None => self
                .peers
                .states
                .fail(&format!("a queue pair without a peer ({pair:#x}) has received: {why}")),
        }
    }

    /// A work request failed: what it was for, and whether any before it has completed. The first
    /// failure of a queue counts; the others are flushed.
    #[cold]
    fn sent_failed(&self, queue: &SendQueue, low: u16, (what, has_answered): (&str, bool), completion: &Wc) {
        let rail = self.rail(queue);
        self.take_events(rail);
        let (peer, is_first) = queue.note_failure(low);
        // An HCA that has failed is the reason.
        if !is_first || self.peers.states.has_failed() {
            return;
        }
        let status = rail.context.library.status(completion.status);
        let (name, vendor) = (self.name_of_port(queue), completion.vendor_err);
        let advice = match completion.status {
            abi::IBV_WC_LOC_PROT_ERR if rail.on_demand.is_some() => {
                "If a driver has mapped its memory without pages (registers of devices, XPMEM), GASNET_USE_ODP=0 lets \
                 the conduit copy it"
            }
            abi::IBV_WC_RETRY_EXC_ERR if !has_answered => SEVERAL_NETWORKS,
            _ => "",
        };
        let stop = if advice.is_empty() { "" } else { ". " };
        let why = format!("{name}: {what} failed: {status} (vendor error {vendor:#x}){stop}{advice}");
        self.peers.states.lose(peer, why);
    }

    /// Posts receive buffers again: their messages are delivered.
    #[inline]
    pub fn post_again(&self, rail: &Rail, buffers: &[usize]) {
        if let Err(why) = rail.receives.post_again(rail.shared.as_ref(), buffers) {
            self.take_events(rail);
            self.peers.states.fail(&format!(
                "{}: a receive buffer cannot be posted: {why}",
                rail.context.name
            ));
        }
    }

    /// Drops what the queues report, after the end of communication.
    pub fn drop_completions(&self) {
        for rail in &self.rails {
            let Some(mut reader) = rail.reader.try_lock() else {
                continue;
            };
            let mut polled = Polled {
                events: Batch::new(),
                sent: 0,
            };
            for completion in rail.completions(&mut reader).unwrap_or_default() {
                self.take(rail, completion, &mut polled, |_, _| {});
            }
            rail.room.give_back(polled.sent);
        }
    }
}
