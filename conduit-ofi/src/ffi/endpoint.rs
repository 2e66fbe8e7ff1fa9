//! An open endpoint of a provider, with its fabric, domain, address vector and completion queue.

use super::bindings as abi;
use super::{hmem, mr_mode, Errno, Info, Region};
use gasnet_conduit::{Device, Dmabuf, SegmentMemory};
use gasnet_sys::atomic::{Mutex, MutexGuard};
use gasnet_sys::{cancel, lock, mem};
use std::ffi::c_void;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

/// One completion, with the context of its operation.
pub type Completion = abi::fi_cq_data_entry;

/// Type and operation of an atomic, in the provider's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicCode {
    /// `enum fi_datatype`.
    pub datatype: u32,
    /// `enum fi_op`.
    pub op: u32,
}

/// Offset of the old value of an atomic in its local memory.
pub const ATOMIC_RESULT: usize = 16;

/// Local memory of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// First byte.
    pub address: usize,
    /// Length.
    pub bytes: usize,
    /// [`Region::descriptor`], or null where local memory need not be registered.
    pub descriptor: *mut c_void,
}

/// Memory of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// The peer, in the address vector.
    pub peer: u64,
    /// Address or offset.
    pub address: u64,
    /// Key of its region.
    pub key: u64,
}

/// An object of libfabric, closed when it is dropped.
pub(super) struct Object<T>(NonNull<T>);

impl<T> Object<T> {
    /// The result of a function that stores a new object.
    fn open(what: &str, open: impl FnOnce(*mut *mut T) -> i32) -> Result<Self, String> {
        let mut object = ptr::null_mut();
        Errno::check_call(what, open(&raw mut object) as isize)?;
        let object = NonNull::new(object).map(Self);
        object.ok_or_else(|| format!("{what}: no object"))
    }

    pub(super) const fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Every object starts with this.
    const fn fid(&self) -> *mut abi::fid {
        self.0.as_ptr().cast()
    }
}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        // SAFETY: the owner closes the objects that use this one first.
        unsafe { super::close(self.fid()) };
    }
}

/// A lock that is held during all calls of a provider that no two threads may call at once.
#[derive(Clone)]
pub(super) struct CallLock(Option<Arc<Mutex<()>>>);

/// A thread inside the provider: alone if there is a lock, and not cancellable.
type Entered<'a> = (Option<MutexGuard<'a, ()>>, cancel::Disabled);

impl CallLock {
    /// Around calls of the provider, which may be system calls.
    #[inline]
    pub(super) fn enter(&self) -> Entered<'_> {
        let whole = cancel::disable();
        (self.0.as_deref().map(lock), whole)
    }
}

/// An endpoint. Its calls may be made from any thread.
pub struct Endpoint {
    // Closed first, by [`Endpoint::close`]; the others are dropped in this order.
    ep: ManuallyDrop<Object<abi::fid_ep>>,
    pub(super) cq: Object<abi::fid_cq>,
    av: Object<abi::fid_av>,
    domain: Object<abi::fid_domain>,
    fabric: Object<abi::fid_fabric>,
    info: Info,
    pub(super) calls: CallLock,
    /// The descriptor that is readable when the queue has something, if the provider has one.
    pub wake: Option<RawFd>,
}

// SAFETY: the provider is thread-safe, or `calls` admits one thread.
unsafe impl Send for Endpoint {}
// SAFETY: as above.
unsafe impl Sync for Endpoint {}

/// Calls function `$f` of a table of an object, with the object's pointer first.
macro_rules! call {
    ($object:expr, $table:ident.$f:ident ( $($arg:expr),* $(,)? )) => {{
        let object = $object.as_ptr();
        // SAFETY: a live object; the caller of the method vouches for memory.
        unsafe {
            match (*(*object).$table).$f {
                Some(f) => f(object.cast(), $($arg),*) as isize,
                None => -(libc::ENOSYS as isize),
            }
        }
    }};
}

/// Use of an endpoint by the threads of this process.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// A lock admits one at a time.
    pub take_turns: bool,
    /// They sleep until it has something, so it gets a wake-up descriptor if the provider has one.
    pub sleep: bool,
}

/// The least room in a receive buffer for many messages (`FI_OPT_MIN_MULTI_RECV`): with less, the
/// provider ends the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Minimum {
    /// Bytes.
    pub bytes: usize,
    /// The option is set after the endpoint is enabled, not before.
    pub is_late: bool,
}

