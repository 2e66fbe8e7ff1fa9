//! The library of MPI: finding it, and its functions.
//!
//! Names of the MPI_ functions are looked up, not of PMPI_, so that a tool that was loaded before
//! (`LD_PRELOAD`) sees the calls. Found in the process, a library is never joined by another one:
//! two MPIs would fight for the launcher's connection.

use super::abi::{self, Constants, Handle};
use crate::presets;
use crate::settings::LIBRARY;
use gasnet_conduit::config;
use gasnet_conduit::library::{Library, Vendor};
use gasnet_sys::process;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Names of the libraries, in this order where nothing tells which MPI has started the process.
/// Never libmpi.so alone: a linker script in places, and either ABI in others (reference/mpi.md).
const NAMES: [&CStr; 12] = [
    // MPICH and Intel MPI; Debian's MPICH; Cray MPICH, one for each compiler.
    c"libmpi.so.12",
    c"libmpich.so.12",
    c"libmpi_gnu_123.so.12",
    c"libmpi_gnu_112.so.12",
    c"libmpi_gnu_91.so.12",
    c"libmpi_cray.so.12",
    // Open MPI; Spectrum MPI; Fujitsu MPI.
    c"libmpi.so.40",
    c"libmpi_ibm.so.3",
    c"libmpi_ibm.so",
    c"libmpi.so.0",
    // The standard ABI; that of MPICH 5.0.0.
    c"libmpi_abi.so.1",
    c"libmpi_abi.so.0",
];
/// The first of Open MPI's.
const OPEN_MPI: usize = 6;

/// Search for MPI.
static VENDOR: Vendor = Vendor {
    what: "MPI library",
    names: &NAMES,
    source: "It comes with MPICH, Open MPI or another MPI (Debian: packages libmpich12, libopenmpi3)",
    variable: &LIBRARY,
    probe: c"MPI_Get_library_version",
};

/// Variables of Open MPI's launchers, and of others.
const BY_OPEN_MPI: [&str; 4] = [
    "OMPI_COMM_WORLD_SIZE",
    "PRTE_LAUNCHED",
    "OMPI_UNIVERSE_SIZE",
    "PMIX_RANK",
];
const BY_OTHERS: [&str; 4] = ["PMI_RANK", "PMI_FD", "PMI_SIZE", "MPI_LOCALRANKID"];

fn has_any(names: &[&str]) -> bool {
    names.iter().any(|name| std::env::var_os(name).is_some())
}

/// Whether a launcher of an MPI has started this process, as far as the environment tells.
fn has_launcher() -> bool {
    has_any(&BY_OPEN_MPI) || has_any(&BY_OTHERS)
}

/// The file names to try: those of the launcher first, beside it and then by name.
fn candidates() -> Vec<CString> {
    let first = if has_any(&BY_OPEN_MPI) { OPEN_MPI } else { 0 };
    let names = NAMES.iter().cycle().skip(first).take(NAMES.len());
    // The parent of a privileged process is its caller's choice.
    let is_safe = has_launcher() && !process::is_privileged();
    let folders = if is_safe { launcher_folders() } else { Vec::new() };
    let beside = folders
        .iter()
        .flat_map(|folder| names.clone().map(move |name| (folder, name)));
    let beside = beside.filter_map(|(folder, name)| {
        let path = folder.join(name.to_str().ok()?);
        let path = path.is_file().then(|| path.to_str().map(str::to_owned))??;
        CString::new(path).ok()
    });
    beside.chain(names.clone().map(|name| CString::from(*name))).collect()
}

/// The folders of libraries in the prefix that the process's parent, a daemon of the launcher, was
/// installed to.
fn launcher_folders() -> Vec<PathBuf> {
    let parent = process::parent();
    let program = std::fs::read_link(format!("/proc/{parent}/exe")).ok();
    let prefix = program.as_deref().and_then(|program| program.parent()?.parent());
    prefix.map_or(Vec::new(), |prefix| {
        ["lib", "lib64"].map(|folder| prefix.join(folder)).into()
    })
}

/// The library, for people.
#[derive(Clone, Debug)]
pub struct About {
    /// The beginning of its version.
    pub version: String,
    pub abi: &'static str,
    /// The line about its network, if its version has one.
    pub device: Option<String>,
    /// The file.
    pub path: String,
}

