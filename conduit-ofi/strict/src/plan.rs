//! The text of `STRICT_PLAN`, parsed: capabilities withheld, demands made, errors injected.
#![forbid(unsafe_code)]

use crate::{ffi, profiles};
use emulator_common::damage::Damage;
use std::str::FromStr;

/// [`Plan::lacks`]: the queue has no wait object.
pub const WAIT_FD: u64 = 1 << 62;
/// [`Plan::lacks`]: there is no atomic product.
pub const ATOMIC_PROD: u64 = 1 << 63;
/// [`Plan::lacks`]: the value that an atomic read fetches (shm 1.20.0 to 1.21.0, also below efa).
pub const ATOMIC_READ: u64 = 1 << 54;
/// [`Plan::lacks`]: memory that is not writable is not registered, neither by the user nor by a call
/// (cxi before 2025-04, verbs;ofi_rxm).
pub const READ_ONLY: u64 = 1 << 61;
/// [`Plan::lacks`]: the length in the record of a message that was cut off (tcp, shm, efa).
pub const CUT_LENGTH: u64 = 1 << 60;
/// [`Plan::lacks`]: nothing that arrives makes the descriptor of a queue readable (psm2, psm3, ucx).
pub const WAKES: u64 = 1 << 59;
/// [`Plan::lacks`]: a queue has no descriptor, whatever it was opened with (opx).
pub const GET_WAIT: u64 = 1 << 57;
/// [`Plan::lacks`]: flags in the record of an error (verbs).
pub const ERROR_FLAGS: u64 = 1 << 56;
/// [`Plan::lacks`]: the completion of an injected put (ofi_rxd).
pub const INJECT_ENTRIES: u64 = 1 << 55;
/// [`Plan::lacks`]: the error of an injected message (ofi_rxm).
pub const INJECT_ERRORS: u64 = 1 << 58;
/// [`Plan::demands`]: a bit of `mode` that nobody knows.
pub const UNKNOWN: u64 = 1 << 41;
/// [`Plan::demands`]: `FI_MR_SCALABLE`, which nobody has to know (opx up to 2.5.1).
pub const SCALABLE: u64 = 1 << 42;
/// [`Plan::demands`]: an address vector of type `FI_AV_MAP`, as the record has it (opx up to 1.17).
pub const AV_MAP: u64 = 1 << 43;
/// [`Plan::demands`]: as [`THREAD_DOMAIN`], though the record has what the hints have (ucx).
pub const ONE_THREAD: u64 = 1 << 44;
/// [`Plan::demands`]: `FI_CONTEXT2`, though the record does not have it (ucx).
pub const HIDDEN_CONTEXT: u64 = 1 << 45;
/// [`Plan::demands`]: `FI_ASYNC_IOV`: lists of buffers are kept until completion (opx).
const ASYNC_IOV: u64 = 1 << 57;
/// [`Plan::demands`]: one thread at a time is inside a domain.
pub const THREAD_DOMAIN: u64 = 1 << 40;

/// `prov_errno` of injected errors, if a plan names none.
pub const INJECTED: i32 = 4242;

/// Names of [`Plan::lacks`]. Most are bits of capabilities or of operation flags.
const LACKS: &[(&str, u64)] = &[
    ("msg", ffi::FI_MSG as u64),
    ("multi_recv", ffi::FI_MULTI_RECV as u64),
    ("rma", ffi::FI_RMA as u64),
    ("atomic", ffi::FI_ATOMIC as u64),
    ("remote_cq_data", ffi::FI_REMOTE_CQ_DATA as u64),
    ("delivery_complete", ffi::FI_DELIVERY_COMPLETE as u64),
    ("wait_fd", WAIT_FD),
    ("atomic_prod", ATOMIC_PROD),
    ("atomic_read", ATOMIC_READ),
    ("read_only", READ_ONLY),
    ("cut_length", CUT_LENGTH),
    ("get_wait", GET_WAIT),
    ("wakes", WAKES),
    ("inject_entries", INJECT_ENTRIES),
    ("inject_errors", INJECT_ERRORS),
    ("error_flags", ERROR_FLAGS),
];

