//! Pools of items of one size, each a head of the network's and bytes behind it, in chunks of
//! memory that the network makes and registers.
//!
//! An item belongs to one pool for ever: the pool's list has it, or the thread that took it, or the
//! network, as an address, until its operation completes.

use crate::mapped::Mapped;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use gasnet_sys::maybe_locked::{MaybeLocked, Sharing};
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;

/// Memory of several items.
///
/// # Safety
/// The memory is zero, aligned to a cache line, and valid until this is dropped.
pub unsafe trait Chunk {
    /// First byte.
    fn address(&self) -> usize;
}

/// An item in memory. The network's head comes first.
#[repr(C, align(64))]
struct Slot<H, C> {
    head: H,
    pool: *const Shared<H, C>,
}

/// An item that its holder has for itself.
#[derive(Debug)]
#[must_use = "an item that is not released is lost"]
pub struct Item<H, C>(NonNull<Slot<H, C>>);

// SAFETY: the holder has it alone.
unsafe impl<H: Send, C: Send> Send for Item<H, C> {}
// SAFETY: a shared item is only read.
unsafe impl<H: Sync, C: Send> Sync for Item<H, C> {}

impl<H, C> std::ops::Deref for Item<H, C> {
    type Target = H;
    #[inline]
    fn deref(&self) -> &H {
        // SAFETY: the holder has it alone, and pools live as long as their items.
        unsafe { &self.0.as_ref().head }
    }
}

impl<H, C> std::ops::DerefMut for Item<H, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut H {
        // SAFETY: as above.
        unsafe { &mut self.0.as_mut().head }
    }
}

impl<H, C> Item<H, C> {
    /// Bytes of an item of this kind before those behind it.
    pub const HEAD: usize = size_of::<Slot<H, C>>();

    /// Address of the bytes behind the head, aligned to a cache line.
    #[inline]
    pub fn address(&self) -> usize {
        self.0.as_ptr() as usize + Self::HEAD
    }

    fn pool(&self) -> &Shared<H, C> {
        // SAFETY: pools live as long as their items.
        unsafe { &*self.0.as_ref().pool }
    }

    /// Bytes behind the head.
    #[inline]
    pub fn room(&self) -> usize {
        self.pool().bytes
    }

    /// The first `bytes` bytes behind the head.
    #[inline]
    pub fn bytes(&mut self, bytes: usize) -> &mut [u8] {
        let most = self.room();
        assert!(bytes <= most, "defect: {bytes} bytes in a buffer of {most}");
        // SAFETY: as many, which were zero at first, and the holder has them alone.
        unsafe { std::slice::from_raw_parts_mut(self.address() as *mut u8, bytes) }
    }

    /// Calls a function with the chunk of this item.
    pub fn with_chunk<R>(&self, find: impl FnOnce(&C) -> R) -> R
    where
        C: Chunk,
    {
        let chunks = lock(&self.pool().chunks);
        let before = chunks.iter().filter(|chunk| chunk.address() <= self.address());
        find(
            before
                .max_by_key(|chunk| chunk.address())
                .expect("defect: an item outside its pool"),
        )
    }

    /// Puts it back into its pool.
    #[inline]
    pub fn release(self) {
        // SAFETY: pools live as long as their items.
        let pool = unsafe { &*self.0.as_ref().pool };
        pool.free.lock().push(self);
    }

    /// Address of its head, while it is held.
    #[inline]
    pub fn head_address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Gives it to the network, under the address of its head.
    #[inline]
    pub fn into_head_address(self) -> usize {
        self.head_address()
    }

    /// Takes it back from the network. None: the address is null.
    ///
    /// # Safety
    /// From [`Item::into_head_address`], once.
    #[inline]
    pub unsafe fn from_head_address(address: usize) -> Option<Self> {
        NonNull::new(address as *mut Slot<H, C>).map(Self)
    }

    /// Gives it to a client, under the address of its bytes.
    #[inline]
    pub fn into_address(self) -> usize {
        self.address()
    }

    /// Takes it back from a client.
    ///
    /// # Safety
    /// From [`Item::into_address`], once.
    #[inline]
    pub unsafe fn from_address(address: usize) -> Self {
        let slot = (address - Self::HEAD) as *mut Slot<H, C>;
        Self(NonNull::new(slot).expect("defect: a buffer at address 0"))
    }
}

/// Items of one size.
#[derive(Debug)]
pub struct Pool<H, C>(Box<Shared<H, C>>);

/// State of a pool, to which its items refer.
#[derive(Debug)]
struct Shared<H, C> {
    free: MaybeLocked<Vec<Item<H, C>>>,
    /// Bytes behind each head.
    bytes: usize,
    /// The largest number of items.
    most: usize,
    /// Number of items.
    count: AtomicUsize,
    /// Their memory.
    chunks: Mutex<Vec<C>>,
}

impl<H, C: Chunk> Pool<H, C> {
    /// Bytes of an item's head.
    const HEAD: usize = Item::<H, C>::HEAD;

    /// An empty pool of up to `most` items with at least `bytes` bytes.
    pub fn new(bytes: usize, most: usize) -> Self {
        Self::of_threads(bytes, most, Sharing::SEVERAL)
    }

    /// The same, for one thread, or for several.
    pub fn of_threads(bytes: usize, most: usize, sharing: Sharing) -> Self {
        Self(Box::new(Shared {
            free: MaybeLocked::new(Vec::new(), sharing),
            bytes: bytes.next_multiple_of(64),
            most,
            count: AtomicUsize::new(0),
            chunks: Mutex::default(),
        }))
    }

