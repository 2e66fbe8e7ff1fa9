//! PMIx, through its library. The parts of its interface used here are the same in versions 3, 4
//! and 5.
//!
//! The library starts a thread, which runs until [`Pmix::finalize`] with all signals blocked. A
//! child made by fork has the library's descriptors but not the thread, and must not call the
//! library.
//!
//! The library's plug-ins are linked with it, so it need not be opened globally (observed with
//! 4.2.2, whose plug-ins are files, and 5.0.11, which has none).

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::os::fd::RawFd;
use std::sync::mpsc;
use std::time::Duration;
use std::{mem, ptr, thread};

use super::{quoted, Membership, ProcessManager, VALUE_MAX};
use crate::JobError;
use gasnet_conduit::config;
use gasnet_conduit::library::{self, functions, Library};
use gasnet_sys::signal;

const SUCCESS: c_int = 0;
/// Most libraries of one process that have initialised PMIx, which counts them.
const MOST_USERS: u32 = 8;
/// `PMIX_RANK_WILDCARD`: all processes of the namespace.
const ALL_RANKS: u32 = u32::MAX - 1;
/// `PMIX_GLOBAL`.
const GLOBAL: u8 = 3;
/// Numbers of types: `PMIX_BOOL`, `PMIX_STRING`, `PMIX_INT`, `PMIX_UINT32`.
const BOOL: u16 = 1;
const STRING: u16 = 3;
const INT: u16 = 6;
const UINT32: u16 = 14;
/// Seconds that a value may take from another host.
const GET_LIMIT: c_int = 60;
/// Sizes of the text of a namespace and of a key, with terminating zeros.
const NAMESPACE: usize = 256;
const KEY: usize = 512;

/// `pmix_proc_t`.
#[repr(C)]
struct Proc {
    namespace: [c_char; NAMESPACE],
    rank: u32,
}

impl Proc {
    /// Another process of the same namespace.
    fn with_rank(&self, rank: u32) -> Self {
        let namespace = self.namespace;
        Self { namespace, rank }
    }
}

#[repr(C)]
union Data {
    flag: bool,
    number: u32,
    seconds: c_int,
    string: *mut c_char,
    /// The longest of the unused members: `pmix_envar_t`.
    _longest: [usize; 3],
    /// The member with the strictest alignment.
    _widest: u64,
}

