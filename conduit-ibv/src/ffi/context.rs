//! Devices and opened devices.

use super::library::{text, Functions};
use super::made::{Made, OpenDevice};
use super::Errno;
use gasnet_ibv_abi as abi;
use std::mem::{offset_of, MaybeUninit};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;

/// The devices of this host.
pub struct Devices {
    library: &'static Functions,
    list: *mut *mut abi::ibv_device,
    /// Number of devices.
    pub count: usize,
}

impl Devices {
    /// Lists them. The error is a message without a full stop.
    pub fn list() -> Result<Self, String> {
        let library = Functions::get()?;
        let mut count = 0;
        // SAFETY: `count` is writable.
        let list = unsafe { (library.get_device_list)(&raw mut count) };
        if list.is_null() {
            return Err(match Errno::last() {
                Errno(libc::ENOSYS) => "the kernel of this host has no RDMA devices, nor a driver for them".to_owned(),
                why => format!("ibv_get_device_list failed: {why}"),
            });
        }
        let count = usize::try_from(count).unwrap_or(0);
        Ok(Self { library, list, count })
    }

    fn device(&self, index: usize) -> *mut abi::ibv_device {
        assert!(index < self.count, "defect: device {index} of {}", self.count);
        // SAFETY: inside the list.
        unsafe { *self.list.add(index) }
    }

    /// The name of a device: "mlx5_0".
    pub fn name(&self, index: usize) -> String {
        // SAFETY: a device of the list.
        text(unsafe { (self.library.get_device_name)(self.device(index)) })
    }

    /// The transport of a device: `IBV_TRANSPORT_*`.
    pub fn transport(&self, index: usize) -> abi::ibv_transport_type {
        // SAFETY: a device of the list.
        unsafe { (*self.device(index)).transport_type }
    }

    /// Opens a device.
    pub fn open(&self, index: usize) -> Result<Context, String> {
        let name = self.name(index);
        // SAFETY: a device of the list.
        let raw = unsafe { (self.library.open_device)(self.device(index)) };
        // SAFETY: just opened, or null.
        let opened = unsafe { Made::new(raw, self.library.close_device, ()) };
        let opened = Arc::new(opened.map_err(|why| format!("cannot open {name}: {why}"))?);
        let mut attributes = MaybeUninit::zeroed();
        // SAFETY: an open device, and writable memory.
        let result = unsafe { (self.library.query_device)(opened.raw(), attributes.as_mut_ptr()) };
        let context = Context {
            library: self.library,
            opened,
            // SAFETY: zero bytes are valid, and the call fills them.
            attributes: unsafe { attributes.assume_init() },
            name,
        };
        Errno::check(result).map_err(|why| format!("cannot query {}: {why}", context.name))?;
        gasnet_sys::fd::set_nonblocking(&context.event_fd()).map_err(|why| why.to_string())?;
        Ok(context)
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        // SAFETY: from `get_device_list`; opened devices stay valid.
        unsafe { (self.library.free_device_list)(self.list) };
    }
}

/// An entry of a port's table of GIDs.
#[derive(Clone, Copy, Debug)]
pub struct GidEntry {
    /// Its index.
    pub index: u32,
    /// The address.
    pub gid: [u8; 16],
    /// `IBV_GID_TYPE_*`; none if the library does not tell.
    pub kind: Option<u32>,
}

/// An asynchronous event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// `IBV_EVENT_*`.
    pub kind: abi::ibv_event_type,
    /// The port, if it is an event of a port.
    pub port: Option<u8>,
    /// The name of the queue pair, if it is an event of one that matters.
    pub pair: Option<usize>,
}

/// An opened device. It stays open as long as anything that was made from it.
pub struct Context {
    pub library: &'static Functions,
    pub(super) opened: OpenDevice,
    /// Abilities of the device.
    pub attributes: abi::ibv_device_attr,
    /// The name of the device.
    pub name: String,
}

