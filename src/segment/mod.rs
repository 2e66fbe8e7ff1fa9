//! `gex_Segment_t`, attaching one, and the directory of everybody's bound segments. Further segments are in [`create`],
//! the ways to their memory in [`reach`], and GASNet-1's segment configurations in [`configuration`].

pub mod configuration;
pub mod create;
pub mod disposition;
mod numa;
pub mod reach;
pub mod window;

use std::env;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::endpoint::{self, Endpoint};
use crate::mk::{Kind, Spot};
use crate::runtime::Runtime;
use crate::shm;
use crate::types::{EpIndex, Location, ANYWHERE};
use configuration::{is_everything, Configuration};
use gasnet_conduit::config::{self, Per};
use gasnet_conduit::{Capabilities, JobRank, RemoteSegment, SegmentKey};
use gasnet_sys::{host_memory, mem};
use window::Window;

/// A local segment.
#[derive(Debug)]
pub struct Segment {
    /// First byte.
    pub base: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// Whose memory it is.
    pub memory: Memory,
    /// The conduit's name for it.
    pub key: SegmentKey,
    /// Whose device's memory it is; none for host memory.
    pub kind: Option<&'static Kind>,
    /// The client's own.
    pub cdata: AtomicPtr<std::ffi::c_void>,
}

impl Segment {
    /// A segment that lives until `create::destroy`, or for ever.
    fn leak(base: usize, bytes: usize, memory: Memory, key: SegmentKey, kind: Option<&'static Kind>) -> &'static mut Self {
        Box::leak(Box::new(Self {
            base,
            bytes,
            memory,
            key,
            kind,
            cdata: AtomicPtr::new(ptr::null_mut()),
        }))
    }
}

/// Where the memory of a segment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Attached: shared with neighbours, for the rest of the process.
    Attached,
    /// Mapped by the library for this segment.
    Mapped,
    /// The client's.
    Client,
    /// The library's, on the segment's device.
    Device,
}

/// Bound segments of primordial endpoints, by job rank, and how neighbours' addresses map here.
#[derive(Debug)]
pub struct Directory {
    /// As their owners see them.
    pub segments: Vec<RemoteSegment>,
    /// What to add to a neighbour's address to get ours; by index in the neighbourhood.
    pub deltas: Vec<isize>,
}

/// Why a segment was not attached.
#[derive(Clone, Debug)]
pub enum AttachError {
    /// The call itself is wrong.
    Argument(String),
    /// The memory cannot be had.
    Resource(String),
}

/// Whether Attach was called here, and did not fail.
static ATTACHED: AtomicBool = AtomicBool::new(false);

/// Whether the primordial segment was attached here, or is being attached.
pub fn was_attached() -> bool {
    ATTACHED.load(Ordering::Relaxed)
}

fn page_floor(bytes: u64) -> usize {
    bytes as usize & !(mem::page_size() - 1)
}

/// How much each rank of this host may attach: `GASNET_MAX_SEGSIZE`, bounded by what the host has, divided among its ranks.
pub fn max_local_bytes(host_ranks: u32) -> usize {
    let limit = config::get().get(&config::MAX_SEGSIZE);
    let memory = host_memory::query();
    let wanted = limit.bytes(memory.physical);
    let per_rank = match limit.per {
        Per::Process => wanted.min(memory.available),
        Per::Host => wanted.min(memory.available) / u64::from(host_ranks),
    };
    page_floor(per_rank).max(mem::page_size())
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .map(|c| u64::from_ne_bytes(c.try_into().unwrap_or_default()))
        .collect()
}

fn exchange_word(rt: &Runtime, word: u64) -> Vec<u64> {
    words(&rt.job.exchange(&word.to_ne_bytes()))
}