/// `pmix_value_t`.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
struct Info {
    key: [c_char; KEY],
    flags: u32,
    value: Value,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(
    mem::size_of::<Proc>() == 260
        && mem::size_of::<Value>() == 32
        && mem::offset_of!(Value, data) == 8
        && mem::size_of::<Info>() == 552
        && mem::offset_of!(Info, value) == 520
);

functions! {
    #[derive(Debug)]
    Api of PMIX {
        init = c"PMIx_Init" (*mut Proc, *mut Info, usize) -> c_int;
        finalize = c"PMIx_Finalize" (*const Info, usize) -> c_int;
        initialized = c"PMIx_Initialized" () -> c_int;
        abort = c"PMIx_Abort" (c_int, *const c_char, *mut Proc, usize) -> c_int;
        put = c"PMIx_Put" (u8, *const c_char, *mut Value) -> c_int;
        commit = c"PMIx_Commit" () -> c_int;
        fence = c"PMIx_Fence" (*const Proc, usize, *const Info, usize) -> c_int;
        get = c"PMIx_Get" (*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
        error_text = c"PMIx_Error_string" (c_int) -> *const c_char;
        version = c"PMIx_Get_version" () -> *const c_char;
    }
}

pub struct Pmix {
    api: &'static Api,
    me: Proc,
    membership: Membership,
}

fn instruction(key: &CStr, kind: u16, data: Data) -> Info {
    let mut info = Info {
        key: [0; KEY],
        flags: 0,
        value: Value { kind, data },
    };
    for (to, &from) in info.key.iter_mut().zip(key.to_bytes()) {
        *to = from as c_char;
    }
    info
}

/// Makes a call of the library that takes at most `limit`, on a thread of its own, with all signals
/// blocked: threads of the library inherit that, so that they take no signal meant for the client
/// or the job. A thread that waits beyond the limit ends with the process.
fn within<T: Send + 'static>(limit: Option<Duration>, call: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (sender, receiver) = mpsc::channel();
    let mask = signal::block_all();
    let thread = thread::Builder::new().name("gasnet-pmix".into()).spawn(move || {
        let _ = sender.send(call());
    });
    signal::set_mask(&mask);
    thread.map_err(|error| format!("cannot be called: starting a thread failed: {error}"))?;
    receiver
        .recv_timeout(limit.unwrap_or(Duration::MAX))
        .map_err(|_| "has not returned in time".into())
}

/// The library's key for a key of the caller. Keys that start with "pmix" are reserved.
fn library_key(key: &str) -> CString {
    CString::new(format!("gasnet.{key}")).unwrap_or_default()
}

impl Api {
    fn check(&self, result: c_int, function: &str) -> Result<(), String> {
        if result == SUCCESS {
            return Ok(());
        }
        // SAFETY: accepts any number; returns a constant string, or null.
        let text = unsafe { (self.error_text)(result) };
        let text = if text.is_null() {
            "unknown reason".into()
        } else {
            // SAFETY: not null, so a string of the library.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        Err(format!("{function} failed: {} ({result})", quoted(&text)))
    }

    /// The library's file and version.
    fn name(&self) -> String {
        let path =
            Library::open(&library::PMIX, config::get()).map_or_else(|_| "libpmix".into(), |library| library.path());
        // SAFETY: returns a constant string, or null.
        let text = unsafe { (self.version)() };
        if text.is_null() {
            return path;
        }
        // SAFETY: not null, so a string of the library.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        // "OpenPMIx 4.2.2, repo rev: …", or "OpenPMIx 5.0.11".
        let version: String = text.split(',').next().unwrap_or_default().chars().take(40).collect();
        format!("{path}, {version}")
    }

    /// Gets a value, converts it with `read`, and frees it.
    fn value<T>(&self, owner: &Proc, key: &CStr, read: impl FnOnce(&Value) -> Option<T>) -> Result<T, String> {
        // PRRTE 3 (5.0.11 of Open MPI) does not find values of other hosts that a fence has
        // collected, and requests them again. So it cannot be made to answer at once, and waits for
        // a key that nobody has put.
        let limit = instruction(c"pmix.timeout", INT, Data { seconds: GET_LIMIT });
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: the strings are terminated; one instruction; writes a pointer.
        let result = unsafe { (self.get)(owner, key.as_ptr(), &raw const limit, 1, &raw mut value) };
        self.check(result, "PMIx_Get")?;
        if value.is_null() {
            return Err("PMIx_Get returned no value".into());
        }
        // SAFETY: not null, so a value of the library, now owned here.
        let read = read(unsafe { &*value });
        // SAFETY: the value and its string were allocated with malloc for the caller to free.
        unsafe {
            if (*value).kind == STRING {
                libc::free((*value).data.string.cast::<c_void>());
            }
            libc::free(value.cast());
        }
        read.ok_or_else(|| {
            format!(
                "PMIx_Get returned a value of the wrong type for {}",
                quoted(&key.to_string_lossy())
            )
        })
    }
}

impl Pmix {
    /// Opens the library and starts the protocol.
    pub fn connect() -> Result<Self, JobError> {
        let api = Api::get().map_err(|why| {
            JobError::new(format!(
                "PMIX_NAMESPACE is set, so the process manager uses PMIx, but {why}"
            ))
        })?;
        let seconds = config::get().get(&config::SPAWN_TIMEOUT);
        let limit = Some(Duration::from_secs_f64(seconds)).filter(|limit| !limit.is_zero());
        // A daemon may never answer: so it seemed, once, with 4.2.2 on a busy machine.
        let started = within(limit, move || {
            let mut me = Proc {
                namespace: [0; NAMESPACE],
                rank: 0,
            };
            // SAFETY: writes this process's identity; no instructions.
            let result = unsafe { (api.init)(&raw mut me, ptr::null_mut(), 0) };
            (result, me)
        });
        let mut membership = Membership {
            manager: format!("PMIx ({})", api.name()),
            ..Membership::default()
        };
        let (result, me) = started.map_err(|why| {
            membership.error(&format!(
                "PMIx_Init {why}; the limit, {seconds} s, is that of GASNET_SPAWN_TIMEOUT"
            ))
        })?;
        api.check(result, "PMIx_Init").map_err(|why| {
            membership.error(&format!(
                "{why}. The manager must be running, and this library must not be much older than the \
                 manager's ({} selects another one)",
                config::PMIX_LIBRARY.variable.name
            ))
        })?;
        let size = api.value(&me.with_rank(ALL_RANKS), c"pmix.job.size", number);
        membership.size = size.map_err(|why| membership.error(&why))?;
        membership.rank = me.rank;
        membership.check()?;
        Ok(Self { api, me, membership })
    }
}

fn number(value: &Value) -> Option<u32> {
    if value.kind != UINT32 {
        return None;
    }
    // SAFETY: the type selects the member.
    Some(unsafe { value.data.number })
}

/// The text in a value, if it has one that is not too long.
fn text(value: &Value) -> Option<String> {
    if value.kind != STRING {
        return None;
    }
    // SAFETY: the type selects the member.
    let string = unsafe { value.data.string };
    if string.is_null() {
        return None;
    }
    // SAFETY: not null, so a string of the library.
    let text = unsafe { CStr::from_ptr(string) }.to_str().ok()?;
    (text.len() <= VALUE_MAX).then(|| text.to_owned())
}

impl ProcessManager for Pmix {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), JobError> {
        let text = CString::new(value).unwrap_or_default();
        let string = text.as_ptr().cast_mut();
        let mut value = Value {
            kind: STRING,
            data: Data { string },
        };
        // SAFETY: the key and the text are terminated; the library copies the value.
        let result = unsafe { (self.api.put)(GLOBAL, library_key(key).as_ptr(), &raw mut value) };
        self.api
            .check(result, "PMIx_Put")
            .map_err(|why| self.membership.error(&why))
    }

