//! MPI in this process: its start, the place among its processes, what they exchange at the start,
//! and its end.

use super::exit_handlers;
use super::library::{Found, Functions};
use super::message::Request;
use super::{Failure, Handle};
use crate::settings::Level;
use gasnet_conduit::config::Choice;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// MPI, initialised.
pub struct World<H: 'static> {
    pub functions: &'static Functions<H>,
    /// All processes of MPI, without the client's messages.
    comm: H,
    /// Place of this process, and their number.
    rank: u32,
    size: u32,
    /// The thread level that it has.
    pub level: Level,
    /// Whether GASNet initialised it.
    is_ours: bool,
}

/// MPI of this process, whatever its ABI.
pub trait Process: Send + Sync {
    /// Version and file of the library, for people.
    fn name(&self) -> String;
    /// Rank of this process, and number of processes.
    fn place(&self) -> (u32, u32);
    /// A number for the processes that share memory with this one. Collective.
    fn node(&self) -> Result<u32, Failure>;
    /// The bytes of all processes, equally many each. Collective.
    fn gather(&self, bytes: &[u8]) -> Result<Vec<u8>, Failure>;
    /// Whether GASNet initialised MPI.
    fn is_ours(&self) -> bool;
    /// Whether it is finalized.
    fn is_finalized(&self) -> bool;
    /// Finalizes it, if all processes come to this within a time. Nobody else is inside MPI.
    fn finalize(&self, limit: Duration);
    /// Ends the library, finalized, in a process that ends without exit handlers.
    fn end(&self);
    /// Ends all processes.
    fn abort(&self);
}

/// A process that calls MPI, initialised, by the type of its handles.
#[derive(Clone, Copy)]
pub enum Joined {
    /// MPICH's ABI.
    Numbers(&'static World<c_int>),
    /// Open MPI's, or the standard.
    Pointers(&'static World<usize>),
}

impl Joined {
    /// Initialises MPI, unless it is, once per process. Collective over the processes of its
    /// launcher. The error is a message without a full stop.
    pub fn join(level: Level) -> Result<Self, String> {
        static JOINED: OnceLock<Result<Joined, String>> = OnceLock::new();
        let join = || match Found::load()? {
            Found::Numbers(functions) => Ok(Self::Numbers(World::join(functions, level)?)),
            Found::Pointers(functions) => Ok(Self::Pointers(World::join(functions, level)?)),
        };
        JOINED.get_or_init(join).clone()
    }

    /// Its MPI.
    pub fn process(self) -> &'static dyn Process {
        match self {
            Self::Numbers(world) => world,
            Self::Pointers(world) => world,
        }
    }
}

/// A wait for all processes at the end: yields, and then sleeps of this length.
const YIELDS: u128 = 1000;
const SLEEP: Duration = Duration::from_millis(1);

/// Work for the time just before MPI is finalized.
pub type AtFinalize = Box<dyn Fn() + Send + Sync>;

impl<H: Handle> World<H> {
    fn join(functions: &'static Functions<H>, level: Level) -> Result<&'static Self, String> {
        let failed = |Failure(why)| format!("{}: {why}", functions.about);
        Self::start(functions, level)
            .map(|world| &*Box::leak(Box::new(world)))
            .map_err(failed)
    }

    fn start(functions: &'static Functions<H>, level: Level) -> Result<Self, Failure> {
        let constants = &functions.constants;
        let is_ours = !flag(functions.initialized);
        if flag(functions.finalized) {
            return Err(Failure(
                "the program has finalized MPI, which cannot be initialised again. Call MPI_Finalize after GASNet"
                    .into(),
            ));
        }
        let mut provided = 0;
        if is_ours {
            // SAFETY: MPI 3.0, 12.4.3: no arguments, and a number to write.
            let code = unsafe {
                (functions.init_thread)(
                    ptr::null_mut(),
                    ptr::null_mut(),
                    constants.levels[level as usize],
                    &raw mut provided,
                )
            };
            functions.check("MPI_Init_thread", code)?;
        } else {
            // SAFETY: a number to write.
            functions.check("MPI_Query_thread", unsafe {
                (functions.query_thread)(&raw mut provided)
            })?;
        }
        let is_provided = |level: &&Level| constants.levels[**level as usize] <= provided;
        let comm = functions.duplicate(constants.comm_world)?;
        let (mut rank, mut size) = (0, 0);
        // SAFETY: numbers to write.
        unsafe {
            functions.check("MPI_Comm_rank", (functions.comm_rank)(comm, &raw mut rank))?;
            functions.check("MPI_Comm_size", (functions.comm_size)(comm, &raw mut size))?;
        }
        Ok(Self {
            functions,
            comm,
            rank: rank as u32,
            size: size as u32,
            level: Level::VARIANTS
                .iter()
                .rfind(is_provided)
                .copied()
                .unwrap_or(Level::Single),
            is_ours,
        })
    }

    /// A communicator of all processes, or of this one alone, whose messages meet no others.
    /// Collective over them.
    pub fn communicator(&self, is_alone: bool) -> Result<H, Failure> {
        let comm_self = self.functions.constants.comm_self;
        self.functions.duplicate(if is_alone { comm_self } else { self.comm })
    }

    /// Calls a function when somebody finalizes MPI, before that: finalization begins with the
    /// attributes of `MPI_COMM_SELF` (MPI 3.0, 8.7.1).
    pub fn at_finalize(&self, function: AtFinalize) -> Result<(), Failure> {
        let functions = self.functions;
        let value = Box::into_raw(Box::new(function)).cast();
        let mut key = 0;
        // SAFETY: functions of the types that MPI wants, a number to write, and an attribute that
        // `on_finalize` knows.
        unsafe {
            let code = (functions.create_keyval)(no_copy::<H>, on_finalize::<H>, &raw mut key, ptr::null_mut());
            functions.check("MPI_Comm_create_keyval", code)?;
            let code = (functions.set_attr)(functions.constants.comm_self, key, value);
            functions.check("MPI_Comm_set_attr", code)
        }
    }

    /// Whether all processes call this within a time. Those that have come leave the processors to
    /// the others.
    fn all_come(&self, limit: Duration) -> Result<bool, Failure> {
        let mut request = [self.functions.no_request()];
        let Request(handle) = &mut request[0];
        // SAFETY: a handle to write.
        self.functions.check("MPI_Ibarrier", unsafe {
            (self.functions.ibarrier)(self.comm, &raw mut *handle)
        })?;
        // Counted and not measured, since a sleep takes longer while the machine is busy.
        let sleeps = limit.as_nanos() / SLEEP.as_nanos();
        for sleep in 0..YIELDS + sleeps {
            // SAFETY: nobody else is inside MPI.
            if unsafe { self.functions.test_any(&mut request) }?.is_some() {
                return Ok(true);
            }
            if sleep < YIELDS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(SLEEP);
            }
        }
        Ok(false)
    }
}

impl<H: Handle> Process for World<H> {
    fn name(&self) -> String {
        self.functions.about.to_string()
    }

