//! The worker of a process, and its endpoints.

use super::bindings as abi;
use super::{Functions, Status};
use gasnet_sys::float::{self, Kept};
use gasnet_sys::maybe_locked::{MaybeLocked, MaybeLockedGuard, Sharing};
use std::ffi::{c_int, c_void, CStr};
use std::ptr;
use std::sync::Arc;

/// A context of UCX, and the lock of all calls for it: the worker is made for one thread at a time.
pub(super) struct Context {
    pub raw: abi::ucp_context_h,
    pub library: &'static Functions,
    pub calls: MaybeLocked<()>,
    /// A bit for each kind of memory for which UCX has a module.
    pub memory_types: u64,
}

// SAFETY: the lock admits one thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: its worker and regions are gone: they hold references to this.
        unsafe { (self.library.cleanup)(self.raw) };
    }
}

/// Purpose of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// Processes of the job, and of this host.
    pub ranks: (usize, usize),
    /// Remote atomics.
    pub atomics: bool,
    /// A list of transports that overrides `UCX_TLS`, for tests.
    pub transports: Option<&'a CStr>,
    /// Threads that use it.
    pub sharing: Sharing,
}

/// Receiver of the reports of a worker, which come from inside its calls. The methods make no calls
/// of UCX.
pub trait Events: Sync {
    /// A message has arrived.
    fn message(&self, message: Message<'_>) -> Retention;
    /// The peer of an endpoint is lost.
    fn failed(&self, endpoint: Endpoint, why: Status);
}

/// A message that arrives.
#[derive(Debug)]
pub struct Message<'a> {
    /// Its id of Active Messages.
    pub id: u32,
    /// Its header.
    pub header: &'a [u8],
    /// Its data. None: its sender wants them to be fetched.
    pub data: Option<&'a mut [u8]>,
    /// Whether the data may stay where they are.
    pub may_keep: bool,
}

/// Use of the data of a message after its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// They are not needed any more.
    Released,
    /// They stay until [`Turn::release`].
    Kept,
}

/// The data of a message that stay where they are. Its holder has them alone.
#[derive(Debug)]
#[must_use = "data that are not released are lost"]
pub struct KeptMessage {
    address: usize,
    bytes: usize,
}

impl KeptMessage {
    /// The data of a message for which [`Retention::Kept`] will be returned.
    pub fn new(data: &mut [u8]) -> Self {
        Self {
            address: data.as_mut_ptr() as usize,
            bytes: data.len(),
        }
    }

    /// The data.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: UCX leaves them to the holder until they are released.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.bytes) }
    }

    /// Gives them back.
    fn into_address(self) -> usize {
        self.address
    }
}

/// A connection to a peer, which lives as long as its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint(ptr::NonNull<abi::ucp_ep>);

impl Endpoint {
    pub(super) fn raw(self) -> abi::ucp_ep_h {
        self.0.as_ptr()
    }

    /// As a number.
    pub fn number(self) -> usize {
        self.raw() as usize
    }

    /// Of a number. None: of 0.
    ///
    /// # Safety
    /// From [`Endpoint::number`], and its worker lives.
    pub unsafe fn of(number: usize) -> Option<Self> {
        ptr::NonNull::new(number as *mut abi::ucp_ep).map(Self)
    }
}

/// A worker.
pub struct Worker {
    raw: abi::ucp_worker_h,
    context: Arc<Context>,
    /// Its address, for peers.
    pub address: Vec<u8>,
    /// Most bytes of the header of a message.
    pub max_header: usize,
    /// Its wake-up descriptor.
    pub wake: c_int,
    /// Transports and their devices: `tcp/eth0`.
    pub resources: Vec<String>,
}

// SAFETY: the lock of the context admits one thread.
unsafe impl Send for Worker {}
// SAFETY: as above.
unsafe impl Sync for Worker {}

impl Drop for Worker {
    fn drop(&mut self) {
        let _turn = self.context.calls.lock();
        // SAFETY: live, once. Its endpoints end with it.
        unsafe { (self.context.library.worker_destroy)(self.raw) };
    }
}

