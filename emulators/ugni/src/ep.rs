//! Endpoints.
#![allow(non_snake_case)]

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use gasnet_gni_abi as abi;

use crate::datagram;
use crate::object::{Cq, Ep, Living, Nic, Object, Role};
use crate::queue;
use crate::refuse::{call, code, invalid, quiet, store, Outcome};

#[no_mangle]
extern "C" fn GNI_EpCreate(
    nic: abi::gni_nic_handle_t,
    cq: abi::gni_cq_handle_t,
    out: *mut abi::gni_ep_handle_t,
) -> abi::gni_return_t {
    call("GNI_EpCreate", || {
        let (nic, _inside) = Nic::enter(nic)?;
        let cq = if cq.is_null() { None } else { Some(Cq::of(cq)?) };
        if out.is_null() {
            return Err(invalid("the pointer for the handle is null"));
        }
        if let Some(cq) = cq {
            if cq.role.get() == Role::Destination {
                return Err(invalid("the completion queue is that of registered memory"));
            }
            if !std::ptr::eq(cq.nic, nic) {
                return Err(invalid("the completion queue is of another NIC handle"));
            }
            cq.endpoints.set(cq.endpoints.get() + 1);
        }
        nic.endpoints.fetch_add(1, Relaxed);
        let ep = Ep {
            kind: AtomicU32::new(0),
            nic,
            cq,
            bound: Cell::new(false),
            remote_address: Cell::new(0),
            remote_id: Cell::new(0),
            local_event: Cell::new(0),
            remote_event: Cell::new(0),
            outstanding: Cell::new(0),
            mailbox: Cell::new(None),
            answers: RefCell::default(),
            engine: Cell::new((0, 0, 0)),
        };
        store(out, ep.publish().handle(), "")
    })
}

#[no_mangle]
extern "C" fn GNI_EpBind(ep: abi::gni_ep_handle_t, remote_address: u32, remote_id: u32) -> abi::gni_return_t {
    call("GNI_EpBind", || {
        let (ep, _inside) = Ep::enter(ep)?;
        if ep.bound.get() {
            return Err(invalid("the endpoint is bound"));
        }
        if ep.nic.process.nic(remote_address).is_none() {
            return Err(invalid("no node has this NIC address"));
        }
        if let Some(cq) = ep.cq {
            queue::make_source(cq)?;
        }
        ep.bound.set(true);
        ep.remote_address.set(remote_address);
        ep.remote_id.set(remote_id);
        ep.local_event.set(remote_id);
        ep.remote_event.set(ep.nic.cdm.instance);
        Ok(())
    })
}

#[no_mangle]
extern "C" fn GNI_EpSetEventData(ep: abi::gni_ep_handle_t, local: u32, remote: u32) -> abi::gni_return_t {
    call("GNI_EpSetEventData", || {
        let (ep, _inside) = Ep::enter(ep)?;
        ep.local_event.set(local);
        ep.remote_event.set(remote);
        Ok(())
    })
}

#[no_mangle]
extern "C" fn GNI_EpUnbind(ep: abi::gni_ep_handle_t) -> abi::gni_return_t {
    call("GNI_EpUnbind", || {
        let (ep, _inside) = Ep::enter(ep)?;
        if ep.outstanding.get() != 0 || !ep.answers.borrow().is_empty() {
            return Err(quiet(abi::GNI_RC_NOT_DONE));
        }
        ep.bound.set(false);
        ep.mailbox.set(None);
        Ok(())
    })
}

#[no_mangle]
extern "C" fn GNI_EpDestroy(ep: abi::gni_ep_handle_t) -> abi::gni_return_t {
    call("GNI_EpDestroy", || {
        let (ep, _inside) = Ep::enter(ep)?;
        if let Some(cq) = ep.cq {
            cq.endpoints.set(cq.endpoints.get() - 1);
            if ep.outstanding.get() != 0 {
                if let Some(requests) = cq.requests() {
                    requests.cancel(ep);
                }
            }
        }
        datagram::cancel_all(ep);
        ep.nic.endpoints.fetch_sub(1, Relaxed);
        ep.retire();
        Ok(())
    })
}

fn set_engine(ep: abi::gni_ep_handle_t, id: u32, child: u32, kind: abi::gni_ce_child_t) -> Outcome {
    let (ep, _inside) = Ep::enter(ep)?;
    ep.nic.check_engines()?;
    if !ep.bound.get() {
        return Err(invalid("the endpoint is not bound"));
    }
    if child >= abi::GNI_CE_MAX_CHILDREN || !matches!(kind, abi::GNI_CE_CHILD_VCE | abi::GNI_CE_CHILD_PE) {
        return Err(invalid("no such child of a collective engine"));
    }
    ep.engine.set((id, child, kind));
    Ok(())
}

#[no_mangle]
extern "C" fn GNI_EpSetCeAttr(
    ep: abi::gni_ep_handle_t,
    id: u32,
    child: u32,
    kind: abi::gni_ce_child_t,
) -> abi::gni_return_t {
    code("GNI_EpSetCeAttr", set_engine(ep, id, child, kind))
}