/// Names of [`Plan::demands`]. Most are bits of `mr_mode` or `mode`.
const DEMANDS: &[(&str, u64)] = &[
    ("mr_local", ffi::FI_MR_LOCAL as u64),
    ("mr_raw", ffi::FI_MR_RAW as u64),
    ("mr_virt_addr", ffi::FI_MR_VIRT_ADDR as u64),
    ("mr_allocated", ffi::FI_MR_ALLOCATED as u64),
    ("mr_prov_key", ffi::FI_MR_PROV_KEY as u64),
    ("mr_endpoint", ffi::FI_MR_ENDPOINT as u64),
    ("mr_hmem", ffi::FI_MR_HMEM as u64),
    ("mr_scalable", SCALABLE),
    ("av_map", AV_MAP),
    ("context", ffi::FI_CONTEXT),
    ("context2", ffi::FI_CONTEXT2),
    ("async_iov", ASYNC_IOV),
    ("hidden_context", HIDDEN_CONTEXT),
    ("thread_domain", THREAD_DOMAIN),
    ("one_thread", ONE_THREAD),
    ("unknown", UNKNOWN),
];

/// Names of flags of calls.
const FLAGS: &[(&str, u64)] = &[
    ("completion", ffi::FI_COMPLETION as u64),
    ("delivery_complete", ffi::FI_DELIVERY_COMPLETE as u64),
    ("inject", ffi::FI_INJECT as u64),
    ("multi_recv", ffi::FI_MULTI_RECV as u64),
    ("remote_cq_data", ffi::FI_REMOTE_CQ_DATA as u64),
];

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `fi_send`, `fi_inject`.
    Send,
    /// `fi_writemsg`.
    Put,
    /// `fi_readmsg`.
    Get,
    /// An atomic that fetches.
    Atomic,
    /// A posted receive, and a message that arrives in it.
    Receive,
    /// `fi_cq_read`.
    Queue,
    /// `fi_av_insert`.
    Address,
}

/// Names of [`Kind`], in its order.
const KINDS: [(&str, Kind); 7] = [
    ("send", Kind::Send),
    ("put", Kind::Put),
    ("get", Kind::Get),
    ("atomic", Kind::Atomic),
    ("receive", Kind::Receive),
    ("cq", Kind::Queue),
    ("insert", Kind::Address),
];

/// When the minimum of receive buffers for many messages must be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Minimum {
    /// At any time before the first buffer is posted.
    #[default]
    Ever,
    /// Before the endpoint is enabled; later it has no effect.
    Early,
    /// After the endpoint is enabled; earlier there is no receive context.
    Late,
}

/// Names of [`Minimum`].
const MINIMUMS: [(&str, Minimum); 2] = [("early", Minimum::Early), ("late", Minimum::Late)];

/// End of a receive buffer for many messages, after its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// As the provider underneath has it.
    #[default]
    Real,
    /// The message that completes last has the flag, whatever its place in the buffer.
    Any,
    /// A completion without a message.
    Bare,
    /// The same, with the bytes that are left and their address.
    Left,
    /// The message that is last in the buffer has the flag, even if it completes before others.
    Early,
    /// An error: the rest of the buffer was canceled.
    Canceled,
    /// An error: a message of unknown length was too long for the rest of the buffer.
    Truncated,
}

/// Names of [`End`].
const ENDS: [(&str, End); 6] = [
    ("any", End::Any),
    ("bare", End::Bare),
    ("left", End::Left),
    ("early", End::Early),
    ("canceled", End::Canceled),
    ("truncated", End::Truncated),
];

/// Subject of an error that concerns no operation of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// Nothing.
    None,
    /// Something of the provider's own.
    Foreign,
}

/// Names of [`Stray`].
const STRAYS: [(&str, Stray); 2] = [("none", Stray::None), ("foreign", Stray::Foreign)];

/// Number of kinds.
pub const KIND_COUNT: usize = KINDS.len();

/// An operation: of this kind, counted from 1 in each domain.
pub type Fault = (Kind, u64);

