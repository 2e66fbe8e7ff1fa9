//! The shim (`shim.h`), opened at run time, behind types of Rust. The contract is in that header.

use crate::settings::SHIM;
use gasnet_conduit::config;
use gasnet_conduit::library::{Library, Vendor};
use gasnet_elan_abi as abi;
use gasnet_sys::atomic::{AtomicU32, Mutex, MutexGuard, Ordering};
use gasnet_sys::lock;
use std::ffi::{c_char, CStr};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// The shim that a site has compiled.
static VENDOR: Vendor = Vendor {
    what: "shim of Quadrics' libelan",
    names: &[c"libgasnet_elan_shim.so"],
    source: "A site compiles it, to the interface conduit-elan/shim.h, against the headers of libelan",
    variable: &SHIM,
    probe: c"gasnet_elan_shim",
};

/// Bytes of a message of the shim.
const WHY: usize = 512;

/// Declares the table of functions without the options that a table of C has.
macro_rules! functions {
    ($($name:ident($($arg:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the shim.
        #[derive(Clone, Copy, Debug)]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl Functions {
            /// None: one is missing.
            fn of(table: &abi::gasnet_elan_shim_t) -> Option<Self> {
                Some(Self { $($name: table.$name?,)* })
            }
        }
    };
}

type Elan = *mut abi::gasnet_elan_t;
type Memory = *mut libc::c_void;
type ConstMemory = *const libc::c_void;
type EventPointer = *mut abi::gasnet_elan_event_t;
type ChannelPointer = *mut abi::gasnet_elan_channel_t;
type QueuePointer = *mut abi::gasnet_elan_queue_t;
type PortPointer = *mut abi::gasnet_elan_port_t;

functions! {
    start(*const abi::gasnet_elan_place_t, *mut abi::gasnet_elan_info_t, *mut c_char, usize) -> Elan;
    stop(Elan);
    alloc(Elan, usize, usize) -> Memory;
    free(Elan, Memory);
    symmetric(Elan, usize, usize, *mut u64) -> Memory;
    symmetric_free(Elan, Memory);
    is_addressable(Elan, ConstMemory, usize) -> i32;
    map(Elan, Memory, usize) -> u64;
    unmap(Elan, Memory, usize);
    channel(Elan) -> ChannelPointer;
    put(ChannelPointer, ConstMemory, u64, usize, u32) -> EventPointer;
    get(Elan, u64, Memory, usize, u32) -> EventPointer;
    poll(Elan, EventPointer) -> i32;
    wait(Elan, EventPointer);
    queue(Elan, usize, usize) -> QueuePointer;
    queue_send(QueuePointer, u32, ConstMemory, usize);
    queue_has(QueuePointer) -> i32;
    queue_receive(QueuePointer, Memory);
    port(Elan) -> PortPointer;
    port_send(PortPointer, u32, u32, ConstMemory, usize) -> EventPointer;
    port_sent(PortPointer, EventPointer) -> i32;
    port_offer(PortPointer, u32, Memory, usize) -> EventPointer;
    port_arrived(PortPointer, EventPointer) -> i32;
    port_receive(PortPointer, EventPointer, *mut u32, *mut usize) -> Memory;
    port_free(PortPointer, Memory);
    sync(Elan);
    barrier(Elan);
    broadcast(Elan, Memory, usize, u32);
    signal_job(i32, *mut c_char, usize) -> i32;
}

/// The text in a buffer for a message, without a full stop.
fn text(buffer: &[c_char]) -> String {
    // SAFETY: as many bytes, and a C character is one.
    let bytes: &[u8] = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), buffer.len()) };
    CStr::from_bytes_until_nul(bytes).map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
}

