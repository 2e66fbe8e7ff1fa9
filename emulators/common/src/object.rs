//! Objects behind pointers that a program holds. None is ever freed, so that a stale pointer is
//! reported instead of undefined behaviour; a retired object loses its kind.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Why a handle names no object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// Null, or not aligned.
    Pointer,
    /// The object is of another kind, or retired.
    Stale,
}

/// A type of objects that C has handles of.
///
/// # Safety
/// The type is `repr(C)` and begins with its kind.
pub unsafe trait Object: Sized + 'static {
    type Handle;
    const KIND: u32;

    /// 0 until the object is published, and again when it is retired.
    fn kind(&self) -> &AtomicU32;

    /// The living object of a handle.
    #[inline(always)]
    fn find(handle: *mut Self::Handle) -> Result<&'static Self, Invalid> {
        if handle.is_null() || handle as usize % align_of::<Self>() != 0 {
            return Err(Invalid::Pointer);
        }
        // SAFETY: handles come from `publish`, and what they name is never freed.
        let object = unsafe { &*handle.cast::<Self>() };
        if object.kind().load(Acquire) == Self::KIND {
            Ok(object)
        } else {
            Err(Invalid::Stale)
        }
    }

    fn publish(self) -> &'static Self {
        let object: &'static Self = Box::leak(Box::new(self));
        object.kind().store(Self::KIND, Release);
        object
    }

    fn handle(&self) -> *mut Self::Handle {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Makes all handles of it stale.
    fn retire(&self) {
        self.kind().store(0, Relaxed);
    }
}

/// Implements [`Object`] for a struct with the field `kind`.
#[macro_export]
macro_rules! object {
    ($type:ty, $handle:ty, $kind:expr) => {
        // SAFETY: the struct is repr(C), and its first field is its kind.
        unsafe impl $crate::object::Object for $type {
            type Handle = $handle;
            const KIND: u32 = $kind;
            #[inline(always)]
            fn kind(&self) -> &std::sync::atomic::AtomicU32 {
                const { assert!(std::mem::offset_of!($type, kind) == 0) };
                &self.kind
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Thing {
        kind: AtomicU32,
        value: u32,
    }
    object!(Thing, u8, 0x7777);

    #[test]
    fn only_living_objects_are_found() {
        let thing = Thing {
            kind: AtomicU32::new(0),
            value: 5,
        };
        let handle = thing.publish().handle();
        assert_eq!(Thing::find(handle).map(|thing| thing.value), Ok(5));
        assert_eq!(Thing::find(std::ptr::null_mut()).err(), Some(Invalid::Pointer));
        assert_eq!(Thing::find(handle.wrapping_add(1)).err(), Some(Invalid::Pointer));
        Thing::find(handle).unwrap().retire();
        assert_eq!(Thing::find(handle).err(), Some(Invalid::Stale));
    }
}