impl Endpoint {
    /// Opens an endpoint with one queue for all completions. `entries`: the least length of the
    /// queue; 0 leaves it to the provider. `minimum`: see [`Endpoint::receive`].
    pub fn open(info: Info, threads: Threads, entries: usize, minimum: Minimum) -> Result<Self, String> {
        let record = info.as_ptr();
        let fabric = Object::open("fi_fabric", |fabric| {
            let attributes = ptr::from_ref(info.fabric_attr()).cast_mut();
            // SAFETY: fi_fabric(3), with attributes of `fi_getinfo`.
            unsafe { (info.library().fabric)(attributes, fabric, ptr::null_mut()) }
        })?;
        let domain = Object::<abi::fid_domain>::open("fi_domain", |domain| {
            call!(fabric, ops.domain(record, domain, ptr::null_mut())) as i32
        })?;
        let (cq, fd) = Self::open_queue(&domain, entries, threads.sleep)?;
        // SAFETY: all zero is a valid value: the provider's defaults.
        let mut attributes: abi::fi_av_attr = unsafe { std::mem::zeroed() };
        attributes.type_ = info.av_type();
        let av = Object::<abi::fid_av>::open("fi_av_open", |av| {
            call!(domain, ops.av_open(&raw mut attributes, av, ptr::null_mut())) as i32
        })?;
        let ep = Object::<abi::fid_ep>::open("fi_endpoint", |ep| {
            call!(domain, ops.endpoint(record, ep, ptr::null_mut())) as i32
        })?;
        let calls = CallLock(threads.take_turns.then(Arc::default));
        let endpoint = Self {
            ep: ManuallyDrop::new(ep),
            cq,
            av,
            domain,
            fabric,
            info,
            calls,
            wake: fd,
        };
        endpoint.enable(minimum)?;
        Ok(endpoint)
    }

    /// The queue, and its wake-up descriptor if the provider has one.
    fn open_queue(
        domain: &Object<abi::fid_domain>,
        entries: usize,
        wake: bool,
    ) -> Result<(Object<abi::fid_cq>, Option<RawFd>), String> {
        let open = |wait| {
            // SAFETY: all zero is a valid value: the provider's defaults.
            let mut attributes: abi::fi_cq_attr = unsafe { std::mem::zeroed() };
            attributes.size = entries;
            attributes.format = abi::FI_CQ_FORMAT_DATA;
            attributes.wait_obj = wait;
            Object::<abi::fid_cq>::open("fi_cq_open", |cq| {
                call!(domain, ops.cq_open(&raw mut attributes, cq, ptr::null_mut())) as i32
            })
        };
        if let Some(cq) = wake.then(|| open(abi::FI_WAIT_FD)).and_then(Result::ok) {
            let mut fd: RawFd = -1;
            // SAFETY: fi_cq(3): this command stores the descriptor.
            let code = unsafe { super::control(cq.fid(), abi::FI_GETWAIT as i32, (&raw mut fd).cast()) };
            if code == 0 && fd >= 0 {
                return Ok((cq, Some(fd)));
            }
        }
        Ok((open(abi::FI_WAIT_NONE)?, None))
    }

    fn enable(&self, minimum: Minimum) -> Result<(), String> {
        let check = |call: &str, code: i32| Errno::check_call(call, code as isize);
        let (transmit, receive) = (super::bits::SEND, super::bits::RECV);
        // SAFETY: fi_ep_bind(3): live objects.
        let bind = |fid, flags| unsafe {
            let bind = (*(*self.ep.fid()).ops).bind;
            bind.map_or(-libc::ENOSYS, |bind| bind(self.ep.fid(), fid, flags))
        };
        check("fi_ep_bind", bind(self.av.fid(), 0))?;
        check("fi_ep_bind", bind(self.cq.fid(), transmit | receive))?;
        // SAFETY: fi_enable(3), on an endpoint that is bound.
        let enable = || unsafe { super::control(self.ep.fid(), abi::FI_ENABLE as i32, ptr::null_mut()) };
        let set_least = || {
            let option = (&raw const minimum.bytes).cast();
            let (level, name) = (abi::FI_OPT_ENDPOINT as i32, abi::FI_OPT_MIN_MULTI_RECV as i32);
            call!(self.ep, ops.setopt(level, name, option, size_of::<usize>())) as i32
        };
        let many = self.info.caps() & super::bits::MULTI_RECV != 0;
        if many && !minimum.is_late {
            check("FI_OPT_MIN_MULTI_RECV", set_least())?;
        }
        check("fi_enable", enable())?;
        if many && minimum.is_late {
            check("FI_OPT_MIN_MULTI_RECV", set_least())?;
        }
        Ok(())
    }

