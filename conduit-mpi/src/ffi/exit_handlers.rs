//! The exit handlers of one library, for a process that ends without those of the program.
//!
//! MPICH from 4.2 on finalizes the connection to its launcher in an exit handler
//! (pmodels/mpich@v4.2.0:src/util/mpir_pmi.c). hydra kills the other ranks if one ends without.

use std::ffi::{c_int, c_void};
use std::slice;

/// An entry of a library's dynamic section.
#[repr(C)]
struct Dynamic {
    tag: isize,
    value: usize,
}

const NONE: isize = 0;
const FINI_ARRAY: isize = 26;
const FINI_ARRAY_BYTES: isize = 28;

type Function = unsafe extern "C" fn();

/// A search for the library with the code at an address.
struct Search {
    code: usize,
    /// Its functions for the end, first to last.
    functions: &'static [Function],
}

/// Runs the exit handlers and destructors of the library that has the code at this address, as
/// `exit` would. Not those of the program, if that has the code.
///
/// # Safety
/// The library stays open. Nobody uses it any more.
pub unsafe fn run(code: *const c_void) {
    let mut search = Search {
        code: code as usize,
        functions: &[],
    };
    // SAFETY: a function that knows its argument.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    // The compiler's runtime has put the function there that runs the exit handlers.
    for function in search.functions.iter().rev() {
        // SAFETY: for the caller, as at the end of the process.
        unsafe { function() };
    }
}

/// Looks into a library. A result other than 0 ends the search.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the argument of `run`, and a library that is open.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: the loader's, with this length.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = info.dlpi_addr as usize;
    let has_code = |header: &&libc::Elf64_Phdr| {
        let start = base.wrapping_add(header.p_vaddr as usize);
        header.p_type == libc::PT_LOAD && (start..start + header.p_memsz as usize).contains(&search.code)
    };
    if headers.iter().find(has_code).is_none() {
        return 0;
    }
    // SAFETY: terminated, if it is not null. That of the program is empty.
    let is_library = !info.dlpi_name.is_null() && unsafe { *info.dlpi_name } != 0;
    let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC);
    if let Some(header) = dynamic.filter(|_| is_library) {
        let (mut array, mut bytes) = (0, 0);
        let mut entry = base.wrapping_add(header.p_vaddr as usize) as *const Dynamic;
        // SAFETY: a section ends with this tag.
        while unsafe { (*entry).tag } != NONE {
            // SAFETY: as above.
            let Dynamic { tag, value } = unsafe { &*entry };
            match *tag {
                FINI_ARRAY => array = base.wrapping_add(*value),
                FINI_ARRAY_BYTES => bytes = *value,
                _ => {}
            }
            // SAFETY: as above.
            entry = unsafe { entry.add(1) };
        }
        if array != 0 {
            // SAFETY: an array of this length, which the loader has relocated.
            search.functions =
                unsafe { slice::from_raw_parts(array as *const Function, bytes / size_of::<Function>()) };
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::LIBRARY;
    use gasnet_conduit::library::{Library, Vendor};
    use std::ffi::CString;
    use std::process::Command;

    static TEST: Vendor = Vendor {
        what: "test",
        names: &[],
        source: "",
        variable: &LIBRARY,
        probe: c"count",
    };
    const TEXT: &str = "#include <stdlib.h>\nstatic int ran;\nstatic void handler(void) { ran++; }\n\
                        int count(void) { return ran; }\nint start(void) { return atexit(handler); }\n";

    #[test]
    fn handlers_of_a_library_run_once() {
        let folder = std::env::temp_dir().join(format!("gasnet-mpi-exit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, file) = (folder.join("test.c"), folder.join("libtest.so"));
        std::fs::write(&source, TEXT).unwrap();
        let compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&file, &source])
            .status();
        assert!(compiler.unwrap().success());
        let library = Library::in_file(&TEST, &CString::new(file.to_str().unwrap()).unwrap(), false).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        // SAFETY: the types of the functions.
        let call = |name| unsafe { library.function::<unsafe extern "C" fn() -> c_int>(name).unwrap()() };
        assert_eq!((call(c"start"), call(c"start"), call(c"count")), (0, 0, 0));
        // SAFETY: a function of the library, whose counter outlives its end.
        let end = || unsafe { run(library.function(c"count").unwrap()) };
        end();
        assert_eq!(call(c"count"), 2);
        end();
        assert_eq!(call(c"count"), 2);
        // SAFETY: code of the program, which is not ended.
        unsafe { run(end_of_the_program as *const c_void) };
    }

    fn end_of_the_program() {}
}
