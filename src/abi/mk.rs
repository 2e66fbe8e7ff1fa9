//! Memory kinds (GASNet-EX Memory Kinds 2025.8, section 6).

use std::ffi::{c_int, c_void};
use std::mem::offset_of;

use super::{answer, complain};
use crate::client::Client;
use crate::flags::{Flags, ERR_BAD_ARG};
use crate::mk::{cuda, hip, ze, Driver, MemoryKind, Refusal};
use crate::rules;
use crate::runtime;
use crate::segment::{create, Segment};

/// `gex_MK_t`: the address of a [`MemoryKind`], or a constant.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindHandle(usize);

impl KindHandle {
    /// `GEX_MK_INVALID`.
    pub const INVALID: Self = Self(0);
    /// `GEX_MK_HOST`.
    pub const HOST: Self = Self(1);
}

/// `gex_MK_Create_args_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Args {
    flags: u64,
    class: c_int,
    device: Union,
}

/// The arguments of each class.
#[repr(C)]
#[derive(Clone, Copy)]
union Union {
    number: c_int,
    ze: Ze,
    reserved: [u64; 3],
}

/// The arguments of `GEX_MK_CLASS_ZE`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Ze {
    device: *mut c_void,
    context: *mut c_void,
    ordinal: u32,
}

const _: () = assert!(size_of::<Args>() == 40 && offset_of!(Args, class) == 8 && offset_of!(Args, device) == 16);

/// `GEX_MK_CLASS_*`.
const CLASS_HOST: c_int = 0;
const CLASS_CUDA_UVA: c_int = 1;
const CLASS_HIP: c_int = 2;
const CLASS_ZE: c_int = 3;

fn open(args: &Args) -> Result<Box<dyn Driver>, Refusal> {
    let _whole = gasnet_sys::cancel::disable();
    match args.class {
        // SAFETY: any bits are an int.
        CLASS_CUDA_UVA => cuda::open(unsafe { args.device.number }),
        // SAFETY: as above.
        CLASS_HIP => hip::open(unsafe { args.device.number }),
        CLASS_ZE => {
            // SAFETY: any bits are pointers and an int; the vendor's library checks them.
            let ze = unsafe { args.device.ze };
            ze::open(ze::Handles {
                device: ze.device as usize,
                context: ze.context as usize,
                ordinal: ze.ordinal,
            })
        }
        class => Err(Refusal::Argument(format!("gex_class {class} is no GEX_MK_CLASS_*"))),
    }
}

/// Creates a memory kind of a device. Returns `GASNET_ERR_BAD_ARG` for a class whose vendor library
/// is missing, and `GASNET_ERR_RESOURCE` when the library finds no device. The class of host memory
/// gives `GEX_MK_HOST`. Not collective.
///
/// # Safety
/// `kind` is null or valid for a write. `args` is null or valid; the pointers in it are the
/// vendor's.
#[no_mangle]
pub unsafe extern "C" fn gex_MK_Create(
    kind: *mut KindHandle,
    client: *const Client,
    args: *const Args,
    flags: Flags,
) -> c_int {
    let name = "gex_MK_Create";
    rules::not_in_handler(name);
    // SAFETY: null or valid.
    let args = unsafe { args.as_ref() };
    let Some(args) = args.filter(|args| !kind.is_null() && !client.is_null() && flags.is_none() && args.flags == 0)
    else {
        complain(
            name,
            "kind_p, client and args must not be null, and flags and gex_flags must be 0",
        );
        return ERR_BAD_ARG;
    };
    let made = if args.class == CLASS_HOST {
        Ok(KindHandle::HOST)
    } else {
        open(args).map(|driver| KindHandle(std::ptr::from_ref(MemoryKind::register(driver)) as usize))
    };
    answer(name, made, |made| {
        // SAFETY: not null, so valid for a write.
        unsafe { kind.write(made) };
    })
}

/// Destroys a memory kind that no segment uses any more. `GEX_MK_HOST` stays.
#[no_mangle]
pub extern "C" fn gex_MK_Destroy(kind: KindHandle, flags: Flags) {
    let name = "gex_MK_Destroy";
    rules::not_in_handler(name);
    let done = match kind {
        KindHandle::HOST => Ok(()),
        KindHandle::INVALID => Err("it is GEX_MK_INVALID".into()),
        KindHandle(address) => MemoryKind::destroy(address),
    };
    let done = done.and_then(|()| {
        if flags.is_none() {
            Ok(())
        } else {
            Err("flags must be 0".into())
        }
    });
    if let Err(why) = done {
        fatal!("rank {}: {name}: {why}", runtime::get().rank);
    }
}

/// `gex_Segment_Create` with a kind other than `GEX_MK_HOST`.
pub fn segment(address: usize, bytes: usize, kind: KindHandle) -> Result<&'static Segment, Refusal> {
    let wrong = |why: &str| Err(Refusal::Argument(why.into()));
    if bytes == 0 || address.checked_add(bytes).is_none() {
        return wrong("the length must not be 0, nor reach beyond the end of the address space");
    }
    match MemoryKind::hold(kind.0) {
        Some(kind) => create::create_on_device(runtime::get(), address, bytes, kind),
        None => wrong("kind must be GEX_MK_HOST, or come from gex_MK_Create and not be destroyed"),
    }
}
