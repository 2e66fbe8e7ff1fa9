//! Copies by the kernel, to and from memory of neighbours that is not mapped here
//! (`process_vm_readv`, `process_vm_writev`).
//!
//! On first contact with a neighbour, a process reads a word that only a process of this job can
//! hold. This detects refusals (permissions, seccomp, Yama, an old kernel) as well as a different
//! PID namespace. After a refusal, then or later, the kernel is not asked again.

use std::sync::atomic::{fence, AtomicU64, AtomicU8, Ordering};

use gasnet_conduit::config;
use gasnet_conduit::JobRank;
use gasnet_job::{Job, Nbrhd};
use gasnet_sys::process::{self, Pid};
use gasnet_sys::process_vm;

/// The word that neighbours read to verify that they reach this process.
static WITNESS: AtomicU64 = AtomicU64::new(0);

fn witness_of(job: &Job, rank: JobRank) -> u64 {
    job.token() as u64 ^ u64::from(rank.0 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

const UNKNOWN: u8 = 0;
const WORKS: u8 = 1;
const REFUSED: u8 = 2;

/// The state of kernel copies, by neighbour.
#[derive(Debug)]
pub struct KernelCopy {
    job: &'static Job,
    nbrhd: Nbrhd,
    /// By index in the neighbourhood.
    states: Box<[AtomicU8]>,
}

/// A neighbour for which kernel copies work.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour<'a> {
    pid: Pid,
    state: &'a AtomicU8,
}

impl KernelCopy {
    /// Nothing is known yet. If `GASNET_PSHM_KERNEL_COPY` is off, all neighbours count as refused.
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

    /// Lets neighbours access this process's memory. They may try after a synchronisation with this
    /// process.
    pub fn admit_neighbours(&self) {
        if self.states.len() > 1 {
            // The parent that started the ranks is an ancestor of all of them.
            process_vm::admit(process::parent());
            WITNESS.store(witness_of(self.job, JobRank(self.job.rank())), Ordering::Release);
            self.job.publish_memory(WITNESS.as_ptr() as usize);
        }
    }

    /// Neighbour `rank`, if kernel copies work for it.
    pub fn neighbour(&self, rank: JobRank) -> Option<Neighbour<'_>> {
        let state = &self.states[self.nbrhd.index(rank.0)];
        let seen = state.load(Ordering::Relaxed);
        if seen == REFUSED {
            return None;
        }
        let (pid, address) = self.job.published_memory(rank.0)?;
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
    /// Copies `bytes` from `local` to `remote` in the neighbour. Returns the bytes copied: fewer if
    /// the kernel refuses or cannot write there. A process that is notified afterwards reads the
    /// new data.
    ///
    /// # Safety
    /// As for a client's put: the source is valid, and the destination may be written.
    pub unsafe fn put(&self, remote: usize, local: *const u8, bytes: usize) -> usize {
        let done = self.repeat(bytes, |done| {
            // SAFETY: the caller's promise, for a part of both ranges.
            unsafe { process_vm::write(self.pid, remote + done, local.wrapping_add(done), bytes - done) }
        });
        // SYNC POINT kernel-copy: orders the kernel's stores before any later notification.
        fence(Ordering::Release);
        done
    }

    /// Copies `bytes` from `remote` in the neighbour to `local`. Returns the bytes copied, as
    /// [`Neighbour::put`].
    ///
    /// # Safety
    /// The destination is valid.
    pub unsafe fn get(&self, local: *mut u8, remote: usize, bytes: usize) -> usize {
        let done = self.repeat(bytes, |done| {
            // SAFETY: the caller's promise, for a part of the range.
            unsafe { process_vm::read(self.pid, local.wrapping_add(done), remote + done, bytes - done) }
        });
        // SYNC POINT kernel-copy: later loads see data no older than the copy.
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
                    // EFAULT is about this memory, any other error about this neighbour.
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