/// The right to make calls for a worker. UCX divides by zero when it rates transports, at a first
/// contact or a first message: clients with traps must not see that.
pub struct Turn<'a>(
    &'a Worker,
    #[allow(dead_code)] MaybeLockedGuard<'a, ()>,
    #[allow(dead_code)] Kept,
);

/// The handler of a message id.
struct Handler<E> {
    events: *const E,
    id: u32,
}

unsafe extern "C" fn on_message<E: Events>(
    handler: *mut c_void,
    header: *const c_void,
    header_bytes: usize,
    data: *mut c_void,
    bytes: usize,
    parameters: *const abi::ucp_am_recv_param_t,
) -> abi::ucs_status_t {
    // SAFETY: the argument of the handler, and parameters for the time of this call.
    let (handler, attributes) = unsafe { (&*handler.cast::<Handler<E>>(), (*parameters).recv_attr) };
    let has = |flag: abi::ucp_am_recv_attr_t| attributes & u64::from(flag) != 0;
    let header = if header_bytes == 0 {
        &[]
    } else {
        // SAFETY: the header, for the time of this call.
        unsafe { std::slice::from_raw_parts(header.cast::<u8>(), header_bytes) }
    };
    let data = if has(abi::UCP_AM_RECV_ATTR_FLAG_RNDV) {
        None
    } else if bytes == 0 {
        Some(&mut [][..])
    } else {
        // SAFETY: the data, which are the receiver's for the time of this call.
        Some(unsafe { std::slice::from_raw_parts_mut(data.cast::<u8>(), bytes) })
    };
    let message = Message {
        id: handler.id,
        header,
        data,
        may_keep: has(abi::UCP_AM_RECV_ATTR_FLAG_DATA),
    };
    // SAFETY: what reports are for lives longer than the worker.
    let retention = unsafe { (*handler.events).message(message) };
    match retention {
        Retention::Released => abi::UCS_OK,
        Retention::Kept => abi::UCS_INPROGRESS,
    }
}

unsafe extern "C" fn on_failure<E: Events>(events: *mut c_void, endpoint: abi::ucp_ep_h, status: abi::ucs_status_t) {
    if let Some(endpoint) = ptr::NonNull::new(endpoint) {
        // SAFETY: what reports are for lives longer than the worker.
        unsafe { (*events.cast::<E>()).failed(Endpoint(endpoint), Status(status)) };
    }
}

impl Worker {
    /// Opens a worker. The error is a message.
    pub fn open(library: &'static Functions, needs: Needs<'_>) -> Result<Self, String> {
        let context = Arc::new(Context::open(library, needs)?);
        // SAFETY: all zero is a valid value.
        let mut parameters: abi::ucp_worker_params_t = unsafe { std::mem::zeroed() };
        let mut fields = abi::UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        parameters.thread_mode = abi::UCS_THREAD_MODE_SERIALIZED;
        // Older libraries ignore unknown fields.
        if library.version >= (1, 12) {
            fields |= abi::UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT | abi::UCP_WORKER_PARAM_FIELD_FLAGS;
            parameters.am_alignment = 64;
            parameters.flags = u64::from(abi::UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK);
        }
        parameters.field_mask = u64::from(fields);
        let mut raw = ptr::null_mut();
        // SAFETY: a live context, parameters with these fields, and room for the result.
        let made = Status::check(unsafe { (library.worker_create)(context.raw, &raw const parameters, &raw mut raw) });
        made.map_err(|why| {
            let why = why.of("ucp_worker_create");
            format!("{why}. Where UCX cannot use /dev/shm, UCX_TLS=^posix does without")
        })?;
        let mut worker = Self {
            raw,
            context,
            address: Vec::new(),
            max_header: 0,
            wake: -1,
            resources: Vec::new(),
        };
        worker.query()?;
        worker.resources = worker.list_resources();
        // SAFETY: a live worker, and room for the result.
        let found = Status::check(unsafe { (library.worker_get_efd)(raw, &raw mut worker.wake) });
        found.map_err(|why| why.of("ucp_worker_get_efd"))?;
        Ok(worker)
    }

