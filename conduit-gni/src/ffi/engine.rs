//! Calls for the collective engine.

use super::domain::{Domain, Endpoint, QueueGuard};
use super::Code;
use gasnet_gni_abi as abi;
use std::ptr::null_mut;

/// An engine of this process.
#[derive(Debug)]
pub struct EngineHandle {
    handle: abi::gni_ce_handle_t,
    /// Its name for others.
    pub number: u32,
}

// SAFETY: the handle is used under the lock of its domain.
unsafe impl Send for EngineHandle {}
// SAFETY: as above.
unsafe impl Sync for EngineHandle {}

/// Libraries for Gemini lack these functions.
const ABSENT: Code = Code(abi::GNI_RC_ILLEGAL_OP);

impl<A> Domain<A> {
    /// Allocates an engine.
    pub fn engine(&self) -> Result<EngineHandle, Code> {
        let _lock = self.lock();
        let (create, query) = (
            self.functions.ce_create.ok_or(ABSENT)?,
            self.functions.ce_id.ok_or(ABSENT)?,
        );
        let (mut handle, mut number) = (null_mut(), 0);
        // SAFETY: a NIC of this domain, and live variables.
        unsafe {
            Code::check(create(self.nic, &raw mut handle))?;
            Code::check(query(handle, &raw mut number))?;
        }
        Ok(EngineHandle { handle, number })
    }

    /// Frees it.
    pub fn destroy_engine(&self, engine: &EngineHandle) {
        let _lock = self.lock();
        if let Some(destroy) = self.functions.ce_destroy {
            // SAFETY: from `engine`, once.
            unsafe { destroy(engine.handle) };
        }
    }
}

impl<A> QueueGuard<'_, A> {
    /// Makes an endpoint stand for a child of an engine.
    pub fn set_engine(
        &mut self,
        endpoint: Endpoint,
        number: u32,
        child: u32,
        kind: abi::gni_ce_child_t,
    ) -> Result<(), Code> {
        let set = self.domain.functions.ep_set_ce.ok_or(ABSENT)?;
        // SAFETY: a bound endpoint of this domain.
        Code::check(unsafe { set(endpoint.0, number, child, kind) })
    }

    /// Connects an engine to its children, and to the engine above.
    pub fn configure_engine(
        &mut self,
        engine: &EngineHandle,
        children: &[Endpoint],
        parent: Option<Endpoint>,
    ) -> Result<(), Code> {
        let configure = self.domain.functions.ce_configure.ok_or(ABSENT)?;
        let mut children: Vec<_> = children.iter().map(|child| child.0).collect();
        let parent = parent.map_or(null_mut(), |parent| parent.0);
        let modes = abi::GNI_CE_MODE_CQE_ONERR | abi::GNI_CE_MODE_ROUND_ZERO;
        let completions = self.domain.completions;
        let (list, count) = (children.as_mut_ptr(), children.len() as u32);
        // SAFETY: endpoints and a queue of this domain.
        Code::check(unsafe { configure(engine.handle, list, count, parent, completions, modes) })
    }

    /// A reduction begins, whose failure may be an event of the engine's queue alone.
    pub fn begin_reduction(&mut self) {
        self.expect_event();
    }

    /// Whether a result is complete, at this address, which ends the reduction.
    pub fn engine_result(&mut self, address: usize) -> Result<(), Code> {
        let check = self.domain.functions.ce_result.ok_or(ABSENT)?;
        let bytes = size_of::<abi::gni_ce_result_t>() as u32;
        // SAFETY: an aligned result in registered memory.
        Code::check(unsafe { check(address as *mut abi::gni_ce_result_t, bytes) })?;
        self.expect_no_event();
        Ok(())
    }
}
