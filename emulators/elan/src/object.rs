//! The objects behind pointers of the interface. None is ever freed, so that a stale pointer is
//! fatal instead of undefined behaviour; a stopped attachment loses its kind.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::misuse::die;

/// A type of objects that C has pointers to. It begins with its kind.
pub trait Object: Sized + 'static {
    type Handle;
    const KIND: u32;
    const NAME: &'static str;

    fn kind(&self) -> &AtomicU32;

    /// The living object of a pointer.
    #[inline(always)]
    fn of(handle: *mut Self::Handle, call: &str) -> &'static Self {
        if handle.is_null() || handle as usize % align_of::<Self>() != 0 {
            die(call, &format!("no pointer to {}", Self::NAME));
        }
        // SAFETY: pointers come from `publish`, and what they point to is never freed.
        let object = unsafe { &*handle.cast::<Self>() };
        if object.kind().load(Acquire) != Self::KIND {
            die(call, &format!("the pointer is not, or no longer, to {}", Self::NAME));
        }
        object
    }

    fn publish(self) -> &'static Self {
        let object: &'static Self = Box::leak(Box::new(self));
        object.kind().store(Self::KIND, Release);
        object
    }

    fn handle(&self) -> *mut Self::Handle {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Makes all pointers to it stale.
    fn retire(&self) {
        self.kind().store(0, Relaxed);
    }
}

macro_rules! object {
    ($type:ty, $handle:ty, $kind:expr, $name:literal) => {
        impl $crate::object::Object for $type {
            type Handle = $handle;
            const KIND: u32 = $kind;
            const NAME: &'static str = $name;
            fn kind(&self) -> &std::sync::atomic::AtomicU32 {
                &self.kind
            }
        }
    };
}
pub(crate) use object;