impl Context {
    #[inline]
    pub(super) fn raw(&self) -> *mut abi::ibv_context {
        self.opened.raw()
    }

    pub(super) fn ops(&self) -> &abi::ibv_context_ops {
        // SAFETY: an open device, whose table is constant.
        unsafe { &(*self.raw()).ops }
    }

    /// The extended context, if it has the field at this offset. It is found as the public header
    /// does.
    pub(super) fn extended(&self, offset: usize) -> Option<*const abi::verbs_context> {
        const IS_EXTENDED: usize = usize::MAX;
        let raw = self.raw();
        // SAFETY: an open device.
        if unsafe { (*raw).abi_compat } as usize != IS_EXTENDED {
            return None;
        }
        // SAFETY: such a context is the last field of a larger struct.
        let whole = unsafe { raw.byte_sub(offset_of!(abi::verbs_context, context)) }.cast::<abi::verbs_context>();
        // SAFETY: `sz` lies just before it: the bytes of that struct, of which the first may be
        // missing.
        let bytes = unsafe { (*whole).sz };
        (bytes >= size_of::<abi::verbs_context>() - offset).then_some(whole.cast_const())
    }

    /// Attributes by `ibv_query_device_ex`; none if its library lacks that.
    fn extended_attributes(&self) -> Option<abi::ibv_device_attr_ex> {
        let (raw, whole) = (
            self.raw(),
            self.extended(offset_of!(abi::verbs_context, query_device_ex))?,
        );
        // SAFETY: this field is there.
        let query = unsafe { (*whole).query_device_ex }?;
        let mut attributes = MaybeUninit::<abi::ibv_device_attr_ex>::zeroed();
        let room = size_of::<abi::ibv_device_attr_ex>();
        // SAFETY: an open device, and memory of as many bytes.
        let result = unsafe { query(raw, ptr::null(), attributes.as_mut_ptr(), room) };
        // SAFETY: zero bytes are valid, and the call has filled a part.
        (result == 0).then(|| unsafe { attributes.assume_init() })
    }

    /// Whether one region can stand for all memory of the process, whose pages the device finds
    /// when messages, puts and gets need them, with XRC or without.
    pub fn pages_on_demand(&self, xrc: bool) -> bool {
        const ALL: u64 = (abi::IBV_ODP_SUPPORT | abi::IBV_ODP_SUPPORT_IMPLICIT) as u64;
        const USED: u32 = abi::IBV_ODP_SUPPORT_SEND | abi::IBV_ODP_SUPPORT_WRITE | abi::IBV_ODP_SUPPORT_READ;
        self.extended_attributes().is_some_and(|attributes| {
            let odp = attributes.odp_caps;
            let of_transport = if xrc {
                attributes.xrc_odp_caps
            } else {
                odp.per_transport_caps.rc_odp_caps
            };
            odp.general_caps & ALL == ALL && of_transport & USED == USED
        })
    }

    /// The state of a port.
    pub fn port(&self, port: u8) -> Result<abi::ibv_port_attr, Errno> {
        let mut attributes = MaybeUninit::<abi::ibv_port_attr>::zeroed();
        // SAFETY: an open device, and memory at least as large as the call fills.
        let result = unsafe { (self.library.query_port)(self.raw(), port, attributes.as_mut_ptr()) };
        Errno::check(result)?;
        // SAFETY: zero bytes are valid, and the call has filled a part.
        Ok(unsafe { attributes.assume_init() })
    }

    /// The entries of a port's table of GIDs that are not empty, and that a route can name
    /// (`sgid_index` has 8 bits).
    pub fn gids(&self, port: u8, entries: usize) -> Vec<GidEntry> {
        let nameable = entries.min(1 + usize::from(u8::MAX)) as u32;
        (0..nameable).filter_map(|index| self.gid(port, index)).collect()
    }