/// A plan. Everything absent is as the provider has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The name that the provider pretends to have.
    pub name: Option<String>,
    /// Its version in libfabric's form, if it differs.
    pub version: Option<u32>,
    /// When the minimum of receive buffers is set.
    pub minimum: Minimum,
    /// End of receive buffers.
    pub end: End,
    /// Bytes that each message takes in such a buffer beside its own, which are rounded up. Nobody
    /// checks that both fit.
    pub header: usize,
    /// The message that is cut off, counted as for `fail`.
    pub cut: Option<u64>,
    /// Bytes of the record of an error, if they are more than in 1.17.
    pub record: usize,
    /// Abilities that the provider lacks.
    pub lacks: u64,
    /// Demands of the provider.
    pub demands: u64,
    /// Most bytes of an injected message.
    pub inject: Option<usize>,
    /// Most bytes of an operation.
    pub max_msg: Option<usize>,
    /// Most operations under way, receives aside, before calls return `-FI_EAGAIN`.
    pub tx: Option<usize>,
    /// Most receives posted, likewise.
    pub rx: Option<usize>,
    /// Bytes of a key.
    pub key_bytes: Option<usize>,
    /// Flags that calls refuse with `-FI_EBADFLAGS`, whatever the record offers (cxi).
    pub bad_flags: u64,
    /// Flags that the provider knows in `fi_writemsg`, `fi_readmsg`, `fi_recvmsg`. Others break a
    /// rule.
    pub put_flags: Option<u64>,
    pub get_flags: Option<u64>,
    pub receive_flags: Option<u64>,
    /// Errors of operations that fail, as numbers of libfabric and of the provider; the seed picks
    /// one.
    pub errors: Vec<(u32, i32)>,
    /// Percentage of messages and puts that start at a later read of the queue, puts in two parts,
    /// of which the last arrives first.
    pub unordered: u64,
    /// Another record precedes the provider's, of the same name, without receive buffers for many
    /// messages and without atomics (efa-direct). No user should open it.
    pub has_twin: bool,
    /// A fork of the process ends it (efa without support of forks).
    pub fork_aborts: bool,
    /// Milliseconds that the first call for a peer blocks (psm2, psm3).
    pub first_call: u64,
    /// The newest interface that the provider has, as (major << 16 | minor), if the library has
    /// newer ones (those of vendors).
    pub interface: Option<u32>,
    /// Bytes of the data that a put carries.
    pub cq_data: Option<usize>,
    /// Percentage of operations that are refused with `-FI_EAGAIN`.
    pub eagain: u64,
    /// Reads of the queue after the first operation for a peer until one is taken: the provider
    /// connects, or waits for a handshake.
    pub connect: u64,
    /// Percentage of registrations that are refused with `-FI_ENOKEY`.
    pub enokey: u64,
    /// Percentage of registrations that are refused with `-FI_EAGAIN`.
    pub reg_eagain: u64,
    /// Percentage of completions that a read does not return yet; the others come in any order.
    pub late: u64,
    /// Most regions.
    pub regs: Option<usize>,
    /// The operation that completes with an error. For a receive it is a message that arrives.
    pub fail: Option<Fault>,
    /// One message in N claims to have a number of bytes, as one of an unauthenticated peer may.
    /// In a buffer of many, only those that end it do so, unless `end` is `bare`.
    pub claim: Option<(u64, u64)>,
    /// The completion of one message in N has this address.
    pub place: Option<(u64, u64)>,
    /// One message in N has `FI_MULTI_RECV` from its sender.
    pub flag: Option<u64>,
    /// One message in N breaks off: an error instead of a completion. In a buffer of many,
    /// as for `claim`.
    pub broken: Option<u64>,
    /// Of one message in N the peer sends half, which is reported as cut off. Likewise.
    pub short: Option<u64>,
    /// One message in N has no bytes, though its length says otherwise: a buffer for one message
    /// keeps what it had.
    pub stale: Option<u64>,
    /// The byte at this offset of one message in N has this value, as a corrupted rank may send it.
    pub byte: Option<(usize, u8, u64)>,
    /// An error of no operation comes beside one message in N.
    pub stray: Option<(Stray, u64)>,
    /// Puts and gets of some lengths whose last byte arrives with other bits.
    pub damage: Vec<Damage<Kind>>,
    /// Puts from pages that have moved since the first put send zeros: a cache of registrations
    /// that misses their ends.
    pub stale_pages: bool,
    /// The operation whose completion is lost, counted among the completions of its kind.
    pub lost: Option<Fault>,
    /// One atomic that fetches in N changes nothing.
    pub lost_update: Option<u64>,
    /// The call that returns an error.
    pub refuse: Option<Fault>,
    /// Start of the random numbers.
    pub seed: u64,
}

impl Plan {
    /// Whether the provider lacks something.
    pub fn lacks(&self, what: u64) -> bool {
        self.lacks & what != 0
    }

    /// Whether it demands something.
    pub fn demands(&self, what: u64) -> bool {
        self.demands & what != 0
    }

    /// Demands of registration.
    pub fn mr_mode(&self) -> u64 {
        self.demands & 0xffff
    }