    /// Reads what the worker offers.
    fn query(&mut self) -> Result<(), String> {
        let library = self.context.library;
        // SAFETY: all zero is a valid value.
        let mut found: abi::ucp_worker_attr_t = unsafe { std::mem::zeroed() };
        found.field_mask = u64::from(
            abi::UCP_WORKER_ATTR_FIELD_THREAD_MODE
                | abi::UCP_WORKER_ATTR_FIELD_ADDRESS
                | abi::UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER,
        );
        // SAFETY: a live worker, and room for these fields.
        let queried = Status::check(unsafe { (library.worker_query)(self.raw, &raw mut found) });
        queried.map_err(|why| why.of("ucp_worker_query"))?;
        // SAFETY: the library's buffer of this length, until it is released.
        self.address = unsafe { std::slice::from_raw_parts(found.address.cast::<u8>(), found.address_length) }.to_vec();
        // SAFETY: the address that was queried, once.
        unsafe { (library.worker_release_address)(self.raw, found.address) };
        self.max_header = found.max_am_header;
        if found.thread_mode < abi::UCS_THREAD_MODE_SERIALIZED {
            return Err("it was built for one thread only (ucp_worker_query: UCS_THREAD_MODE_SINGLE)".into());
        }
        Ok(())
    }

    /// The right to make calls, when no other thread has it.
    #[inline]
    pub fn turn(&self) -> Turn<'_> {
        Turn(self, self.context.calls.lock(), float::keep())
    }

    /// The same if no other thread has it now.
    #[inline]
    pub fn try_turn(&self) -> Option<Turn<'_>> {
        Some(Turn(self, self.context.calls.try_lock()?, float::keep()))
    }
}

impl Context {
    fn open(library: &'static Functions, needs: Needs<'_>) -> Result<Self, String> {
        let mut config = ptr::null_mut();
        // SAFETY: without a prefix and a file, and room for the result.
        let read = Status::check(unsafe { (library.config_read)(ptr::null(), ptr::null(), &raw mut config) });
        read.map_err(|why| why.of("ucp_config_read"))?;
        let modified = needs.transports.map_or(Ok(()), |transports| {
            // SAFETY: a live configuration, and terminated strings.
            Status::check(unsafe { (library.config_modify)(config, c"TLS".as_ptr(), transports.as_ptr()) })
        });
        let mut features = abi::UCP_FEATURE_AM | abi::UCP_FEATURE_RMA | abi::UCP_FEATURE_WAKEUP;
        if needs.atomics {
            features |= abi::UCP_FEATURE_AMO32 | abi::UCP_FEATURE_AMO64;
        }
        // SAFETY: all zero is a valid value.
        let mut parameters: abi::ucp_params_t = unsafe { std::mem::zeroed() };
        parameters.field_mask = u64::from(
            abi::UCP_PARAM_FIELD_FEATURES
                | abi::UCP_PARAM_FIELD_ESTIMATED_NUM_EPS
                | abi::UCP_PARAM_FIELD_ESTIMATED_NUM_PPN,
        );
        parameters.features = u64::from(features);
        (parameters.estimated_num_eps, parameters.estimated_num_ppn) = needs.ranks;
        let mut raw = ptr::null_mut();
        let (major, minor) = super::library::OLDEST;
        let opened = modified.map_err(|why| why.of("ucp_config_modify")).and_then(|()| {
            // SAFETY: parameters with these fields, a live configuration, and room for the result.
            // The version is that of the oldest library, of which each knows all fields.
            let made = unsafe { (library.init)(major, minor, &raw const parameters, config, &raw mut raw) };
            Status::check(made).map_err(|why| why.of("ucp_init"))
        });
        // SAFETY: live, once.
        unsafe { (library.config_release)(config) };
        opened?;
        let mut context = Self {
            raw,
            library,
            calls: MaybeLocked::new((), needs.sharing),
            memory_types: 0,
        };
        // SAFETY: all zero is a valid value.
        let mut found: abi::ucp_context_attr_t = unsafe { std::mem::zeroed() };
        found.field_mask = u64::from(abi::UCP_ATTR_FIELD_MEMORY_TYPES);
        // SAFETY: a live context, and room for this field.
        let queried = Status::check(unsafe { (library.context_query)(raw, &raw mut found) });
        queried.map_err(|why| why.of("ucp_context_query"))?;
        context.memory_types = found.memory_types;
        Ok(context)
    }
}

