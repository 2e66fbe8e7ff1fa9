//! Output of ranks on its way: out of their pipes, to the agent above or out here.
#![forbid(unsafe_code)]

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use super::output::Pump;
use super::signals::ENDING;
use super::{readable, Agent, IMPATIENT};
use crate::tree::message::AgentMessage;
use gasnet_sys::fd;

/// How long a reader may take for the last output of a job that a signal has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(5);

impl Agent<'_> {
    fn outputs(&mut self) -> impl Iterator<Item = &mut Pump> {
        self.setup.children.iter_mut().flat_map(|c| &mut c.output).flatten()
    }

    /// Whether ranks' output stays in their pipes for now.
    pub(super) fn holds_output(&self) -> bool {
        self.held || self.console.is_full() || self.setup.tree.is_full()
    }

    /// Passes on what ranks have written, unless what it goes to has enough; those below hear of that.
    pub(super) fn pass_output(&mut self) {
        self.console.look();
        self.tell_failures();
        // Where ranks' output goes up, only what agents say themselves goes out here.
        let goes_up = self.goes_up();
        for stream in self.console.closed().into_iter().filter(|_| !goes_up) {
            self.close_output(stream);
        }
        let holds = self.held || self.console.is_full();
        if std::mem::replace(&mut self.has_held, holds) != holds {
            self.tell_below(&AgentMessage::Hold { on: holds });
        }
        if !self.holds_output() {
            self.outputs().for_each(Pump::pass);
            self.lift_output();
        }
    }

    /// Output that cannot be written makes the job fail, and is not lost without a word.
    fn tell_failures(&mut self) {
        for (stream, why) in self.console.failures() {
            if stream == 1 {
                self.say(format_args!("standard output cannot be written: {why}"));
            }
        }
    }

    /// Nobody reads a stream any more.
    pub(super) fn close_output(&mut self, stream: RawFd) {
        self.outputs().for_each(|pump| pump.close(stream));
        self.tell_below(&AgentMessage::Closed { stream: stream as u32 });
    }

    /// Tells those whose output comes here. Where it does not, each has a reader of its own.
    fn tell_below(&mut self, message: &AgentMessage) {
        if self.setup.options.route_output.is_some() {
            self.setup.tree.send_down(message);
        }
    }

    /// Passes on all that is left, when all ranks are gone.
    pub(super) fn end_output(&mut self) {
        loop {
            self.outputs().for_each(Pump::pass);
            if !self.lift_output() {
                break;
            }
        }
        self.outputs().for_each(Pump::finish);
        self.lift_output();
        // A reader who pauses holds the end of the job, as that of any program, unless a signal asks for it; for a while if one has before.
        let (mut asked_since, mut is_asked) = (None, false);
        loop {
            if asked_since.is_none() && self.signals.have_asked(self.code) {
                asked_since = Some(Instant::now());
            }
            // To tell what has failed is more to write.
            let was_done = self.console.is_done();
            self.tell_failures();
            if was_done && self.console.is_done() {
                return;
            }
            if is_asked || asked_since.is_some_and(|since| since.elapsed() >= LAST_OUTPUT) {
                self.cut_by = self.signals.asked();
                return;
            }
            let mut items = vec![readable(self.signals.fd())];
            items.extend(self.console.fd().map(readable));
            let _ = fd::poll(&mut items, Some(IMPATIENT));
            self.console.look();
            while let Some((number, _)) = self.signals.next() {
                self.signals.note(number);
                is_asked |= ENDING.contains(&number);
            }
            // Those above want to hear that this agent is there, and may pass a signal on.
            self.hear_tree();
            self.report();
        }
    }

    /// Whether what ranks write is for the agent above.
    fn goes_up(&self) -> bool {
        let manner = self.setup.options.output(self.setup.tree.is_root());
        manner.is_some_and(|manner| manner.up)
    }

    /// Gives on what is ready. Whether there was something.
    fn lift_output(&mut self) -> bool {
        let up = self.goes_up();
        let ready: Vec<_> = self.outputs().filter_map(Pump::ready).collect();
        let any = !ready.is_empty();
        for (stream, bytes) in ready {
            if up {
                let stream = stream as u32;
                self.setup.tree.send_up(&AgentMessage::Output { stream, bytes });
            } else {
                self.console.write(stream, &bytes);
            }
        }
        any
    }

    /// What a rank of another host has written.
    pub(super) fn take_output(&mut self, stream: u32, bytes: Vec<u8>) {
        if self.setup.tree.is_root() {
            self.console.write(if stream == 2 { 2 } else { 1 }, &bytes);
        } else {
            self.setup.tree.send_up(&AgentMessage::Output { stream, bytes });
        }
    }
}