    /// The error of an operation that fails: libfabric's number, and the provider's.
    pub fn error(&self) -> (u32, i32) {
        let count = self.errors.len().max(1) as u64;
        let error = self.errors.get((self.seed % count) as usize);
        error.copied().unwrap_or((ffi::FI_EIO, INJECTED))
    }

    /// Whether an error of the provider is injected.
    pub fn injects(&self, provider: i32) -> bool {
        provider == INJECTED || self.errors.iter().any(|error| error.1 == provider)
    }

    /// Demands on contexts and lists of buffers.
    pub fn mode(&self) -> u64 {
        self.demands & (ffi::FI_CONTEXT | ffi::FI_CONTEXT2 | ASYNC_IOV)
    }
}

/// The bits of a list of names.
fn bits(table: &[(&str, u64)], list: &str) -> Result<u64, String> {
    list.split(',').try_fold(0, |all, name| Ok(all | named(table, name)?))
}

/// The entry of a table with this name.
fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Result<T, String> {
    let entry = table.iter().find(|entry| entry.0 == name);
    entry.map(|entry| entry.1).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|entry| entry.0).collect();
        format!("'{name}' is not known; choices: {}", names.join(", "))
    })
}

/// The number of a provider of version "1.19.1" of libfabric.
fn version(text: &str) -> Option<u32> {
    let numbers: Vec<u32> = text.split('.').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    match numbers[..] {
        [major, minor, patch] => Some(((100 * major + minor) << 16) | (10 * patch)),
        _ => None,
    }
}

/// The errors of a list "113:2,107:25".
fn errors(list: &str) -> Option<Vec<(u32, i32)>> {
    let error = |pair: &str| {
        let (errno, provider) = pair.split_once(':')?;
        Some((errno.parse().ok()?, provider.parse().ok()?))
    };
    list.split(',').map(error).collect()
}

