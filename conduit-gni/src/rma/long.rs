//! Puts and gets of several posts ([`crate::transfers`]): their beginning, and their next posts.

use super::OneSided;
use crate::operations::CompletionAction;
use crate::posts::PostDescriptor;
use crate::transfers::{Ended, PutKind, Transfer};
use gasnet_conduit::{Busy, Completion, Get, LocalCompletion, Put};
use gasnet_conduit_util::report::Report;
use gasnet_gni_abi as abi;

impl OneSided {
    /// A transfer for a put.
    pub fn transfer(&self, put: &Put, domain: usize, report: Report) -> Box<Transfer> {
        Transfer::put(put, self.memory.remote(&put.to), domain, report)
    }

    /// Starts a put that is longer than a post, or whose source must be registered.
    #[cold]
    pub(super) fn start_long_put(&self, put: &Put, domain: usize, kind: PutKind) -> Result<LocalCompletion, Busy> {
        self.stalled.admit()?;
        let part = match kind {
            PutKind::Put => Completion::Both,
            _ => Completion::Source,
        };
        let mut transfer = self.transfer(put, domain, Report::Part(put.cookie, part));
        transfer.kind = kind;
        self.begin(transfer);
        Ok(LocalCompletion::Later)
    }

    /// Starts a get that is longer than a post, whose destination must be registered, or whose ends
    /// are no whole words.
    #[cold]
    pub(super) fn start_long_get(&self, get: &Get, domain: usize) -> Result<(), Busy> {
        self.stalled.admit()?;
        let remote = self.memory.remote(&get.from);
        Transfer::get(get, remote, domain, self.is_gemini()).for_each(|transfer| self.begin(transfer));
        Ok(())
    }

    /// Chooses the access to the local memory of a transfer. Returns whether it is without copies.
    pub fn choose_access(&self, transfer: &mut Transfer) -> bool {
        transfer.choose_access(&self.memory, &self.posts.domains)
    }

    /// Starts a transfer.
    pub fn begin(&self, mut transfer: Box<Transfer>) {
        self.choose_access(&mut transfer);
        self.resume(transfer);
    }

    /// Posts the next part of a transfer, or lets it wait.
    fn resume(&self, transfer: Box<Transfer>) {
        let post = self.posts.lock(transfer.domain).take();
        match post {
            Some(post) => self.advance(post, transfer),
            None => self.stalled.push(transfer),
        }
    }

    /// Resumes transfers that wait.
    #[cold]
    pub fn resume_stalled(&self) {
        for transfer in self.stalled.take_all() {
            self.resume(transfer);
        }
    }

    /// Posts the next part.
    fn advance(&self, mut post: PostDescriptor, mut transfer: Box<Transfer>) {
        let (domain, kind) = (transfer.domain, transfer.kind);
        let Some(extent) = transfer.next_part(&self.posts.buffers) else {
            self.posts.lock(domain).put_back(post);
            return self.stalled.push(transfer);
        };
        let (operation, modes) = if transfer.is_get {
            (self.get_by(extent.bytes), abi::GNI_CQMODE_GLOBAL_EVENT)
        } else {
            self.put_by(kind, extent.bytes)
        };
        post.peer = transfer.peer;
        post.transfer(operation, modes, extent);
        post.done = CompletionAction::Part(transfer);
        // SAFETY: the runtime keeps the memory until the operation is reported, and pieces are kept
        // until they have arrived.
        unsafe { self.posts.lock(domain).post(post, kind.event()) };
    }

    /// A part is complete. Posts the next one, with the same post. Or all are complete: returns the
    /// post.
    pub fn advance_or_end(&self, post: PostDescriptor, mut transfer: Box<Transfer>) -> Option<(PostDescriptor, Ended)> {
        if transfer.end_part() {
            self.advance(post, transfer);
            return None;
        }
        let ended = transfer.end(&self.memory, &self.posts.domains);
        Some((post, ended))
    }
}
