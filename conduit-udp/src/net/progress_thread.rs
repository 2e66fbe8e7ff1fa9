//! The keeper: a thread that does what time asks for while the client does something else.
//!
//! While the client polls, the keeper sees to it that requests which wait for company ([`super::coalesce`]) go soon, and sleeps otherwise. While the client
//! computes, the keeper takes in what comes: it acknowledges, repeats what was lost, places puts and answers gets, and keeps packets for the next poll;
//! handlers never run on it. While the client sleeps elsewhere, it wakes it when something comes.
#![forbid(unsafe_code)]

use super::receive::{Context, Wanted};
use super::{lock, Deferred, Net};
use crate::sys::Bell;
use gasnet_conduit::{Class, JobRank, TransferId, Upcalls};
use gasnet_sys::{process, signal};
use std::io;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

/// How long requests that wait for company see none come, at most, before they go; longer while the client adds to them.
const COMPANY: Duration = Duration::from_micros(100);
const MOST_COMPANY: Duration = Duration::from_millis(1);
/// After so many looks that found none waiting, it is told of the next one.
const LOOKS: u32 = 4;
/// How often it looks whether the client still polls; a client that has not done so for that long computes. Where processes share cores, each waits for
/// its own for longer.
const TICK: Duration = Duration::from_millis(5);
/// How long it sleeps at most: others may look whether this host answers.
const MOST: Duration = Duration::from_millis(200);
/// How long it lets the client that it has woken alone.
const WOKEN: Duration = Duration::from_millis(1);
/// What it needs beside its buffers.
const STACK: usize = 256 << 10;

/// What the client does: it polls now and then; it sleeps, and what comes wakes it; it sleeps, and has to be woken.
const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const TO_BE_WOKEN: u8 = 2;

/// What the client and the keeper know of each other.
#[derive(Debug)]
pub struct Keeper {
    bell: Bell,
    tick: Duration,
    /// Whether there is one.
    here: AtomicBool,
    client: AtomicU8,
    /// When the client last polled.
    polled: AtomicU64,
    wake: Mutex<Option<fn()>>,
    /// Whether it looks soon without being told.
    near: AtomicBool,
    /// Whether it sleeps where what comes wakes it.
    watching: AtomicBool,
    /// Whether it takes in what has come.
    serving: AtomicBool,
}

impl Keeper {
    /// Nobody yet. So many processes share this host.
    pub fn new(processes: u32) -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Ok(Self {
            bell: Bell::new()?,
            tick: TICK * processes.div_ceil(cores).max(1),
            here: AtomicBool::new(false),
            client: AtomicU8::new(AWAKE),
            polled: AtomicU64::new(0),
            wake: Mutex::new(None),
            near: AtomicBool::new(false),
            watching: AtomicBool::new(false),
            serving: AtomicBool::new(false),
        })
    }

    /// Whether there is one.
    pub fn is_here(&self) -> bool {
        self.here.load(Relaxed)
    }

    /// The client polls, at `now`.
    pub fn note_poll(&self, now: u64) {
        self.polled.store(now, Relaxed);
        if self.client.load(Relaxed) != AWAKE {
            self.client.store(AWAKE, Relaxed);
        }
    }

    /// Whether the client has polled so lately that it needs nobody to look after its peers.
    fn has_polled(&self, now: u64) -> bool {
        now < self.polled.load(Relaxed) + self.tick.as_nanos() as u64
    }

    /// Something is under way, since `now`. Who computes has a keeper that knows of it.
    pub fn note_work(&self, now: u64) {
        if self.watching.load(Relaxed) && !self.has_polled(now) {
            self.bell.ring();
        }
    }

    /// The client sleeps where what comes wakes it.
    pub fn note_sleep(&self) {
        self.client.store(ASLEEP, SeqCst);
    }

    /// It does not, after all.
    pub fn note_awake(&self) {
        self.client.store(AWAKE, Relaxed);
    }

    /// Whether it takes in what has come, and may not know that the client sleeps.
    pub fn is_serving(&self) -> bool {
        self.serving.load(SeqCst)
    }

    /// Something waits for company.
    pub fn note_held(&self) {
        fence(SeqCst);
        if !self.near.load(Relaxed) && !self.near.swap(true, SeqCst) {
            self.bell.ring();
        }
    }

    /// Until the next poll the client is to be woken when something comes.
    pub fn watch(&self, wake: fn()) {
        *lock(&self.wake) = Some(wake);
        self.client.store(TO_BE_WOKEN, SeqCst);
        if !self.watching.load(SeqCst) {
            self.bell.ring();
        }
        fence(SeqCst);
    }

    /// The end: it looks, and goes.
    pub fn dismiss(&self) {
        self.bell.ring();
    }
}

/// What the keeper has to itself.
struct Own {
    context: Context,
    /// Looks in a row that found nothing waiting for company.
    idle: u32,
    /// Requests that had waited at the last look, and how long it sleeps before the next one.
    held: u32,
    pause: Duration,
}

/// Nothing is delivered on this thread: packets are kept, and news of transfers is.
struct Nobody;

impl Upcalls for Nobody {
    fn packet(&mut self, source: JobRank, class: Class, _packet: &mut [u8]) {
        unreachable!("defect: a {class:?} packet of rank {source} was delivered by the keeper");
    }
    fn rma_done(&mut self, id: TransferId) {
        unreachable!("defect: transfer {id:?} was completed by the keeper");
    }
    fn peer_lost(&mut self, _peer: JobRank, _why: &str) {}
}

