//! The objects behind handles. A stale handle is an error.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::Mutex;

use emulator_common::object::Invalid;
pub use emulator_common::object::Object;
use emulator_common::wait::Misses;
use gasnet_gni_abi as abi;

use crate::process::{pause, Process};
use crate::refuse::{die, invalid, refusal, Outcome};
use crate::request::Requests;
use crate::shm;

/// An object of the interface.
pub trait Living: Object {
    const MISSING: &'static str;
    const STALE: &'static str;

    /// The NIC that it belongs to.
    fn nic(&'static self) -> Option<&'static Nic>;

    /// The living object of a handle.
    #[inline(always)]
    fn of(handle: *mut Self::Handle) -> Outcome<&'static Self> {
        match Self::find(handle) {
            Ok(object) if object.nic().is_none_or(Nic::is_attached) => Ok(object),
            Ok(_) | Err(Invalid::Stale) => Err(invalid(Self::STALE)),
            Err(Invalid::Pointer) => Err(invalid(Self::MISSING)),
        }
    }

    /// Enters a call with the living object of a handle.
    #[inline(always)]
    fn enter(handle: *mut Self::Handle) -> Outcome<(&'static Self, Option<Inside>)> {
        let object = Self::of(handle)?;
        Ok((object, object.nic().map(Nic::enter_domain)))
    }
}

