//! The functions of the library. All are collective or local as Cray's manuals say; the rules that
//! are peculiar to Cray's store are checked here and in [`crate::launch`]'s server.
//!
//! Callers vouch for what they pass, as the headers describe it: text is terminated, other pointers
//! are readable or writable for the number of bytes that goes with them.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::{ptr, slice};

use crate::client::{self, Rank};
use crate::protocol::{Collective, Request};
use crate::{code, KEY_BYTES, VALUE_BYTES};

/// A result as C has it.
fn returned(result: Result<(), i32>) -> c_int {
    result.err().unwrap_or(code::SUCCESS)
}

/// Writes numbers through pointers of the caller, up to the first null pointer.
///
/// # Safety
/// Null, or writable.
unsafe fn put<const N: usize>(numbers: [(*mut c_int, usize); N]) -> Result<(), i32> {
    for (target, value) in numbers {
        if target.is_null() {
            return Err(code::ERR_INVALID_ARG);
        }
        // SAFETY: not null; the caller vouches for the rest.
        unsafe { target.write(value as c_int) };
    }
    Ok(())
}

/// A function that writes one number.
macro_rules! queries {
    ($($(#[$about:meta])* $name:ident = $value:expr;)*) => { $(
        $(#[$about])*
        #[no_mangle]
        pub unsafe extern "C" fn $name(result: *mut c_int) -> c_int {
            let value: fn(&Rank) -> usize = $value;
            // SAFETY: the caller vouches for the pointer.
            returned(client::current().and_then(|rank| unsafe { put([(result, value(rank))]) }))
        }
    )* };
}

/// The ranks that run the same program as this one.
fn in_app(rank: &Rank) -> impl Iterator<Item = u32> + '_ {
    let apps = &rank.layout.apps;
    (0..)
        .zip(apps)
        .filter(|(_, app)| **app == apps[rank.number as usize])
        .map(|(rank, _)| rank)
}

queries! {
    /// This process's rank.
    PMI_Get_rank = |rank| rank.number as usize;
    /// Processes in the job.
    PMI_Get_size = |rank| rank.nids.len();
    /// The same.
    PMI_Get_universe_size = |rank| rank.nids.len();
    /// The number of this process's program.
    PMI_Get_appnum = |rank| rank.layout.apps[rank.number as usize] as usize;
    /// Its rank among those of its program.
    PMI_Get_rank_in_app = |rank| in_app(rank).take_while(|&other| other < rank.number).count();
    /// Processes on this node.
    PMI_Get_numpes_on_smp = |rank| rank.layout.neighbours(rank.number).len();
    /// Ranks of the node that run the same program.
    PMI_Get_numpes_in_app_on_smp = |rank| {
        let here = rank.layout.neighbours(rank.number);
        in_app(rank).filter(|other| here.contains(other)).count()
    };
}

/// Joins the job. Another call in the same process returns the same.
#[no_mangle]
pub unsafe extern "C" fn PMI2_Init(
    spawned: *mut c_int,
    size: *mut c_int,
    number: *mut c_int,
    appnum: *mut c_int,
) -> c_int {
    let init = || {
        let rank = client::join()?;
        let own = rank.number as usize;
        let app = rank.layout.apps[own] as usize;
        // SAFETY: the caller vouches for the pointers.
        unsafe { put([(spawned, 0), (size, rank.nids.len()), (number, own), (appnum, app)]) }
    };
    returned(init())
}

/// Joins the job.
#[no_mangle]
pub unsafe extern "C" fn PMI_Init(spawned: *mut c_int) -> c_int {
    // SAFETY: the caller vouches for the pointer.
    returned(client::join().and_then(|_| unsafe { put([(spawned, 0)]) }))
}

/// Whether this process has joined, and not finalised.
#[no_mangle]
pub extern "C" fn PMI2_Initialized() -> c_int {
    c_int::from(client::is_initialised())
}

/// The same.
#[no_mangle]
pub unsafe extern "C" fn PMI_Initialized(flag: *mut c_int) -> c_int {
    // SAFETY: the caller vouches for the pointer.
    returned(unsafe { put([(flag, usize::from(client::is_initialised()))]) })
}

/// The last call of a process that ends normally.
#[no_mangle]
pub extern "C" fn PMI2_Finalize() -> c_int {
    returned(client::current().and_then(|rank| {
        rank.call(&Request::Leave)?;
        rank.leave();
        Ok(())
    }))
}

/// The same.
#[no_mangle]
pub extern "C" fn PMI_Finalize() -> c_int {
    PMI2_Finalize()
}

/// Ends the job.
#[no_mangle]
pub unsafe extern "C" fn PMI2_Abort(_flag: c_int, message: *const c_char) -> c_int {
    let text = if message.is_null() {
        String::new()
    } else {
        // SAFETY: the caller vouches for the pointer.
        unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
    };
    if let Ok(rank) = client::current() {
        // The launcher kills this process before it would answer.
        let _ = rank.call(&Request::Abort(text));
    }
    // SAFETY: ends the process, without its exit handlers.
    unsafe { libc::_exit(1) }
}

/// Ends the job. The code is lost, as with Cray's launchers.
#[no_mangle]
pub unsafe extern "C" fn PMI_Abort(code: c_int, message: *const c_char) -> c_int {
    // SAFETY: the caller vouches for the pointer.
    unsafe { PMI2_Abort(code, message) }
}

/// The version of the library.
#[no_mangle]
pub unsafe extern "C" fn PMI_Get_version_info(major: *mut c_int, minor: *mut c_int, revision: *mut c_int) -> c_int {
    // SAFETY: the caller vouches for the pointers.
    returned(unsafe { put([(major, 5), (minor, 0), (revision, 17)]) })
}

/// Processes that run a program.
#[no_mangle]
pub unsafe extern "C" fn PMI_Get_app_size(app: c_int, size: *mut c_int) -> c_int {
    let get = || {
        let apps = &client::current()?.layout.apps;
        match apps.iter().filter(|number| **number as c_int == app).count() {
            0 => Err(code::ERR_INVALID_ARG),
            // SAFETY: the caller vouches for the pointer.
            count => unsafe { put([(size, count)]) },
        }
    };
    returned(get())
}

/// By rank, the number of its node. The array belongs to the library.
#[no_mangle]
pub unsafe extern "C" fn PMI_Get_nidlist_ptr(list: *mut *mut c_void) -> c_int {
    if list.is_null() {
        return code::ERR_INVALID_ARG;
    }
    returned(client::current().map(|rank| {
        // SAFETY: not null; the caller vouches for the rest.
        unsafe { list.write(rank.nids.as_ptr().cast_mut().cast()) };
    }))
}

/// The number of a rank's node.
#[no_mangle]
pub unsafe extern "C" fn PMI_Get_nid(rank: c_int, nid: *mut c_int) -> c_int {
    let get = || {
        let nids = &client::current()?.nids;
        let found = usize::try_from(rank).ok().and_then(|rank| nids.get(rank));
        // SAFETY: the caller vouches for the pointer.
        unsafe { put([(nid, *found.ok_or(code::ERR_INVALID_ARG)? as usize)]) }
    };
    returned(get())
}

/// The ranks on this node.
#[no_mangle]
pub unsafe extern "C" fn PMI_Get_pes_on_smp(ranks: *mut c_int, count: c_int) -> c_int {
    let get = || {
        let rank = client::current()?;
        let here = rank.layout.neighbours(rank.number);
        if ranks.is_null() || (count as usize) < here.len() || count < 0 {
            return Err(code::ERR_INVALID_ARG);
        }
        for (index, other) in here.into_iter().enumerate() {
            // SAFETY: the index is less than `count`.
            unsafe { ranks.add(index).write(other as c_int) };
        }
        Ok(())
    };
    returned(get())
}

/// A collective call with `bytes` bytes at `data`, whose result goes to `target`.
///
/// # Safety
/// `bytes` bytes are readable, and `target` has room for what the call returns.
unsafe fn collect(call: Collective, data: *const c_void, target: *mut c_void, bytes: c_int) -> c_int {
    let collect = || {
        let rank = client::current()?;
        let bytes = usize::try_from(bytes).map_err(|_| code::ERR_INVALID_LENGTH)?;
        let own = match bytes {
            0 => Vec::new(),
            _ if data.is_null() || target.is_null() => return Err(code::ERR_INVALID_ARG),
            // SAFETY: the caller vouches for the bytes.
            _ => unsafe { slice::from_raw_parts(data.cast::<u8>(), bytes) }.to_vec(),
        };
        let all = rank.call(&Request::Collect(call, own))?;
        if !all.is_empty() {
            // SAFETY: the caller vouches for the room.
            unsafe { ptr::copy_nonoverlapping(all.as_ptr(), target.cast(), all.len()) };
        }
        Ok(())
    };
    returned(collect())
}

/// Waits for all processes.
#[no_mangle]
pub extern "C" fn PMI_Barrier() -> c_int {
    // SAFETY: no bytes.
    unsafe { collect(Collective::Barrier, ptr::null(), ptr::null_mut(), 0) }
}

/// The bytes of rank 0.
#[no_mangle]
pub unsafe extern "C" fn PMI_Bcast(data: *mut c_void, bytes: c_int) -> c_int {
    // SAFETY: the caller vouches for the bytes.
    unsafe { collect(Collective::Broadcast, data, data, bytes) }
}

/// The bytes of all processes, in an order that is not that of ranks, and does not change.
#[no_mangle]
pub unsafe extern "C" fn PMI_Allgather(data: *mut c_void, all: *mut c_void, bytes: c_int) -> c_int {
    // SAFETY: the caller vouches for both.
    unsafe { collect(Collective::Gather, data, all, bytes) }
}

/// Gathers among the processes of a node.
#[no_mangle]
pub unsafe extern "C" fn PMI_Allgather_on_smp(data: *mut c_void, all: *mut c_void, bytes: c_int) -> c_int {
    // SAFETY: the caller vouches for both.
    unsafe { collect(Collective::GatherOnNode, data, all, bytes) }
}

/// Copies text and its terminating zero into `room` bytes. False: the text was cut.
///
/// # Safety
/// `room` bytes are writable, and it is not 0.
unsafe fn copy_text(text: &[u8], target: *mut c_char, room: usize) -> bool {
    let length = text.len().min(room - 1);
    // SAFETY: shorter than the room.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr().cast(), target, length) };
    // SAFETY: there is one more byte.
    unsafe { target.add(length).write(0) };
    length == text.len()
}

/// The name of the job, which is that of its store.
#[no_mangle]
pub unsafe extern "C" fn PMI2_Job_GetId(id: *mut c_char, room: c_int) -> c_int {
    let get = || {
        let name = &client::current()?.layout.job;
        if id.is_null() || room < 1 {
            return Err(code::ERR_INVALID_ARG);
        }
        // SAFETY: the caller vouches for the room.
        let fits = unsafe { copy_text(name.as_bytes(), id, room as usize) };
        fits.then_some(()).ok_or(code::ERR_INVALID_LENGTH)
    };
    returned(get())
}

/// Text of the caller, of less than `most` bytes.
///
/// # Safety
/// Null, or terminated.
unsafe fn text<'a>(text: *const c_char, most: usize, too_long: i32) -> Result<&'a [u8], i32> {
    if text.is_null() {
        return Err(code::ERR_INVALID_ARG);
    }
    // SAFETY: the caller vouches for the pointer.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    (text.len() < most).then_some(text).ok_or(too_long)
}

/// Stores a value under a key that nobody has used before. An empty value becomes `(null)`; `/`,
/// `;` and `=` are refused.
#[no_mangle]
pub unsafe extern "C" fn PMI2_KVS_Put(key: *const c_char, value: *const c_char) -> c_int {
    let set = || {
        let rank = client::current()?;
        // SAFETY: the caller vouches for the text.
        let key = unsafe { text(key, KEY_BYTES, code::ERR_INVALID_KEY_LENGTH) }?;
        // SAFETY: the caller vouches for the text.
        let value = unsafe { text(value, VALUE_BYTES, code::ERR_INVALID_VAL_LENGTH) }?;
        if key.is_empty() {
            return Err(code::ERR_INVALID_KEY);
        }
        if value.iter().any(|byte| b"/;=".contains(byte)) {
            client::complain(&format!("rank {}: a value has '/', ';' or '='", rank.number));
            return Err(code::ERR_INVALID_VAL);
        }
        let value = if value.is_empty() { b"(null)" } else { value };
        rank.call(&Request::Put(key.to_vec(), value.to_vec())).map(drop)
    };
    returned(set())
}

/// Values put before can be read afterwards. A barrier, except with `lazy-fence`.
#[no_mangle]
pub extern "C" fn PMI2_KVS_Fence() -> c_int {
    // SAFETY: no bytes.
    unsafe { collect(Collective::Fence, ptr::null(), ptr::null_mut(), 0) }
}

/// The value under a key. `length` becomes negative if there is less room than it needs.
#[no_mangle]
pub unsafe extern "C" fn PMI2_KVS_Get(
    job: *const c_char,
    _owner: c_int,
    key: *const c_char,
    value: *mut c_char,
    room: c_int,
    length: *mut c_int,
) -> c_int {
    let get = || {
        let rank = client::current()?;
        if value.is_null() || room < 1 {
            return Err(code::ERR_INVALID_ARG);
        }
        if !job.is_null() {
            // SAFETY: not null; the caller vouches for the text.
            let job = unsafe { CStr::from_ptr(job) }.to_bytes();
            if job != rank.layout.job.as_bytes() {
                return Err(code::ERR_INVALID_ARG);
            }
        }
        // SAFETY: the caller vouches for the text.
        let key = unsafe { text(key, KEY_BYTES, code::ERR_INVALID_KEY_LENGTH) }?;
        let found = rank.call(&Request::Get(key.to_vec()))?;
        // SAFETY: the caller vouches for the room.
        let fits = unsafe { copy_text(&found, value, room as usize) };
        let signed = found.len() as isize * if fits { 1 } else { -1 };
        // SAFETY: the caller vouches for the pointer.
        unsafe { put([(length, signed as usize)]) }
    };
    returned(get())
}
