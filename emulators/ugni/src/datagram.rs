//! Datagrams, by which endpoints exchange addresses: two that are posted to each other exchange
//! their data. One of an endpoint that is not bound matches any that comes to its domain.
//! Proof: the gni provider of libfabric 1.18.2 connects by them (emulators/README.md); messages.c.
#![allow(non_snake_case)]

use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use emulator_common::table::set;
use gasnet_gni_abi as abi;

use crate::object::{Answer, Ep, Living, Nic, Object};
use crate::refuse::{call, code, invalid, quiet, store, Outcome};
use crate::shm::{Datagram, Packet};

const LONGEST: u16 = 128;

impl Packet {
    fn set(&self, data: *const u8, length: u16) {
        let mut bytes = [0_u8; LONGEST as usize];
        if length != 0 {
            // SAFETY: the program passes `length` bytes, at most 128.
            unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(data, usize::from(length)) };
        }
        for (word, chunk) in self.words.iter().zip(bytes.chunks_exact(8)) {
            word.store(
                chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
                Relaxed,
            );
        }
        self.length.store(u32::from(length), Relaxed);
    }

    fn copy(&self, from: &Packet) {
        for (to, from) in self.words.iter().zip(&from.words) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.length.store(from.length.load(Relaxed), Relaxed);
    }

    fn get(&self, answer: &Answer) {
        let bytes: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.load(Relaxed).to_le_bytes())
            .collect();
        let length = usize::from(answer.room).min(self.length.load(Relaxed) as usize);
        if length != 0 {
            // SAFETY: the program gave `answer.room` bytes when it posted the datagram.
            unsafe { answer.buffer.copy_from_nonoverlapping(bytes.as_ptr(), length) };
        }
    }
}

/// Whether a datagram goes to a domain.
fn goes_to(datagram: &Datagram, other: &Datagram) -> bool {
    match datagram.to_address.load(Relaxed) {
        0 => true,
        address => {
            address == other.address.load(Relaxed) && datagram.to_instance.load(Relaxed) == other.instance.load(Relaxed)
        }
    }
}

/// Exchanges the data of two datagrams.
fn exchange(a: &Datagram, b: &Datagram, number: u32) {
    for (to, from) in [(a, b), (b, a)] {
        to.answer.copy(&from.data);
        to.from_address.store(from.address.load(Relaxed), Relaxed);
        to.from_instance.store(from.instance.load(Relaxed), Relaxed);
        to.number.store(number, Relaxed);
        to.state.store(abi::GNI_POST_COMPLETED, Relaxed);
    }
}

/// A datagram to post: data and room for the answer.
struct Post {
    data: (*const u8, u16),
    room: (*mut u8, u16),
    id: u64,
}

fn post(ep: abi::gni_ep_handle_t, post: &Post) -> Outcome {
    let (ep, _inside) = Ep::enter(ep)?;
    if post.data.1 > LONGEST || post.room.1 > LONGEST {
        return Err(crate::refuse::refusal(
            abi::GNI_RC_SIZE_ERROR,
            "a datagram has at most 128 bytes",
        ));
    }
    if ep.answers.borrow().iter().any(|answer| answer.id == post.id) {
        return Err(invalid("the endpoint has a datagram of this id"));
    }
    let process = ep.nic.process;
    let datagrams = &process.fabric.datagrams;
    let _lock = process.fabric.matching.lock();
    let index = process.take(datagrams).ok_or(quiet(abi::GNI_RC_ERROR_NOMEM))?;
    let datagram = datagrams.at(index);
    let to = if ep.bound.get() { ep.remote_address.get() } else { 0 };
    set([
        (&datagram.domain, ep.nic.domain),
        (&datagram.address, ep.nic.address),
        (&datagram.instance, ep.nic.cdm.instance),
        (&datagram.ptag, u32::from(ep.nic.cdm.ptag)),
        (&datagram.cookie, ep.nic.cdm.cookie),
        (&datagram.to_address, to),
        (&datagram.to_instance, ep.remote_id.get()),
        (&datagram.state, abi::GNI_POST_PENDING),
    ]);
    datagram.id.store(post.id, Relaxed);
    datagram.data.set(post.data.0, post.data.1);
    ep.answers.borrow_mut().push(Answer {
        index,
        id: post.id,
        buffer: post.room.0,
        room: post.room.1,
    });
    let fits = |other: &u32| {
        let other = datagrams.at(*other);
        !std::ptr::eq(other, datagram)
            && other.entry.owner.load(Relaxed) != 0
            && other.state.load(Relaxed) == abi::GNI_POST_PENDING
            && other.ptag.load(Relaxed) == datagram.ptag.load(Relaxed)
            && other.cookie.load(Relaxed) == datagram.cookie.load(Relaxed)
            // Two datagrams without a destination do not meet.
            && (to != 0 || other.to_address.load(Relaxed) != 0)
            && goes_to(datagram, other)
            && goes_to(other, datagram)
    };
    let found: Vec<u32> = datagrams.used().filter(fits).collect();
    // Datagrams for this domain come before those without a destination.
    let best = found
        .iter()
        .min_by_key(|other| datagrams.at(**other).to_address.load(Relaxed) == 0);
    if let Some(other) = best {
        let number = process.fabric.datagrams_matched.fetch_add(1, Relaxed);
        exchange(datagram, datagrams.at(*other), number);
    }
    Ok(())
}

