//! Polling.

use crate::buffers::{give, Bounce};
use crate::credits::arrivals::Fetch;
use crate::ffi::{Completed, Failure, QueueGuard, BURST};
use crate::net::Net;
use crate::operations::CompletionAction;
use crate::posts::{name, Domain, PostDescriptor, FIRST};
use crate::transfers::{take_out, PutKind, Transfer};
use crate::wire::Kind;
use gasnet_conduit::{Completion, Cookie, JobRank, PollScope, Upcalls};
use gasnet_conduit_util::aligned_copy::copy_out;
use gasnet_conduit_util::fixed_vec::FixedVec;
use std::cell::Cell;

/// Times that an operation is posted before its peer is lost.
const TRIES: u8 = 5;

thread_local! {
    /// Polls of this thread, if it has another domain than the first.
    static POLLS: Cell<u32> = const { Cell::new(0) };
}

/// Work that is left for a post that is complete.
enum Ready {
    Report(Cookie, Completion),
    /// The request in this slot has left.
    Left(usize),
    /// Credits have arrived at a peer.
    CreditsReturned(JobRank),
    /// A message that waits in its sender is here: its first part, or all of it.
    Fetched {
        post: PostDescriptor,
        fetch: Fetch,
        is_all: bool,
    },
    /// A part of a transfer is complete.
    Part(PostDescriptor, Box<Transfer>),
    /// The operation has failed.
    Failed(PostDescriptor, Failure),
}

impl Net {
    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll_all(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let (posts, messages, receiver) = (self.posts(), &self.messages, &self.receiver);
        if posts.peers.states.is_stopped() {
            return 0;
        }
        let mut count = self.poll_domains(upcalls);
        if self.looks_at_arrivals() && (receiver.has_arrivals() || posts.domains[FIRST].has_arrivals()) {
            if receiver.take_arrivals(messages, posts) {
                messages.fetch(posts, scope);
            }
            count += usize::from(messages.take_word_event());
            if receiver.has_arrivals() {
                count += receiver.deliver(messages, posts, scope, upcalls);
            }
        }
        if let Some(rounds) = self.rounds.as_ref().filter(|rounds| rounds.is_active()) {
            if let Some(words) = rounds.advance(posts, &messages.region) {
                upcalls.barrier(words);
                count += 1;
            }
        }
        if receiver.delays_credits() {
            receiver.return_delayed_credits(messages, posts);
        }
        if !posts.refused.is_empty() {
            posts.post_refused();
        }
        if !messages.queued.is_empty() {
            messages.send_queued(posts);
        }
        if !self.rma.stalled.is_empty() {
            self.rma.resume_stalled();
        }
        if posts.peers.states.has_losses() {
            posts.peers.states.report(upcalls);
        }
        count
    }

    /// Whether this thread looks at arrivals now: always, or now and then if another domain than
    /// the first is its own.
    #[inline]
    fn looks_at_arrivals(&self) -> bool {
        let posts = self.posts();
        posts.domains.len() == 1 || posts.domain_of_thread() == FIRST || {
            let polls = POLLS.get().wrapping_add(1);
            POLLS.set(polls);
            polls & self.rma.settings.poll_mask == 0
        }
    }

    /// Handles completions of posts.
    pub fn poll_domains(&self, upcalls: &mut dyn Upcalls) -> usize {
        let mut count = 0;
        for (number, domain) in self.posts().domains.iter().enumerate() {
            if domain.is_busy() {
                count += self.poll_domain(number, domain, upcalls);
            }
        }
        count
    }

    /// Handles completions of a domain.
    fn poll_domain(&self, number: usize, domain: &Domain, upcalls: &mut dyn Upcalls) -> usize {
        let (mut ready, mut count) = (FixedVec::<Ready, BURST>::new(), 0);
        {
            let Some(mut queue) = domain.try_lock() else { return 0 };
            while count < BURST && domain.is_busy() {
                match queue.completion() {
                    Ok(Some(completed)) => {
                        if let Some(more) = self.complete(&mut queue, completed) {
                            ready.push(more);
                        }
                    }
                    Ok(None) => break,
                    Err(why) => {
                        self.posts().peers.states.fail(&why);
                        break;
                    }
                }
                count += 1;
            }
        }
        for ready in ready.by_ref() {
            self.follow_up(number, domain, ready, upcalls);
        }
        count
    }

