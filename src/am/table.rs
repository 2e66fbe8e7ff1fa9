//! Handler tables (GASNet-EX 0.19, `gex_EP_RegisterHandlers`).

use crate::flags::Flags;
use gasnet_sys::atomic::Mutex;
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::types::{AmCategory, MAX_ARGS};
use gasnet_conduit::Class;

/// Lowest index for clients (`GEX_AM_INDEX_BASE`).
pub const INDEX_BASE: u8 = 128;

/// `gex_AM_Entry_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AmEntry {
    /// Index, or 0 for "any".
    pub index: u8,
    /// The handler.
    pub function: Option<unsafe extern "C-unwind" fn()>,
    /// `GEX_FLAG_AM_*`.
    pub flags: Flags,
    /// Number of arguments.
    pub nargs: c_uint,
    /// The client's.
    pub cdata: *const c_void,
    /// For messages; may be null.
    pub name: *const c_char,
}

const _: () = assert!(size_of::<AmEntry>() == 40);

/// Registration of GASNet-1 handlers, which state neither category nor argument count.
pub const ANY_NARGS: c_uint = c_uint::MAX;

impl AmEntry {
    /// Whether this handler was registered for such a message.
    pub fn accepts(&self, class: Class, category: AmCategory, nargs: usize) -> bool {
        let category = match category {
            AmCategory::Short => Flags::AM_SHORT,
            AmCategory::Medium => Flags::AM_MEDIUM,
            AmCategory::Long => Flags::AM_LONG,
        };
        let class = match class {
            Class::Request => Flags::AM_REQUEST,
            Class::Reply => Flags::AM_REPLY,
        };
        self.flags.has(category) && self.flags.has(class) && (self.nargs == ANY_NARGS || self.nargs as usize == nargs)
    }
}

struct Slot {
    set: AtomicBool,
    entry: UnsafeCell<AmEntry>,
}

/// An endpoint's handlers. Entries are written once, under the lock, and published by `set`.
pub struct Table {
    slots: [Slot; 256],
    writer: Mutex<()>,
}

// SAFETY: a slot's entry is written once under `writer` before `set` is stored with release, and
// only read after an acquire load of `set`; what its pointers mean is the client's business and the
// client keeps them valid.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Table({} handlers)",
            self.slots.iter().filter(|s| s.set.load(Ordering::Relaxed)).count()
        )
    }
}

/// Why a table was not registered. Nothing of it was.
#[derive(Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// An index below [`INDEX_BASE`].
    Index(u8),
    /// An index that is taken, by an earlier call or by an earlier entry.
    Taken(u8),
    /// A null function.
    Null(usize),
    /// More arguments than [`MAX_ARGS`].
    Args(usize, c_uint),
    /// No category or no direction among the flags; in the debug flavour also unknown ones.
    Flags(usize, Flags),
    /// No index left.
    Full,
}

impl std::fmt::Display for RegisterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Index(i) => write!(f, "handler index {i} is not in {INDEX_BASE}..255 (or 0 for any)"),
            Self::Taken(i) => write!(f, "handler index {i} is registered already"),
            Self::Null(i) => write!(f, "entry {i} has a null function"),
            Self::Args(i, n) => write!(f, "entry {i} declares {n} arguments; {MAX_ARGS} is the most"),
            Self::Flags(i, x) => write!(
                f,
                "entry {i} has flags {x:#x}: GEX_FLAG_AM_* for a category (SHORT, MEDIUM, LONG) and a direction \
                 (REQUEST, REPLY) are needed, and nothing else"
            ),
            Self::Full => write!(f, "all {} handler indices are taken", 256 - INDEX_BASE as usize),
        }
    }
}

impl Table {
    /// Writes an empty one to `place`: it is large for a stack.
    ///
    /// # Safety
    /// `place` is valid for writes, and aligned.
    pub unsafe fn write_empty(place: *mut Self) {
        let empty = AmEntry {
            index: 0,
            function: None,
            flags: Flags::NONE,
            nargs: 0,
            cdata: ptr::null(),
            name: ptr::null(),
        };
        for index in 0..256 {
            let slot = Slot {
                set: AtomicBool::new(false),
                entry: UnsafeCell::new(empty),
            };
            // SAFETY: by contract.
            unsafe { (&raw mut (*place).slots[index]).write(slot) };
        }
        // SAFETY: by contract.
        unsafe { (&raw mut (*place).writer).write(Mutex::new(())) };
    }

