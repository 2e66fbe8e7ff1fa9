//! Polling.

use crate::done::Done;
use crate::net::{Net, FIRST};
use crate::rma::take_out;
use crate::ugni::{Completed, Domain, Taken, BURST};
use gasnet_conduit::copied::copy_out;
use gasnet_conduit::{Completion, PollScope, Upcalls};
use gasnet_sys::atomic::Ordering;
use gasnet_sys::lock;
use std::cell::Cell;

thread_local! {
    /// Polls of this thread, if it has another domain than the first.
    static POLLS: Cell<u32> = const { Cell::new(0) };
}

impl Net {
    /// See [`gasnet_conduit::Conduit::poll`].
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
            self.take_arrivals();
            if self.has_arrivals.load(Ordering::Relaxed) {
                self.fetch(scope);
                count += self.deliver(scope, upcalls);
                self.send_words();
            }
        }
        if let Some(rounds) = self.rounds.as_ref().filter(|rounds| rounds.is_active()) {
            count += self.poll_barrier(rounds, upcalls);
        }
        if self.refused_count.load(Ordering::Relaxed) > 0 {
            self.post_refused();
        }
        if self.has_messages.load(Ordering::Relaxed) {
            self.send_messages();
        }
        if self.stalled_count.load(Ordering::Relaxed) > 0 {
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
        if self.fates.has_losses() {
            for (peer, why) in self.fates.take_losses() {
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
        let mut taken: [Option<Completed>; BURST] = [const { None }; BURST];
        let mut count = 0;
        {
            let Some(mut turn) = domain.try_turn() else { return 0 };
            for place in &mut taken {
                match turn.completion() {
                    Ok(Some(completed)) => *place = Some(completed),
                    Ok(None) => break,
                    Err(why) => {
                        self.fail(&why);
                        break;
                    }
                }
                count += 1;
            }
        }
        if count == 0 {
            return 0;
        }
        let mut free: [Option<Taken>; BURST] = [const { None }; BURST];
        for (place, completed) in free.iter_mut().zip(&mut taken[..count]) {
            *place = match completed.take() {
                Some(Completed::Whole(post)) => self.done(post, upcalls),
                Some(Completed::Local(mut post)) => {
                    if let Done::Put(cookie, _, is_in_use) = &mut post.done {
                        *is_in_use = false;
                        upcalls.done(*cookie, Completion::Source);
                    }
                    None
                }
                Some(Completed::Failed(post, why)) => {
                    let (peer, name) = (post.peer, post.name());
                    self.fates.lose(peer, format!("{name} failed: {why}"));
                    None
                }
                None => None,
            };
        }
        let mut turn = domain.turn();
        for post in free.iter_mut().filter_map(Option::take) {
            turn.put_back(post);
        }
        count
    }

    /// A post is complete. Returns it, unless it is used again.
    #[inline]
    fn done(&self, mut post: Taken, upcalls: &mut dyn Upcalls) -> Option<Taken> {
        match std::mem::replace(&mut post.done, Done::Nothing) {
            Done::Nothing => {}
            Done::Reduction => self.note_reduction(),
            Done::Request(slot, bounce) => {
                self.bounces.give(bounce);
                lock(&self.am).has_left(slot);
            }
            Done::Reply(bounce) => self.bounces.give(bounce),
            Done::Released => self.words_arrived(post.peer),
            Done::Fetched {
                class,
                index,
                landing,
                is_all,
            } => {
                let post = self.fetched(post, (class, index), landing, is_all);
                self.has_arrivals.store(true, Ordering::Relaxed);
                return post;
            }
            Done::Source(cookie) => upcalls.done(cookie, Completion::Source),
            Done::Put(cookie, bounce, was_in_use) => {
                self.bounces.give(bounce);
                let part = if was_in_use {
                    Completion::Both
                } else {
                    Completion::Remote
                };
                upcalls.done(cookie, part);
            }
            Done::Get(cookie, bounce, skip, (to, bytes)) => {
                let from = bounce
                    .as_ref()
                    .map_or(post.inline_address(), super::bounce::Bounce::address);
                // SAFETY: the runtime keeps the destination writable until the get is reported.
                unsafe { take_out(from, skip, to, bytes) };
                self.bounces.give(bounce);
                upcalls.done(cookie, Completion::Both);
            }
            Done::Direct(cookie) => upcalls.done(cookie, Completion::Both),
            Done::Atomic(cookie, (to, bytes)) => {
                // SAFETY: the runtime keeps the place of the old value writable until it is
                // reported.
                unsafe { copy_out(post.inline_address(), to, bytes) };
                upcalls.done(cookie, Completion::Both);
            }
            Done::Part(transfer) => {
                let (post, report) = self.advance_or_end(post, transfer);
                if let Some((cookie, part)) = report {
                    upcalls.done(cookie, part);
                }
                return post;
            }
        }
        Some(post)
    }
}
