//! Option `stale`: memory that is unmapped, moved or discarded while it is registered. A device
//! would go on using the old pages, silently; here the region grants nothing more, with a message.
//! The kernel reports such changes to a userfaultfd.

use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use emulator_common::fabric::Member;

use crate::shm::Fabric;

// <linux/userfaultfd.h>
const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_WRITEPROTECT: libc::c_ulong = 0xc018_aa06;
const UFFD_API: u64 = 0xaa;
const FEATURE_EVENT_REMAP: u64 = 1 << 2;
const FEATURE_EVENT_REMOVE: u64 = 1 << 3;
const FEATURE_EVENT_UNMAP: u64 = 1 << 6;
/// No page is ever protected, so no access faults; the events come all the same.
const REGISTER_MODE_WP: u64 = 2;
const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;
const PAGE: u64 = 4096;

#[repr(C)]
#[derive(Default)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    /// REMOVE and UNMAP: start and end; REMAP: from, to, length.
    arguments: [u64; 3],
}

const _: () = assert!(size_of::<Message>() == 32);

/// Watches registered memory of this process.
pub struct Watch(OwnedFd);

impl Watch {
    pub fn new() -> Result<Watch> {
        // SAFETY: plain calls; the struct lives through the second.
        unsafe {
            let descriptor = libc::syscall(
                libc::SYS_userfaultfd,
                libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY,
            );
            if descriptor == -1 {
                return Err(Error::last_os_error());
            }
            let descriptor = OwnedFd::from_raw_fd(descriptor as i32);
            let mut api = [
                UFFD_API,
                FEATURE_EVENT_REMAP | FEATURE_EVENT_REMOVE | FEATURE_EVENT_UNMAP,
                0,
            ];
            match libc::ioctl(descriptor.as_raw_fd(), UFFDIO_API, &mut api) {
                0 => Ok(Watch(descriptor)),
                _ => Err(Error::last_os_error()),
            }
        }
    }

    /// Watches a range, if the kernel can: not mappings of files on disk.
    pub fn add(&self, addr: u64, length: u64) {
        let start = addr / PAGE * PAGE;
        let mut range = [
            start,
            (addr + length).next_multiple_of(PAGE) - start,
            REGISTER_MODE_WP,
            0,
        ];
        // SAFETY: the struct lives through the call.
        unsafe { libc::ioctl(self.0.as_raw_fd(), UFFDIO_REGISTER, &mut range) };
    }

    /// Waits until the events of all that was unmapped before are read. As soon as a thread has
    /// unmapped memory, and before there is an event of it, another one may map and register the
    /// same addresses.
    pub fn settle(&self, addr: u64) {
        // Unprotects a page that is not protected. Fails with EAGAIN from before memory is unmapped
        // until its event is read.
        let mut page = [addr / PAGE * PAGE, PAGE, 0];
        loop {
            // SAFETY: the struct lives through the call.
            let result = unsafe { libc::ioctl(self.0.as_raw_fd(), UFFDIO_WRITEPROTECT, &mut page) };
            if result == 0 || Error::last_os_error().kind() != ErrorKind::WouldBlock {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Waits for an event, which takes a descriptor that does not block.
    fn wait(&self) {
        let mut item = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live item. A failure shows when the event is read.
        unsafe { libc::poll(&raw mut item, 1, -1) };
    }

    /// Reads events for ever. A thread that unmaps waits until its event is read, and one that
    /// registers what was mapped there meanwhile waits too ([`Watch::settle`]): such regions have
    /// later numbers.
    pub fn run(&self, member: &Member<Fabric>, registrations: &AtomicU64) {
        let mut message = Message::default();
        loop {
            self.wait();
            let before = registrations.load(SeqCst);
            // SAFETY: one message fits.
            if unsafe { libc::read(self.0.as_raw_fd(), (&raw mut message).cast(), size_of::<Message>()) } <= 0 {
                if Error::last_os_error().kind() == ErrorKind::WouldBlock {
                    continue;
                }
                return;
            }
            let [first, second, third] = message.arguments;
            match message.event {
                EVENT_REMOVE | EVENT_UNMAP => revoke(member, first..second, before),
                EVENT_REMAP => revoke(member, first..first + third, before),
                _ => {}
            }
        }
    }
}

/// Takes the rights of all regions with a number below `before` that overlap a range.
fn revoke(member: &Member<Fabric>, range: Range<u64>, before: u64) {
    let Range { start, end } = range;
    let is_meant = |index: u32| {
        let region = member.fabric.mrs.at(index);
        let addr = region.addr.load(Relaxed);
        let is_old = region.number.load(Relaxed) < before;
        let pinned = region.access.load(Relaxed) & gasnet_ibv_abi::IBV_ACCESS_ON_DEMAND == 0;
        is_old && pinned && addr < end && start < addr.saturating_add(region.length.load(Relaxed))
    };
    for index in member.fabric.mrs.owned(member.slot).filter(|&index| is_meant(index)) {
        let was_valid = {
            // Once all places have been used, another thread may give this one to a new region. It
            // may not while the lock is held.
            let _guard = member.allocation();
            let region = member.fabric.mrs.at(index);
            let is_ours = region.entry.slot() == member.slot;
            is_ours && is_meant(index) && region.pd.swap(0, SeqCst) != 0
        };
        if was_valid {
            eprintln!(
                "emulator of verbs: process {}: memory at {start:#x} to {end:#x} was unmapped while it was \
                 registered (key {:#x})",
                member.pid,
                member.fabric.mr_key(index)
            );
        }
    }
}