impl About {
    fn new(library: &Library, abi: &'static str, version: &str) -> Self {
        /// Of MPICH and its descendants: "MPICH Device:    ch4:ofi".
        const DEVICE: &str = "MPICH Device:";
        let device = version.lines().find_map(|line| line.strip_prefix(DEVICE));
        Self {
            version: beginning(version),
            abi,
            device: device.map(|device| device.trim().into()),
            path: library.path(),
        }
    }
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.path)
    }
}

/// The first line of a version, in at most 80 characters.
fn beginning(version: &str) -> String {
    let line = version.lines().next().unwrap_or_default().split(',').next();
    let words: Vec<_> = line.unwrap_or_default().split_whitespace().collect();
    words.join(" ").chars().take(80).collect()
}

/// Declares the table of the library's functions. All of them return an error code.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($arg:ty),* $(,)?);)*) => {
        /// The functions and constants of the library.
        pub struct Functions<H: 'static> {
            $(pub(super) $name: unsafe extern "C" fn($($arg),*) -> c_int,)*
            pub(super) constants: Constants<H>,
            pub about: About,
            /// Code of the library itself, not of a tool that takes its functions' places.
            pub(super) code: usize,
        }

        impl<H: Handle> Functions<H> {
            fn look_up(library: &Library, constants: Constants<H>, about: About) -> Result<Self, String> {
                Ok(Self {
                    // SAFETY: the MPI standard declares functions of these names with these
                    // signatures, where H is the ABI's type of handles.
                    $($name: unsafe {
                        library.function::<unsafe extern "C" fn($($arg),*) -> c_int>($symbol)?
                    },)*
                    constants,
                    about,
                    // SAFETY: an address that is not accessed.
                    code: unsafe { library.function::<*const c_void>(c"PMPI_Finalize") }? as usize,
                })
            }
        }
    };
}

/// `MPI_Comm_copy_attr_function`.
pub type CopyAttribute<H> = unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// `MPI_Comm_delete_attr_function`.
pub type DeleteAttribute<H> = unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void) -> c_int;

functions! {
    init_thread = c"MPI_Init_thread" (*mut c_int, *mut c_void, c_int, *mut c_int);
    initialized = c"MPI_Initialized" (*mut c_int);
    finalized = c"MPI_Finalized" (*mut c_int);
    query_thread = c"MPI_Query_thread" (*mut c_int);
    finalize = c"MPI_Finalize" ();
    abort = c"MPI_Abort" (H, c_int);
    error_string = c"MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    comm_rank = c"MPI_Comm_rank" (H, *mut c_int);
    comm_size = c"MPI_Comm_size" (H, *mut c_int);
    comm_dup = c"MPI_Comm_dup" (H, *mut H);
    comm_split_type = c"MPI_Comm_split_type" (H, c_int, c_int, H, *mut H);
    comm_free = c"MPI_Comm_free" (*mut H);
    comm_set_errhandler = c"MPI_Comm_set_errhandler" (H, H);
    create_keyval = c"MPI_Comm_create_keyval" (
        CopyAttribute<H>, DeleteAttribute<H>, *mut c_int, *mut c_void,
    );
    set_attr = c"MPI_Comm_set_attr" (H, c_int, *mut c_void);
    bcast = c"MPI_Bcast" (*mut c_void, c_int, H, c_int, H);
    allgather = c"MPI_Allgather" (*const c_void, c_int, H, *mut c_void, c_int, H, H);
    ibarrier = c"MPI_Ibarrier" (H, *mut H);
    isend = c"MPI_Isend" (*const c_void, c_int, H, c_int, c_int, H, *mut H);
    irecv = c"MPI_Irecv" (*mut c_void, c_int, H, c_int, c_int, H, *mut H);
    test = c"MPI_Test" (*mut H, *mut c_int, *mut c_void);
    testany = c"MPI_Testany" (c_int, *mut H, *mut c_int, *mut c_int, *mut c_void);
    win_create_dynamic = c"MPI_Win_create_dynamic" (H, H, *mut H);
    win_set_errhandler = c"MPI_Win_set_errhandler" (H, H);
    win_get_attr = c"MPI_Win_get_attr" (H, c_int, *mut c_void, *mut c_int);
    win_attach = c"MPI_Win_attach" (H, *mut c_void, isize);
    win_detach = c"MPI_Win_detach" (H, *const c_void);
    win_lock_all = c"MPI_Win_lock_all" (c_int, H);
    win_unlock_all = c"MPI_Win_unlock_all" (H);
    win_free = c"MPI_Win_free" (*mut H);
    win_flush = c"MPI_Win_flush" (c_int, H);
    put = c"MPI_Put" (*const c_void, c_int, H, c_int, isize, c_int, H, H);
    rput = c"MPI_Rput" (*const c_void, c_int, H, c_int, isize, c_int, H, H, *mut H);
    get = c"MPI_Get" (*mut c_void, c_int, H, c_int, isize, c_int, H, H);
    rget = c"MPI_Rget" (*mut c_void, c_int, H, c_int, isize, c_int, H, H, *mut H);
}