    fn place(&self) -> (u32, u32) {
        (self.rank, self.size)
    }

    /// The rank of the first of them.
    fn node(&self) -> Result<u32, Failure> {
        let functions = self.functions;
        let constants = &functions.constants;
        let (mut node, mut first) = (constants.comm_self, self.rank);
        // SAFETY: a handle to write.
        functions.check("MPI_Comm_split_type", unsafe {
            let kind = constants.comm_type_shared;
            (functions.comm_split_type)(self.comm, kind, self.rank as c_int, constants.info_null, &raw mut node)
        })?;
        let place = (&raw mut first).cast();
        // SAFETY: as many bytes, and a communicator that is not used afterwards.
        unsafe {
            let code = (functions.bcast)(place, size_of::<u32>() as c_int, constants.byte, 0, node);
            functions.check("MPI_Bcast", code)?;
            functions.check("MPI_Comm_free", (functions.comm_free)(&raw mut node))?;
        }
        Ok(first)
    }

    fn gather(&self, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        let (byte, count) = (self.functions.constants.byte, bytes.len() as c_int);
        let mut all = vec![0_u8; bytes.len() * self.size as usize];
        // SAFETY: as many bytes to read, and as many for each process to write.
        let code = unsafe {
            let (from, to) = (bytes.as_ptr().cast(), all.as_mut_ptr().cast());
            (self.functions.allgather)(from, count, byte, to, count, byte, self.comm)
        };
        self.functions.check("MPI_Allgather", code)?;
        Ok(all)
    }

    fn is_ours(&self) -> bool {
        self.is_ours
    }

    fn is_finalized(&self) -> bool {
        flag(self.functions.finalized)
    }

    fn finalize(&self, limit: Duration) {
        // A rank that failed does not come, and MPI_Finalize would wait for it.
        if self.all_come(limit) == Ok(true) {
            // SAFETY: nobody uses MPI any more.
            unsafe { (self.functions.finalize)() };
        }
    }

    fn end(&self) {
        let Functions { about, code, .. } = self.functions;
        if about.version.contains("MPICH") || about.version.contains("MVAPICH") {
            // SAFETY: the library is never closed, and MPI is over.
            unsafe { exit_handlers::run(*code as *const c_void) };
        }
    }

    fn abort(&self) {
        // Never with 0, which every launcher would take for a success (reference/mpi.md).
        // SAFETY: any number.
        unsafe { (self.functions.abort)(self.comm, 1) };
    }
}

impl<H: Handle> Functions<H> {
    /// A copy of a communicator, whose errors are returned.
    fn duplicate(&self, comm: H) -> Result<H, Failure> {
        /// Collective calls on one communicator do not overlap, also with one process.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock();
        let mut copy = comm;
        // SAFETY: a handle to write.
        self.check("MPI_Comm_dup", unsafe { (self.comm_dup)(comm, &raw mut copy) })?;
        // SAFETY: handles of this library.
        self.check("MPI_Comm_set_errhandler", unsafe {
            (self.comm_set_errhandler)(copy, self.constants.errors_return)
        })?;
        Ok(copy)
    }
}

/// The answer of `MPI_Initialized` or `MPI_Finalized`.
fn flag(query: unsafe extern "C" fn(*mut c_int) -> c_int) -> bool {
    let mut is_set = 0;
    // SAFETY: a number to write; both may be called at any time.
    unsafe { query(&raw mut is_set) };
    is_set != 0
}

/// The attribute of `MPI_COMM_SELF` stays there when the client duplicates that.
unsafe extern "C" fn no_copy<H>(
    _: H,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    is_copied: *mut c_int,
) -> c_int {
    // SAFETY: MPI's, to write.
    unsafe { is_copied.write(0) };
    0
}

unsafe extern "C" fn on_finalize<H>(_: H, _: c_int, value: *mut c_void, _: *mut c_void) -> c_int {
    // SAFETY: from `at_finalize`, and never freed.
    let function = unsafe { &*value.cast::<AtFinalize>() };
    function();
    0
}