    /// A post is complete. Under the lock of its domain: frees its resources, and returns what is
    /// left to do.
    #[inline]
    fn complete(
        &self,
        queue: &mut QueueGuard<'_, CompletionAction>,
        completed: Completed<CompletionAction>,
    ) -> Option<Ready> {
        let mut post = match completed {
            Completed::Last(post) => post,
            Completed::Local(mut post) => {
                let CompletionAction::Put { cookie, is_in_use, .. } = &mut post.done else {
                    return None;
                };
                *is_in_use = false;
                return Some(Ready::Report(*cookie, Completion::Source));
            }
            Completed::Failed(post, failure) => return Some(Ready::Failed(post, failure)),
        };
        let ready = match std::mem::take(&mut post.done) {
            CompletionAction::Nothing => None,
            CompletionAction::Reduction => {
                if let Some(rounds) = &self.rounds {
                    rounds.note_reduction();
                }
                None
            }
            CompletionAction::Request(slot, bounce) => {
                give(bounce);
                Some(Ready::Left(slot))
            }
            CompletionAction::Reply(bounce) => {
                give(bounce);
                None
            }
            CompletionAction::CreditsReturned => Some(Ready::CreditsReturned(post.peer)),
            CompletionAction::Source(cookie) => Some(Ready::Report(cookie, Completion::Source)),
            CompletionAction::Put {
                cookie,
                bounce,
                is_in_use,
            } => {
                give(bounce);
                let part = if is_in_use {
                    Completion::Both
                } else {
                    Completion::Remote
                };
                Some(Ready::Report(cookie, part))
            }
            CompletionAction::Get {
                cookie,
                bounce,
                skip,
                to,
                bytes,
            } => {
                let from = bounce.as_ref().map_or(post.inline_address(), Bounce::address);
                // SAFETY: the runtime keeps the destination writable until the get is reported.
                unsafe { take_out(from, skip, to, bytes) };
                give(bounce);
                Some(Ready::Report(cookie, Completion::Both))
            }
            CompletionAction::Direct(cookie) => Some(Ready::Report(cookie, Completion::Both)),
            CompletionAction::Atomic { cookie, to, bytes } => {
                // SAFETY: the runtime keeps the place of the old value writable until it is
                // reported.
                unsafe { copy_out(post.inline_address(), to, bytes) };
                Some(Ready::Report(cookie, Completion::Both))
            }
            CompletionAction::Fetched { fetch, is_all } => return Some(Ready::Fetched { post, fetch, is_all }),
            CompletionAction::Part(transfer) => return Some(Ready::Part(post, transfer)),
        };
        queue.put_back(post);
        ready
    }

    /// An operation has failed: it is posted again, or its peer is lost.
    #[cold]
    fn note_failure(&self, domain: usize, mut post: PostDescriptor, failure: &Failure) {
        let (posts, peer) = (self.posts(), post.peer);
        let (peers, states) = (&posts.peers, &posts.peers.states);
        post.failures += 1;
        let repeats = failure.is_transient && post.failures < TRIES && may_repeat(&post);
        if repeats && states.is_present(peer) {
            let is_return = matches!(post.done, CompletionAction::CreditsReturned);
            let event = is_return.then(|| peers.event(Kind::Released, 0));
            post.repeat();
            // SAFETY: as when it was posted first; `may_repeat` has found that the source is kept.
            return unsafe { posts.lock(domain).post(post, event) };
        }
        let times = match post.failures {
            1 => String::new(),
            times => format!(" {times} times"),
        };
        let why = format!("{} failed{times}: {}", name(&post), failure.status);
        // The engine works for all hosts, so none of them is to blame.
        match post.done {
            CompletionAction::Reduction => posts.peers.states.fail(&why),
            _ => states.lose(peer, why),
        }
    }

    /// Does the work that is left, without the lock.
    #[inline]
    fn follow_up(&self, number: usize, domain: &Domain, ready: Ready, upcalls: &mut dyn Upcalls) {
        match ready {
            Ready::Report(cookie, part) => upcalls.done(cookie, part),
            Ready::Left(slot) => self.messages.am.lock().has_left(slot),
            Ready::Failed(post, failure) => self.note_failure(number, post, &failure),
            Ready::CreditsReturned(peer) => self.receiver.credits_returned(&self.messages, peer),
            Ready::Fetched { post, fetch, is_all } => {
                let post = self.messages.fetched(self.posts(), post, fetch, is_all);
                self.receiver.note_arrivals();
                if let Some(post) = post {
                    domain.lock().put_back(post);
                }
            }
            Ready::Part(post, transfer) => {
                if let Some((post, ended)) = self.rma.advance_or_end(post, transfer) {
                    if let Some(message) = ended.then {
                        self.messages.queued.push(message);
                    }
                    domain.lock().put_back(post);
                    if let Some((cookie, part)) = ended.report {
                        upcalls.done(cookie, part);
                    }
                }
            }
        }
    }
}

/// Whether a post may be executed twice, as a failure does not tell whether it was executed, and
/// its source is still as it was. Atomics, messages and their payloads may not: their effects and
/// events would be counted twice.
fn may_repeat(post: &PostDescriptor) -> bool {
    match &post.done {
        CompletionAction::Put { bounce, is_in_use, .. } => *is_in_use || bounce.is_some() || post.is_inline(),
        CompletionAction::Part(transfer) => !matches!(transfer.kind, PutKind::Notify(_)),
        // The event asks the peer to read words that replace one another.
        CompletionAction::CreditsReturned => true,
        _ => post.is_get(),
    }
}
