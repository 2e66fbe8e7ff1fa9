//! How the processes of a job find each other, and how one leaves.

use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst};
use std::time::{Duration, Instant};

use emulator_common::lock::locked;
use emulator_common::wait::{drain, Backoff};
use gasnet_elan_abi as abi;
use libc::c_char;

use crate::attachment::{attached, Attachment};
use crate::config::Config;
use crate::misuse::die;
use crate::object::{Living, Object};
use crate::pool::Pool;
use crate::process::{current, existing, Process};
use crate::reclaim::{destroy_endpoint, members};
use crate::shm::Job;
use crate::window;

const MOST_PROCESSES: u32 = 1 << 13;

/// The place of a process in a job.
#[derive(Clone, Copy, Debug)]
struct Place {
    job: u64,
    rank: u32,
    size: u32,
}

/// The place that the resource manager names, or else the caller.
fn place(given: Option<&abi::gasnet_elan_place_t>) -> Result<Place, String> {
    let variable = |name: &str| std::env::var(name).ok();
    let number = |name: &str| {
        let text = variable(name).ok_or_else(|| format!("RMS_RESOURCEID is set, but not {name}"))?;
        text.parse().map_err(|_| format!("{name} is no number: {text}"))
    };
    let place = if let Some(resource) = variable("RMS_RESOURCEID") {
        Place {
            job: job_of(&resource),
            rank: number("RMS_RANK")?,
            size: number("RMS_NPROCS")?,
        }
    } else {
        let given = given.ok_or("neither the caller nor RMS_RESOURCEID says where the process is")?;
        Place {
            job: given.job,
            rank: given.rank,
            size: given.size,
        }
    };
    match place.size {
        0 => Err("the number of processes is unknown".to_string()),
        size if size > MOST_PROCESSES => Err(format!("{size} processes: there may be {MOST_PROCESSES}")),
        size if place.rank >= size => Err(format!("there is no rank {} among {size}", place.rank)),
        _ => Ok(place),
    }
}

/// The number of a resource, or another number that few others have.
fn job_of(resource: &str) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hashed = || resource.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    resource.parse().unwrap_or_else(|_| hashed())
}

/// The virtual process number of a rank: with option `shuffle` it is another one.
fn vp_of(config: &Config, place: Place) -> u32 {
    match u64::from(place.size) {
        size if config.shuffle && size > 1 => {
            let distance = 1 + config.seed % (size - 1);
            ((u64::from(place.rank) + distance) % size) as u32
        }
        _ => place.rank,
    }
}

/// The job that gathers, or a new one. The caller holds `starting` and the allocation lock.
fn job(process: &Process, place: Place) -> Result<u32, String> {
    let jobs = &process.fabric.jobs;
    let gathers = |job: &Job| {
        job.entry.owner.load(Relaxed) != 0 && job.id.load(Relaxed) == place.job && job.complete.load(Relaxed) == 0
    };
    if let Some(index) = jobs.used().find(|&index| gathers(jobs.at(index))) {
        let size = jobs.at(index).size.load(Relaxed);
        if size != place.size {
            return Err(format!("another process of the job has started with {size} processes"));
        }
        return Ok(index);
    }
    let index = jobs.take(process.slot).ok_or("too many jobs")?;
    let job = jobs.at(index);
    for field in [&job.joined, &job.complete, &job.attached] {
        field.store(0, Relaxed);
    }
    for record in &job.records {
        record.number.store(0, Relaxed);
    }
    job.id.store(place.job, Relaxed);
    job.size.store(place.size, Relaxed);
    Ok(index)
}

/// Clears the memory that a job or an endpoint gets.
fn clear(process: &Process, offset: u64, bytes: u64) {
    for word in process.block(offset, bytes) {
        word.store(0, Relaxed);
    }
}

/// Makes the endpoint of a process, and enters it in its job.
fn join(process: &Process, place: Place, vp: u32, symmetric: &Pool) -> Result<u32, String> {
    let no_memory = || "the fabric has no memory left".to_string();
    let page_bytes = window::pages(&process.config) * 8;
    let member_bytes = u64::from(place.size) * 8;
    let pages = process.take_bytes(page_bytes).ok_or_else(no_memory)?;
    let room = process.take_bytes(member_bytes).ok_or_else(no_memory)?;
    let _starting = process.fabric.starting.lock();
    let _guard = process.allocation();
    let give = |is_room_used: bool| {
        process.give_bytes(pages, page_bytes);
        if !is_room_used {
            process.give_bytes(room, member_bytes);
        }
    };
    let job_index = job(process, place).inspect_err(|_| give(false))?;
    let job = process.fabric.jobs.at(job_index);
    let is_new = job.attached.load(Relaxed) == 0;
    if is_new {
        clear(process, room, member_bytes);
        job.members.store(room, Relaxed);
    }
    let entry = &members(process, job)[vp as usize];
    if entry.load(Relaxed) != 0 {
        give(is_new);
        return Err(format!("rank {} of the job has started before", place.rank));
    }
    let Some(index) = process.fabric.endpoints.take(process.slot) else {
        give(is_new);
        return Err("too many processes".to_string());
    };
    if !is_new {
        process.give_bytes(room, member_bytes);
    }
    let endpoint = process.fabric.endpoints.at(index);
    for field in endpoint.queues.iter().chain(&endpoint.ports) {
        field.store(0, Relaxed);
    }
    clear(process, pages, page_bytes);
    endpoint.job.store(job_index, Relaxed);
    endpoint.vp.store(vp, Relaxed);
    endpoint.symmetric.store(symmetric.base as u64, Relaxed);
    endpoint.pages.store(pages, Relaxed);
    endpoint.page_bytes.store(page_bytes, Relaxed);
    endpoint.live.store(1, SeqCst);
    entry.store(process.fabric.endpoints.key(index).into(), Release);
    job.attached.fetch_add(1, Relaxed);
    if job.joined.fetch_add(1, Relaxed) + 1 == place.size {
        job.complete.store(1, Release);
    }
    Ok(index)
}