    /// Closes the endpoint itself, so that posted buffers are the owner's again. Regions are
    /// dropped after this and before `self`.
    ///
    /// # Safety
    /// Called once. Afterwards only regions may be dropped.
    pub unsafe fn close(&mut self) {
        // SAFETY: by the contract, dropped once.
        unsafe { ManuallyDrop::drop(&mut self.ep) };
    }

    /// The record of the provider.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The address, for the address vectors of peers.
    pub fn name(&self) -> Result<Vec<u8>, String> {
        let mut name = vec![0; 1024];
        let mut bytes = name.len();
        let code = call!(self.ep, cm.getname(name.as_mut_ptr().cast(), &raw mut bytes));
        Errno::check_call("fi_getname", code)?;
        name.truncate(bytes);
        Ok(name)
    }

    /// Inserts addresses of `length` bytes each, and returns their numbers; at once if they are
    /// `alike`. The error has the index of an address. Called before any operation: efa up to 2.6
    /// does not stand it beside calls of other threads.
    pub fn insert_all(&self, names: &[u8], length: usize, alike: bool) -> Result<Vec<u64>, (usize, Errno)> {
        let mut numbers = vec![u64::MAX; names.len() / length];
        // Texts follow one another without padding.
        let step = if alike && !self.info.names_by_text() {
            numbers.len()
        } else {
            1
        };
        for (index, (names, numbers)) in names.chunks(step * length).zip(numbers.chunks_mut(step)).enumerate() {
            let _call = self.calls.enter();
            let (name, count) = (names.as_ptr().cast(), numbers.len());
            let code = call!(
                self.av,
                ops.insert(name, count, numbers.as_mut_ptr(), 0, ptr::null_mut())
            );
            let failed = match Errno::check(code) {
                Ok(inserted) if inserted == count => continue,
                Ok(_) => Errno(libc::EADDRNOTAVAIL),
                Err(why) => why,
            };
            let first = numbers.iter().position(|number| *number == u64::MAX);
            return Err((index * step + first.unwrap_or(0), failed));
        }
        Ok(numbers)
    }

    /// Registers host memory, for `access` ([`super::bits`]). The key is a random number, unless
    /// the provider chooses it.
    ///
    /// # Safety
    /// The memory is mapped until the region is dropped.
    pub unsafe fn register(&self, base: usize, bytes: usize, access: u64) -> Result<Region, Errno> {
        self.with_key(|key| self.register_as(base, bytes, access, key))
    }

    /// The same for a region that outlives operations: waits if the provider has no room now.
    ///
    /// # Safety
    /// As for [`Endpoint::register`].
    pub unsafe fn register_lasting(&self, base: usize, bytes: usize, access: u64) -> Result<Region, Errno> {
        // SAFETY: by contract.
        insist(|| unsafe { self.register(base, bytes, access) })
    }

    /// The same for the memory of a device, with a dmabuf that exports it if there is one.
    ///
    /// # Safety
    /// It is memory of the device until the region is dropped.
    pub unsafe fn register_device(
        &self,
        memory: &SegmentMemory,
        device: Device,
        dmabuf: Option<&Dmabuf>,
        access: u64,
    ) -> Result<Region, Errno> {
        let register = |key| {
            let _call = self.calls.enter();
            let request = hmem::Request {
                memory,
                device,
                dmabuf,
                access,
                key,
            };
            // SAFETY: by contract.
            let region = unsafe { hmem::register(self.domain.as_ptr(), request) }?;
            Ok(Region::new(region, self.calls.clone()))
        };
        insist(|| self.with_key(register))
    }

    /// A region that `register` makes with the key it gets, bound if the provider wants that.
    fn with_key(&self, register: impl Fn(u64) -> Result<Region, Errno>) -> Result<Region, Errno> {
        const TRIES: u32 = 16;
        let shift = 64 - 8 * self.info.key_bytes().clamp(1, 8);
        let mut tries = 0;
        let region = loop {
            let key = match self.info.mr_mode() & mr_mode::PROV_KEY {
                0 => mem::random_u64() >> shift,
                _ => 0,
            };
            tries += 1;
            match register(key) {
                Err(Errno::KEY_IN_USE) if tries < TRIES => {}
                result => break result?,
            }
        };
        if self.info.mr_mode() & mr_mode::ENDPOINT != 0 {
            region.bind(self.ep.fid())?;
        }
        Ok(region)
    }

