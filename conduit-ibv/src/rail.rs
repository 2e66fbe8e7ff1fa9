//! An HCA that this process uses: its completion queue and its receive buffers.

use crate::receive::Receives;
use crate::settings::Settings;
use crate::verbs::{Channel, Context, Domain, Errno, Pair, PairSettings, Queue, Region, Shared, Wc};
use gasnet_sys::atomic::{Mutex, Ordering};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicI64;

/// Most completions that a poll takes at once.
pub const MOST: usize = 32;

/// An HCA.
pub struct Rail {
    /// Held while the queue is read.
    pub reader: Mutex<Reader>,
    /// Completions that the queue has room for, beside those of receives. None if it has room for
    /// those of all send queues.
    room: Option<Room>,
    pub receives: Receives,
    /// The receive queue of all peers, if it is shared.
    pub shared: Option<Shared>,
    pub queue: Queue,
    /// Wakes threads that sleep.
    pub channel: Option<Channel>,
    /// All memory of this process, if the HCA can page on demand.
    pub on_demand: Option<Region>,
    pub domain: Domain,
    pub context: Context,
    /// Work requests in a send queue.
    pub depth: usize,
    /// Bytes of inline data.
    pub inline: usize,
    /// Ports that have gone down, maybe only for a while.
    pub fallen: Mutex<Vec<u8>>,
    /// Ports that traffic has left, as was reported.
    pub left: Mutex<Vec<u8>>,
}

/// What the reader of a queue keeps.
#[derive(Default)]
pub struct Reader {
    /// Completions that a thread found when it was about to sleep.
    pub early: Vec<Wc>,
    /// Polls so far.
    pub polls: u32,
}

/// Of a cache line of its own, because all threads that send write it.
#[repr(align(64))]
struct Room(AtomicI64);

impl Rail {
    /// Prepares an HCA, with receive buffers for `peers`, to each of which there are so many queue
    /// pairs. `sleeps`: whether threads may sleep until it has something. The error says what
    /// failed.
    pub fn new(
        context: Context,
        settings: &Settings,
        (peers, pairs): (usize, usize),
        sleeps: bool,
    ) -> Result<Self, String> {
        let failed = |what: &'static str| move |why: Errno| format!("{what}: {why}");
        let device = context.attributes;
        let limit = |wanted: usize, device: i32| match usize::try_from(device) {
            Ok(most) if wanted == 0 || wanted > most => most,
            _ => wanted,
        };
        let domain = Domain::new(&context).map_err(failed("ibv_alloc_pd failed"))?;
        let each = limit(settings.receives_of_peer(), device.max_qp_wr);
        let owned = each * peers * pairs;
        let (each, buffers) = if device.max_srq > 0 && settings.shares(peers, owned) {
            (0, limit(settings.receives, device.max_srq_wr).max(4))
        } else {
            (each, owned)
        };
        if buffers >= device.max_cqe as usize {
            return Err(format!(
                "it has room for {} completions, but there are {buffers} receive buffers. Set GASNET_USE_SRQ=1, or \
                 lower GASNET_RBUF_COUNT",
                device.max_cqe
            ));
        }
        let sends = limit(settings.total_depth, device.max_cqe);
        let completions = limit(sends + buffers, device.max_cqe);
        let channel = sleeps.then(|| Channel::new(&context)).transpose();
        let channel = channel.map_err(failed("ibv_create_comp_channel failed"))?;
        let queue = Queue::new(&context, completions, channel.as_ref()).map_err(failed("ibv_create_cq failed"))?;
        let shared = (each == 0).then(|| Shared::new(&context, &domain, buffers)).transpose();
        let shared = shared.map_err(failed("ibv_create_srq failed"))?;
        let receives = Receives::new(buffers, each, settings.max_packet).map_err(failed("mmap failed"))?;
        let on_demand = (settings.on_demand && context.pages_on_demand())
            .then(|| domain.register_on_demand().ok())
            .flatten();
        let depth = 1 << limit(settings.depth, device.max_qp_wr).ilog2();
        let room = completions.saturating_sub(buffers).max(4);
        let has_enough = peers * pairs * depth <= room;
        let mut rail = Self {
            reader: Mutex::default(),
            room: (!has_enough).then(|| Room(AtomicI64::new(room as i64))),
            receives,
            shared,
            queue,
            channel,
            on_demand,
            domain,
            context,
            depth,
            inline: 0,
            fallen: Mutex::default(),
            left: Mutex::default(),
        };
        rail.inline = rail.largest_inline(settings.inline);
        Ok(rail)
    }

    /// The bytes of inline data that queue pairs take: as wanted, or the HCA's limit, which shows
    /// only when a pair is made.
    fn largest_inline(&self, wanted: Option<usize>) -> usize {
        /// More than HCAs take.
        const MOST: usize = 1 << 10;
        let mut bytes = wanted.unwrap_or(MOST);
        while bytes > 0 {
            if let Ok(pair) = self.pair(bytes, 0) {
                return wanted.map_or(pair.inline as usize, |wanted| wanted.min(pair.inline as usize));
            }
            bytes /= 2;
        }
        0
    }

    fn pair(&self, inline: usize, name: usize) -> Result<Pair, Errno> {
        let settings = PairSettings {
            sends: self.depth as u32,
            receives: self.receives.each() as u32,
            inline: inline as u32,
            name,
        };
        Pair::new(&self.context, &self.domain, &self.queue, self.shared.as_ref(), settings)
    }

    /// A queue pair that is not connected, and its name in events.
    pub fn new_pair(&self, name: usize) -> Result<Pair, Errno> {
        self.pair(self.inline, name)
    }

    /// Bytes of receive buffers that may be registered.
    pub fn buffer_bytes(&self) -> usize {
        self.receives.most_bytes()
    }

    /// Takes room for a completion in the queue.
    #[inline]
    pub fn take_room(&self) -> bool {
        let Some(room) = &self.room else { return true };
        if room.0.fetch_sub(1, Ordering::Relaxed) > 0 {
            return true;
        }
        self.return_room(1);
        false
    }

    /// Gives room back.
    #[inline]
    pub fn return_room(&self, completions: usize) {
        if let Some(room) = &self.room {
            room.0.fetch_add(completions as i64, Ordering::Relaxed);
        }
    }

    /// Takes completions.
    #[inline]
    pub fn completions<'a>(
        &self,
        reader: &mut Reader,
        room: &'a mut [MaybeUninit<Wc>; MOST],
    ) -> Result<&'a [Wc], Errno> {
        if reader.early.is_empty() {
            return self.queue.poll(room);
        }
        let early = std::mem::take(&mut reader.early);
        for (place, completion) in room.iter_mut().zip(&early) {
            place.write(*completion);
        }
        // SAFETY: so many were written; at most `MOST` are kept.
        Ok(unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), early.len()) })
    }

    /// Before a thread sleeps: makes the next completion an event. False if there is one already,
    /// which the next poll handles.
    pub fn arm(&self) -> bool {
        let Some(channel) = &self.channel else { return false };
        let Ok(mut reader) = self.reader.try_lock() else {
            return false;
        };
        // An event may also be that of a datagram.
        if channel.drain() || !reader.early.is_empty() || self.queue.arm().is_err() {
            return false;
        }
        let mut room = [const { MaybeUninit::uninit() }; MOST];
        if let Ok(found) = self.queue.poll(&mut room) {
            reader.early.extend_from_slice(found);
        }
        reader.early.is_empty()
    }
}