    /// The handler at `index`, if one is registered.
    #[inline]
    pub fn get(&self, index: u8) -> Option<&AmEntry> {
        let slot = &self.slots[index as usize];
        if !slot.set.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: published; never written again.
        Some(unsafe { &*slot.entry.get() })
    }

    /// Registers all of `entries` or none: fixed indices first, then those with index 0, in order,
    /// each at the highest free index, which is written back.
    pub fn register(&self, entries: &mut [AmEntry]) -> Result<(), RegisterError> {
        for (i, entry) in entries.iter().enumerate() {
            if entry.nargs as usize > MAX_ARGS {
                return Err(RegisterError::Args(i, entry.nargs));
            }
            if cfg!(feature = "debug-checks") && !Flags::AM_ANY.has_all(entry.flags) {
                return Err(RegisterError::Flags(i, entry.flags));
            }
        }
        self.register_any(entries)
    }

    /// As `register`, for entries that may accept any number of arguments.
    pub fn register_any(&self, entries: &mut [AmEntry]) -> Result<(), RegisterError> {
        let _writer = gasnet_sys::lock(&self.writer);
        let mut taken: [bool; 256] = std::array::from_fn(|i| self.slots[i].set.load(Ordering::Relaxed));
        for (i, entry) in entries.iter().enumerate() {
            check(i, entry)?;
            if entry.index != 0 {
                if entry.index < INDEX_BASE {
                    return Err(RegisterError::Index(entry.index));
                }
                if std::mem::replace(&mut taken[entry.index as usize], true) {
                    return Err(RegisterError::Taken(entry.index));
                }
            }
        }
        let mut indices = Vec::with_capacity(entries.len());
        for entry in entries.iter() {
            let index = if entry.index == 0 {
                (INDEX_BASE..=255)
                    .rev()
                    .find(|&i| !taken[i as usize])
                    .ok_or(RegisterError::Full)?
            } else {
                entry.index
            };
            taken[index as usize] = true;
            indices.push(index);
        }
        for (entry, index) in entries.iter_mut().zip(indices) {
            entry.index = index;
            let slot = &self.slots[index as usize];
            // SAFETY: `set` is false and we hold the writer's lock, so nobody reads or writes the
            // entry.
            unsafe { slot.entry.get().write(*entry) };
            slot.set.store(true, Ordering::Release);
        }
        Ok(())
    }
}

fn check(i: usize, entry: &AmEntry) -> Result<(), RegisterError> {
    if entry.function.is_none() {
        return Err(RegisterError::Null(i));
    }
    if !entry.flags.has(Flags::AM_SHORT | Flags::AM_MEDIUM | Flags::AM_LONG)
        || !entry.flags.has(Flags::AM_REQUEST | Flags::AM_REPLY)
    {
        return Err(RegisterError::Flags(i, entry.flags));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C-unwind" fn nothing() {}

    fn entry(index: u8) -> AmEntry {
        AmEntry {
            index,
            function: Some(nothing),
            flags: Flags::AM_SHORT | Flags::AM_REQUEST,
            nargs: 0,
            cdata: ptr::null(),
            name: ptr::null(),
        }
    }

    fn empty() -> Box<Table> {
        let mut table = Box::<Table>::new_uninit();
        // SAFETY: room for it.
        unsafe { Table::write_empty(table.as_mut_ptr()) };
        // SAFETY: written.
        unsafe { table.assume_init() }
    }

    #[test]
    fn free_indices_go_out_from_the_top_after_the_fixed_ones() {
        let table = empty();
        let mut entries = [entry(0), entry(255), entry(0), entry(200)];
        table.register(&mut entries).unwrap();
        assert_eq!(entries.map(|e| e.index), [254, 255, 253, 200]);
        assert!(table.get(254).is_some() && table.get(199).is_none());
    }

    #[test]
    fn a_bad_table_registers_nothing() {
        let table = empty();
        assert_eq!(
            table.register(&mut [entry(200), entry(200)]),
            Err(RegisterError::Taken(200))
        );
        assert_eq!(
            table.register(&mut [entry(201), entry(5)]),
            Err(RegisterError::Index(5))
        );
        assert!(table.get(200).is_none() && table.get(201).is_none());
        let mut many = vec![entry(0); 129];
        assert_eq!(table.register(&mut many), Err(RegisterError::Full));
        many.pop();
        table.register(&mut many).unwrap();
        assert_eq!(many[127].index, 128);
    }
}
