//! The objects behind pointers of the interface. A stale pointer is fatal; a stopped attachment is
//! retired.

use emulator_common::object::Invalid;
pub use emulator_common::object::Object;

use crate::misuse::die;

/// An object of the interface.
pub trait Living: Object {
    const NAME: &'static str;

    /// The living object of a pointer.
    #[inline(always)]
    fn of(handle: *mut Self::Handle, call: &str) -> &'static Self {
        match Self::find(handle) {
            Ok(object) => object,
            Err(Invalid::Pointer) => die(call, &format!("no pointer to {}", Self::NAME)),
            Err(Invalid::Stale) => die(call, &format!("the pointer is not, or no longer, to {}", Self::NAME)),
        }
    }
}

macro_rules! object {
    ($type:ty, $handle:ty, $kind:expr, $name:literal) => {
        emulator_common::object!($type, $handle, $kind);
        impl $crate::object::Living for $type {
            const NAME: &'static str = $name;
        }
    };
}
pub(crate) use object;