/// Waits until all of the job have started.
fn gather(process: &Process, job: &Job) -> Result<(), String> {
    let limit = Duration::from_secs(process.config.start_timeout_s);
    let (start, mut backoff) = (Instant::now(), Backoff::default());
    while job.complete.load(Acquire) == 0 {
        if start.elapsed() < limit {
            backoff.pause();
            continue;
        }
        let _starting = process.fabric.starting.lock();
        if job.complete.load(Acquire) == 0 {
            let absent = members(process, job).iter().zip(0..);
            let absent: Vec<String> = absent
                .filter(|(member, _)| member.load(Relaxed) == 0)
                .map(|(_, vp): (_, u32)| vp.to_string())
                .collect();
            let seconds = limit.as_secs();
            return Err(format!(
                "after {seconds} s these processes have not started: {}",
                absent.join(", ")
            ));
        }
    }
    Ok(())
}

/// Option `report`, at the end of the process.
extern "C" fn report() {
    for attachment in existing().map_or(Vec::new(), attached) {
        attachment.report("has not stopped");
    }
}

#[cold]
fn attachment_again() -> ! {
    die("start", "the process is attached already")
}

fn attach(given: Option<&abi::gasnet_elan_place_t>) -> Result<&'static Attachment, String> {
    let process = current(report)?;
    let config = &process.config;
    if config.fail_start {
        return Err("the network is down (fail-start)".to_string());
    }
    if config.one_attachment && !attached(process).is_empty() {
        attachment_again();
    }
    if config.is_elan3() && config.rails > 1 {
        return Err(format!("the job has {} rails of Elan3: run it with one", config.rails));
    }
    let place = place(given)?;
    let vp = vp_of(config, place);
    let pool = |bytes| Pool::new(bytes).ok_or("no memory for a pool");
    let pools = (pool(config.alloc_bytes())?, pool(config.symmetric_bytes())?);
    let discard = |pools: &(Pool, Pool)| {
        pools.0.discard();
        pools.1.discard();
    };
    let index = join(process, place, vp, &pools.1).inspect_err(|_| discard(&pools))?;
    let job = process
        .fabric
        .jobs
        .at(process.fabric.endpoints.at(index).job.load(Relaxed));
    if let Err(why) = gather(process, job) {
        destroy_endpoint(process, index);
        discard(&pools);
        return Err(why);
    }
    let attachment = Attachment::new(process, vp, index, pools).publish();
    attachment.enlist();
    Ok(attachment)
}

fn info(attachment: &Attachment) -> abi::gasnet_elan_info_t {
    let config = &attachment.process.config;
    let mut version = [0; 64];
    let name = format!("libelan 1.8.14 (emulator of Elan{})", config.elan);
    for (to, from) in version.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    abi::gasnet_elan_info_t {
        elan: config.elan,
        vp: attachment.vp,
        size: attachment.size,
        rails: config.rails,
        queue_bytes: config.queue_bytes(),
        port_slots: config.slots,
        small_put: config.small,
        throttle: config.throttle,
        is_serial: config.serial.into(),
        has_hardware_broadcast: config.has_hardware_broadcast.into(),
        map_bytes: if config.is_elan3() { config.window } else { u64::MAX },
        version,
    }
}

/// Copies a message for C, as far as there is room.
pub fn explain(text: &str, why: *mut c_char, why_bytes: usize) {
    let length = text.len().min(why_bytes.saturating_sub(1));
    if why_bytes != 0 && !why.is_null() {
        // SAFETY: the caller passes room for `why_bytes` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), why, length);
            why.add(length).write(0);
        }
    }
}

pub extern "C" fn start(
    place: *const abi::gasnet_elan_place_t,
    info_out: *mut abi::gasnet_elan_info_t,
    why: *mut c_char,
    why_bytes: usize,
) -> *mut abi::gasnet_elan_t {
    // SAFETY: the caller passes a valid place, or none.
    match attach(unsafe { place.as_ref() }) {
        Ok(attachment) => {
            // SAFETY: the caller passes room for the information.
            unsafe { info_out.write(info(attachment)) };
            attachment.handle()
        }
        Err(text) => {
            explain(&text, why, why_bytes);
            std::ptr::null_mut()
        }
    }
}

pub extern "C" fn stop(elan: *mut abi::gasnet_elan_t) {
    let attachment = Attachment::of(elan, "stop");
    let process = attachment.process;
    attachment.retire();
    attachment.delist();
    if process.config.report {
        attachment.report("stops");
    }
    attachment.endpoint.live.store(0, SeqCst);
    drain(&attachment.endpoint.users);
    destroy_endpoint(process, attachment.index);
    attachment.pool.discard();
    attachment.symmetric.discard();
    locked(&attachment.buffers).clear();
}