macro_rules! object {
    ($type:ty, $handle:ty, $kind:expr, $name:literal, $self:ident => $nic:expr) => {
        emulator_common::object!($type, $handle, $kind);
        impl Living for $type {
            const MISSING: &'static str = concat!("no valid handle of ", $name);
            const STALE: &'static str = concat!("the handle is not, or no longer, that of ", $name);
            #[inline(always)]
            fn nic(&'static self) -> Option<&'static Nic> {
                let $self = self;
                $nic
            }
        }
    };
}
object!(Cdm, abi::gni_cdm, 0xabcd_0000, "a communication domain", _cdm => None);
object!(Nic, abi::gni_nic, 0xabcd_0001, "a NIC", nic => Some(nic));
object!(Ep, abi::gni_ep, 0xabcd_0002, "an endpoint", ep => Some(ep.nic));
object!(Cq, abi::gni_cq, 0xabcd_0004, "a completion queue", cq => Some(cq.nic));
object!(Channel, abi::gni_comp_chan, 0xabcd_0008, "a completion channel", channel => Some(channel.nic));
object!(Engine, abi::gni_ce, 0xabcd_0007, "a collective engine", engine => Some(engine.nic));

#[repr(C)]
pub struct Cdm {
    pub kind: AtomicU32,
    pub instance: u32,
    pub ptag: u8,
    pub cookie: u32,
    pub modes: u32,
    /// The thread that is in a call of this domain; 0: none.
    inside: AtomicUsize,
    /// NICs to which it is attached.
    pub nics: Mutex<Vec<&'static Nic>>,
}

/// A thread is in a call of a domain.
pub struct Inside(&'static AtomicUsize, usize);

impl Cdm {
    pub fn new(instance: u32, ptag: u8, cookie: u32, modes: u32) -> Cdm {
        Cdm {
            kind: AtomicU32::new(0),
            instance,
            ptag,
            cookie,
            modes,
            inside: AtomicUsize::new(0),
            nics: Mutex::new(Vec::new()),
        }
    }

    pub fn has(&self, mode: u32) -> bool {
        self.modes & mode != 0
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        if self.1 != 0 {
            if self.0.load(Relaxed) != self.1 {
                two_threads();
            }
            self.0.store(0, Relaxed);
        }
    }
}

#[cold]
fn two_threads() -> ! {
    die("a call", "two threads are in calls of one communication domain")
}

/// A domain on a NIC.
#[repr(C)]
pub struct Nic {
    pub kind: AtomicU32,
    pub cdm: &'static Cdm,
    pub process: &'static Process,
    pub device: u32,
    pub address: u32,
    pub hardware: &'static shm::Nic,
    /// Index in `Fabric::domains`.
    pub domain: u32,
    /// Living endpoints.
    pub endpoints: AtomicU32,
}

impl Nic {
    #[inline(always)]
    pub fn is_attached(&self) -> bool {
        self.kind.load(Relaxed) == Nic::KIND
    }

    /// Aries alone has collective engines.
    pub fn check_engines(&self) -> Outcome {
        if self.process.is_gemini {
            return Err(refusal(abi::GNI_RC_ILLEGAL_OP, "Gemini has no collective engine"));
        }
        Ok(())
    }

    /// Checks that no other thread is in a call of the domain, for a call that is too short for
    /// others to meet it.
    #[inline(always)]
    pub fn look_around(&self) {
        let inside = self.cdm.inside.load(Relaxed);
        // SAFETY: a plain call.
        if inside != 0 && self.process.config.check && inside != unsafe { libc::pthread_self() } as usize {
            two_threads();
        }
    }

    /// Checks that no other thread is in a call of the domain. Loads and stores suffice to catch
    /// most cases, and cost less than atomic exchanges.
    #[inline(always)]
    /// Enters the domain in a call that programs make beside those of other threads, if option
    /// `check-all` forbids that.
    pub fn enter_if_strict(&self) -> Option<Inside> {
        self.process.config.check_all.then(|| {
            let inside = self.enter_domain();
            pause(self.process.config.stay_us);
            inside
        })
    }

    pub fn enter_domain(&self) -> Inside {
        let inside = &self.cdm.inside;
        if !self.process.config.check {
            return Inside(inside, 0);
        }
        // SAFETY: a plain call.
        let me = unsafe { libc::pthread_self() } as usize;
        match inside.load(Relaxed) {
            0 => {
                inside.store(me, Relaxed);
                Inside(inside, me)
            }
            // A signal's or a queue's handler may call while its thread is in a call.
            other if other == me => Inside(inside, 0),
            _ => two_threads(),
        }
    }
}

/// One side's mailbox.
#[derive(Clone, Copy)]
pub struct Side {
    pub base: u64,
    pub handle: abi::gni_mem_handle_t,
    pub credits: u64,
    pub slot: u64,
    pub longest: u64,
}

/// The mailboxes of an endpoint, and how many messages went through them.
#[derive(Clone, Copy)]
pub struct Mailbox {
    pub local: Side,
    pub remote: Side,
    pub sent: u64,
    pub received: u64,
    pub released: u64,
}

/// Room for the answer to a datagram, which has this index in `Fabric::datagrams`.
#[derive(Clone, Copy)]
pub struct Answer {
    pub index: u32,
    pub id: u64,
    pub buffer: *mut u8,
    pub room: u16,
}

/// An endpoint. Cells are for the one thread that is in the domain.
#[repr(C)]
pub struct Ep {
    pub kind: AtomicU32,
    pub nic: &'static Nic,
    pub cq: Option<&'static Cq>,
    pub bound: Cell<bool>,
    pub remote_address: Cell<u32>,
    pub remote_id: Cell<u32>,
    pub local_event: Cell<u32>,
    pub remote_event: Cell<u32>,
    /// Requests that are not completed.
    pub outstanding: Cell<u32>,
    /// Mailboxes, after `GNI_SmsgInit`.
    pub mailbox: Cell<Option<Mailbox>>,
    /// Answers to posted datagrams.
    pub answers: RefCell<Vec<Answer>>,
    /// Attributes of a collective engine: id, child, `gni_ce_child_t`.
    pub engine: Cell<(u32, u32, u32)>,
}

// SAFETY: the program calls from one thread of a domain at a time; `Nic::enter_domain` checks it.
unsafe impl Sync for Ep {}

/// Purpose of a completion queue, once it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Unknown,
    Source,
    Destination,
}

#[repr(C)]
pub struct Cq {
    pub kind: AtomicU32,
    pub nic: &'static Nic,
    pub shared: &'static shm::Cq,
    pub index: u32,
    pub key: u32,
    pub mode: abi::gni_cq_mode_t,
    pub handler: abi::gni_cq_handler,
    pub context: usize,
    pub role: Cell<Role>,
    /// Only the thread in the domain appends entries.
    pub is_private: Cell<bool>,
    /// Endpoints that have it.
    pub endpoints: Cell<u32>,
    /// Made by the first bind.
    pub requests: UnsafeCell<Option<Requests>>,
    pub misses: Misses,
}

// SAFETY: as for `Ep`; `GNI_CqTestEvent`, which any thread may call, reads only atomics.
unsafe impl Sync for Cq {}

impl Cq {
    /// The requests of a source queue. None: nothing was ever bound.
    #[allow(clippy::mut_from_ref, reason = "only the thread that is in the domain calls it")]
    #[inline(always)]
    pub fn requests(&self) -> Option<&mut Requests> {
        // SAFETY: one thread is in the domain, and no caller keeps the reference over another call.
        unsafe { (*self.requests.get()).as_mut() }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.shared.ring.is_empty()
    }
}

#[repr(C)]
pub struct Engine {
    pub kind: AtomicU32,
    pub nic: &'static Nic,
    /// Index in `Fabric::engines`.
    pub index: u32,
    pub id: u32,
}

/// A completion channel.
#[repr(C)]
pub struct Channel {
    pub kind: AtomicU32,
    pub nic: &'static Nic,
    /// The name of its socket.
    pub number: u32,
    pub socket: OwnedFd,
    /// Queues that are attached.
    pub cqs: Mutex<Vec<&'static Cq>>,
}