impl Functions {
    /// Those of the library, opened once. The error is a message without a full stop.
    pub fn get() -> Result<&'static Self, String> {
        static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
        FUNCTIONS.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, String> {
        type Shim = unsafe extern "C" fn() -> *const abi::gasnet_elan_shim_t;
        let library = Library::open(&VENDOR, config::get())?;
        // SAFETY: shim.h declares it so.
        let shim: Shim = unsafe { library.function(VENDOR.probe)? };
        // SAFETY: a function without arguments, whose table begins with its version.
        let version = unsafe { (*shim()).version };
        if version != abi::GASNET_ELAN_SHIM_VERSION {
            return Err(format!(
                "{} has version {version} of the interface, and this library uses {}. Compile it for this release",
                library.path(),
                abi::GASNET_ELAN_SHIM_VERSION
            ));
        }
        // SAFETY: a constant table of this version.
        let functions = Self::of(unsafe { &*shim() });
        functions.ok_or_else(|| format!("{} lacks functions of its interface", library.path()))
    }

    /// Sends a signal to all processes of the job. The error is a message without a full stop.
    pub fn signal_job(&self, signal: i32) -> Result<(), String> {
        let mut why = [0; WHY];
        // SAFETY: a buffer of that length.
        match unsafe { (self.signal_job)(signal, why.as_mut_ptr(), WHY) } {
            0 => Ok(()),
            _ => Err(text(&why)),
        }
    }
}

/// A put, a get, or a message of the port under way. It is used up by the call that finds it
/// complete.
#[derive(Debug)]
#[must_use = "what is under way must be waited for"]
pub struct Event(EventPointer);

// SAFETY: events may be used by any thread, one at a time.
unsafe impl Send for Event {}

/// An attachment to the network.
#[derive(Debug)]
pub struct Shim {
    functions: &'static Functions,
    elan: Elan,
    pub info: abi::gasnet_elan_info_t,
    /// If only one thread may be inside.
    serial: Option<Mutex<()>>,
    /// For the puts of exchanges: each channel takes memory of the adapter until the end.
    exchanges: OnceLock<Channel>,
}

// SAFETY: the shim may be used by several threads, or `serial` lets one in at a time.
unsafe impl Send for Shim {}
// SAFETY: as above.
unsafe impl Sync for Shim {}

/// One inside a serial library.
type QueueGuard<'a> = Option<MutexGuard<'a, ()>>;

/// Memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    pub address: usize,
    pub bytes: usize,
}

impl Shim {
    /// Attaches this process. Collective; blocks. The error is a message without a full stop.
    pub fn start(place: &abi::gasnet_elan_place_t) -> Result<Self, String> {
        let functions = Functions::get()?;
        let mut why = [0; WHY];
        // SAFETY: zero bytes are valid: numbers only.
        let mut info: abi::gasnet_elan_info_t = unsafe { std::mem::zeroed() };
        // SAFETY: structures and a buffer of that length.
        let elan = unsafe { (functions.start)(place, &raw mut info, why.as_mut_ptr(), WHY) };
        if elan.is_null() {
            return Err(text(&why));
        }
        Ok(Self {
            functions,
            elan,
            info,
            serial: (info.is_serial != 0).then(Mutex::default),
            exchanges: OnceLock::new(),
        })
    }

    /// For people.
    pub fn version(&self) -> String {
        let version = text(&self.info.version);
        let rails = match self.info.rails {
            0 | 1 => String::new(),
            many => format!(", {many} rails"),
        };
        let lacks = match self.info.has_hardware_broadcast {
            0 => ", no hardware broadcast",
            _ => "",
        };
        format!("{version}{rails}{lacks}")
    }

