//! Cray's libpmi, opened at run time.

use crate::settings::PMI_LIBRARY;
use gasnet_conduit::config;
use gasnet_conduit::library::{Library, Vendor};
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;
use std::sync::OnceLock;

const VENDOR: Vendor = Vendor {
    what: "PMI library of Cray",
    names: &[c"libpmi.so.0", c"libpmi.so", c"libpmi2.so.0", c"libpmi2.so"],
    source: "It comes with Cray's programming environment (module cray-pmi)",
    variable: &PMI_LIBRARY,
    // Slurm has libraries of the same names without this function.
    probe: c"PMI_Allgather",
};
static BY_NAME: Vendor = VENDOR;
static BY_PATH: Vendor = Vendor {
    names: &[
        c"/opt/cray/pe/pmi/default/lib64/libpmi.so.0",
        c"/opt/cray/pe/pmi/default/lib64/libpmi.so",
        c"/opt/cray/pmi/default/lib64/libpmi.so.0",
        c"/opt/cray/pmi/default/lib64/libpmi.so",
    ],
    ..VENDOR
};

/// The node of each rank, and the processes on this node.
type NodeCalls = (
    unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    unsafe extern "C" fn(*mut c_int) -> c_int,
);

/// The functions that are used, after [`Functions::init`] from one thread at a time.
pub struct Functions {
    init: unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int,
    initialized: unsafe extern "C" fn() -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    abort: unsafe extern "C" fn(c_int, *const c_char) -> c_int,
    allgather: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int,
    nodes: Option<NodeCalls>,
    /// The file.
    pub path: String,
}

/// A call that has failed: a message without a full stop.
fn check(name: &str, code: c_int) -> Result<(), String> {
    match code {
        0 => Ok(()),
        code => Err(format!("{name} of Cray's PMI has failed ({code})")),
    }
}

impl Functions {
    /// Looked up once per process. The error is a message without a full stop.
    pub fn get() -> Result<&'static Self, String> {
        static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
        FUNCTIONS.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    /// The first library that is Cray's. The message is about the names, which users know.
    fn open() -> Result<Self, String> {
        let open = |vendor| Library::open(vendor, config::get()).and_then(|library| Self::of(&library));
        open(&BY_NAME).or_else(|why| open(&BY_PATH).map_err(|_| why))
    }

    fn of(library: &Library) -> Result<Self, String> {
        // SAFETY: Cray documents functions of these names with these signatures.
        unsafe {
            Ok(Self {
                allgather: library.function(c"PMI_Allgather")?,
                init: library.function(c"PMI2_Init")?,
                initialized: library.function(c"PMI2_Initialized")?,
                finalize: library.function(c"PMI2_Finalize")?,
                abort: library.function(c"PMI2_Abort")?,
                nodes: library
                    .function(c"PMI_Get_nidlist_ptr")
                    .ok()
                    .zip(library.function(c"PMI_Get_numpes_on_smp").ok()),
                path: library.path(),
            })
        }
    }

    /// Joins the job: this process's rank, and the size.
    pub fn init(&self) -> Result<(u32, u32), String> {
        let (mut spawned, mut size, mut rank, mut number) = (0, 0, 0, 0);
        // SAFETY: live variables.
        let code = unsafe { (self.init)(&raw mut spawned, &raw mut size, &raw mut rank, &raw mut number) };
        check("PMI2_Init", code)?;
        match (u32::try_from(rank), u32::try_from(size)) {
            (Ok(rank), Ok(size)) if rank < size => Ok((rank, size)),
            _ => Err(format!("Cray's PMI assigns an impossible rank: {rank} of {size}")),
        }
    }

    /// Whether this process has joined and not finalised: an MPI may have joined before.
    pub fn is_initialised(&self) -> bool {
        // SAFETY: no preconditions.
        unsafe { (self.initialized)() != 0 }
    }

    /// This process leaves the job.
    pub fn finalize(&self) {
        // SAFETY: no preconditions. It only fails if another library has finalised.
        unsafe { (self.finalize)() };
    }

    /// Ends all processes of the job.
    pub fn abort(&self, message: &CStr) {
        // SAFETY: a terminated text. Flag 1: all processes.
        unsafe { (self.abort)(1, message.as_ptr()) };
    }

    /// The bytes of all `size` processes, in the order of the library.
    pub fn allgather(&self, bytes: &[u8], size: usize) -> Result<Vec<u8>, String> {
        let length = c_int::try_from(bytes.len()).map_err(|_| "a contribution is too long".to_owned())?;
        let (mut own, mut all) = (bytes.to_vec(), vec![0_u8; bytes.len() * size]);
        // SAFETY: reads `length` bytes of one, writes as many for each process to the other.
        let code = unsafe { (self.allgather)(own.as_mut_ptr().cast(), all.as_mut_ptr().cast(), length) };
        check("PMI_Allgather", code).map(|()| all)
    }

    /// The node of each of `size` ranks, and how many are on this node. None: the library is too
    /// old.
    pub fn nodes(&self, size: usize) -> Result<Option<(Vec<u32>, u32)>, String> {
        let Some((list_of, count_of)) = self.nodes else {
            return Ok(None);
        };
        let (mut list, mut count) = (ptr::null_mut(), 0);
        // SAFETY: a live variable.
        check("PMI_Get_nidlist_ptr", unsafe { list_of(&raw mut list) })?;
        // SAFETY: a live variable.
        check("PMI_Get_numpes_on_smp", unsafe { count_of(&raw mut count) })?;
        if list.is_null() {
            return Err("PMI_Get_nidlist_ptr of Cray's PMI returns no list".into());
        }
        // SAFETY: the list has a C int for each rank, and stays.
        let list = (0..size).map(|rank| unsafe { list.cast::<c_int>().add(rank).read() } as u32);
        Ok(Some((list.collect(), count as u32)))
    }
}