    fn register_as(&self, base: usize, bytes: usize, access: u64, key: u64) -> Result<Region, Errno> {
        let _call = self.calls.enter();
        let mut region = ptr::null_mut();
        let context = ptr::null_mut();
        let base = base as *const c_void;
        let code = call!(
            self.domain,
            mr.reg(base, bytes, access, 0, key, 0, &raw mut region, context)
        );
        Errno::check(code)?;
        let region = NonNull::new(region).ok_or(Errno(libc::ENOMEM))?;
        Ok(Region::new(region, self.calls.clone()))
    }

    /// Makes a number of a long key, which [`Endpoint::unmap_key`] frees.
    pub fn map_key(&self, base: u64, key: &mut [u8]) -> Result<u64, Errno> {
        let _call = self.calls.enter();
        let mut number = 0;
        let mut arguments = abi::fi_mr_map_raw {
            flags: 0,
            base_addr: base,
            raw_key: key.as_mut_ptr(),
            key_size: key.len(),
            key: &raw mut number,
        };
        // SAFETY: fi_mr(3): the structure of this command.
        let code = unsafe {
            super::control(
                self.domain.fid(),
                abi::FI_MAP_RAW_MR as i32,
                (&raw mut arguments).cast(),
            )
        };
        Errno::check(code as isize).map(|_| number)
    }

    /// Reverts [`Endpoint::map_key`].
    pub fn unmap_key(&self, mut key: u64) {
        let _call = self.calls.enter();
        // SAFETY: fi_mr(3): the argument of this command. A failure leaves the number in use.
        unsafe { super::control(self.domain.fid(), abi::FI_UNMAP_KEY as i32, (&raw mut key).cast()) };
    }

    /// Posts a receive buffer: for one message, or for all that fit until less than the minimum is
    /// left.
    ///
    /// # Safety
    /// Buffer and context are the provider's until a completion says otherwise.
    pub unsafe fn receive(&self, buffer: Source, many: bool, context: *mut c_void) -> Result<(), Errno> {
        let _call = self.calls.enter();
        let mut descriptor = buffer.descriptor;
        let vector = libc::iovec {
            iov_base: buffer.address as *mut c_void,
            iov_len: buffer.bytes,
        };
        let message = abi::fi_msg {
            msg_iov: (&raw const vector).cast(),
            desc: &raw mut descriptor,
            iov_count: 1,
            addr: u64::MAX,
            context,
            data: 0,
        };
        let flags = super::bits::COMPLETION | if many { super::bits::MULTI_RECV } else { 0 };
        Errno::check(call!(self.ep, msg.recvmsg(&raw const message, flags))).map(|_| ())
    }

    /// Sends a message whose bytes are free at return; no completion follows.
    #[inline]
    pub fn inject(&self, message: &[u8], peer: u64) -> Result<(), Errno> {
        let _call = self.calls.enter();
        let code = call!(self.ep, msg.inject(message.as_ptr().cast(), message.len(), peer));
        Errno::check(code).map(|_| ())
    }

    /// Sends a message.
    ///
    /// # Safety
    /// Its bytes and the context are the provider's until completion.
    #[inline]
    pub unsafe fn send(&self, message: Source, peer: u64, context: *mut c_void) -> Result<(), Errno> {
        let _call = self.calls.enter();
        let (address, descriptor) = (message.address as *const c_void, message.descriptor);
        let code = call!(self.ep, msg.send(address, message.bytes, descriptor, peer, context));
        Errno::check(code).map(|_| ())
    }

    /// Writes to memory of a peer, with flags ([`super::bits`]) and data for the queue of the peer.
    ///
    /// # Safety
    /// The source, unless injected, and the context are the provider's until completion.
    #[inline]
    pub unsafe fn write(
        &self,
        from: Source,
        to: Remote,
        context: *mut c_void,
        (flags, data): (u64, u64),
    ) -> Result<(), Errno> {
        with_message(from, to, context, data, |message| {
            let _call = self.calls.enter();
            Errno::check(call!(self.ep, rma.writemsg(message, flags))).map(|_| ())
        })
    }

