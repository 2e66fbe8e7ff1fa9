//! Restarts a program whose first argument was the number of ranks, without that argument. So
//! `main` sees the same arguments in every rank as under the launcher, whatever it did with them
//! before initialisation. (In the reference, too, ranks begin at `main`.)

use std::env;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStringExt;

use super::options::RANKS;
use super::JobError;
use gasnet_sys::process;

/// Replaces this process by the same program with the arguments `words`, for a job of `ranks`.
/// Returns only if that fails.
pub fn restart(words: &[CString], ranks: u32) -> JobError {
    // As if the user had set it.
    env::set_var(RANKS, ranks.to_string());
    // A write error is reported when the program ends.
    let _ = process::flush_streams();
    let why = again(words);
    JobError::new(format!(
        "cannot restart the program without its number of ranks: {why}. Use gasnetrun_<conduit> -n {ranks}"
    ))
}

/// Replaces this process by the same program with the arguments `words`. Returns only if that
/// fails.
pub fn again(words: &[CString]) -> io::Error {
    // By path, because under valgrind that is the program and the link is not. By the link if the
    // path is stale.
    let named = env::current_exe().ok().filter(|path| path.is_file());
    let program = named.and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
    process::replace(program.as_deref().unwrap_or(c"/proc/self/exe"), words)
}