#[no_mangle]
#[allow(clippy::too_many_arguments)]
extern "C" fn GNI_EpPostDataWId(
    ep: abi::gni_ep_handle_t,
    data: *const c_void,
    length: u16,
    buffer: *mut c_void,
    room: u16,
    id: u64,
) -> abi::gni_return_t {
    let wanted = Post {
        data: (data.cast(), length),
        room: (buffer.cast(), room),
        id,
    };
    code("GNI_EpPostDataWId", post(ep, &wanted))
}

/// Datagrams without an id of the program have that of their endpoint.
fn own_id(ep: abi::gni_ep_handle_t) -> u64 {
    ep as u64
}

#[no_mangle]
extern "C" fn GNI_EpPostData(
    ep: abi::gni_ep_handle_t,
    data: *const c_void,
    length: u16,
    buffer: *mut c_void,
    room: u16,
) -> abi::gni_return_t {
    GNI_EpPostDataWId(ep, data, length, buffer, room, own_id(ep))
}

/// The datagram of an id; what is returned of it goes through three pointers.
type Out = (*mut abi::gni_post_state_t, *mut u32, *mut u32);

fn test(ep: abi::gni_ep_handle_t, id: u64, out: &Out) -> Outcome<abi::gni_post_state_t> {
    let (ep, _inside) = Ep::enter(ep)?;
    let process = ep.nic.process;
    let found = ep.answers.borrow().iter().position(|answer| answer.id == id);
    let place = found.ok_or(quiet(abi::GNI_RC_NO_MATCH))?;
    let answer = ep.answers.borrow()[place];
    let _lock = process.fabric.matching.lock();
    let datagram = process.fabric.datagrams.at(answer.index);
    let state = datagram.state.load(Relaxed);
    store(out.0, state, "the pointer for the state is null")?;
    if state == abi::GNI_POST_COMPLETED {
        store(
            out.1,
            datagram.from_address.load(Relaxed),
            "the pointer for the address is null",
        )?;
        store(
            out.2,
            datagram.from_instance.load(Relaxed),
            "the pointer for the instance is null",
        )?;
        datagram.answer.get(&answer);
        ep.answers.borrow_mut().remove(place);
        let _guard = process.allocation();
        process.fabric.datagrams.give(answer.index);
    }
    Ok(state)
}

#[no_mangle]
extern "C" fn GNI_EpPostDataTestById(
    ep: abi::gni_ep_handle_t,
    id: u64,
    state: *mut abi::gni_post_state_t,
    address: *mut u32,
    instance: *mut u32,
) -> abi::gni_return_t {
    code(
        "GNI_EpPostDataTest",
        test(ep, id, &(state, address, instance)).map(drop),
    )
}

