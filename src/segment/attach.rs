//! `gex_Segment_Attach`: the primordial segment of every process, mapped by its neighbours.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};

use super::configuration::{is_everything, Configuration};
use super::directory::Directory;
use super::{numa, Bounds, Memory, Segment};
use crate::mk::Refusal;
use crate::placement::Offsets;
use crate::runtime::Runtime;
use crate::shm::segment::{self, Mapping, TableShape};
use crate::trace::recorder;
use crate::{counters, thread};
use gasnet_conduit::config::{self, Per};
use gasnet_conduit::{Registration, SegmentMemory, Segments};
use gasnet_sys::{host_memory, mem};

/// Whether Attach was called here, and did not fail.
static ATTACHED: AtomicBool = AtomicBool::new(false);

/// Whether the primordial segment was attached here, or is being attached.
pub fn was_attached() -> bool {
    ATTACHED.load(Ordering::Relaxed)
}

fn page_floor(bytes: u64) -> usize {
    bytes as usize & !(mem::segment_page() - 1)
}

/// Most bytes that each rank of this host may attach: `GASNET_MAX_SEGSIZE`, bounded by what the
/// host has, divided among its ranks.
pub fn max_local_bytes(host_ranks: u32) -> usize {
    let limit = config::get().get(&config::MAX_SEGSIZE);
    let memory = host_memory::query();
    let wanted = limit.bytes(memory.physical);
    let per_rank = match limit.per {
        Per::Process => wanted.min(memory.available),
        Per::Host => wanted.min(memory.available) / u64::from(host_ranks),
    };
    page_floor(per_rank).max(mem::segment_page())
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
    /// Allocates, binds and publishes the primordial segment (`gex_Segment_Attach`). Collective
    /// over the job. In EVERYTHING it is a barrier: there is no segment object (GASNet-EX 0.19).
    pub fn attach(
        &'static self,
        bytes: usize,
        mapped: impl FnOnce(usize, usize),
    ) -> Result<Option<&'static Segment>, Refusal> {
        let _whole = gasnet_sys::cancel::disable();
        if self.endpoint0.bound().is_some() || ATTACHED.swap(true, Ordering::Relaxed) {
            return Err(Refusal::Argument(
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

    fn attach_memory(
        &'static self,
        bytes: usize,
        mapped: impl FnOnce(usize, usize),
    ) -> Result<&'static Segment, Refusal> {
        let sizes = self.agree(self.check_size(bytes))?;
        let neighbour_sizes: Vec<usize> = self.nbrhd_ranks().map(|rank| sizes[rank.index()]).collect();
        let me = self.nbrhd_index(self.rank);
        let mapping = self.map_segments(&neighbour_sizes).map_err(|e| {
            Refusal::Resource(format!(
                "cannot map the segments of this neighbourhood ({} bytes in total): {e}",
                neighbour_sizes.iter().sum::<usize>()
            ))
        });
        let bases = self.agree(mapping.as_ref().map(|m| m.base + m.offsets[me]).map_err(Clone::clone))?;
        let (mapping, base) = (mapping?, bases[self.rank.index()]);
        self.advise(&mapping, neighbour_sizes.iter().sum());
        if let Err(why) = numa::prefer_own_node(mapping.base + mapping.offsets[me], bytes) {
            gasnet_tools::process::warn(format_args!(
                "GASNET_NUMA: rank {}: {why}; pages are placed by first touch",
                self.rank
            ));
        }
        mapped(base, bytes);
        let (registration, keys) = self.register_everywhere(base, bytes)?;
        if self.leads_nbrhd() {
            for (rank, (&base, &bytes)) in bases.iter().zip(&sizes).enumerate() {
                mapping.table.write(rank, base, bytes, keys.of(rank));
            }
        }
        let neighbours = self.nbrhd_ranks().map(|rank| {
            let rank = rank.index();
            Bounds::host(bases[rank], sizes[rank])
        });
        let deltas: Vec<isize> = mapping
            .offsets
            .iter()
            .zip(self.nbrhd_ranks())
            .map(|(offset, rank)| (mapping.base + offset).wrapping_sub(bases[rank.index()]) as isize)
            .collect();
        let is_registered = registration.is_some();
        let segment = Segment::leak(base, bytes, Memory::Attached, registration, None);
        let directory = Directory::new(
            mapping.table,
            self.nbrhd.clone(),
            neighbours.collect(),
            Offsets::new(&deltas),
            is_registered,
        );
        self.directory.get_or_init(|| directory);
        counters::segment(bytes);
        recorder::segment(bytes);
        self.endpoint0.segment.store(segment, Ordering::Release);
        self.team0.open_fast_path(self);
        self.job.barrier();
        Ok(segment)
    }

    fn check_size(&self, bytes: usize) -> Result<usize, Refusal> {
        let page = mem::segment_page();
        if bytes == 0 || bytes % page != 0 {
            return Err(Refusal::Argument(format!(
                "{bytes} bytes is not a positive multiple of the page size, {page}"
            )));
        }
        if bytes > self.max_local_bytes {
            return Err(Refusal::Argument(format!(
                "{bytes} bytes is more than gasnet_getMaxLocalSegmentSize(), {} bytes; GASNET_MAX_SEGSIZE and the \
                network set that limit",
                self.max_local_bytes
            )));
        }
        Ok(bytes)
    }

    /// Everybody's value, none of which is 0. The failure of one rank is the failure of all, so
    /// that no rank waits for it.
    fn agree(&self, own: Result<usize, Refusal>) -> Result<Vec<usize>, Refusal> {
        let all = exchange_word(self, *own.as_ref().unwrap_or(&0) as u64);
        own?;
        match all.iter().position(|&word| word == 0) {
            Some(rank) => Err(Refusal::Resource(format!(
                "rank {rank} could not attach its segment; see its message"
            ))),
            None => Ok(all.into_iter().map(|word| word as usize).collect()),
        }
    }

    /// Huge pages, if the user asks for them. Without them things are slower, not wrong.
    fn advise(&self, mapping: &Mapping, bytes: usize) {
        let config = config::get();
        // A size of huge pages that is set for libraries (libhugetlbfs, Cray's modules) asks for
        // them, unless GASNET_USE_HUGEPAGES is set.
        let wants = || env::var_os("HUGETLB_DEFAULT_PAGE_SIZE").is_some_and(|size| !size.is_empty());
        if config.get(&config::USE_HUGEPAGES) || (!config.is_set(&config::USE_HUGEPAGES) && wants()) {
            match mem::want_huge_pages(mapping.base, bytes) {
                Err(why) if self.leads_nbrhd() => {
                    gasnet_tools::process::warn(format_args!(
                        "GASNET_USE_HUGEPAGES: {why}; segments have normal pages"
                    ));
                }
                _ => {}
            }
        }
    }

    /// The neighbourhood's first rank sizes and maps the object; the others map it at the same
    /// address if they can.
    fn map_segments(&self, sizes: &[usize]) -> std::io::Result<Mapping> {
        let leads = self.leads_nbrhd();
        let memory = self.job.segment_memory();
        let fd = memory.fd();
        let shape = TableShape {
            ranks: self.size as usize,
            key_bytes: self.abilities.segments.map_or(0, Segments::max_key_bytes),
        };
        let mut first = Ok(None);
        if leads {
            first = memory
                .resize(segment::total_bytes(sizes, shape))
                .and_then(|()| segment::map(fd, sizes, shape, None))
                .map(Some);
            // Without seals a neighbour that shrinks the memory harms the job; nothing of ours
            // does.
            memory.seal();
        }
        let announced = match &first {
            Ok(Some(mapping)) => mapping.base as u64,
            Ok(None) => 0,
            Err(_) => u64::MAX,
        };
        let leader = exchange_word(self, announced)[self.nbrhd.first() as usize];
        match first? {
            Some(mapping) => Ok(mapping),
            None if leader == u64::MAX => {
                let why = "the leader of the neighbourhood could not map them";
                Err(std::io::Error::other(why))
            }
            None => segment::map(fd, sizes, shape, Some(leader as usize)),
        }
    }

    /// Registers the segment with the conduit, on all ranks or on none, which only LARGE allows.
    /// Returns what the conduit has returned, and the keys of all ranks.
    fn register_everywhere(&self, base: usize, bytes: usize) -> Result<(Option<Registration>, Keys), Refusal> {
        let Some(segments) = self.abilities.segments else {
            return Ok((None, Keys::default()));
        };
        let registered = super::register(&self.abilities, &SegmentMemory::host(base, bytes));
        let own = registered.as_ref().ok().and_then(Option::as_ref);
        let keys = Keys::exchange(
            self,
            segments.max_key_bytes(),
            own.map(|registration| &registration.key[..]),
        );
        let registration = registered.map_err(|why| Refusal::Resource(why.message))?;
        let Some(rank) = keys.missing() else {
            return Ok((registration, keys));
        };
        if let Some(registration) = registration {
            thread::in_conduit(|| segments.deregister(registration.segment));
        }
        if Configuration::get() == Configuration::Large {
            return Ok((None, Keys::default()));
        }
        Err(Refusal::Resource(format!(
            "rank {rank} could not register its segment; see its message"
        )))
    }
}

/// The keys of all ranks' segments.
#[derive(Debug, Default)]
struct Keys {
    /// For each rank the length of its key, or [`Keys::MISSING`], and the key, padded.
    all: Vec<u8>,
    stride: usize,
}

impl Keys {
    const LENGTH: usize = size_of::<u32>();
    /// The length of a key that does not exist, because the registration failed.
    const MISSING: u32 = u32::MAX;

    /// All ranks' keys, of at most `most` bytes. Collective.
    fn exchange(rt: &Runtime, most: usize, own: Option<&[u8]>) -> Self {
        let length = own.map_or(Self::MISSING, |key| key.len() as u32);
        let mut entry = length.to_ne_bytes().to_vec();
        entry.extend(own.unwrap_or_default());
        assert!(
            entry.len() <= Self::LENGTH + most,
            "defect: a key of {length} bytes is longer than the conduit's limit, {most}"
        );
        entry.resize(Self::LENGTH + most, 0);
        Self {
            all: rt.job.exchange(&entry),
            stride: entry.len(),
        }
    }

    fn entry(entry: &[u8]) -> (u32, &[u8]) {
        let (length, key) = entry.split_at(Self::LENGTH);
        (u32::from_ne_bytes(length.try_into().unwrap_or_default()), key)
    }

    /// The first rank whose registration failed.
    fn missing(&self) -> Option<usize> {
        let mut lengths = self.all.chunks_exact(self.stride).map(|entry| Self::entry(entry).0);
        lengths.position(|length| length == Self::MISSING)
    }

    /// The key of `rank`; empty if segments have none.
    fn of(&self, rank: usize) -> &[u8] {
        let start = rank * self.stride;
        match self.all.get(start..start + self.stride) {
            None | Some([]) => &[],
            Some(entry) => {
                let (length, key) = Self::entry(entry);
                key.get(..length as usize).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_their_rank_or_none() {
        assert_eq!(Keys::default().of(0), b"");
        let entry = |length: u32, key: [u8; 3]| [&length.to_ne_bytes()[..], &key].concat();
        let keys = |entries: &[Vec<u8>]| Keys {
            all: entries.concat(),
            stride: 7,
        };
        let good = keys(&[entry(3, *b"abc"), entry(0, [0; 3]), entry(2, *b"de\0")]);
        assert_eq!(
            [good.of(0), good.of(1), good.of(2), good.of(3)],
            [b"abc", &b""[..], b"de", b""]
        );
        assert_eq!(good.missing(), None);
        assert_eq!(
            keys(&[entry(1, *b"a\0\0"), entry(Keys::MISSING, [0; 3])]).missing(),
            Some(1)
        );
    }
}
