//! XRC, extended reliable connections (InfiniBand specification, volume 1, annex A14): a queue pair
//! sends to every process of a host that has a receive queue in the domain of the pair which it is
//! connected to. Each work request names the receive queue.

use super::made::{Made, OpenXrcDomain, PairOf};
use super::pair::{Pair, PairSettings};
use super::receives::of_length;
use super::region::Domain;
use super::{Context, Errno, Queue, Shared};
use gasnet_ibv_abi as abi;
use std::mem::{offset_of, MaybeUninit};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;

/// Reads an operation of the extended context, which public headers wrap in inline functions.
macro_rules! operation {
    ($context:expr, $name:ident) => {{
        let operation = match $context.extended(offset_of!(abi::verbs_context, $name)) {
            // SAFETY: the field is there.
            Some(whole) => unsafe { (*whole).$name },
            None => None,
        };
        operation.ok_or(Errno(libc::EOPNOTSUPP))
    }};
}

/// An XRC domain of an HCA.
pub struct XrcDomain {
    made: OpenXrcDomain,
}

impl XrcDomain {
    /// The domain that all processes with this file share.
    pub fn open(context: &Context, file: RawFd) -> Result<Self, Errno> {
        if context.attributes.device_cap_flags & abi::IBV_DEVICE_XRC == 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let (open, close) = (operation!(context, open_xrcd)?, operation!(context, close_xrcd)?);
        let mut attributes = abi::ibv_xrcd_init_attr {
            comp_mask: abi::IBV_XRCD_INIT_ATTR_FD | abi::IBV_XRCD_INIT_ATTR_OFLAGS,
            fd: file,
            oflags: libc::O_CREAT,
        };
        // SAFETY: an open device; the domain holds the file.
        let raw = unsafe { open(context.raw(), &raw mut attributes) };
        // SAFETY: just opened, or null.
        let made = unsafe { Made::new(raw, close, Arc::clone(&context.opened))? };
        let made = Arc::new(made);
        Ok(Self { made })
    }

    /// A receive queue of `buffers` buffers, whose receives report to `queue`.
    pub fn receive_queue(
        &self,
        context: &Context,
        domain: &Domain,
        queue: &Queue,
        buffers: usize,
    ) -> Result<Shared, Errno> {
        let (create, number_of) = (operation!(context, create_srq_ex)?, operation!(context, get_srq_num)?);
        // SAFETY: zero bytes are valid: numbers and null pointers.
        let mut attributes: abi::ibv_srq_init_attr_ex = unsafe { MaybeUninit::zeroed().assume_init() };
        attributes.attr = of_length(buffers);
        attributes.comp_mask = abi::IBV_SRQ_INIT_ATTR_TYPE
            | abi::IBV_SRQ_INIT_ATTR_PD
            | abi::IBV_SRQ_INIT_ATTR_XRCD
            | abi::IBV_SRQ_INIT_ATTR_CQ;
        attributes.srq_type = abi::IBV_SRQT_XRC;
        (attributes.pd, attributes.xrcd) = (domain.raw(), self.made.raw());
        attributes.cq = queue.made.raw();
        // SAFETY: objects of one device.
        let raw = unsafe { create(context.raw(), &raw mut attributes) };
        let of_xrc = (Arc::clone(&self.made), Arc::clone(&queue.made));
        // SAFETY: just made, or null.
        let mut shared = unsafe { Shared::of_raw(context, raw, (Arc::clone(&domain.made), Some(of_xrc)))? };
        let mut number = 0;
        // SAFETY: a queue, and writable memory.
        Errno::check(unsafe { number_of(raw, &raw mut number) })?;
        shared.number = Some(number);
        Ok(shared)
    }

    /// Makes a pair of each kind in vain: an HCA may offer more than it can.
    pub fn try_pairs(&self, context: &Context, domain: &Domain, queue: &Queue) -> Result<(), Errno> {
        let settings = PairSettings {
            sends: 1,
            receives: 0,
            inline: 0,
            name: 0,
        };
        let receiver = self.receiver(context, settings.name)?;
        self.open_receiver(context, receiver.number, settings.name)?;
        Pair::new(context, domain, queue.alone(), abi::IBV_QPT_XRC_SEND, settings).map(drop)
    }

    /// A pair that receives from one that sends, by its name in events. It lives as long as any
    /// process has it open.
    pub fn receiver(&self, context: &Context, name: usize) -> Result<Pair, Errno> {
        let create = operation!(context, create_qp_ex)?;
        // SAFETY: zero bytes are valid: numbers and null pointers.
        let mut attributes: abi::ibv_qp_init_attr_ex = unsafe { MaybeUninit::zeroed().assume_init() };
        attributes.qp_context = ptr::without_provenance_mut(name);
        attributes.qp_type = abi::IBV_QPT_XRC_RECV;
        attributes.comp_mask = abi::IBV_QP_INIT_ATTR_XRCD;
        attributes.xrcd = self.made.raw();
        // SAFETY: objects of one device.
        let raw = unsafe { create(context.raw(), &raw mut attributes) };
        // SAFETY: just made, or null.
        unsafe { Pair::of_raw(context, raw, PairOf::Xrc(Arc::clone(&self.made)), 0) }
    }

    /// Opens such a pair of another process by its number.
    pub fn open_receiver(&self, context: &Context, number: u32, name: usize) -> Result<Pair, Errno> {
        let open = operation!(context, open_qp)?;
        let mut attributes = abi::ibv_qp_open_attr {
            comp_mask: abi::IBV_QP_OPEN_ATTR_NUM | abi::IBV_QP_OPEN_ATTR_XRCD | abi::IBV_QP_OPEN_ATTR_TYPE,
            qp_num: number,
            xrcd: self.made.raw(),
            qp_context: ptr::without_provenance_mut(name),
            qp_type: abi::IBV_QPT_XRC_RECV,
        };
        // SAFETY: objects of one device.
        let raw = unsafe { open(context.raw(), &raw mut attributes) };
        // SAFETY: just made, or null.
        unsafe { Pair::of_raw(context, raw, PairOf::Xrc(Arc::clone(&self.made)), 0) }
    }
}