impl<'a> Turn<'a> {
    pub(super) fn context(&self) -> &'a Arc<Context> {
        &self.0.context
    }

    pub(super) fn library(&self) -> &'static Functions {
        self.0.context.library
    }

    /// Has messages with these ids reported.
    ///
    /// # Safety
    /// `events` lives longer than the worker, and no message was reported yet.
    pub unsafe fn receive<E: Events>(&self, ids: &[u32], events: &E) -> Result<(), String> {
        for id in ids {
            // As long as the worker, of which there is one per process.
            let handler = Box::leak(Box::new(Handler { events, id: *id }));
            // SAFETY: all zero is a valid value.
            let mut parameters: abi::ucp_am_handler_param_t = unsafe { std::mem::zeroed() };
            parameters.field_mask = u64::from(
                abi::UCP_AM_HANDLER_PARAM_FIELD_ID
                    | abi::UCP_AM_HANDLER_PARAM_FIELD_CB
                    | abi::UCP_AM_HANDLER_PARAM_FIELD_ARG,
            );
            parameters.id = *id;
            parameters.cb = Some(on_message::<E>);
            parameters.arg = ptr::from_mut(handler).cast();
            // SAFETY: a live worker, and parameters with these fields.
            let set = Status::check(unsafe { (self.library().set_am_recv_handler)(self.0.raw, &raw const parameters) });
            set.map_err(|why| why.of("ucp_worker_set_am_recv_handler"))?;
        }
        Ok(())
    }

    /// Connects to the worker with this address, at the first operation. `reports_errors`: the
    /// failure of the peer is reported, by [`Events::failed`]. If not, it may end the process.
    ///
    /// # Safety
    /// An address of [`Worker::address`], and `events` lives longer than the worker.
    pub unsafe fn connect<E: Events>(
        &self,
        address: &[u8],
        reports_errors: bool,
        events: *const E,
    ) -> Result<Endpoint, Status> {
        // SAFETY: all zero is a valid value.
        let mut parameters: abi::ucp_ep_params_t = unsafe { std::mem::zeroed() };
        let mut fields = abi::UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        parameters.address = address.as_ptr().cast();
        if reports_errors {
            fields |= abi::UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | abi::UCP_EP_PARAM_FIELD_ERR_HANDLER;
            parameters.err_mode = abi::UCP_ERR_HANDLING_MODE_PEER;
            parameters.err_handler.cb = Some(on_failure::<E>);
            parameters.err_handler.arg = events.cast_mut().cast();
        }
        parameters.field_mask = u64::from(fields);
        let mut endpoint = ptr::null_mut();
        // SAFETY: a live worker, parameters with these fields, and room for the result.
        Status::check(unsafe { (self.library().ep_create)(self.0.raw, &raw const parameters, &raw mut endpoint) })?;
        ptr::NonNull::new(endpoint).map(Endpoint).ok_or(Status::UNREACHABLE)
    }

    /// Advances operations, and receives. Returns whether that did anything.
    #[inline]
    pub fn progress(&self) -> bool {
        // SAFETY: a live worker, outside its callbacks.
        unsafe { (self.library().worker_progress)(self.0.raw) != 0 }
    }

    /// Whether a thread may sleep on the wake-up descriptor. If not: progress first.
    pub fn may_sleep(&self) -> bool {
        // SAFETY: a live worker.
        unsafe { (self.library().worker_arm)(self.0.raw) == abi::UCS_OK }
    }

    /// Releases the data of a message.
    pub fn release(&self, message: KeptMessage) {
        let address = message.into_address() as *mut c_void;
        // SAFETY: data that a handler has kept, once.
        unsafe { (self.library().am_data_release)(self.0.raw, address) };
    }
}
