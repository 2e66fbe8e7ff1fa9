//! The start of jobs without a launcher, for tests of [`gasnet_conduit::Bootstrap`]: the starter of
//! the processes sets `GASNET_LOOP_BOOTSTRAP=name:rank:size` for each, with a name that is new on
//! this host. The processes meet at an abstract socket of rank 0, which gathers.
#![forbid(unsafe_code)]

use crate::random::setting;
use gasnet_conduit::config::{text, Key};
use gasnet_conduit::{Bootstrap, BootstrapPlace, ConduitError};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::{fd, lock};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

pub const BOOTSTRAP: Key<Option<String>> = text(
    "GASNET_LOOP_BOOTSTRAP",
    "name:rank:size: the processes are started by a test, not by a launcher.",
)
.ours();

/// Longest time that a process may come later than others.
const LATE: Duration = Duration::from_secs(60);

/// The place of this process among those that meet.
#[derive(Debug)]
pub struct Meeting {
    /// In place of the variable, in tests of this crate.
    text: Option<String>,
    /// Connections to all others, at rank 0; at others, one to rank 0.
    streams: Mutex<Vec<UnixStream>>,
}

fn failed(why: impl std::fmt::Display) -> ConduitError {
    let message = format!("GASNET_LOOP_BOOTSTRAP: the processes cannot meet: {why}");
    ConduitError { message }
}

impl Meeting {
    /// From the variable.
    pub const fn new() -> Self {
        Self {
            text: None,
            streams: Mutex::new(Vec::new()),
        }
    }

    /// As if the variable were `text`.
    #[cfg(test)]
    pub fn at(text: String) -> Self {
        Self {
            text: Some(text),
            ..Self::new()
        }
    }

    fn text(&self) -> Option<String> {
        self.text.clone().or_else(|| setting(&BOOTSTRAP).flatten())
    }

    /// Name, rank and size, if the variable is set and valid.
    fn place(&self) -> Option<(String, u32, u32)> {
        let text = self.text()?;
        let mut parts = text.rsplitn(3, ':');
        let (size, rank) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some((parts.next()?.to_owned(), rank, size)).filter(|_| rank < size)
    }
}

/// Rank 0 accepts the others, which send their ranks, and sorts them.
fn accept_all(name: &str, size: u32) -> io::Result<Vec<UnixStream>> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    let mut others: Vec<Option<UnixStream>> = (1..size).map(|_| None).collect();
    while others.iter().any(Option::is_none) {
        if fd::poll(&mut [fd::readable(listener.as_raw_fd())], Some(LATE))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(LATE))?;
        let mut rank = [0; 4];
        stream.read_exact(&mut rank)?;
        let index = (u32::from_ne_bytes(rank) as usize).wrapping_sub(1);
        let other = others.get_mut(index).filter(|other| other.is_none());
        *other.ok_or_else(|| io::Error::other(format!("rank {} came twice", index + 1)))? = Some(stream);
    }
    Ok(others.into_iter().flatten().collect())
}

fn connect(name: &str, rank: u32) -> io::Result<Vec<UnixStream>> {
    let (address, start) = (SocketAddr::from_abstract_name(name)?, Instant::now());
    let mut stream = loop {
        match UnixStream::connect_addr(&address) {
            Err(why) if why.kind() == io::ErrorKind::ConnectionRefused && start.elapsed() < LATE => {
                std::thread::sleep(Duration::from_millis(2));
            }
            result => break result?,
        }
    };
    stream.write_all(&rank.to_ne_bytes())?;
    Ok(vec![stream])
}

/// The bytes of all, from rank 0, which gathers them.
fn gather(streams: &mut [UnixStream], is_first: bool, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut all = bytes.to_vec();
    for stream in streams.iter_mut() {
        if is_first {
            let mut others = vec![0; bytes.len()];
            stream.read_exact(&mut others)?;
            all.extend(others);
        } else {
            stream.write_all(bytes)?;
            all = vec![0; 8];
            stream.read_exact(&mut all)?;
            let length = u64::from_ne_bytes(all[..].try_into().unwrap_or_default());
            all.resize(length as usize, 0);
            stream.read_exact(&mut all)?;
        }
    }
    if is_first {
        for stream in streams {
            stream.write_all(&(all.len() as u64).to_ne_bytes())?;
            stream.write_all(&all)?;
        }
    }
    Ok(all)
}

impl Bootstrap for Meeting {
    fn has_started_this(&self) -> bool {
        self.text().is_some()
    }

    fn join(&self) -> Result<BootstrapPlace, ConduitError> {
        let (name, rank, size) = self
            .place()
            .ok_or_else(|| failed("expected name:rank:size, with a rank below the size"))?;
        let streams = match rank {
            0 => accept_all(&name, size),
            _ => connect(&name, rank),
        };
        *lock(&self.streams) = streams.map_err(failed)?;
        let system = format!("a test ({name})");
        Ok(BootstrapPlace {
            system,
            rank,
            size,
            node: None,
        })
    }

    fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>, ConduitError> {
        let is_first = self.place().is_some_and(|(_, rank, _)| rank == 0);
        gather(&mut lock(&self.streams), is_first, bytes).map_err(failed)
    }

    fn leave(&self, _: bool) {
        if let Ok(mut streams) = self.streams.try_lock() {
            streams.clear();
        }
    }

    fn abort(&self) {
        self.leave(true);
    }

    fn descriptors(&self) -> Vec<i32> {
        lock(&self.streams).iter().map(AsRawFd::as_raw_fd).collect()
    }
}
