//! Communication domains and the NICs to which they are attached.
#![allow(non_snake_case)]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use emulator_common::lock::locked;
use emulator_common::table::set;
use gasnet_gni_abi as abi;

use crate::config::Config;
use crate::object::{Cdm, Living, Nic, Object};
use crate::process::{self, current, take};
use crate::refuse::{call, complain, invalid, quiet, refusal, store, Outcome};
use crate::{ce, datagram, memory, reclaim};

/// Most NICs of a domain.
const MOST_NICS: usize = 32;
const MODES: u32 = 0x003f_f3ff;
/// Modes that libraries for Gemini do not have: for MDDs, DLA and small windows.
const MODES_OF_ARIES: u32 = 0x0020_c300;

#[no_mangle]
extern "C" fn GNI_CdmCreate(
    instance: u32,
    ptag: u8,
    cookie: u32,
    modes: u32,
    out: *mut abi::gni_cdm_handle_t,
) -> abi::gni_return_t {
    let exclusive = |both: u32| modes & both == both;
    call("GNI_CdmCreate", || {
        if modes & !MODES != 0 {
            return Err(invalid("no such mode of communication domains"));
        }
        if exclusive(abi::GNI_CDM_MODE_FMA_DEDICATED | abi::GNI_CDM_MODE_FMA_SHARED)
            || exclusive(abi::GNI_CDM_MODE_MDD_DEDICATED | abi::GNI_CDM_MODE_MDD_SHARED)
        {
            return Err(invalid("a resource is either dedicated or shared"));
        }
        if out.is_null() {
            return Err(invalid("the pointer for the handle is null"));
        }
        let cdm = Cdm::new(instance, ptag, cookie, modes).publish();
        store(out, cdm.handle(), "the pointer for the handle is null")
    })
}

/// A device of the address exists, and no other domain has the same name.
fn check(cdm: &Cdm, device: u32, address: u32) -> Outcome {
    let nics = locked(&cdm.nics);
    if nics.iter().any(|nic| nic.device == device) {
        return Err(refusal(
            abi::GNI_RC_INVALID_STATE,
            "the domain is attached to the device",
        ));
    }
    if nics.len() == MOST_NICS {
        return Err(refusal(abi::GNI_RC_INVALID_STATE, "a domain has at most 32 NICs"));
    }
    let process = current().map_err(|_| quiet(abi::GNI_RC_ERROR_RESOURCE))?;
    let same = |index: u32| {
        let other = process.fabric.domains.at(index);
        let owner = other.entry.owner.load(Relaxed);
        owner != 0
            && other.address.load(Relaxed) == address
            && other.instance.load(Relaxed) == cdm.instance
            && other.ptag.load(Relaxed) == u32::from(cdm.ptag)
            && other.cookie.load(Relaxed) == cdm.cookie
            && process.alive(owner - 1)
    };
    if process.fabric.domains.used().any(same) {
        return Err(refusal(
            abi::GNI_RC_INVALID_STATE,
            "the NIC has a domain of this tag, cookie and instance",
        ));
    }
    Ok(())
}