    #[inline]
    fn lock(&self) -> QueueGuard<'_> {
        self.serial.as_ref().map(lock)
    }

    /// Memory of the network's pool, aligned to a cache line. None: it is exhausted.
    pub fn alloc(&self, bytes: usize) -> Option<NonNull<u8>> {
        let _guard = self.lock();
        // SAFETY: plain numbers.
        NonNull::new(unsafe { (self.functions.alloc)(self.elan, 64, bytes) }.cast())
    }

    /// Gives it back.
    ///
    /// # Safety
    /// It is from `alloc`, and neither this process nor the network uses it.
    pub unsafe fn free(&self, memory: NonNull<u8>) {
        let _guard = self.lock();
        // SAFETY: by contract.
        unsafe { (self.functions.free)(self.elan, memory.as_ptr().cast()) };
    }

    /// Memory that all processes have, zero, aligned to a cache line, and its network address,
    /// which is the same everywhere. Collective; blocks.
    pub fn symmetric(&self, bytes: usize) -> Option<(NonNull<u8>, u64)> {
        let mut address = 0;
        // SAFETY: plain numbers, and a place for the address.
        let memory = unsafe { (self.functions.symmetric)(self.elan, 64, bytes, &raw mut address) };
        let memory = NonNull::new(memory.cast::<u8>())?;
        // SAFETY: as many bytes, which nobody uses before all have come here.
        unsafe { memory.as_ptr().write_bytes(0, bytes) };
        // SAFETY: collective calls in the same order. Now all have.
        unsafe { (self.functions.sync)(self.elan) };
        Some((memory, address))
    }

    /// All-gather: the bytes of all processes, of equal lengths, in the order of their numbers.
    /// None: there is no memory. Collective; blocks.
    pub fn gather(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (vp, size, length) = (self.info.vp as usize, self.info.size as usize, bytes.len());
        let (memory, address) = self.symmetric((size * length).max(1))?;
        let own = memory.as_ptr().addr() + vp * length;
        if vp != 0 && length > 0 {
            let channel = self.exchanges.get_or_init(|| self.channel(0));
            let place = channel.take()?;
            // SAFETY: the part of this process, here and at process 0.
            let event = unsafe {
                (own as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), length);
                self.put(&place, own, address + (vp * length) as u64, length, 0)
            };
            self.wait(event);
        } else {
            // SAFETY: as above.
            unsafe { (own as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), length) };
        }
        // SAFETY: collective calls in the same order; all parts are at process 0 behind the first.
        unsafe {
            (self.functions.sync)(self.elan);
            self.broadcast(memory.as_ptr(), size * length, 0);
            let all = std::slice::from_raw_parts(memory.as_ptr(), size * length).to_vec();
            (self.functions.symmetric_free)(self.elan, memory.as_ptr().cast());
            Some(all)
        }
    }

    /// Whether the network reads and writes this memory of the process.
    #[inline]
    pub fn is_addressable(&self, address: usize, bytes: usize) -> bool {
        if self.info.elan == 4 {
            return true;
        }
        let _guard = self.lock();
        // SAFETY: the address is not used as one of memory.
        unsafe { (self.functions.is_addressable)(self.elan, address as ConstMemory, bytes) != 0 }
    }

    /// The network address of whole pages, which all processes can access from now on. None: there
    /// is no room.
    pub fn map(&self, address: usize, bytes: usize) -> Option<u64> {
        let _guard = self.lock();
        // SAFETY: the runtime gives away this memory.
        let mapped = unsafe { (self.functions.map)(self.elan, address as Memory, bytes) };
        (mapped != 0).then_some(mapped)
    }

    /// Reverts `map`.
    pub fn unmap(&self, address: usize, bytes: usize) {
        let _guard = self.lock();
        // SAFETY: mapped before, and no peer uses it any more.
        unsafe { (self.functions.unmap)(self.elan, address as Memory, bytes) };
    }

    /// Opens a channel for puts, with a number.
    pub fn channel(&self, number: usize) -> Channel {
        let _guard = self.lock();
        Channel {
            number,
            // SAFETY: a plain call.
            pointer: unsafe { (self.functions.channel)(self.elan) },
            throttle: self.info.throttle,
            under_way: AtomicU32::new(0),
        }
    }

    /// Puts into the memory of a process.
    ///
    /// # Safety
    /// The source is readable and, unless small, addressable, and stays so until the put is
    /// complete; the destination is the target's to give.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "those of the shim")]
    pub unsafe fn put(&self, slot: &ChannelSlot<'_>, from: usize, to: u64, bytes: usize, vp: u32) -> Event {
        let _guard = self.lock();
        // SAFETY: by contract; the channel has a place for it.
        Event(unsafe { (self.functions.put)(slot.0.pointer, from as ConstMemory, to, bytes, vp) })
    }

    /// Gets from the memory of a process.
    ///
    /// # Safety
    /// The destination is writable and addressable, and stays so until the get is complete; the
    /// source is the target's to give.
    #[inline]
    pub unsafe fn get(&self, from: u64, to: usize, bytes: usize, vp: u32) -> Event {
        let _guard = self.lock();
        // SAFETY: by contract.
        Event(unsafe { (self.functions.get)(self.elan, from, to as Memory, bytes, vp) })
    }

    /// Whether a put or get is complete. If not, its event is returned.
    #[inline]
    pub fn poll(&self, event: Event) -> Result<(), Event> {
        let _guard = self.lock();
        // SAFETY: a live event, which is used up here or returned.
        match unsafe { (self.functions.poll)(self.elan, event.0) } {
            0 => Err(event),
            _ => Ok(()),
        }
    }

    /// Blocks until a put or get is complete.
    #[allow(clippy::needless_pass_by_value, reason = "it is used up")]
    pub fn wait(&self, event: Event) {
        // SAFETY: a live event, which is used up here.
        unsafe { (self.functions.wait)(self.elan, event.0) };
    }

    /// Opens a queue for messages of this process. Collective; blocks.
    pub fn queue(&self, slots: usize) -> Option<Queue> {
        // SAFETY: collective calls in the same order.
        let pointer = unsafe { (self.functions.queue)(self.elan, slots, self.info.queue_bytes as usize) };
        (!pointer.is_null()).then_some(Queue(pointer))
    }

    /// Sends a message to a queue. The caller knows that there is room, so this does not wait.
    #[inline]
    pub fn queue_send(&self, queue: &Queue, vp: u32, message: &[u8]) {
        let _guard = self.lock();
        // SAFETY: a queue, and readable memory.
        unsafe { (self.functions.queue_send)(queue.0, vp, message.as_ptr().cast(), message.len()) };
    }

    /// Takes a message out of the queue, if there is one. One thread at a time calls this.
    ///
    /// # Safety
    /// The buffer has room for the longest message.
    #[inline]
    pub unsafe fn queue_receive(&self, queue: &Queue, buffer: *mut u8) -> bool {
        let _guard = self.lock();
        // SAFETY: a queue, and by contract.
        unsafe {
            let has_one = (self.functions.queue_has)(queue.0) != 0;
            if has_one {
                (self.functions.queue_receive)(queue.0, buffer.cast());
            }
            has_one
        }
    }

    /// Opens a port. Collective; blocks.
    pub fn port(&self) -> Port {
        // SAFETY: collective calls in the same order.
        Port(unsafe { (self.functions.port)(self.elan) })
    }

    /// Sends a long message.
    ///
    /// # Safety
    /// It is in memory of `alloc`, which is not written until it has been sent.
    #[inline]
    pub unsafe fn port_send(&self, port: &Port, vp: u32, tag: u32, memory: Local) -> Event {
        let Local { address, bytes } = memory;
        let _guard = self.lock();
        // SAFETY: a port, and by contract.
        Event(unsafe { (self.functions.port_send)(port.0, vp, tag, address as ConstMemory, bytes) })
    }

    /// Whether a message has been sent. If not, its event is returned.
    #[inline]
    pub fn port_sent(&self, port: &Port, event: Event) -> Result<(), Event> {
        let _guard = self.lock();
        // SAFETY: a port, and a live event, which is used up here or returned.
        match unsafe { (self.functions.port_sent)(port.0, event.0) } {
            0 => Err(event),
            _ => Ok(()),
        }
    }

    /// Offers a buffer to the next message with a tag.
    ///
    /// # Safety
    /// It is memory of `alloc`, which is not used until a message has been received in it.
    #[inline]
    pub unsafe fn port_offer(&self, port: &Port, tag: u32, memory: Local) -> Event {
        let Local { address, bytes } = memory;
        let _guard = self.lock();
        // SAFETY: a port, and by contract.
        Event(unsafe { (self.functions.port_offer)(port.0, tag, address as Memory, bytes) })
    }

    /// Whether a message has arrived for a buffer.
    #[inline]
    pub fn port_arrived(&self, port: &Port, event: &Event) -> bool {
        let _guard = self.lock();
        // SAFETY: a port, and a live event.
        unsafe { (self.functions.port_arrived)(port.0, event.0) != 0 }
    }

    /// The message that has arrived: its address, sender, and length.
    #[inline]
    #[allow(clippy::needless_pass_by_value, reason = "it is used up")]
    pub fn port_receive(&self, port: &Port, event: Event) -> (usize, u32, usize) {
        let (mut vp, mut bytes) = (0, 0);
        let _guard = self.lock();
        // SAFETY: a port, and a live event for which a message has arrived, which is used up here.
        let message = unsafe { (self.functions.port_receive)(port.0, event.0, &raw mut vp, &raw mut bytes) };
        (message as usize, vp, bytes)
    }

    /// Gives a buffer of the library's back.
    ///
    /// # Safety
    /// It is from `port_receive`, and not one that was offered.
    pub unsafe fn port_free(&self, port: &Port, address: usize) {
        let _guard = self.lock();
        // SAFETY: by contract.
        unsafe { (self.functions.port_free)(port.0, address as Memory) };
    }

    /// A barrier of all processes. Blocks.
    pub fn barrier(&self) {
        // SAFETY: collective calls in the same order.
        unsafe { (self.functions.barrier)(self.elan) };
    }

    /// Broadcasts symmetric memory from a process to all others. Blocks.
    ///
    /// # Safety
    /// `memory` has `bytes` bytes of `symmetric`, which no other call uses meanwhile.
    pub unsafe fn broadcast(&self, memory: *mut u8, bytes: usize, root: u32) {
        // SAFETY: collective calls in the same order, and by contract.
        unsafe { (self.functions.broadcast)(self.elan, memory.cast(), bytes, root) };
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { (self.functions.stop)(self.elan) };
    }
}