impl Runtime {
    /// Allocates, binds and publishes the primordial segment (`gex_Segment_Attach`). Collective over the job. In EVERYTHING it is a
    /// barrier: there is no segment object (GASNet-EX 0.19).
    pub fn attach(&'static self, bytes: usize, mapped: impl FnOnce(usize, usize)) -> Result<Option<&'static Segment>, AttachError> {
        if self.endpoint0.bound().is_some() || ATTACHED.swap(true, Ordering::Relaxed) {
            return Err(AttachError::Argument(
                "the primordial endpoint has a segment already; one call per process is allowed".into(),
            ));
        }
        if is_everything() {
            self.job.barrier();
            return Ok(None);
        }
        // A call that fails may be repeated.
        let segment = self
            .attach_memory(bytes, mapped)
            .inspect_err(|_| ATTACHED.store(false, Ordering::Relaxed))?;
        Ok(Some(segment))
    }

    fn attach_memory(&'static self, bytes: usize, mapped: impl FnOnce(usize, usize)) -> Result<&'static Segment, AttachError> {
        let sizes = self.agree(self.check_size(bytes))?;
        let near: Vec<usize> = self.nbrhd.ranks().map(|rank| sizes[rank as usize]).collect();
        let me = self.nbrhd.index(self.rank);
        let mapping = self.map_segments(&near).map_err(|e| {
            AttachError::Resource(format!(
                "the segments of this neighbourhood ({} bytes together) cannot be mapped: {e}",
                near.iter().sum::<usize>()
            ))
        });
        let bases = self.agree(mapping.as_ref().map(|m| m.base + m.offsets[me]).map_err(Clone::clone))?;
        let (mapping, base) = (mapping?, bases[self.rank as usize]);
        self.advise(&mapping, near.iter().sum());
        if let Err(why) = numa::place(mapping.base + mapping.offsets[me], bytes) {
            gasnet_tools::process::warn(format_args!(
                "GASNET_NUMA: rank {}: {why}; pages lie where they are touched first",
                self.rank
            ));
        }
        mapped(base, bytes);
        let keys = self.exchange_keys(base, bytes)?;
        let keys_of_own = keys[self.rank as usize];
        let mut segments: Vec<RemoteSegment> = sizes
            .iter()
            .zip(&bases)
            .zip(keys)
            .map(|((&bytes, &base), key)| RemoteSegment {
                base,
                bytes,
                key,
                on_device: false,
            })
            .collect();
        self.learn_segments(&mut segments)?;
        let deltas = mapping
            .offsets
            .iter()
            .zip(self.nbrhd.ranks())
            .map(|(offset, rank)| (mapping.base + offset).wrapping_sub(bases[rank as usize]) as isize)
            .collect();
        let segment = Segment::leak(base, bytes, Memory::Attached, keys_of_own, None);
        self.directory.get_or_init(|| Directory { segments, deltas });
        self.endpoint0.segment.store(segment, Ordering::Release);
        self.team0.open_fast_path(self);
        self.job.barrier();
        Ok(segment)
    }

    fn check_size(&self, bytes: usize) -> Result<usize, AttachError> {
        let page = mem::page_size();
        if bytes == 0 || bytes % page != 0 {
            return Err(AttachError::Argument(format!(
                "{bytes} bytes is not a positive multiple of the page size, {page}"
            )));
        }
        if bytes > self.max_local_bytes {
            return Err(AttachError::Argument(format!(
                "{bytes} bytes is more than gasnet_getMaxLocalSegmentSize(), {} bytes; GASNET_MAX_SEGSIZE sets that limit",
                self.max_local_bytes
            )));
        }
        Ok(bytes)
    }

    /// Everybody's value, none of which is 0. The failure of one rank is the failure of all, so that nobody waits for it.
    fn agree(&self, own: Result<usize, AttachError>) -> Result<Vec<usize>, AttachError> {
        let all = exchange_word(self, *own.as_ref().unwrap_or(&0) as u64);
        own?;
        match all.iter().position(|&word| word == 0) {
            Some(rank) => Err(AttachError::Resource(format!(
                "rank {rank} could not attach its segment, and says why"
            ))),
            None => Ok(all.into_iter().map(|word| word as usize).collect()),
        }
    }

    /// Huge pages, if the user asks for them. Without them things are slower, not wrong.
    fn advise(&self, mapping: &shm::segment::Mapping, bytes: usize) {
        let config = config::get();
        // Who sets the size of huge pages for libraries (libhugetlbfs, Cray's modules) wants them, unless it is said otherwise.
        let wants = || env::var_os("HUGETLB_DEFAULT_PAGE_SIZE").is_some_and(|size| !size.is_empty());
        if config.get(&config::USE_HUGEPAGES) || (!config.is_set(&config::USE_HUGEPAGES) && wants()) {
            match mem::want_huge_pages(mapping.base, bytes) {
                Err(why) if self.rank == self.nbrhd.first() => {
                    gasnet_tools::process::warn(format_args!("GASNET_USE_HUGEPAGES: {why}; segments have normal pages"));
                }
                _ => {}
            }
        }
    }

    /// The neighbourhood's first rank sizes and maps the object; the others map it at the same address if they can.
    fn map_segments(&self, sizes: &[usize]) -> std::io::Result<shm::segment::Mapping> {
        let leads = self.rank == self.nbrhd.first();
        let fd = self.job.segment_fd();
        let mut first = Ok(None);
        if leads {
            let (_, total) = shm::segment::offsets(sizes);
            let memory = self.job.segment_memory();
            first = memory
                .resize(total)
                .and_then(|()| shm::segment::map(fd, sizes, None))
                .map(Some);
            // Where the kind of memory has no seals, a neighbour that shrinks it harms the job; nothing of ours does.
            memory.seal();
        }
        let told = match &first {
            Ok(Some(mapping)) => mapping.base as u64,
            Ok(None) => 0,
            Err(_) => u64::MAX,
        };
        let leader = exchange_word(self, told)[self.nbrhd.first() as usize];
        match first? {
            Some(mapping) => Ok(mapping),
            None if leader == u64::MAX => Err(std::io::Error::other(
                "the first rank of the neighbourhood could not map them",
            )),
            None => shm::segment::map(fd, sizes, Some(leader as usize)),
        }
    }

    /// Whether the conduit itself reaches segments by what it knows of them. In LARGE and EVERYTHING it is told of none.
    pub fn conduit_has_segments(&self) -> bool {
        let able = self.conduit.capabilities();
        let told = Configuration::get() == Configuration::Fast && !self.single_neighbourhood();
        told && (able.has(Capabilities::RMA) || able.has(Capabilities::ATOMICS))
    }

    /// Whether the conduit itself reaches device memory. Where it does not, that moves through host memory of its owner.
    pub fn conduit_reaches_devices(&self) -> bool {
        let able = self.conduit.capabilities();
        self.conduit_has_segments() && able.has(Capabilities::RMA) && able.has(Capabilities::DEVICE_MEMORY)
    }

    /// Whether the conduit is told of the segments of `rank`: those of a neighbour concern its atomics only.
    pub fn conduit_learns(&self, rank: JobRank) -> bool {
        let wanted = !self.is_neighbour(rank) || self.conduit.capabilities().has(Capabilities::ATOMICS);
        wanted && rank != self.rank && self.conduit_has_segments()
    }

    fn exchange_keys(&self, base: usize, bytes: usize) -> Result<Vec<SegmentKey>, AttachError> {
        if !self.conduit_has_segments() {
            return Ok(vec![SegmentKey::default(); self.size as usize]);
        }
        let key = self
            .conduit
            .register_segment(base, bytes)
            .map_err(|e| AttachError::Resource(e.message))?;
        let mine: Vec<u8> = key.words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let all = self.job.exchange(&mine);
        Ok(all
            .chunks_exact(mine.len())
            .map(|c| {
                let mut key = SegmentKey::default();
                key.words.copy_from_slice(&words(c));
                key
            })
            .collect())
    }

    fn learn_segments(&self, segments: &mut [RemoteSegment]) -> Result<(), AttachError> {
        for (rank, segment) in segments.iter_mut().enumerate() {
            let rank = rank as JobRank;
            if self.conduit_learns(rank) {
                self.conduit
                    .learn_segment(rank, segment)
                    .map_err(|e| AttachError::Resource(e.message))?;
            }
        }
        Ok(())
    }

    /// The bound segment of the primordial endpoint of `rank`, after Attach.
    pub fn primordial_segment(&self, rank: JobRank) -> Option<&RemoteSegment> {
        self.directory.get()?.segments.get(rank as usize)
    }

    /// What others may access through an endpoint: its bound segment, if this process knows it, but all memory through a primordial endpoint
    /// in EVERYTHING, and where the client allows that.
    pub fn segment_of(&self, place: Location) -> Option<RemoteSegment> {
        if place.ep & ANYWHERE != 0 || (place.ep == 0 && is_everything()) {
            return Some(reach::ALL_MEMORY);
        }
        self.bound_segment(place)
    }

    /// The bound segment of an endpoint, if this process knows it: its own, one that was attached, or one that was published to it. What is
    /// bound to a primordial endpoint in EVERYTHING counts in queries and offsets only.
    pub fn bound_segment(&self, place: Location) -> Option<RemoteSegment> {
        if endpoint::is_attached(place.ep) {
            return self.primordial_segment(place.rank).copied();
        }
        if place.rank == self.rank {
            return self.endpoint(place.ep)?.bound().map(Segment::as_remote);
        }
        endpoint::published(place)
    }

    /// First byte of an endpoint's segment, in its owner's address space. Fatal when none is known.
    pub fn base_of(&self, place: Location) -> usize {
        let known = self.bound_segment(place).or_else(|| self.segment_of(place));
        known.map_or_else(|| self.outside_segment(place, 0, 0), |segment| segment.base)
    }

    /// The device that an endpoint of this process has its segment on. None for host memory, and without segment.
    #[inline]
    pub fn device_of(&self, ep: EpIndex) -> Option<&'static Kind> {
        if ep == 0 {
            return None;
        }
        self.endpoint(ep)?.bound()?.kind
    }

    /// Whether local addresses of endpoint `ep` may be of a device.
    #[inline]
    pub fn may_be_on_device(&self, ep: EpIndex) -> bool {
        if ep & ANYWHERE == 0 {
            return self.device_of(ep).is_some();
        }
        endpoint::others().any(|other| other.bound().is_some_and(|segment| segment.kind.is_some()))
    }

    /// Whether an endpoint, here or elsewhere, has its segment on a device.
    #[inline]
    pub fn is_on_device(&self, place: Location) -> bool {
        place.ep != 0 && self.segment_of(place).is_some_and(|s| s.on_device)
    }

    /// Whether this process can touch what an endpoint's segment holds. Of all memory of a process some may be on a device.
    #[inline]
    pub fn can_touch(&self, place: Location) -> bool {
        if endpoint::is_attached(place.ep) {
            self.is_neighbour(place.rank)
        } else {
            place.rank == self.rank && place.ep & ANYWHERE == 0 && self.device_of(place.ep).is_none()
        }
    }

    /// Where `[address, address + bytes)` of an endpoint's segment is here, if this process can touch it. Fatal when it is outside.
    #[inline]
    pub fn map_near(&self, place: Location, address: usize, bytes: usize) -> Option<*mut u8> {
        Window::of(self, place).map(|window| window.here(address, bytes))
    }

    /// Where `[address, address + bytes)` of neighbour `rank` is here. Fatal when it is outside the neighbour's segment.
    #[inline]
    pub fn map_neighbour(&self, rank: JobRank, address: usize, bytes: usize) -> *mut u8 {
        Window::neighbour(self, Location { rank, ep: 0 }).here(address, bytes)
    }

    /// Whether neighbours see `[address, address + bytes)` of this process in their mapping of its attached segment.
    pub fn neighbours_map(&self, address: *mut u8, bytes: usize) -> bool {
        self.endpoint0
            .bound()
            .is_some_and(|segment| segment.memory == Memory::Attached)
            && self
                .primordial_segment(self.rank)
                .is_some_and(|segment| segment.contains(address as usize, bytes))
    }

    /// Whether `place` is all memory of this process: clients reach their own by puts, gets, Longs and atomics, before Attach and beyond the segment,
    /// and the reference lets them. The debug flavour holds them to the segment, as the specification does.
    #[inline]
    pub fn is_own_memory(&self, place: Location) -> bool {
        !cfg!(feature = "debug-checks") && place.rank == self.rank && endpoint::is_attached(place.ep)
    }

    /// Ends the job: a remote address is not in its owner's segment.
    #[cold]
    pub fn outside_segment(&self, place: Location, address: usize, bytes: usize) -> ! {
        let Location { rank, ep } = place;
        let known = match self.segment_of(place) {
            None if !endpoint::is_attached(ep) => format!("no segment of its endpoint {ep} is known here; bind one and publish it"),
            None => "no segment is attached".to_string(),
            Some(s) => format!("its segment is [{:#x}, {:#x})", s.base, s.base + s.bytes),
        };
        fatal!(
            "rank {}: the remote range [{address:#x}, {:#x}) is not in the segment of rank {rank}: {known}. Only memory of the bound \
             segment can be the remote side of a put, a get or a Long.",
            self.rank,
            address.wrapping_add(bytes)
        )
    }

    /// Whether a range lies in the bound segment of an endpoint of this process, and is host memory.
    pub fn in_own_segment(&self, ep: EpIndex, address: usize, bytes: usize) -> bool {
        if endpoint::is_attached(ep) {
            return self.primordial_segment(self.rank).is_some_and(|s| s.contains(address, bytes));
        }
        let own = Location { rank: self.rank, ep };
        self.segment_of(own)
            .is_some_and(|s| s.contains(address, bytes) && !s.on_device)
    }

    /// A range of the bound segment of an endpoint of this process, whosever memory that is. None when it is outside.
    pub fn own_spot(&self, ep: EpIndex, address: usize, bytes: usize) -> Option<Spot> {
        if ep & ANYWHERE != 0 {
            // Primordial endpoints have host memory.
            let around = endpoint::others()
                .filter_map(Endpoint::bound)
                .find(|s| s.as_remote().contains(address, bytes));
            let kind = around.and_then(|segment| segment.kind);
            return Some(Spot { kind, address });
        }
        let Some(kind) = self.device_of(ep) else {
            return self
                .in_own_segment(ep, address, bytes)
                .then(|| Spot::host(address as *const u8));
        };
        let own = Location { rank: self.rank, ep };
        let inside = self.segment_of(own).is_some_and(|s| s.contains(address, bytes));
        inside.then_some(Spot {
            kind: Some(kind),
            address,
        })
    }

    /// The local side of an operation of endpoint `ep`: an address of the device that its segment is on, else any host memory (GASNet-EX
    /// 0.19, "Local addressing"). Fatal when it leaves the device's segment, unless the client allows that ([`disposition::own`]).
    #[inline]
    pub fn local_spot(&self, ep: EpIndex, local: *const u8, bytes: usize) -> Spot {
        if ep & ANYWHERE != 0 {
            return self.own_spot(ep, local as usize, bytes).unwrap_or(Spot::host(local));
        }
        match self.device_of(ep) {
            None => Spot::host(local),
            Some(kind) => self
                .own_spot(ep, local as usize, bytes)
                .unwrap_or_else(|| self.local_outside(ep, kind, local, bytes)),
        }
    }

    #[cold]
    fn local_outside(&self, ep: EpIndex, kind: &Kind, local: *const u8, bytes: usize) -> Spot {
        if bytes == 0 {
            return Spot::host(local);
        }
        let segment = self.segment_of(Location { rank: self.rank, ep });
        let (base, end) = segment.map_or((0, 0), |s| (s.base, s.base + s.bytes));
        fatal!(
            "rank {}: the local range of {bytes} bytes at {local:?} is not in the segment of endpoint {ep}, [{base:#x}, {end:#x}) on {kind}. \
             An endpoint with a device segment takes local addresses of that segment only; use another endpoint for host memory \
             (GASNet-EX 0.19, \"Local addressing\").",
            self.rank
        )
    }
}