/// The library of this process, by the type of its handles.
#[derive(Clone, Copy)]
pub enum Found {
    /// MPICH's ABI.
    Numbers(&'static Functions<c_int>),
    /// Open MPI's, or the standard.
    Pointers(&'static Functions<usize>),
}

impl Found {
    /// The library, opened once per process. The error is a message without a full stop.
    pub fn load() -> Result<Self, String> {
        static FOUND: OnceLock<Result<Found, String>> = OnceLock::new();
        FOUND.get_or_init(Self::open).clone()
    }

    fn open() -> Result<Self, String> {
        presets::set();
        let in_process = Library::of_process(&VENDOR).or_else(|| Library::loaded(&VENDOR));
        let library = match in_process {
            Some(library) => library,
            None => Library::open_one(&VENDOR, config::get(), &candidates())?,
        };
        let version = version(&library)?;
        let about = |abi| About::new(&library, abi, &version);
        let has = |name: &CStr| {
            // SAFETY: an address that is not accessed.
            unsafe { library.function::<*const c_void>(name) }.is_ok()
        };
        // Only the standard ABI answers with a version; MPICH 5's and Intel's other libraries have
        // the function and answer -1 (reference/mpi.md).
        if standard_abi(&library) {
            let mut constants = abi::STANDARD;
            if version.starts_with("Intel") {
                constants.errors_return = abi::INTEL_ERRORS_RETURN;
            }
            return Functions::look_up(&library, constants, about("the standard of MPI 5")).map(Self::pointers);
        }
        if has(abi::OBJECTS.comm_world) {
            let constants = abi::open_mpi(&library)?;
            return Functions::look_up(&library, constants, about("Open MPI's")).map(Self::pointers);
        }
        // A function of MPICH that its mpi.h names (MPI_DUP_FN), in all of its descendants.
        if has(c"MPIR_Dup_fn") {
            let functions = Functions::look_up(&library, abi::MPICH, about("MPICH's"))?;
            return Ok(Self::Numbers(Box::leak(Box::new(functions))));
        }
        Err(format!(
            "{} ({}) has none of the ABIs that GASNet knows: MPICH's, Open MPI's, and the standard one of MPI 5, which \
             drafts in MPICH 4.3 do not match. Select another library with {}",
            library.path(),
            beginning(&version),
            LIBRARY.variable.name
        ))
    }

    fn pointers(functions: Functions<usize>) -> Self {
        Self::Pointers(Box::leak(Box::new(functions)))
    }

    /// The library, for people.
    pub fn about(self) -> &'static About {
        match self {
            Self::Numbers(functions) => &functions.about,
            Self::Pointers(functions) => &functions.about,
        }
    }
}

/// Whether the library has the standard ABI.
fn standard_abi(library: &Library) -> bool {
    // SAFETY: MPI 5.0, 20.3: two numbers to write, callable at any time.
    let get =
        unsafe { library.function::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(c"MPI_Abi_get_version") };
    let (mut major, mut minor) = (-1, -1);
    // SAFETY: as above.
    get.is_ok_and(|get| unsafe { get(&raw mut major, &raw mut minor) } == 0) && major > 0
}

/// The text of its version.
fn version(library: &Library) -> Result<String, String> {
    // MPI_MAX_LIBRARY_VERSION_STRING is 8192 at most.
    let (mut text, mut length) = ([0 as c_char; 8193], 0);
    // SAFETY: MPI 3.0, 8.1.1: text and length to write, callable at any time.
    let get = unsafe {
        library.function::<unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int>(c"MPI_Get_library_version")?
    };
    // SAFETY: as above.
    unsafe { get(text.as_mut_ptr(), &raw mut length) };
    // SAFETY: terminated, for it is longer than what was written.
    Ok(unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
}
