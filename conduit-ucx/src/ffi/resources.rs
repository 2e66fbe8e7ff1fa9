//! Transports and devices that UCX has opened. It prints them for people, and has no other way to
//! tell.

use super::worker::Worker;
use std::ffi::{c_char, CStr};
use std::ptr;

impl Worker {
    /// The transports that UCX has opened, each with its device: `tcp/eth0`. Empty if there is no
    /// memory for the text, or a version of UCX prints another one.
    pub(super) fn list_resources(&self) -> Vec<String> {
        let turn = self.turn();
        let (mut text, mut bytes): (*mut c_char, usize) = (ptr::null_mut(), 0);
        // SAFETY: places for the text and its length, which live as long as the stream.
        let stream = unsafe { libc::open_memstream(&raw mut text, &raw mut bytes) };
        if stream.is_null() {
            return Vec::new();
        }
        // SAFETY: a live context, and a stream, which is closed once.
        unsafe {
            (turn.library().context_print_info)(turn.context().raw, stream);
            libc::fclose(stream);
        }
        if text.is_null() {
            return Vec::new();
        }
        // SAFETY: the stream has left a terminated text, which is the caller's.
        let resources = named(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
        // SAFETY: that text, once.
        unsafe { libc::free(text.cast()) };
        resources
    }

    /// Whether one of the transports has a name that begins so.
    pub fn has_transport(&self, beginning: &str) -> bool {
        self.resources.iter().any(|name| name.starts_with(beginning))
    }
}

/// The names in a text with lines as `resource 1 : md 1 dev 1 flags -- tcp/lo`.
fn named(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let rest = line.trim_start_matches(['#', ' ']).strip_prefix("resource ")?;
        let name = rest.split_whitespace().next_back()?;
        name.contains('/').then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_from_text() {
        let text = "#\n#     component 0  :  self\n#            md 1  :  component 1  tcp \n#      resource 0  :  \
                    md 0  dev 0  flags -- self/memory0\n#      resource 7  :  md 4  dev 3  flags -s \
                    rc_mlx5/mlx5_0:1\n#\n# memory: 1.54MB, file descriptors: 5\n";
        assert_eq!(named(text), ["self/memory0", "rc_mlx5/mlx5_0:1"]);
        assert!(named("UCP context").is_empty());
    }
}
