//! How this process was started, from before `main` could change it: programs split their
//! arguments in place, overwrite them with a title, change folder, or block signals.
//!
//! The loader runs [`at_load`] when it maps the library: before `main`, or when a program such as
//! Python opens the library.

use std::env;
use std::ffi::CString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::signal::{self, Mask};

/// Command line, folder and signal mask of the start.
struct Started {
    line: Vec<u8>,
    /// None if it has no path.
    folder: Option<PathBuf>,
    mask: Mask,
}

static STARTED: OnceLock<Started> = OnceLock::new();

#[used]
#[link_section = ".init_array"]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    get();
}

/// The start, or what is left of it if the loader did not run [`at_load`].
fn get() -> &'static Started {
    STARTED.get_or_init(|| Started {
        line: fs::read("/proc/self/cmdline").unwrap_or_default(),
        folder: env::current_dir().ok(),
        mask: signal::mask(),
    })
}

/// The command line: a loader or an interpreter, the program, its arguments. Empty if there is no
/// `/proc`.
pub fn words() -> Vec<CString> {
    let words = get().line.split_inclusive(|&byte| byte == 0);
    words
        .filter_map(|word| CString::from_vec_with_nul(word.to_vec()).ok())
        .collect()
}

/// The folder.
pub fn folder() -> io::Result<PathBuf> {
    get().folder.clone().map_or_else(env::current_dir, Ok)
}

/// Gives the calling thread folder and signal mask of the start. A folder that is gone has no
/// effect.
pub fn restore() {
    if let Some(folder) = &get().folder {
        let _ = env::set_current_dir(folder);
    }
    signal::set_mask(&get().mask);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn the_start_is_that_of_the_test() {
        assert!(STARTED.get().is_some(), "the loader runs the function of the library");
        let now: Vec<_> = env::args_os()
            .filter_map(|word| CString::new(word.into_vec()).ok())
            .collect();
        assert_eq!(words(), now);
        assert_eq!(folder().ok(), env::current_dir().ok());
    }
}
