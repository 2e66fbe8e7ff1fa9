//! The process that the user started. It forks the one that runs the job, passes signals on, and
//! sees to it that nothing is left, whichever of the two is killed.

use super::os::{self, Signals};

/// Runs `body` in a child, in a session of its own. Returns its exit code.
pub fn run(body: impl FnOnce(Signals) -> i32) -> i32 {
    let signals = Signals::block();
    os::inherit_orphans();
    let own = std::process::id();
    let child = match os::fork() {
        Ok(Some(child)) => child,
        Ok(None) => {
            // It ends with this process, by a signal that it handles.
            os::die_with_parent(own, libc::SIGTERM);
            // Ranks on compute nodes have no terminal, and get signals from the launcher alone.
            os::new_session();
            std::process::exit(body(signals));
        }
        Err(why) => {
            eprintln!("cannot fork: {why}");
            return 1;
        }
    };
    let descriptor = match signals.descriptor() {
        Ok(descriptor) => descriptor,
        Err(why) => {
            eprintln!("cannot wait for signals: {why}");
            os::kill_all();
            return 1;
        }
    };
    loop {
        os::poll(&mut [os::readable(&descriptor)], -1);
        while let Some(number) = os::next_signal(&descriptor) {
            if number != libc::SIGCHLD {
                os::kill(child, number);
            }
        }
        while let Some((pid, status)) = os::reap() {
            if pid == child {
                os::kill_all();
                if libc::WIFSIGNALED(status) {
                    os::end_by(libc::WTERMSIG(status), &signals);
                }
                return libc::WEXITSTATUS(status);
            }
        }
    }
}