    fn fence(&mut self, limit: Option<Duration>) -> Result<(), JobError> {
        // SAFETY: no preconditions after the start.
        let result = unsafe { (self.api.commit)() };
        self.api
            .check(result, "PMIx_Commit")
            .map_err(|why| self.membership.error(&why))?;
        // Servers apply limits only to processes of their host, so the limit is applied here.
        let (api, all) = (self.api, self.me.with_rank(ALL_RANKS));
        within(limit, move || {
            let instruction = instruction(c"pmix.collect", BOOL, Data { flag: true });
            // SAFETY: one process and one instruction.
            unsafe { (api.fence)(&raw const all, 1, &raw const instruction, 1) }
        })
        .map_err(|why| format!("PMIx_Fence {why}"))
        .and_then(|result| self.api.check(result, "PMIx_Fence"))
        .map_err(|why| self.membership.error(&why))
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<String, JobError> {
        let found = self.api.value(&self.me.with_rank(owner), &library_key(key), text);
        found.map_err(|why| {
            JobError::new(format!(
                "cannot get key \"{key}\" of rank {owner}: {}",
                self.membership.error(&why)
            ))
        })
    }

    fn finalize(&mut self, whole: bool) {
        // Open MPI has initialised it, too. Without MPI_Finalize, the process would count as
        // failed.
        for _ in 0..if whole { MOST_USERS } else { 1 } {
            // The manager may have ended before.
            // SAFETY: no instructions.
            unsafe { (self.api.finalize)(ptr::null(), 0) };
            // SAFETY: no preconditions.
            if unsafe { (self.api.initialized)() } == 0 {
                break;
            }
        }
    }

    fn abort(&mut self) {
        // SAFETY: the message is terminated; no list means all processes of the job.
        unsafe { (self.api.abort)(1, c"cannot start".as_ptr(), ptr::null_mut(), 0) };
    }

    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }
}