/// Calls `poll` until it is done or the milliseconds are over; all ones: for ever.
fn wait(timeout: u32, mut poll: impl FnMut() -> Outcome<bool>) -> Outcome {
    let end = Instant::now() + Duration::from_millis(u64::from(timeout));
    while !poll()? {
        if timeout != u32::MAX && Instant::now() >= end {
            return Err(quiet(abi::GNI_RC_TIMEOUT));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

#[no_mangle]
#[allow(clippy::too_many_arguments)]
extern "C" fn GNI_EpPostDataWaitById(
    ep: abi::gni_ep_handle_t,
    id: u64,
    timeout: u32,
    state: *mut abi::gni_post_state_t,
    address: *mut u32,
    instance: *mut u32,
) -> abi::gni_return_t {
    let poll = || test(ep, id, &(state, address, instance)).map(|state| state == abi::GNI_POST_COMPLETED);
    code("GNI_EpPostDataWait", wait(timeout, poll))
}

/// The oldest datagram of a NIC that is completed and not yet tested.
fn probe(nic: abi::gni_nic_handle_t) -> Outcome<&'static Datagram> {
    let nic = Nic::of(nic)?;
    let fabric = nic.process.fabric;
    let _lock = fabric.matching.lock();
    let mine = |datagram: &&'static Datagram| {
        datagram.entry.owner.load(Relaxed) == nic.process.slot + 1
            && datagram.domain.load(Relaxed) == nic.domain
            && datagram.state.load(Relaxed) == abi::GNI_POST_COMPLETED
    };
    let all = fabric
        .datagrams
        .used()
        .map(|index| fabric.datagrams.at(index))
        .filter(mine);
    all.min_by_key(|datagram| datagram.number.load(Relaxed))
        .ok_or(quiet(abi::GNI_RC_NO_MATCH))
}

#[no_mangle]
extern "C" fn GNI_PostDataProbeById(nic: abi::gni_nic_handle_t, id: *mut u64) -> abi::gni_return_t {
    call("GNI_PostDataProbeById", || {
        store(id, probe(nic)?.id.load(Relaxed), "the pointer for the id is null")
    })
}

#[no_mangle]
extern "C" fn GNI_PostdataProbeWaitById(nic: abi::gni_nic_handle_t, timeout: u32, id: *mut u64) -> abi::gni_return_t {
    let poll = || match probe(nic) {
        Ok(datagram) => store(id, datagram.id.load(Relaxed), "the pointer for the id is null").map(|()| true),
        Err(refusal) if refusal.code == abi::GNI_RC_NO_MATCH => Ok(false),
        Err(refusal) => Err(refusal),
    };
    code("GNI_PostdataProbeWaitById", wait(timeout, poll))
}

/// Takes back the datagrams of an endpoint that `which` selects.
fn cancel(ep: &Ep, which: impl Fn(&Answer) -> bool) -> bool {
    let process = ep.nic.process;
    let _lock = process.fabric.matching.lock();
    let _guard = process.allocation();
    let mut any = false;
    ep.answers.borrow_mut().retain(|answer| {
        let hit = which(answer);
        if hit {
            process.fabric.datagrams.give(answer.index);
            any = true;
        }
        !hit
    });
    any
}

pub fn cancel_all(ep: &Ep) {
    cancel(ep, |_| true);
}

/// Frees those of a domain that ends.
pub fn forget(nic: &Nic) {
    let (process, datagrams) = (nic.process, &nic.process.fabric.datagrams);
    let _lock = process.fabric.matching.lock();
    for index in process.owned_with(datagrams, process.slot, |datagram| &datagram.domain, nic.domain) {
        let _guard = process.allocation();
        datagrams.give(index);
    }
}

#[no_mangle]
extern "C" fn GNI_EpPostDataCancel(ep: abi::gni_ep_handle_t) -> abi::gni_return_t {
    call("GNI_EpPostDataCancel", || {
        let (ep, _inside) = Ep::enter(ep)?;
        if cancel(ep, |answer| answer.id == own_id(ep.handle())) {
            Ok(())
        } else {
            Err(quiet(abi::GNI_RC_NO_MATCH))
        }
    })
}
