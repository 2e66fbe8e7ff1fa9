//! Cray's PMI, by which aprun and native Slurm start the processes of a job. It is used at the
//! start and at the end, to gather what node agents need to find each other.
//!
//! Its all-gather returns contributions in an order of its own, the same in all processes, so the
//! first one gathers ranks. Its launchers take an exit without finalisation for a failure.

use crate::variables::PMI_LIBRARY;
use gasnet_conduit::config;
use gasnet_conduit::library::{Library, Vendor};
use gasnet_conduit::{Bootstrap, BootstrapPlace, ConduitError};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

static VENDOR: Vendor = Vendor {
    what: "PMI library of Cray",
    names: &[
        c"libpmi.so.0",
        c"libpmi.so",
        c"/opt/cray/pe/pmi/default/lib64/libpmi.so.0",
        c"/opt/cray/pmi/default/lib64/libpmi.so.0",
    ],
    source: "It comes with Cray's programming environment",
    variable: &PMI_LIBRARY,
    probe: c"PMI2_Init",
};

/// What of it is used.
struct Functions {
    init: unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    abort: unsafe extern "C" fn(c_int, *const c_char) -> c_int,
    allgather: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int,
    path: String,
}

impl Functions {
    /// Looked up once per process. The error is a message without a full stop.
    fn get() -> Result<&'static Self, String> {
        static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
        FUNCTIONS.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, String> {
        let library = Library::open(&VENDOR, config::get())?;
        // SAFETY: the vendor documents functions of these names with these signatures.
        unsafe {
            Ok(Self {
                init: library.function(c"PMI2_Init")?,
                finalize: library.function(c"PMI2_Finalize")?,
                abort: library.function(c"PMI2_Abort")?,
                allgather: library.function(c"PMI_Allgather")?,
                path: library.path(),
            })
        }
    }
}

/// The system.
#[derive(Debug, Default)]
pub struct CrayPmi {
    joined: Mutex<Option<Joined>>,
}

#[derive(Debug)]
struct Joined {
    size: usize,
    /// By place of a contribution: whose it is.
    ranks: Vec<usize>,
}

/// Whether variables say that Cray's launcher has started the process. The credentials alone do
/// not, because they may be those of an allocation.
fn is_started(variable: impl Fn(&str) -> bool) -> bool {
    variable("ALPS_APP_PE")
        || variable("PMI_FORK_RANK")
        || variable("CRAY_COOKIES") && variable("SLURM_PROCID") && variable("PMI_GNI_COOKIE")
}

fn failed(what: &str, code: c_int) -> ConduitError {
    ConduitError {
        message: format!("{what} of Cray's PMI failed with {code}."),
    }
}

impl CrayPmi {
    pub const fn new() -> Self {
        Self {
            joined: Mutex::new(None),
        }
    }
}

/// All contributions, in the order of the library.
fn gather(functions: &Functions, bytes: &[u8], size: usize) -> Result<Vec<u8>, ConduitError> {
    let (mut own, mut all) = (bytes.to_vec(), vec![0_u8; bytes.len() * size]);
    let length = c_int::try_from(bytes.len()).map_err(|_| failed("PMI_Allgather", -1))?;
    // SAFETY: reads so many bytes of one, writes so many for each process to the other.
    let code = unsafe { (functions.allgather)(own.as_mut_ptr().cast(), all.as_mut_ptr().cast(), length) };
    if code == 0 {
        Ok(all)
    } else {
        Err(failed("PMI_Allgather", code))
    }
}

/// By place: the rank that has contributed its number there. None: not each rank has once.
fn order(all: &[u8], size: usize) -> Option<Vec<usize>> {
    let ranks: Vec<usize> = all
        .chunks_exact(4)
        .map(|word| {
            word.try_into()
                .map_or(usize::MAX, |word| u32::from_ne_bytes(word) as usize)
        })
        .collect();
    let mut sorted = ranks.clone();
    sorted.sort_unstable();
    sorted.iter().copied().eq(0..size).then_some(ranks)
}