    /// Bytes behind the head of each item.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The largest number of items.
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// Whether it has no item yet.
    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) == 0
    }

    /// Bytes of an item, with its head.
    pub fn each(&self) -> usize {
        Self::HEAD + self.0.bytes
    }

    /// Bytes of all items that there are, and that there may be.
    pub fn all_bytes(&self) -> (usize, usize) {
        let count = self.0.count.load(Ordering::Relaxed);
        (self.each() * count, self.each() * self.0.most)
    }

    /// Takes an item that is free.
    #[inline]
    pub fn take(&self) -> Option<Item<H, C>> {
        self.take_beyond(0)
    }

    /// Takes an item if more than `kept` are free.
    #[inline]
    pub fn take_beyond(&self, kept: usize) -> Option<Item<H, C>> {
        let mut free = self.0.free.lock();
        if free.len() > kept {
            free.pop()
        } else {
            None
        }
    }

    /// Makes up to `more` items, within the limit: `chunk` makes memory of this number of bytes,
    /// and `head` the head of each item in it.
    #[cold]
    pub fn grow<E>(
        &self,
        more: usize,
        chunk: impl FnOnce(usize) -> Result<C, E>,
        head: impl Fn(&C) -> H,
    ) -> Result<(), E> {
        let mut chunks = lock(&self.0.chunks);
        let count = self.0.count.load(Ordering::Relaxed);
        let more = more.min(self.0.most - count);
        if more == 0 {
            return Ok(());
        }
        let chunk = chunk(self.each() * more)?;
        let mut free = self.0.free.lock();
        for index in 0..more {
            let slot = (chunk.address() + index * self.each()) as *mut Slot<H, C>;
            let value = Slot {
                head: head(&chunk),
                pool: &raw const *self.0,
            };
            // SAFETY: inside the chunk, and aligned, as `each` is.
            unsafe { slot.write(value) };
            free.extend(NonNull::new(slot).map(Item));
        }
        chunks.push(chunk);
        self.0.count.store(count + more, Ordering::Relaxed);
        Ok(())
    }

    /// Whether this is the address of the head of one of its items.
    #[cold]
    pub fn owns(&self, address: usize, chunk_bytes: impl Fn(&C) -> usize) -> bool {
        lock(&self.0.chunks).iter().any(|chunk| {
            let offset = address.checked_sub(chunk.address());
            offset.is_some_and(|offset| offset < chunk_bytes(chunk) && offset % self.each() == 0)
        })
    }
}

impl<H> Pool<H, Mapped> {
    /// Takes an item, or makes some. None if there are as many as there may be, or no memory.
    #[inline]
    pub fn take_or_make(&self, head: impl Fn() -> H) -> Option<Item<H, Mapped>> {
        /// Items that are made at once.
        const MORE: usize = 32;
        self.take().or_else(|| {
            self.grow(MORE, Mapped::new, |_| head()).ok()?;
            self.take()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Numbered = Pool<u64, Mapped>;

    fn grow(pool: &Numbered, more: usize) {
        pool.grow(more, Mapped::new, |_| 7).unwrap();
    }

    #[test]
    fn items_are_made_within_the_limit() {
        let pool = Numbered::new(100, 5);
        assert!(pool.is_empty() && pool.take().is_none());
        grow(&pool, 2);
        grow(&pool, 9);
        let all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((all.len(), pool.bytes(), pool.each()), (5, 128, 192));
        assert_eq!(pool.all_bytes(), (5 * 192, 5 * 192));
        assert!(all.iter().all(|item| **item == 7 && item.address() % 64 == 0));
        all.into_iter().for_each(Item::release);
        assert!(pool.take().is_some());
    }

    #[test]
    fn items_are_made_when_they_are_taken() {
        let pool = Numbered::new(64, 33);
        let all: Vec<_> = std::iter::from_fn(|| pool.take_or_make(|| 7)).collect();
        assert_eq!(all.len(), 33);
    }

    #[test]
    fn some_are_left() {
        let pool = Numbered::new(64, 3);
        grow(&pool, 3);
        assert!(pool.take_beyond(3).is_none());
        let taken = pool.take_beyond(2).unwrap();
        assert!(pool.take_beyond(2).is_none());
        taken.release();
        assert!(pool.take_beyond(2).is_some());
    }

    #[test]
    fn one_thread_needs_no_lock() {
        // SAFETY: this thread alone uses it.
        let pool = Numbered::of_threads(64, 2, unsafe { Sharing::new(false) });
        grow(&pool, 2);
        let all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(all.len(), 2);
        all.into_iter().for_each(Item::release);
        assert!(pool.take().is_some() && pool.take().is_some() && pool.take().is_none());
    }

    #[test]
    fn bytes_stay_with_their_item() {
        let pool = Numbered::new(64, 2);
        grow(&pool, 2);
        let (mut one, mut two) = (pool.take().unwrap(), pool.take().unwrap());
        one.bytes(64).fill(1);
        two.bytes(64).fill(2);
        *one = 11;
        let address = one.into_head_address();
        assert!(pool.owns(address, |_| 2 * 128) && !pool.owns(address + 8, |_| 2 * 128));
        // SAFETY: from above, once.
        let mut one = unsafe { Item::<u64, Mapped>::from_head_address(address) }.unwrap();
        assert!(*one == 11 && one.bytes(64) == [1; 64] && two.bytes(64) == [2; 64]);
        let address = two.into_address();
        // SAFETY: from above, once.
        let two = unsafe { Item::<u64, Mapped>::from_address(address) };
        assert_eq!(one.with_chunk(Chunk::address), two.with_chunk(Chunk::address));
        one.release();
        two.release();
    }

    #[test]
    #[should_panic(expected = "65 bytes in a buffer of 64")]
    fn no_more_bytes_than_there_are() {
        let pool = Numbered::new(64, 1);
        grow(&pool, 1);
        pool.take().unwrap().bytes(65);
    }
}