/// A channel for puts, which would wait while it has too many under way.
#[derive(Debug)]
pub struct Channel {
    number: usize,
    pointer: ChannelPointer,
    throttle: u32,
    under_way: AtomicU32,
}

// SAFETY: as `Shim`.
unsafe impl Send for Channel {}
// SAFETY: as `Shim`.
unsafe impl Sync for Channel {}

/// A place for a put in a channel, which is free again when this is dropped.
#[derive(Debug)]
pub struct ChannelSlot<'a>(&'a Channel);

impl Channel {
    /// Takes a place, if there is one.
    #[inline]
    pub fn take(&self) -> Option<ChannelSlot<'_>> {
        let more = |under_way: u32| (under_way < self.throttle).then_some(under_way + 1);
        let taken = self.under_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| ChannelSlot(self))
    }

    /// The put whose place was kept is complete.
    #[inline]
    pub fn give_back(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ChannelSlot<'_> {
    /// The number of its channel.
    #[inline]
    pub fn number(&self) -> usize {
        self.0.number
    }

    /// Keeps the place until [`Channel::give_back`]. Returns the number of the channel.
    #[inline]
    pub fn keep(self) -> usize {
        let number = self.0.number;
        std::mem::forget(self);
        number
    }
}

impl Drop for ChannelSlot<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// A queue for short messages.
#[derive(Debug)]
pub struct Queue(QueuePointer);
// SAFETY: as `Shim`.
unsafe impl Send for Queue {}
// SAFETY: as `Shim`.
unsafe impl Sync for Queue {}

/// A port for long messages.
#[derive(Debug)]
pub struct Port(PortPointer);
// SAFETY: as `Shim`.
unsafe impl Send for Port {}
// SAFETY: as `Shim`.
unsafe impl Sync for Port {}
