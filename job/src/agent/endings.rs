//! The end of a rank, and its meaning for the job.
//!
//! Exit handlers and destructors run after the rank has announced its code, and tools replace the
//! status of a process (`valgrind --error-exitcode`, LeakSanitizer). So the status of the process
//! counts, too, where the agent is its parent: a failure replaces a success.
#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use super::children::{Asked, State};
use super::signals::signal_name;
use super::{Agent, BROKEN};
use gasnet_sys::process::Ended;

impl Agent<'_> {
    /// Checks whether a rank has ended. Its messages are read first.
    pub(super) fn reap(&mut self, i: usize) {
        if self.setup.children[i].state == State::Gone {
            return;
        }
        let Some(ended) = self.setup.children[i].ended() else {
            return;
        };
        self.read_control_socket(i);
        let child = &mut self.setup.children[i];
        let state = std::mem::replace(&mut child.state, State::Gone);
        // A rank that ended by itself before the signal arrived was not too late.
        if child.is_killed && !matches!(ended, Ended::Exited(_)) {
            return self.report_late(i);
        }
        match state {
            State::InExit => self.ended_in_exit(i, ended),
            // A rank that must leave may end in any way.
            State::Running if self.leave_at.is_some() => {}
            State::Running | State::Gone => self.ended_without_exit(i, ended),
        }
    }

    /// Names a rank that was killed because it was late, once.
    fn report_late(&mut self, i: usize) {
        let child = &self.setup.children[i];
        if child.asked != Asked::Reported {
            let rank = child.rank;
            self.print(format_args!(
                "rank {rank} did not end within the exit timeout and was killed; its unwritten output is lost. \
                 GASNET_EXITTIMEOUT sets the limit"
            ));
        }
    }

    /// Whether a rank has joined the job. Fresh processes first run the client's code.
    fn has_joined(&self, i: usize) -> bool {
        let status = self.setup.control.status(self.setup.children[i].rank);
        status.process.load(Ordering::Relaxed) != 0
    }

    /// A rank that had not called exit has ended.
    fn ended_without_exit(&mut self, i: usize, ended: Ended) {
        let managed = self.setup.children[i].is_managed();
        let catches = self.setup.options.catch_exit;
        let (code, how) = match ended {
            Ended::Killed(number) => (128 + number, self.killed_by(number)),
            Ended::Exited(status) if !self.has_joined(i) => (
                if status == 0 { BROKEN } else { status },
                format!(
                    "ended with status {status} before gex_Client_Init (the program was executed again, because it \
                     has other threads)"
                ),
            ),
            Ended::Exited(0) if !catches => return,
            Ended::Exited(status) if !catches => return self.begin_shutdown(status, false),
            // As gasnet_exit(0) of one rank: the others have their time.
            Ended::Exited(0) => {
                let who = self.name(i);
                self.print(format_args!("{who} ended with status 0 without gasnet_exit"));
                return self.begin_shutdown(0, false);
            }
            Ended::Exited(status) => (status, format!("ended with status {status} without gasnet_exit")),
            // Its parent, a process manager, knows the status, and ends the job if it is a failure.
            Ended::Unknown if managed && !catches => return,
            Ended::Unknown if managed => (
                BROKEN,
                format!("ended without gasnet_exit{}", self.out_of_memory.remark()),
            ),
            Ended::Unknown => (
                BROKEN,
                "ended, and another thread of the started process took its status".into(),
            ),
        };
        let who = self.name(i);
        self.end_job(code, &format!("{who} {how}"));
    }

    /// A rank in exit has ended. Compares its status with the code that it had announced.
    fn ended_in_exit(&mut self, i: usize, ended: Ended) {
        let announced = self.setup.children[i].announced;
        let (code, how) = match ended {
            Ended::Killed(number) => (128 + number, self.killed_by(number)),
            Ended::Exited(status) => (status, format!("ended with status {status}")),
            Ended::Unknown => return,
        };
        if code == 0 || code == announced & 0xff {
            return;
        }
        let who = self.name(i);
        let what = format!("{who} called exit with code {announced}, but {how}");
        if self.leave_at.is_none() && matches!(ended, Ended::Killed(_)) {
            return self.end_job(code, &what);
        }
        self.print(format_args!("{what}"));
        self.worsen(code);
    }

    /// The signal that killed a rank, in a message.
    fn killed_by(&mut self, number: i32) -> String {
        let remark = match number {
            libc::SIGKILL => self.out_of_memory.remark(),
            _ => String::new(),
        };
        format!("was killed by {}{remark}", signal_name(number))
    }

    /// A rank in a message.
    fn name(&self, i: usize) -> String {
        let child = &self.setup.children[i];
        format!("rank {} of {} (pid {})", child.rank, self.setup.layout.size, child.pid)
    }
}