/// Contributions of `bytes` bytes in the order of ranks.
fn sorted(all: &[u8], ranks: &[usize], bytes: usize) -> Vec<u8> {
    let mut sorted = vec![0; all.len()];
    for (contribution, rank) in all.chunks_exact(bytes.max(1)).zip(ranks) {
        sorted[rank * bytes..(rank + 1) * bytes].copy_from_slice(contribution);
    }
    sorted
}

impl Bootstrap for CrayPmi {
    fn has_started_this(&self) -> bool {
        is_started(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
    }

    fn join(&self) -> Result<BootstrapPlace, ConduitError> {
        let functions = Functions::get().map_err(|why| ConduitError {
            message: format!("This process was started by aprun or srun of a Cray, but {why}."),
        })?;
        let (mut spawned, mut size, mut rank, mut number) = (0, 0, 0, 0);
        // SAFETY: live variables.
        let code = unsafe { (functions.init)(&raw mut spawned, &raw mut size, &raw mut rank, &raw mut number) };
        let (Ok(size), Ok(rank), 0) = (u32::try_from(size), u32::try_from(rank), code) else {
            return Err(failed("PMI2_Init", code));
        };
        let all = gather(functions, &rank.to_ne_bytes(), size as usize)?;
        let ranks = order(&all, size as usize).ok_or_else(|| failed("the first PMI_Allgather", 0))?;
        *lock(&self.joined) = Some(Joined {
            size: size as usize,
            ranks,
        });
        Ok(BootstrapPlace {
            system: format!("Cray's PMI ({})", functions.path),
            rank,
            size,
        })
    }

    fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>, ConduitError> {
        let joined = lock(&self.joined);
        let (Some(joined), Ok(functions)) = (&*joined, Functions::get()) else {
            return Err(failed("an exchange before the start", 0));
        };
        let all = gather(functions, bytes, joined.size)?;
        Ok(sorted(&all, &joined.ranks, bytes.len()))
    }

    fn leave(&self, _: bool) {
        if let (Some(_), Ok(functions)) = (lock(&self.joined).take(), Functions::get()) {
            // SAFETY: after PMI2_Init, once.
            unsafe { (functions.finalize)() };
        }
    }

    fn abort(&self) {
        if let (Ok(Some(_)), Ok(functions)) = (self.joined.try_lock().map(|mut held| held.take()), Functions::get()) {
            // SAFETY: after PMI2_Init. Flag 1: the whole job.
            unsafe { (functions.abort)(1, c"libgasnet ends the job".as_ptr()) };
        }
    }

    fn descriptors(&self) -> Vec<i32> {
        let text = std::env::var("PMI_CONTROL_FD").ok();
        text.and_then(|text| text.parse().ok()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_recognised() {
        let started = |names: &[&str]| is_started(|name| names.contains(&name));
        assert!(started(&["ALPS_APP_PE"]) && started(&["PMI_FORK_RANK", "CRAY_COOKIES"]));
        assert!(started(&["CRAY_COOKIES", "SLURM_PROCID", "PMI_GNI_COOKIE"]));
        assert!(!started(&["PMI_GNI_PTAG", "PMI_GNI_COOKIE"]) && !started(&["CRAY_COOKIES"]));
    }

    #[test]
    fn contributions_are_put_in_order() {
        let ranks = |ranks: &[u32]| ranks.iter().flat_map(|rank| rank.to_ne_bytes()).collect::<Vec<u8>>();
        let places = order(&ranks(&[2, 0, 1]), 3).unwrap();
        assert_eq!(sorted(b"ccaabb", &places, 2), b"aabbcc");
        assert_eq!(sorted(b"", &places, 0), b"");
        assert_eq!(order(&ranks(&[0, 0, 1]), 3), None);
        assert_eq!(order(&ranks(&[0, 3, 1]), 3), None);
    }
}
