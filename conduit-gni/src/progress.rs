//! Polling.

use crate::buffers::Bounce;
use crate::completion::CompletionAction;
use crate::ffi::{Completed, Domain, Failure, PostDescriptor, QueueGuard, BURST};
use crate::net::{Net, FIRST};
use crate::rma::{take_out, PutKind};
use crate::wire::Kind;
use gasnet_conduit::{Completion, Cookie, JobRank, PollScope, Upcalls};
use gasnet_conduit_util::aligned_copy::copy_out;
use gasnet_conduit_util::fixed_vec::FixedVec;
use gasnet_sys::atomic::Ordering;
use gasnet_sys::lock;
use std::cell::Cell;

/// Times that an operation is posted before its peer is lost.
const TRIES: u8 = 5;

thread_local! {
    /// Polls of this thread, if it has another domain than the first.
    static POLLS: Cell<u32> = const { Cell::new(0) };
}

impl Net {
    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        if self.is_stopped() {
            return 0;
        }
        let mut count = 0;
        for domain in &self.domains {
            if domain.is_busy() {
                count += self.complete(domain, upcalls);
            }
        }
        if self.looks_at_arrivals() && (self.has_arrivals.load(Ordering::Relaxed) || self.domains[FIRST].has_arrivals())
        {
            if self.take_arrivals() {
                self.fetch(scope);
            }
            if self.has_arrivals.load(Ordering::Relaxed) {
                count += self.deliver(scope, upcalls);
            }
        }
        if let Some(rounds) = self.rounds.as_ref().filter(|rounds| rounds.is_active()) {
            count += self.poll_barrier(rounds, upcalls);
        }
        if self.delays_credits.load(Ordering::Relaxed) {
            self.flush_late_credits();
        }
        if !self.refused.is_empty() {
            self.post_refused();
        }
        if !self.messages.is_empty() {
            self.send_messages();
        }
        if !self.stalled.is_empty() {
            self.restart();
        }
        self.report(upcalls);
        count
    }

    /// Whether this thread looks at arrivals now: always, or now and then if another domain than
    /// the first is its own.
    #[inline]
    fn looks_at_arrivals(&self) -> bool {
        self.domains.len() == 1 || self.domain_of_thread() == FIRST || {
            let polls = POLLS.get().wrapping_add(1);
            POLLS.set(polls);
            polls & self.settings.poll_mask == 0
        }
    }

    /// Reports what is lost.
    #[inline]
    fn report(&self, upcalls: &mut dyn Upcalls) {
        if self.states.has_losses() {
            for (peer, why) in self.states.take_losses() {
                upcalls.peer_lost(peer, &why);
            }
        }
        if self.has_failed.load(Ordering::Relaxed) {
            let failure = lock(&self.failure).take();
            if let Some(why) = failure {
                upcalls.network_lost(&why);
            }
        }
    }

    /// Handles completions of a domain.
    fn complete(&self, domain: &Domain, upcalls: &mut dyn Upcalls) -> usize {
        let (mut ready, mut count) = (FixedVec::<Ready, BURST>::new(), 0);
        {
            let Some(mut turn) = domain.try_turn() else { return 0 };
            while count < BURST && domain.is_busy() {
                match turn.completion() {
                    Ok(Some(completed)) => {
                        if let Some(more) = self.settle(&mut turn, completed) {
                            ready.push(more);
                        }
                    }
                    Ok(None) => break,
                    Err(why) => {
                        self.fail(&why);
                        break;
                    }
                }
                count += 1;
            }
        }
        for ready in ready.by_ref() {
            self.follow(domain, ready, upcalls);
        }
        count
    }

    /// A post is complete. Under the lock of its domain: frees what it has, and returns what is
    /// left to do.
    #[inline]
    fn settle(&self, turn: &mut QueueGuard<'_>, completed: Completed) -> Option<Ready> {
        let mut post = match completed {
            Completed::ParentOperation(post) => post,
            Completed::Local(mut post) => {
                let CompletionAction::Put(cookie, _, is_in_use) = &mut post.done else {
                    return None;
                };
                *is_in_use = false;
                return Some(Ready::Report(*cookie, Completion::Source));
            }
            Completed::Failed(post, failure) => {
                self.note_failure(turn, post, &failure);
                return None;
            }
        };
        let ready = match std::mem::replace(&mut post.done, CompletionAction::Nothing) {
            CompletionAction::Nothing => None,
            CompletionAction::Reduction => {
                self.note_reduction();
                None
            }
            CompletionAction::Request(slot, bounce) => {
                self.bounces.give(bounce);
                Some(Ready::Left(slot))
            }
            CompletionAction::Reply(bounce) => {
                self.bounces.give(bounce);
                None
            }
            CompletionAction::Released => Some(Ready::Released(post.peer)),
            CompletionAction::Source(cookie) => Some(Ready::Report(cookie, Completion::Source)),
            CompletionAction::Put(cookie, bounce, was_in_use) => {
                self.bounces.give(bounce);
                let part = if was_in_use {
                    Completion::Both
                } else {
                    Completion::Remote
                };
                Some(Ready::Report(cookie, part))
            }
            CompletionAction::Get(cookie, bounce, skip, (to, bytes)) => {
                let from = bounce.as_ref().map_or(post.inline_address(), Bounce::address);
                // SAFETY: the runtime keeps the destination writable until the get is reported.
                unsafe { take_out(from, skip, to, bytes) };
                self.bounces.give(bounce);
                Some(Ready::Report(cookie, Completion::Both))
            }
            CompletionAction::Direct(cookie) => Some(Ready::Report(cookie, Completion::Both)),
            CompletionAction::Atomic(cookie, (to, bytes)) => {
                // SAFETY: the runtime keeps the place of the old value writable until it is
                // reported.
                unsafe { copy_out(post.inline_address(), to, bytes) };
                Some(Ready::Report(cookie, Completion::Both))
            }
            again @ (CompletionAction::Fetched { .. } | CompletionAction::Part(_)) => {
                return Some(Ready::Again(post, again))
            }
        };
        turn.put_back(post);
        ready
    }

    /// An operation has failed: it is posted again, or its peer is lost.
    #[cold]
    fn note_failure(&self, turn: &mut QueueGuard<'_>, mut post: PostDescriptor, failure: &Failure) {
        let (peer, name, status) = (post.peer, post.name(), &failure.status);
        post.failures += 1;
        let repeats = failure.is_transient && post.failures < TRIES && may_repeat(&post);
        let domain = (0..)
            .zip(&self.domains)
            .find(|(_, domain)| std::ptr::eq(*domain, turn.domain()));
        if let Some((domain, _)) = domain.filter(|_| repeats && self.states.is_present(peer)) {
            let event = matches!(post.done, CompletionAction::Released).then(|| self.event(Kind::Released, 0));
            post.repeat();
            // SAFETY: as when it was posted first; `may_repeat` has found that the source is kept.
            return unsafe { self.post(turn, domain, post, event) };
        }
        let times = match post.failures {
            1 => String::new(),
            times => format!(" {times} times"),
        };
        let why = format!("{name} failed{times}: {status}");
        // The engine works for all hosts, so none of them is to blame.
        match post.done {
            CompletionAction::Reduction => self.fail(&why),
            _ => self.states.lose(peer, why),
        }
    }

    /// Does what is left, without the lock.
    #[inline]
    fn follow(&self, domain: &Domain, ready: Ready, upcalls: &mut dyn Upcalls) {
        match ready {
            Ready::Report(cookie, part) => upcalls.done(cookie, part),
            Ready::Left(slot) => self.am.lock().has_left(slot),
            Ready::Released(peer) => self.words_arrived(peer),
            Ready::Again(post, done) => {
                let (post, report) = self.next_post(post, done);
                if let Some(post) = post {
                    domain.turn().put_back(post);
                }
                if let Some((cookie, part)) = report {
                    upcalls.done(cookie, part);
                }
            }
        }
    }

    /// The next post of an operation that takes several. Returns the post, unless it is used again,
    /// and what is reported.
    #[cold]
    fn next_post(
        &self,
        post: PostDescriptor,
        done: CompletionAction,
    ) -> (Option<PostDescriptor>, Option<(Cookie, Completion)>) {
        match done {
            CompletionAction::Fetched {
                class,
                index,
                landing,
                is_all,
            } => {
                let post = self.fetched(post, (class, index), landing, is_all);
                self.has_arrivals.store(true, Ordering::Relaxed);
                (post, None)
            }
            CompletionAction::Part(transfer) => self.advance_or_end(post, transfer),
            _ => (Some(post), None),
        }
    }
}

/// Whether a post may be executed twice, as a failure does not tell whether it was executed, and
/// its source is still as it was. Atomics, messages and their payloads may not: their effects and
/// events would be counted twice.
fn may_repeat(post: &PostDescriptor) -> bool {
    match &post.done {
        CompletionAction::Put(_, bounce, is_in_use) => *is_in_use || bounce.is_some() || post.is_inline(),
        CompletionAction::Part(transfer) => !matches!(transfer.aim, PutKind::Notify(_)),
        // The event asks the peer to read words that replace one another.
        CompletionAction::Released => true,
        _ => post.is_get(),
    }
}

/// What is left to do for a post that is complete.
enum Ready {
    Report(Cookie, Completion),
    /// The request in this slot has left.
    Left(usize),
    /// Words have arrived at a peer.
    Released(JobRank),
    /// There is more to post.
    Again(PostDescriptor, CompletionAction),
}
