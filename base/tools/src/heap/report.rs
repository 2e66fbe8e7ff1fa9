//! The report of `GASNET_MALLOCFILE`.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::TryLockError;
use std::time::Duration;

use gasnet_sys::atomic::MutexGuard;
use gasnet_sys::process::{at_exit_or_unload, pid};

use super::{guard, Header, Heap, FREED, HEAP};
use crate::process::{self, print_line_to, Label};
use crate::{env, system};

static WRITTEN: AtomicBool = AtomicBool::new(false);
static FOR_PROCESS: AtomicI32 = AtomicI32::new(0);
/// Attempts to lock the heap, and the time between them. The lock may never be released: a signal
/// may have interrupted its holder to call this.
const ATTEMPTS: u32 = 100;
const INTERVAL: Duration = Duration::from_millis(2);
/// The report then.
const IN_USE: &str = "the heap is in use by a thread that was interrupted";

/// Makes the end of the process write the report, also without a job. Children that the client
/// forks write none.
pub fn at_exit() {
    extern "C" fn end() {
        if FOR_PROCESS.load(Ordering::Relaxed) == pid() {
            write();
        }
    }
    if FOR_PROCESS.load(Ordering::Relaxed) == 0
        && FOR_PROCESS.swap(pid(), Ordering::Relaxed) == 0
        && !at_exit_or_unload(end)
    {
        process::warn(format_args!(
            "cannot register an exit handler; GASNET_MALLOCFILE is ignored"
        ));
    }
}

/// Writes the report, once, if `GASNET_MALLOCFILE` is set and `GASNET_MALLOCNODES` includes this
/// process. Allocates only where the lock of the heap is free: the caller may be a signal handler
/// that has interrupted its holder.
pub fn write() {
    let name = gasnet_sys::env::get(c"GASNET_MALLOCFILE").filter(|name| !name.to_bytes().trim_ascii().is_empty());
    let Some(name) = name else { return };
    let Some(heap) = try_locked() else {
        if !WRITTEN.swap(true, Ordering::AcqRel) {
            print_line_to(2, format_args!("# malloc report ({Label}): {IN_USE}"));
        }
        return;
    };
    drop(heap);
    let name = name.to_string_lossy();
    // The runtime has removed the variable. Programs of the tools alone come here.
    if gasnet_sys::process::is_privileged() {
        return;
    }
    let nodes = env::get("GASNET_MALLOCNODES").unwrap_or_default();
    if !process::listed(&nodes) || WRITTEN.swap(true, Ordering::AcqRel) {
        return;
    }
    let name = name.trim().replace('%', &process::rank().unwrap_or(0).to_string());
    match name.as_str() {
        "stdout" => write_to(1),
        "stderr" | "-" => write_to(2),
        file => match File::create(file) {
            Ok(file) => write_to(file.as_raw_fd()),
            Err(why) => process::warn(format_args!("GASNET_MALLOCFILE={file} cannot be written: {why}")),
        },
    }
}

fn write_to(fd: i32) {
    let host = system::hostname();
    let program = system::exe_name_c().to_string_lossy();
    match try_locked() {
        Some(heap) => lines(&heap, fd, &program, host),
        None => print_line_to(fd, format_args!("# malloc report ({Label}): {IN_USE}")),
    }
}

/// The heap, unless its lock stays taken.
fn try_locked() -> Option<MutexGuard<'static, Heap>> {
    for _ in 0..ATTEMPTS {
        match HEAP.try_lock() {
            Ok(heap) => return Some(heap),
            Err(TryLockError::WouldBlock) => std::thread::sleep(INTERVAL),
            Err(TryLockError::Poisoned(_)) => return None,
        }
    }
    None
}

fn lines(heap: &Heap, fd: i32, program: &str, host: &str) {
    let s = heap.stats;
    print_line_to(
        fd,
        format_args!("# malloc report ({Label}): {program} on {host}, process {}", pid()),
    );
    for (what, bytes, objects) in [
        ("allocated", s.allocated_bytes, s.allocated_objects),
        ("freed", s.freed_bytes, s.freed_objects),
        ("in use", s.live_bytes, s.live_objects),
        ("most", s.live_bytes_max, s.live_objects_max),
    ] {
        print_line_to(
            fd,
            format_args!("# {what:<10} {bytes:>12} bytes in {objects:>9} objects"),
        );
    }
    print_line_to(fd, format_args!("# guards     {:>12} bytes", s.overhead_bytes));
    print_line_to(
        fd,
        format_args!("# objects in use: bytes, address, place of the allocation"),
    );
    let (mut own_bytes, mut own_objects) = (0, 0);
    let mut at: *const Header = heap.first;
    // SAFETY: the heap is locked, so the headers in its list are valid.
    while let Some(header) = unsafe { at.as_ref() } {
        let user = at.wrapping_add(1).cast::<u8>();
        at = header.next;
        if header.guard == guard(FREED, user, header.bytes) {
            continue;
        }
        if header.place.file.is_null() {
            own_bytes += header.bytes;
            own_objects += 1;
        } else {
            print_line_to(fd, format_args!("{:>12} {user:p} {}", header.bytes, header.place));
        }
    }
    print_line_to(
        fd,
        format_args!("{own_bytes:>12} in {own_objects} objects of libgasnet, kept until the end"),
    );
}