    /// Reads memory of a peer.
    ///
    /// # Safety
    /// The destination and the context are the provider's until completion.
    #[inline]
    pub unsafe fn read(&self, to: Source, from: Remote, context: *mut c_void) -> Result<(), Errno> {
        with_message(to, from, context, 0, |message| {
            let _call = self.calls.enter();
            Errno::check(call!(self.ep, rma.readmsg(message, super::bits::COMPLETION))).map(|_| ())
        })
    }

    /// Whether an atomic that fetches is supported.
    pub fn has_atomic(&self, atomic: AtomicCode) -> bool {
        let mut count = 0;
        let AtomicCode { datatype, op } = atomic;
        let code = if op == abi::FI_CSWAP {
            call!(self.ep, atomic.compwritevalid(datatype, op, &raw mut count))
        } else {
            call!(self.ep, atomic.readwritevalid(datatype, op, &raw mut count))
        };
        code == 0 && count > 0
    }

    /// Starts an atomic on one value. In local memory lie one after another the operand, the
    /// expected value of a compare-and-swap, and, [`ATOMIC_RESULT`] bytes from the first, room for
    /// the old value.
    ///
    /// # Safety
    /// Local memory and the context are the provider's until completion.
    pub unsafe fn atomic(
        &self,
        atomic: AtomicCode,
        local: Source,
        target: Remote,
        context: *mut c_void,
    ) -> Result<(), Errno> {
        let AtomicCode { datatype, op } = atomic;
        let (value, descriptor) = (local.address as *const c_void, local.descriptor);
        let result = (local.address + ATOMIC_RESULT) as *mut c_void;
        let Remote { peer, address, key } = target;
        let _call = self.calls.enter();
        let code = if op == abi::FI_CSWAP {
            let expected = (local.address + local.bytes) as *const c_void;
            call!(
                self.ep,
                atomic.compwrite(
                    value, 1, descriptor, expected, descriptor, result, descriptor, peer, address, key, datatype, op,
                    context
                )
            )
        } else {
            call!(
                self.ep,
                atomic.readwrite(value, 1, descriptor, result, descriptor, peer, address, key, datatype, op, context)
            )
        };
        Errno::check(code).map(|_| ())
    }

    /// Takes completions from the queue, which also advances operations of a provider with manual
    /// progress. [`Errno::AGAIN`]: there is none.
    #[inline]
    pub fn completions<'a>(&self, room: &'a mut [MaybeUninit<Completion>]) -> Result<&'a mut [Completion], Errno> {
        let _call = self.calls.enter();
        let count = Errno::check(call!(self.cq, ops.read(room.as_mut_ptr().cast(), room.len())))?;
        let (taken, _) = room.split_at_mut(count.min(room.len()));
        // SAFETY: the provider has written as many as it returned.
        Ok(unsafe { &mut *(ptr::from_mut(taken) as *mut [Completion]) })
    }

    /// Whether a thread may sleep on the wake-up descriptor now. If not, the queue has something.
    pub fn may_sleep(&self) -> bool {
        let _call = self.calls.enter();
        let mut queue = self.cq.fid();
        call!(self.fabric, ops.trywait(&raw mut queue, 1)) == 0
    }
}

/// The result of a registration, after more tries while the provider has no room. The command queue
/// of cxi may be full for a moment (libfabric@v2.6.0:prov/cxi/src/cxip_pte.c).
fn insist(attempt: impl Fn() -> Result<Region, Errno>) -> Result<Region, Errno> {
    /// Tries, a millisecond apart.
    const TRIES: u32 = 1000;
    for _ in 1..TRIES {
        match attempt() {
            Err(Errno::AGAIN) => std::thread::sleep(Duration::from_millis(1)),
            result => return result,
        }
    }
    attempt()
}

/// Makes a call with the message of a put or get, which refers to two vectors.
#[inline]
fn with_message<R>(
    local: Source,
    remote: Remote,
    context: *mut c_void,
    data: u64,
    call: impl FnOnce(*const abi::fi_msg_rma) -> R,
) -> R {
    let mut descriptor = local.descriptor;
    let local = libc::iovec {
        iov_base: local.address as *mut c_void,
        iov_len: local.bytes,
    };
    let peer = remote.peer;
    let remote = abi::fi_rma_iov {
        addr: remote.address,
        len: local.iov_len,
        key: remote.key,
    };
    call(&abi::fi_msg_rma {
        msg_iov: &raw const local,
        desc: &raw mut descriptor,
        iov_count: 1,
        addr: peer,
        rma_iov: &raw const remote,
        rma_iov_count: 1,
        context,
        data,
    })
}