impl Plan {
    /// Reads words, of which later ones take precedence.
    fn add(&mut self, text: &str) -> Result<(), String> {
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' has no '='"))?;
            let number = |text: &str| text.parse::<u64>().map_err(|why| format!("'{word}': {why}"));
            let size = || number(value).map(|bytes| Some(bytes as usize));
            let fault = || {
                let (name, count) = value.split_once('@').ok_or_else(|| format!("'{word}' has no '@'"))?;
                Ok::<_, String>(Some((named(&KINDS, name)?, number(count)?)))
            };
            let pair = || {
                let (name, every) = value.split_once('@').ok_or_else(|| format!("'{word}' has no '@'"))?;
                Ok::<_, String>((name, number(every)?.max(1)))
            };
            match key {
                "profile" => self.add(named(profiles::ALL, value)?)?,
                "as" => self.name = Some(value.to_owned()),
                "version" => self.version = Some(version(value).ok_or_else(|| format!("'{word}': no version"))?),
                "minimum" => self.minimum = named(&MINIMUMS, value)?,
                "end" => self.end = named(&ENDS, value)?,
                "header" => self.header = number(value)? as usize,
                "cut" => self.cut = Some(number(value)?),
                "record" => self.record = number(value)? as usize,
                "no" => self.lacks = bits(LACKS, value)?,
                "bad_flags" => self.bad_flags = bits(FLAGS, value)?,
                "put_flags" => self.put_flags = Some(bits(FLAGS, value)?),
                "get_flags" => self.get_flags = Some(bits(FLAGS, value)?),
                "receive_flags" => self.receive_flags = Some(bits(FLAGS, value)?),
                "errors" => self.errors = errors(value).ok_or_else(|| format!("'{word}': no errors"))?,
                "unordered" => self.unordered = number(value)?,
                "twin" => self.has_twin = number(value)? != 0,
                "fork_aborts" => self.fork_aborts = number(value)? != 0,
                "first_call" => self.first_call = number(value)?,
                "demand" => self.demands = bits(DEMANDS, value)?,
                "inject" => self.inject = size()?,
                "max_msg" => self.max_msg = size()?,
                "tx" => self.tx = size()?,
                "rx" => self.rx = size()?,
                "key_bytes" => self.key_bytes = size()?,
                "cq_data" => self.cq_data = size()?,
                "eagain" => self.eagain = number(value)?,
                "connect" => self.connect = number(value)?,
                "enokey" => self.enokey = number(value)?,
                "reg_eagain" => self.reg_eagain = number(value)?,
                "late" => self.late = number(value)?,
                "seed" => self.seed = number(value)?,
                "interface" => self.interface = Some(1 << 16 | number(value)? as u32),
                "regs" => self.regs = size()?,
                "fail" => self.fail = fault()?,
                "claim" => self.claim = Some((number(pair()?.0)?, pair()?.1)),
                "place" => self.place = Some((number(pair()?.0)?, pair()?.1)),
                "flag" => self.flag = Some(number(value)?.max(1)),
                "broken" => self.broken = Some(number(value)?.max(1)),
                "short" => self.short = Some(number(value)?.max(1)),
                "stale" => self.stale = Some(number(value)?.max(1)),
                "byte" => {
                    let (byte, every) = pair()?;
                    let (at, value) = byte.split_once(':').ok_or_else(|| format!("'{word}' has no ':'"))?;
                    self.byte = Some((number(at)? as usize, number(value)? as u8, every));
                }
                "stray" => self.stray = Some((named(&STRAYS, pair()?.0)?, pair()?.1)),
                "damage" => {
                    let kinds = [("put", Kind::Put), ("get", Kind::Get)];
                    let damage = Damage::parse(value, &kinds).map_err(|why| format!("'{word}': {why}"))?;
                    self.damage.push(damage);
                }
                "stale_pages" => self.stale_pages = number(value)? != 0,
                "lost" => self.lost = fault()?,
                "lost_update" => self.lost_update = Some(number(value)?.max(1)),
                "refuse" => self.refuse = fault()?,
                _ => return Err(format!("'{word}' is not known")),
            }
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self::default();
        plan.add(text)?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_parsed() {
        let plan: Plan = "no=rma,wait_fd demand=mr_local,context2 inject=0 eagain=30 fail=put@3 seed=7"
            .parse()
            .unwrap();
        let expected = Plan {
            lacks: u64::from(ffi::FI_RMA) | WAIT_FD,
            demands: u64::from(ffi::FI_MR_LOCAL) | ffi::FI_CONTEXT2,
            inject: Some(0),
            eagain: 30,
            fail: Some((Kind::Put, 3)),
            seed: 7,
            ..Plan::default()
        };
        assert_eq!(plan, expected);
        assert_eq!(
            (plan.mr_mode(), plan.mode()),
            (u64::from(ffi::FI_MR_LOCAL), ffi::FI_CONTEXT2)
        );
        let plan: Plan = "as=efa version=1.19.1 minimum=late end=bare header=192 cut=2 record=128 lost=get@3"
            .parse()
            .unwrap();
        let expected = Plan {
            name: Some("efa".into()),
            version: super::version("1.19.1"),
            minimum: Minimum::Late,
            end: End::Bare,
            header: 192,
            cut: Some(2),
            lost: Some((Kind::Get, 3)),
            record: 128,
            ..Plan::default()
        };
        assert_eq!(plan, expected);
        let plan: Plan = "claim=1099511627775@2 place=1@3 flag=4 broken=5 stray=foreign@6 short=7 stale=8 byte=14:9@2"
            .parse()
            .unwrap();
        let expected = Plan {
            claim: Some((0xff_ffff_ffff, 2)),
            place: Some((1, 3)),
            flag: Some(4),
            broken: Some(5),
            stray: Some((Stray::Foreign, 6)),
            short: Some(7),
            stale: Some(8),
            byte: Some((14, 9, 2)),
            ..Plan::default()
        };
        assert_eq!(plan, expected);
        let plan: Plan = "errors=113:2,107:-25 seed=3 put_flags=inject,completion"
            .parse()
            .unwrap();
        assert_eq!(plan.error(), (107, -25));
        assert!(plan.injects(2) && plan.injects(INJECTED) && !plan.injects(3));
        assert_eq!(plan.put_flags, Some(u64::from(ffi::FI_INJECT | ffi::FI_COMPLETION)));
        for wrong in [
            "end=x",
            "version=1.19",
            "no",
            "no=x",
            "demand=rma",
            "inject=-1",
            "fail=put",
            "fail=x@1",
            "x=1",
            "claim=7",
            "byte=1@2",
            "stray=x@1",
            "damage=send:1",
            "errors=5",
            "lost=put",
        ] {
            assert!(wrong.parse::<Plan>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn kinds_are_in_order() {
        assert!(KINDS
            .iter()
            .enumerate()
            .all(|(index, (_, kind))| *kind as usize == index));
    }
}
