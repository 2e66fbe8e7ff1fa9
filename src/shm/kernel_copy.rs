//! Memory of neighbours that is not mapped here, copied by the kernel.
//!
//! Whether it may be is found at first contact with each neighbour: a word is read that only this job's process has, so that neither a
//! refusal (permissions, seccomp, Yama, an old kernel) nor another name space of process numbers does harm. What is refused once, also
//! later, is not tried again.

use std::sync::atomic::{fence, AtomicU64, AtomicU8, Ordering};

use gasnet_conduit::config;
use gasnet_conduit::JobRank;
use gasnet_job::{Job, Nbrhd};
use gasnet_sys::process::{self, Pid};
use gasnet_sys::process_vm;

/// What this process shows to a neighbour that asks whether it has found the right memory.
static WITNESS: AtomicU64 = AtomicU64::new(0);

fn witness_of(job: &Job, rank: JobRank) -> u64 {
    job.token() ^ u64::from(rank + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

const UNKNOWN: u8 = 0;
const WORKS: u8 = 1;
const REFUSED: u8 = 2;

/// What is known about the neighbours.
#[derive(Debug)]
pub struct KernelCopy {
    job: &'static Job,
    nbrhd: Nbrhd,
    /// By index in the neighbourhood.
    states: Box<[AtomicU8]>,
}

/// A neighbour that the kernel copies from and to.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour<'a> {
    pid: Pid,
    state: &'a AtomicU8,
}

impl KernelCopy {
    /// Nothing is known. `GASNET_PSHM_KERNEL_COPY` may say that nothing shall be tried.
    pub fn new(job: &'static Job, nbrhd: &Nbrhd) -> Self {
        let first = if config::get().get(&config::PSHM_KERNEL_COPY) {
            UNKNOWN
        } else {
            REFUSED
        };
        Self {
            job,
            nbrhd: nbrhd.clone(),
            states: (0..nbrhd.count()).map(|_| AtomicU8::new(first)).collect(),
        }
    }

    /// Lets neighbours find this process's memory. They may try after a synchronisation with them.
    pub fn admit_neighbours(&self) {
        if self.states.len() > 1 {
            // The process that has started the ranks is the ancestor of all of them.
            process_vm::admit(process::parent());
            WITNESS.store(witness_of(self.job, self.job.rank()), Ordering::Release);
            self.job.publish_memory(WITNESS.as_ptr() as usize);
        }
    }

    /// Neighbour `rank`, if the kernel copies from and to it.
    pub fn neighbour(&self, rank: JobRank) -> Option<Neighbour<'_>> {
        let state = &self.states[self.nbrhd.index(rank)];
        let seen = state.load(Ordering::Relaxed);
        if seen == REFUSED {
            return None;
        }
        let (pid, address) = self.job.published_memory(rank)?;
        if seen == UNKNOWN {
            let mut word = 0u64;
            // SAFETY: the word is ours and has eight bytes.
            let read = unsafe { process_vm::read(pid, (&raw mut word).cast(), address, size_of_val(&word)) };
            let works = read.is_ok_and(|count| count == size_of_val(&word)) && word == witness_of(self.job, rank);
            state.store(if works { WORKS } else { REFUSED }, Ordering::Relaxed);
            if !works {
                return None;
            }
        }
        Some(Neighbour { pid, state })
    }
}

impl Neighbour<'_> {
    /// Copies `bytes` at `local` to `remote` of the neighbour, and returns how many of them: less when the kernel refuses, or cannot
    /// write there. What another process reads after it was told of the copy is what was copied.
    ///
    /// # Safety
    /// As a put of the client's: the source is valid, the destination the neighbour's to be written.
    pub unsafe fn put(&self, remote: usize, local: *const u8, bytes: usize) -> usize {
        let done = self.repeat(bytes, |done| {
            // SAFETY: the caller's promise, for a part of both ranges.
            unsafe { process_vm::write(self.pid, remote + done, local.wrapping_add(done), bytes - done) }
        });
        // SYNC POINT kernel-copy: the kernel's stores precede whatever says that they happened.
        fence(Ordering::Release);
        done
    }

    /// Copies `bytes` at `remote` of the neighbour to `local`, and returns how many, as [`Neighbour::put`].
    ///
    /// # Safety
    /// The destination is valid.
    pub unsafe fn get(&self, local: *mut u8, remote: usize, bytes: usize) -> usize {
        let done = self.repeat(bytes, |done| {
            // SAFETY: the caller's promise, for a part of the range.
            unsafe { process_vm::read(self.pid, local.wrapping_add(done), remote + done, bytes - done) }
        });
        // SYNC POINT kernel-copy: what is read after this is no older than what was copied.
        fence(Ordering::Acquire);
        done
    }

    fn repeat(&self, bytes: usize, mut copy: impl FnMut(usize) -> std::io::Result<usize>) -> usize {
        let mut done = 0;
        while done < bytes {
            match copy(done) {
                Ok(count) if count > 0 => done += count,
                Ok(_) => break,
                Err(why) => {
                    // EFAULT is about this memory, the others about this neighbour.
                    if why.raw_os_error() != Some(libc::EFAULT) {
                        self.state.store(REFUSED, Ordering::Relaxed);
                    }
                    break;
                }
            }
        }
        done
    }
}
