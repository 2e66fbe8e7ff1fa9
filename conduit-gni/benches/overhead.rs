//! What operations cost, and what the calls of the library for them cost alone: nanoseconds within
//! one process, over the emulator of uGNI. `GNI_TEST_EMULATOR=yield=0 cargo bench -p
//! gasnet-conduit-gni`

#[path = "../tests/emulated/mod.rs"]
mod emulated;

use gasnet_conduit::conformance::{expose, job_number, put, Job};
use gasnet_conduit::{
    atomic_codes as codes, Atomic, Busy, Class, Completion, Cookie, Get, JobRank, LocalMemory, LocalSegment, Network,
    PollScope, SegmentMemory, SourceUse, Upcalls,
};
use gasnet_conduit_gni::Gni;
use gasnet_gni_abi as abi;
use std::ffi::{c_void, CString};
use std::ptr::null_mut;
use std::time::Instant;

const ROUNDS: usize = 60;
const EACH: u32 = 500;

/// The least time of a round, in nanoseconds for each operation.
fn least(mut round: impl FnMut()) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..EACH {
            round();
        }
        least = least.min(begun.elapsed().as_secs_f64() * 1e9 / f64::from(EACH));
    }
    least
}

/// A function of the library.
macro_rules! raw {
    ($library:expr, $name:literal, fn($($arg:ty),*)) => {{
        // SAFETY: a name of the library; its signature is that of the fact sheet.
        let address = unsafe { libc::dlsym($library, $name.as_ptr()) };
        assert!(!address.is_null());
        // SAFETY: as above.
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> u32>(address) }
    }};
}

#[derive(Default)]
struct Counts {
    done: usize,
    packets: usize,
    replies: usize,
}

impl Upcalls for Counts {
    fn packet(&mut self, _: JobRank, class: Class, _: &mut [u8]) {
        match class {
            Class::Request => self.packets += 1,
            Class::Reply => self.replies += 1,
        }
    }
    fn done(&mut self, _: Cookie, part: Completion) {
        self.done += usize::from(part != Completion::Source);
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("{peer}: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        panic!("{why}");
    }
}

/// Replies to requests.
struct Replier<'a>(&'a dyn Network, usize);

impl Upcalls for Replier<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        self.1 += 1;
        if class == Class::Request {
            while self.0.send(source, Class::Reply, &[&packet[..16]]) == Err(Busy) {}
        }
    }
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("{peer}: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        panic!("{why}");
    }
}

