//! Completion channels (Aries): a descriptor that becomes readable when a queue has something.

use super::{Code, Functions};
use gasnet_gni_abi as abi;
use std::os::fd::RawFd;
use std::ptr::null_mut;

/// A channel of a domain.
#[derive(Debug)]
pub struct Channel {
    handle: abi::gni_comp_chan_handle_t,
    pub fd: RawFd,
}

// SAFETY: the handle is used under the lock of its domain.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Channel {
    /// A channel for queues of a NIC. None if the library has none, or refuses it for them.
    pub(super) fn new(
        functions: &Functions,
        nic: abi::gni_nic_handle_t,
        queues: &[abi::gni_cq_handle_t],
    ) -> Option<Self> {
        let (create, descriptor, attach, destroy) = (
            functions.channel_create?,
            functions.channel_fd?,
            functions.channel_attach?,
            functions.channel_destroy?,
        );
        let (mut handle, mut fd) = (null_mut(), -1);
        // SAFETY: handles of one NIC, and live variables.
        unsafe {
            Code::check(create(nic, &raw mut handle)).ok()?;
            let is_ready = Code::check(descriptor(handle, &raw mut fd)).is_ok()
                && queues.iter().all(|queue| Code::check(attach(*queue, handle)).is_ok());
            if !is_ready {
                destroy(handle);
                return None;
            }
        }
        Some(Self { handle, fd })
    }

    /// Frees it, after its queues.
    pub(super) fn destroy(&self, functions: &Functions) {
        if let Some(destroy) = functions.channel_destroy {
            // SAFETY: from `new`, once.
            unsafe { destroy(self.handle) };
        }
    }

    /// Whether its descriptor is readable.
    fn has_event(&self) -> bool {
        let mut waited = libc::pollfd {
            fd: self.fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let _whole = gasnet_sys::cancel::disable();
        // SAFETY: one live entry.
        unsafe { libc::poll(&raw mut waited, 1, 0) > 0 }
    }

    /// Makes the next entry of the queues an event. False if that is impossible now, or there are
    /// entries.
    pub(super) fn arm(&self, functions: &Functions, mut queues: [abi::gni_cq_handle_t; 2]) -> bool {
        let (Some(arm), Some(take)) = (functions.channel_arm, functions.channel_event) else {
            return false;
        };
        // SAFETY: handles of one domain, whose lock the caller has, and live variables.
        unsafe {
            while self.has_event() {
                let mut queue = null_mut();
                if take(self.handle, &raw mut queue) != abi::GNI_RC_SUCCESS {
                    break;
                }
            }
            Code::check(arm(queues.as_mut_ptr(), queues.len() as u32)).is_ok()
                && queues
                    .iter()
                    .all(|queue| (functions.cq_test)(*queue) == abi::GNI_RC_NOT_DONE)
        }
    }
}
