//! A rank's connection to the launcher.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::code;
use crate::protocol::{decode_answer, Layout, Request, FRAME_MAX};
use crate::words::Words;

/// The number of the first node, as the library names nodes. Not 0, so that nobody takes it for an
/// index.
const FIRST_NID: i32 = 100;

/// A rank that has joined its job.
#[derive(Debug)]
pub struct Rank {
    /// Its number.
    pub number: u32,
    /// The job.
    pub layout: Layout,
    /// By rank: the number of its node.
    pub nids: Vec<i32>,
    stream: Mutex<UnixStream>,
    has_left: AtomicBool,
    process: u32,
}

static RANK: OnceLock<Rank> = OnceLock::new();

/// Prints a message of the emulator.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "emulator of PMI: {message}");
}

/// Joins the job, at the first call.
pub fn join() -> Result<&'static Rank, i32> {
    if RANK.get().is_some() {
        return current();
    }
    let rank = connect().map_err(|why| {
        complain(&why);
        code::FAIL
    })?;
    // A second thread's connection would be refused by the launcher.
    Ok(RANK.get_or_init(|| rank))
}

fn connect() -> Result<Rank, String> {
    let Some((at, rank)) = Words::of_environment()?.place else {
        return Err("this process was not started by its aprun or srun".into());
    };
    let stream = SocketAddr::from_abstract_name(&at).and_then(|address| UnixStream::connect_addr(&address));
    let stream = stream.map_err(|why| format!("rank {rank} cannot connect to the launcher: {why}"))?;
    let mut joined = Rank {
        number: rank,
        layout: Layout::default(),
        nids: Vec::new(),
        stream: Mutex::new(stream),
        has_left: AtomicBool::new(false),
        process: std::process::id(),
    };
    let answer = joined.call(&Request::Join(rank));
    let bytes = answer.map_err(|_| format!("rank {rank} has joined before, or has ended"))?;
    joined.layout = Layout::decode(&bytes).ok_or("the launcher's answer is malformed")?;
    joined.nids = joined
        .layout
        .nodes
        .iter()
        .map(|&node| FIRST_NID + node as i32)
        .collect();
    Ok(joined)
}

/// Whether this process has joined, and has not left.
pub fn is_initialised() -> bool {
    RANK.get()
        .is_some_and(|rank| rank.process == std::process::id() && !rank.has_left.load(Ordering::Acquire))
}

/// This process's rank, if it may make calls.
pub fn current() -> Result<&'static Rank, i32> {
    let rank = RANK.get().ok_or(code::ERR_INIT)?;
    if rank.process != std::process::id() {
        complain(&format!("a forked child of rank {} calls the library", rank.number));
        return Err(code::ERR_INIT);
    }
    if rank.has_left.load(Ordering::Acquire) {
        return Err(code::ERR_INIT);
    }
    Ok(rank)
}

impl Rank {
    /// Sends a request, and waits for its answer. The error is a code of the library.
    pub fn call(&self, request: &Request) -> Result<Vec<u8>, i32> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        match exchange(&mut stream, &request.encode()) {
            Ok((code::SUCCESS, bytes)) => Ok(bytes),
            Ok((code, _)) => Err(code),
            Err(why) => {
                complain(&format!("rank {}: the launcher does not answer: {why}", self.number));
                Err(code::FAIL)
            }
        }
    }

    /// Makes no calls any more.
    pub fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
    }
}

fn exchange(stream: &mut UnixStream, request: &[u8]) -> io::Result<(i32, Vec<u8>)> {
    stream.write_all(request)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_ne_bytes(length) as usize;
    if length > FRAME_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let (code, bytes) = decode_answer(&body).ok_or(io::ErrorKind::InvalidData)?;
    Ok((code, bytes.to_vec()))
}
