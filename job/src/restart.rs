//! Starting the program again without the number of ranks that was its first argument: so `main` sees in every rank what it would see if the launcher had
//! started the job, whatever it did with its arguments before initialisation. (The reference's ranks begin at `main`, too.)

use std::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;

use super::options::{RANKS, RANKS_OF_JOB};
use super::JobError;
use gasnet_sys::process;

/// Replaces this process by one of the same program with the arguments `words`, for a job of `ranks`. Returns only if that fails.
pub fn restart(words: &[CString], ranks: u32) -> JobError {
    // As a user sets it.
    env::set_var(RANKS, ranks.to_string());
    env::remove_var(RANKS_OF_JOB);
    // What cannot be written shows when the program ends.
    let _ = process::flush_streams();
    // By its name, because under valgrind that is the program's and the link is not; by the link if the name means nothing any more.
    let named = env::current_exe().ok().filter(|path| path.is_file());
    let program = named.and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
    let why = process::replace(program.as_deref().unwrap_or(c"/proc/self/exe"), words);
    JobError {
        message: format!(
            "the program cannot be started again without its number of ranks: {why}. Use gasnetrun_<conduit> -n {ranks}"
        ),
    }
}