fn attach(cdm: &'static Cdm, device: u32) -> Outcome<&'static Nic> {
    let process = current().map_err(|why| {
        complain("GNI_CdmAttach", abi::GNI_RC_ERROR_RESOURCE, &why);
        quiet(abi::GNI_RC_ERROR_RESOURCE)
    })?;
    if process.attachments.fetch_add(1, Relaxed) < process.config.attach_signals {
        return Err(quiet(abi::GNI_RC_NOT_DONE));
    }
    if process.is_gemini && cdm.has(MODES_OF_ARIES) {
        return Err(invalid("Gemini has no such mode of communication domains"));
    }
    let device = if device == u32::MAX { 0 } else { device };
    let address = process
        .address(device)
        .ok_or(refusal(abi::GNI_RC_NO_MATCH, "there is no such device"))?;
    let hardware = process
        .nic(address)
        .ok_or(refusal(abi::GNI_RC_NO_MATCH, "there is no such device"))?;
    // Two processes must not pass the check at the same time.
    let guard = process.allocation();
    check(cdm, device, address)?;
    let dedicated = !cdm.has(abi::GNI_CDM_MODE_FMA_SHARED);
    if dedicated && !take(&hardware.fma, process.config.fma) {
        return Err(quiet(abi::GNI_RC_ERROR_RESOURCE));
    }
    let Some(index) = process.fabric.domains.take(process.slot) else {
        hardware.fma.fetch_sub(u32::from(dedicated), Relaxed);
        return Err(quiet(abi::GNI_RC_ERROR_NOMEM));
    };
    let domain = process.fabric.domains.at(index);
    set([
        (&domain.address, address),
        (&domain.instance, cdm.instance),
        (&domain.ptag, u32::from(cdm.ptag)),
        (&domain.cookie, cdm.cookie),
        (&domain.dedicated, u32::from(dedicated)),
    ]);
    drop(guard);
    let nic = Nic {
        kind: AtomicU32::new(0),
        cdm,
        process,
        device,
        address,
        hardware,
        domain: index,
        endpoints: AtomicU32::new(0),
    };
    process.attached.fetch_add(1, Relaxed);
    let nic = nic.publish();
    locked(&cdm.nics).push(nic);
    Ok(nic)
}

#[no_mangle]
extern "C" fn GNI_CdmAttach(
    cdm: abi::gni_cdm_handle_t,
    device: u32,
    local_address: *mut u32,
    out: *mut abi::gni_nic_handle_t,
) -> abi::gni_return_t {
    call("GNI_CdmAttach", || {
        let cdm = Cdm::of(cdm)?;
        if local_address.is_null() || out.is_null() {
            return Err(invalid("the pointer for the address or the handle is null"));
        }
        let nic = attach(cdm, device)?;
        store(local_address, nic.address, "")?;
        store(out, nic.handle(), "")
    })
}

/// Frees what a domain has on a NIC, as the kernel does. Option `report` counts it.
fn detach(nic: &'static Nic) {
    let process = nic.process;
    let fabric = process.fabric;
    let regions = process.owned_with(&fabric.regions, process.slot, |region| &region.domain, nic.domain);
    let cqs = process.owned_with(&fabric.cqs, process.slot, |cq| &cq.domain, nic.domain);
    let engines = process.owned_with(&fabric.engines, process.slot, |engine| &engine.domain, nic.domain);
    if process.config.report {
        eprintln!(
            "emulator of uGNI: instance {} left {} regions, {} completion queues, {} endpoints, {} engines",
            nic.cdm.instance,
            regions.len(),
            cqs.len(),
            nic.endpoints.load(Relaxed),
            engines.len()
        );
    }
    process.attached.fetch_sub(1, Relaxed);
    nic.retire();
    for index in regions {
        memory::release(process, index);
    }
    for index in engines {
        ce::release(process, index);
    }
    datagram::forget(nic);
    for index in cqs {
        reclaim::destroy_cq(process, index);
    }
    reclaim::destroy_domain(process, nic.domain);
}

#[no_mangle]
extern "C" fn GNI_CdmDestroy(cdm: abi::gni_cdm_handle_t) -> abi::gni_return_t {
    call("GNI_CdmDestroy", || {
        let cdm = Cdm::of(cdm)?;
        cdm.retire();
        let nics = std::mem::take(&mut *locked(&cdm.nics));
        nics.into_iter().for_each(detach);
        Ok(())
    })
}

#[no_mangle]
extern "C" fn GNI_CdmGetNicAddress(device: u32, address: *mut u32, cpu: *mut u32) -> abi::gni_return_t {
    call("GNI_CdmGetNicAddress", || {
        let config = Config::of_process().map_err(|why| {
            complain("GNI_CdmGetNicAddress", abi::GNI_RC_NO_MATCH, &why);
            quiet(abi::GNI_RC_NO_MATCH)
        })?;
        let found = process::address(&config, device).ok_or(quiet(abi::GNI_RC_NO_MATCH))?;
        store(address, found, "the pointer for the address is null")?;
        store(cpu, 0, "the pointer for the CPU is null")
    })
}
