//! Names of UCX that was built with a suffix, as 1.22 can be (`--with-soname-suffix`), and those
//! that wheels of Python give it: `libucp-SUFFIX.so.0`.
#![forbid(unsafe_code)]

use gasnet_sys::env;
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The cache of the loader, with the paths of all libraries in its folders, each terminated.
const CACHE: &str = "/etc/ld.so.cache";

/// The major version in the name of a file, which may have the others after it.
const MAJOR: &[u8] = b".so.0";

/// Files of this process.
pub fn loaded() -> impl Iterator<Item = CString> {
    let maps = fs::read("/proc/self/maps").unwrap_or_default();
    paths(&maps, b'\n').into_iter()
}

/// Files that the loader would find by their names.
pub fn installed() -> impl Iterator<Item = CString> {
    let folders = env::get(c"LD_LIBRARY_PATH").map_or(&[][..], CStr::to_bytes);
    let folders = folders.split(|byte| *byte == b':').filter(|folder| !folder.is_empty());
    let files = folders.flat_map(|folder| fs::read_dir(OsStr::from_bytes(folder)).into_iter().flatten().flatten());
    let files = files.map(|file| file.path().into_os_string().into_vec());
    let files: Vec<u8> = files.flat_map(|path| [path, vec![0]].concat()).collect();
    let cache = fs::read(CACHE).unwrap_or_default();
    paths(&files, 0).into_iter().chain(paths(&cache, 0))
}

/// The paths of UCX with a suffix that end these lines.
fn paths(lines: &[u8], end: u8) -> Vec<CString> {
    let path = |line: &[u8]| {
        let path = &line[line.iter().position(|byte| *byte == b'/')?..];
        let name = Path::new(OsStr::from_bytes(path)).file_name()?.as_bytes();
        let suffix = name.strip_prefix(b"libucp-")?;
        let is_major = suffix.windows(MAJOR.len()).any(|bytes| bytes == MAJOR);
        is_major.then(|| CString::new(path).ok())?
    };
    lines.split(|byte| *byte == end).filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_found() {
        let maps = b"7f00-7f01 r-xp 0 08:01 42   /opt/ucx/lib/libucp-own.so.0.0.0\n7f01-7f02 rw-p 0 00:00 0 \n\
                     7f02-7f03 r-xp 0 08:01 43   /lib/libucp.so.0\n7f03-7f04 r-xp 0 08:01 44  /lib/libuct-own.so.0\n";
        assert_eq!(paths(maps, b'\n'), [c"/opt/ucx/lib/libucp-own.so.0.0.0".to_owned()]);
        assert_eq!(
            paths(b"libucp-a.so.0\0/lib/libucp-a.so.0\0\x01", 0),
            [c"/lib/libucp-a.so.0".to_owned()]
        );
        let folder = std::env::temp_dir().join(format!("gasnet-ucx-suffix-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("libucp-own.so.0");
        fs::write(&file, "").unwrap();
        let path = CString::new(folder.as_os_str().as_bytes()).unwrap();
        env::set(c"LD_LIBRARY_PATH", &path);
        let found = installed().next();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, CString::new(file.as_os_str().as_bytes()).ok());
    }
}