fn ours(word: &mut [u64; 64], single_threaded: bool) -> Vec<(&'static str, f64)> {
    let job = Job::start_for(&|| Box::new(Gni::of_job(job_number())), 2, single_threaded);
    let segment = SegmentMemory::host(word.as_mut_ptr() as usize, 512);
    let (_, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
    let (a, b) = (job.of(0), job.of(1));
    let mut counts = Counts::default();
    let mut wait = |start: &mut dyn FnMut()| {
        let before = counts.done;
        start();
        while counts.done == before {
            a.poll(PollScope::All, &mut counts);
        }
    };
    let bytes = 7_u64.to_ne_bytes();
    let put = least(|| {
        wait(&mut || {
            put(a, targets[0], &bytes, SourceUse::Now, Cookie::new(1)).unwrap();
        });
    });
    let mut place = 0_u64;
    let to = LocalMemory {
        address: (&raw mut place) as usize,
        segment: LocalSegment::NONE,
        device: None,
    };
    let get = least(|| {
        wait(&mut || {
            let get = Get {
                from: targets[0],
                to,
                bytes: 8,
                cookie: Cookie::new(1),
            };
            a.abilities().rma.unwrap().get(&get).unwrap();
        });
    });
    let amo = least(|| {
        wait(&mut || {
            let atomic = Atomic {
                target: targets[0],
                dt: codes::U64,
                op: codes::fetch(codes::ADD),
                operands: [1, 0],
                fetched: (&raw mut place).cast(),
                cookie: Cookie::new(1),
            };
            a.abilities().atomics.unwrap().atomic(&atomic).unwrap();
        });
    });
    let mut counts = Counts::default();
    let mut replier = Replier(b, 0);
    let packet = [1_u8; 16];
    let am = least(|| {
        let before = counts.replies;
        while a.send(JobRank(1), Class::Request, &[&packet]) == Err(Busy) {
            a.poll(PollScope::All, &mut counts);
            b.poll(PollScope::All, &mut replier);
        }
        while counts.replies == before {
            b.poll(PollScope::All, &mut replier);
            a.poll(PollScope::All, &mut counts);
        }
    });
    let flood = least(|| {
        while a.send(JobRank(1), Class::Request, &[&packet]) == Err(Busy) {
            let mut counted = Counts::default();
            b.poll(PollScope::All, &mut counted);
            a.poll(PollScope::All, &mut counts);
        }
    });
    vec![("put", put), ("get", get), ("amo", amo), ("am", am), ("flood", flood)]
}

fn main() {
    emulated::emulate();
    let mut word = Box::new([0_u64; 64]);
    let (several, one) = (ours(&mut word, false), ours(&mut word, true));
    // SAFETY: a name that is terminated.
    let library = unsafe {
        let name = CString::new(std::env::var("GASNET_GNI_LIBRARY").unwrap()).unwrap();
        libc::dlopen(name.as_ptr(), libc::RTLD_NOW)
    };
    let create = raw!(
        library,
        c"GNI_CdmCreate",
        fn(u32, u8, u32, u32, *mut abi::gni_cdm_handle_t)
    );
    let attach = raw!(
        library,
        c"GNI_CdmAttach",
        fn(abi::gni_cdm_handle_t, u32, *mut u32, *mut abi::gni_nic_handle_t)
    );
    let cq_create = raw!(
        library,
        c"GNI_CqCreate",
        fn(abi::gni_nic_handle_t, u32, u32, u32, *mut c_void, *mut c_void, *mut abi::gni_cq_handle_t)
    );
    let ep_create = raw!(
        library,
        c"GNI_EpCreate",
        fn(abi::gni_nic_handle_t, abi::gni_cq_handle_t, *mut abi::gni_ep_handle_t)
    );
    let bind = raw!(library, c"GNI_EpBind", fn(abi::gni_ep_handle_t, u32, u32));
    let register = raw!(
        library,
        c"GNI_MemRegister",
        fn(abi::gni_nic_handle_t, u64, u64, abi::gni_cq_handle_t, u32, u32, *mut abi::gni_mem_handle_t)
    );
    let post = raw!(
        library,
        c"GNI_PostFma",
        fn(abi::gni_ep_handle_t, *mut abi::gni_post_descriptor_t)
    );
    let event = raw!(library, c"GNI_CqGetEvent", fn(abi::gni_cq_handle_t, *mut u64));
    let completed = raw!(
        library,
        c"GNI_GetCompleted",
        fn(abi::gni_cq_handle_t, u64, *mut *mut abi::gni_post_descriptor_t)
    );
    struct Side {
        nic: abi::gni_nic_handle_t,
        source: abi::gni_cq_handle_t,
        arrivals: abi::gni_cq_handle_t,
        ep: abi::gni_ep_handle_t,
        memory: abi::gni_mem_handle_t,
        buffer: Box<[u64; 1024]>,
    }
    let modes = abi::GNI_CDM_MODE_DUAL_EVENTS | abi::GNI_CDM_MODE_FMA_SHARED;
    let side = |instance: u32| {
        let (mut cdm, mut nic, mut address) = (null_mut(), null_mut(), 0);
        let (mut source, mut arrivals, mut ep) = (null_mut(), null_mut(), null_mut());
        let mut memory = abi::gni_mem_handle_t::default();
        let mut buffer = Box::new([0_u64; 1024]);
        // SAFETY: as the library demands.
        unsafe {
            assert_eq!(create(instance, 17, 77, modes, &raw mut cdm), 0);
            assert_eq!(attach(cdm, 0, &raw mut address, &raw mut nic), 0);
            assert_eq!(cq_create(nic, 1024, 0, 0, null_mut(), null_mut(), &raw mut source), 0);
            assert_eq!(cq_create(nic, 1024, 0, 0, null_mut(), null_mut(), &raw mut arrivals), 0);
            assert_eq!(ep_create(nic, source, &raw mut ep), 0);
            assert_eq!(bind(ep, address, 1 - instance), 0);
            let flags = abi::GNI_MEM_STRICT_PI_ORDERING;
            let at = buffer.as_mut_ptr() as u64;
            assert_eq!(register(nic, at, 8192, arrivals, flags, u32::MAX, &raw mut memory), 0);
        }
        Side {
            nic,
            source,
            arrivals,
            ep,
            memory,
            buffer,
        }
    };
    let (mut a, b) = (side(0), side(1));
    assert!(!a.nic.is_null());
    // SAFETY: all zero is valid.
    let mut descriptor: abi::gni_post_descriptor_t = unsafe { std::mem::zeroed() };
    descriptor.local_addr = a.buffer.as_mut_ptr() as u64;
    descriptor.local_mem_hndl = a.memory;
    descriptor.remote_addr = b.buffer.as_ptr() as u64;
    descriptor.remote_mem_hndl = b.memory;
    descriptor.length = 8;
    descriptor.cq_mode = abi::GNI_CQMODE_GLOBAL_EVENT;
    descriptor.amo_cmd = 0x55;
    descriptor.first_operand = 1;
    descriptor.sync_flag_addr = b.buffer.as_ptr() as u64 + 64;
    descriptor.sync_flag_value = 5;
    let take = |cq: abi::gni_cq_handle_t, complete: bool| {
        let (mut entry, mut back) = (0, null_mut());
        // SAFETY: live variables.
        unsafe {
            while event(cq, &raw mut entry) != 0 {}
            if complete {
                assert_eq!(completed(cq, entry, &raw mut back), 0);
            }
        }
    };
    let mut run = |kind: u32, ep: abi::gni_ep_handle_t, source: abi::gni_cq_handle_t, mode: u16| {
        descriptor.r#type = kind;
        descriptor.cq_mode = mode;
        // SAFETY: the descriptor lives until its completion is taken.
        assert_eq!(unsafe { post(ep, &raw mut descriptor) }, 0);
        take(source, true);
    };
    let global = abi::GNI_CQMODE_GLOBAL_EVENT;
    let put = least(|| run(abi::GNI_POST_FMA_PUT, a.ep, a.source, global));
    let get = least(|| run(abi::GNI_POST_FMA_GET, a.ep, a.source, global));
    let amo = least(|| run(abi::GNI_POST_AMO, a.ep, a.source, global));
    let both = global | abi::GNI_CQMODE_REMOTE_EVENT;
    let one_way = least(|| {
        run(abi::GNI_POST_FMA_PUT_W_SYNCFLAG, a.ep, a.source, both);
        take(b.arrivals, false);
    });
    let raw = [
        ("put", put),
        ("get", get),
        ("amo", amo),
        ("am", 2.0 * one_way),
        ("flood", one_way),
    ];
    println!("        raw  one thread   several");
    for (((name, several), (_, one)), (_, raw)) in several.into_iter().zip(one).zip(raw) {
        let (one_ratio, ratio) = (one / raw, several / raw);
        println!("{name:6} {raw:4.0}  {one:4.0} ({one_ratio:4.2})  {several:4.0} ({ratio:4.2})");
    }
}
