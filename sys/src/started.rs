//! How this process was started, from before `main` could change it: programs split their
//! arguments in place, overwrite them with a title, change folder, or block signals.
//!
//! The loader runs [`at_load`] when it maps the library. glibc passes it the arguments; elsewhere
//! `/proc/self/cmdline` has them as they are later.

use std::env;
use std::ffi::{c_char, c_int, CStr, CString};
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::signal::{self, Mask};

/// Arguments, folder and signal mask of the start.
pub struct Started {
    words: Vec<CString>,
    /// None if it has no path.
    folder: Option<PathBuf>,
    mask: Mask,
}

static STARTED: OnceLock<Started> = OnceLock::new();

#[used]
#[link_section = ".init_array"]
static AT_LOAD: extern "C" fn(c_int, *const *const c_char) = at_load;

extern "C" fn at_load(count: c_int, words: *const *const c_char) {
    let words = (0..if cfg!(target_env = "gnu") {
        count.max(0) as usize
    } else {
        0
    })
        // SAFETY: glibc passes the arguments of `main` and their number to each of these functions.
        .map(|i| unsafe { CStr::from_ptr(*words.add(i)) }.to_owned())
        .collect();
    STARTED.get_or_init(|| Started {
        words,
        folder: env::current_dir().ok(),
        mask: signal::mask(),
    });
}

impl Started {
    /// Of this process. None if the loader did not run the library's function.
    pub fn get() -> Option<&'static Self> {
        STARTED.get()
    }

    /// The arguments, the program's name first.
    pub fn words(&self) -> io::Result<Vec<CString>> {
        if !self.words.is_empty() {
            return Ok(self.words.clone());
        }
        let text = std::fs::read("/proc/self/cmdline")?;
        let words = text.split_inclusive(|&byte| byte == 0);
        Ok(words
            .filter_map(|word| CString::from_vec_with_nul(word.to_vec()).ok())
            .collect())
    }

    /// Gives the calling thread folder and signal mask of the start. A folder that is gone has no
    /// effect.
    pub fn restore(&self) {
        if let Some(folder) = &self.folder {
            let _ = env::set_current_dir(folder);
        }
        signal::set_mask(&self.mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn the_start_is_that_of_the_test() {
        let started = Started::get().expect("the loader runs the function of the library");
        let now: Vec<_> = env::args_os()
            .filter_map(|word| CString::new(word.into_vec()).ok())
            .collect();
        assert_eq!(started.words().unwrap(), now);
        assert_eq!(started.folder, env::current_dir().ok());
    }
}