impl Net {
    /// Starts the keeper, if the system lets it. It goes with the network.
    pub fn start_keeper(net: &Arc<Self>) {
        let own = Arc::downgrade(net);
        // Signals are the client's.
        let mask = signal::block_all();
        let started = thread::Builder::new()
            .name("gasnet-udp".into())
            .stack_size(STACK)
            .spawn(move || keep(&own));
        signal::set_mask(&mask);
        net.keeper.here.store(started.is_ok(), Relaxed);
        if started.is_ok() {
            process::count_own_thread();
        }
        if let Err(why) = started {
            gasnet_conduit::warn(format_args!(
                "The udp conduit cannot start a thread: {why}. While this rank computes it answers nobody."
            ));
        }
    }

    /// Does what is due. Returns how long to sleep, and whether what comes shall end that.
    fn tend(&self, own: &mut Own) -> (Duration, bool) {
        let keeper = &self.keeper;
        let soon = if keeper.near.load(Relaxed) {
            self.look_at_held(own)
        } else {
            None
        };
        let (pause, watches) = match (keeper.client.load(SeqCst), keeper.has_polled(self.now())) {
            // It may have seen what was kept, or not; and slept since, or not.
            (TO_BE_WOKEN, true) if self.has_kept() => {
                self.wake_client();
                (WOKEN, true)
            }
            // What is due the client does itself, if it polls before it computes.
            (TO_BE_WOKEN, true) => (keeper.tick.min(MOST), true),
            (_, true) => (keeper.tick, false),
            // Also one that adds to what waits all the time: others wait for it. And one whose sleep has ended without a poll.
            (_, false) => {
                keeper.serving.store(true, SeqCst);
                // Who polls and sleeps meanwhile sees that, or is seen here.
                let is_asleep = keeper.client.load(SeqCst) == ASLEEP && keeper.has_polled(self.now());
                let pause = if is_asleep { keeper.tick } else { self.serve(own) };
                keeper.serving.store(false, SeqCst);
                (pause, !is_asleep)
            }
        };
        (soon.map_or(pause, |soon| soon.min(pause)), watches)
    }

    /// Sends what waits for company if that does not come. Returns how long to sleep before the next look; none: there is no need for another.
    fn look_at_held(&self, own: &mut Own) -> Option<Duration> {
        let count = self.held.count();
        let is_new = std::mem::replace(&mut own.held, count) != count;
        if is_new {
            (own.idle, own.pause) = (0, (2 * own.pause).clamp(COMPANY, MOST_COMPANY));
            return Some(own.pause);
        }
        self.send_held();
        own.idle += 1;
        own.pause = COMPANY;
        if own.idle < LOOKS {
            return Some(MOST_COMPANY);
        }
        own.idle = 0;
        self.keeper.near.store(false, SeqCst);
        // Who added one before that has not rung; the other side has such a fence, too.
        fence(SeqCst);
        self.holds().then(|| {
            self.keeper.near.store(true, SeqCst);
            COMPANY
        })
    }

    /// Takes in what has come for a client that computes. Returns how long nothing is due.
    fn serve(&self, own: &mut Own) -> Duration {
        if self.has_errors.load(Relaxed) && self.has_errors.swap(false, Relaxed) {
            self.hear_errors();
        }
        let mut none = 0;
        let now = self.receive(Wanted::Nothing, &mut own.context, &mut none, &mut Nobody);
        if now >= self.next_look.load(Relaxed) {
            self.look(now);
        }
        if now >= self.next_beat.load(Relaxed) {
            self.beat(now);
        }
        // It may have begun to sleep before these were kept; or sees them.
        fence(SeqCst);
        if self.has_kept() {
            self.wake_client();
        }
        let next = self.next_look.load(Relaxed).min(self.next_beat.load(Relaxed));
        // A look each so often is enough for what waits for nobody.
        Duration::from_nanos(next.saturating_sub(now)).clamp(WOKEN, MOST)
    }

    /// Whether something waits for the client's next poll.
    fn has_kept(&self) -> bool {
        self.has_finished.load(Relaxed) || !self.deferred.iter().all(Deferred::is_empty)
    }

    fn wake_client(&self) {
        let wake = *lock(&self.keeper.wake);
        if let Some(wake) = wake.filter(|_| self.keeper.client.load(SeqCst) == TO_BE_WOKEN) {
            wake();
        }
    }
}

fn keep(net: &Weak<Net>) {
    let mut own = Own {
        context: Context::new(),
        idle: 0,
        held: 0,
        pause: COMPANY,
    };
    while let Some(net) = net.upgrade() {
        if net.stopped.load(Relaxed) {
            return;
        }
        let (limit, watches) = net.tend(&mut own);
        let keeper = &net.keeper;
        keeper.watching.store(watches, SeqCst);
        // Who began to sleep meanwhile has seen that nobody watches, and rung; or is seen here.
        let to_be_woken = keeper.client.load(SeqCst) == TO_BE_WOKEN;
        let socket = (watches || to_be_woken).then(|| net.fd());
        let has_come = keeper.bell.wait(socket, limit);
        keeper.watching.store(false, SeqCst);
        if has_come && keeper.client.load(SeqCst) == TO_BE_WOKEN {
            net.wake_client();
            keeper.bell.wait(None, WOKEN);
        }
    }
}