    /// An entry of a port's table of GIDs; none if it is empty.
    pub fn gid(&self, port: u8, index: u32) -> Option<GidEntry> {
        let (gid, kind) = if let Some(query) = self.library.query_gid_ex {
            let mut entry = MaybeUninit::<abi::ibv_gid_entry>::zeroed();
            let bytes = size_of::<abi::ibv_gid_entry>();
            // SAFETY: an open device, and an entry of that size.
            let result = unsafe { query(self.raw(), u32::from(port), index, entry.as_mut_ptr(), 0, bytes) };
            Errno::check(result).ok()?;
            // SAFETY: zero bytes are valid, and the call has filled them.
            let entry = unsafe { entry.assume_init() };
            (entry.gid, Some(entry.gid_type))
        } else {
            let mut gid = MaybeUninit::<abi::ibv_gid>::zeroed();
            let context = self.raw();
            // SAFETY: an open device, and writable memory.
            let result = unsafe { (self.library.query_gid)(context, port, index as i32, gid.as_mut_ptr()) };
            Errno::check(result).ok()?;
            // SAFETY: as above.
            (unsafe { gid.assume_init() }, None)
        };
        // SAFETY: bytes are valid in every case.
        let gid = unsafe { gid.raw };
        // An empty entry has no interface.
        (gid[8..] != [0; 8]).then_some(GidEntry { index, gid, kind })
    }

    /// The partition keys of a port, by index.
    pub fn pkeys(&self, port: u8, entries: u16) -> Vec<u16> {
        let key = |index: u16| {
            let mut key = 0;
            // SAFETY: an open device, and writable memory.
            let result = unsafe { (self.library.query_pkey)(self.raw(), port, i32::from(index), &raw mut key) };
            Errno::check(result).ok().map(|()| u16::from_be(key))
        };
        (0..entries).map_while(key).collect()
    }

    /// Readable when there is an asynchronous event.
    pub fn event_fd(&self) -> RawFd {
        // SAFETY: an open device.
        unsafe { (*self.raw()).async_fd }
    }

    /// The next asynchronous event, if there is one. An error means that there will be none any
    /// more: the device is gone.
    pub fn next_event(&self) -> Result<Option<Event>, Errno> {
        let mut event = MaybeUninit::<abi::ibv_async_event>::zeroed();
        // SAFETY: an open device, and writable memory.
        let result = unsafe { (self.library.get_async_event)(self.raw(), event.as_mut_ptr()) };
        match Errno::check(result) {
            Err(Errno(libc::EAGAIN | libc::EINTR)) => return Ok(None),
            checked => checked?,
        }
        // SAFETY: zero bytes are valid, and the call has filled them.
        let mut event = unsafe { event.assume_init() };
        let is_of_port = matches!(
            event.event_type,
            abi::IBV_EVENT_PORT_ACTIVE
                | abi::IBV_EVENT_PORT_ERR
                | abi::IBV_EVENT_LID_CHANGE
                | abi::IBV_EVENT_PKEY_CHANGE
                | abi::IBV_EVENT_GID_CHANGE
                | abi::IBV_EVENT_SM_CHANGE
                | abi::IBV_EVENT_CLIENT_REREGISTER
        );
        // SAFETY: an event of a port has its number here; any bytes are a number.
        let number = unsafe { event.element.port_num } as u8;
        let port = is_of_port.then_some(number);
        let is_of_pair = matches!(
            event.event_type,
            abi::IBV_EVENT_PATH_MIG
                | abi::IBV_EVENT_QP_FATAL
                | abi::IBV_EVENT_QP_REQ_ERR
                | abi::IBV_EVENT_QP_ACCESS_ERR
        );
        let pair = is_of_pair.then(|| {
            // SAFETY: an event of a queue pair has it here. It lives until the event is acknowledged.
            unsafe { (*event.element.qp).qp_context as usize }
        });
        // SAFETY: from `get_async_event`, once.
        unsafe { (self.library.ack_async_event)(&raw mut event) };
        Ok(Some(Event {
            kind: event.event_type,
            port,
            pair,
        }))
    }
}
