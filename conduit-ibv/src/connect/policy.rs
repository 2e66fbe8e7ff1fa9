//! The peers that are connected at start: all, none, or those of a connect file. Connections are of
//! both sides, so a process is also connected to those that want it.
#![forbid(unsafe_code)]

use crate::connect::file;
use crate::settings::Settings;
use gasnet_conduit::{config, print_line, warn, JobRank, StartInfo};
use gasnet_conduit_util::record::{self, records};
use gasnet_conduit_util::record_as;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The peers that a process wants to be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectPolicy {
    Nobody,
    Everybody,
    Some(Vec<JobRank>),
}

/// A [`ConnectPolicy`] without the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Nobody,
    Everybody,
    Some,
}

record_as! {
    Kind, u8:
        |kind| kind as u8,
        |number| match number {
            0 => Kind::Nobody,
            1 => Kind::Everybody,
            _ => Kind::Some,
        };
}

/// Most processes of a job in which all are connected at start by default, and each by a queue pair
/// of its own.
pub const FEW: u32 = 256;

impl Kind {
    /// The kind in a job without datagrams.
    pub fn without_datagrams(self) -> Self {
        match self {
            Self::Nobody => Self::Everybody,
            kind => kind,
        }
    }
}

impl ConnectPolicy {
    /// That of the environment. The error is a message without a full stop.
    pub fn read(settings: &Settings, info: &StartInfo<'_>) -> Result<Self, String> {
        let file = settings.connect_file_in.as_ref();
        match (settings.connects_at_start, file) {
            (Some(false), _) => Ok(Self::Nobody),
            (_, Some(file)) => {
                let file = of_rank(file, info.rank);
                let failed = |why: String| format!("GASNET_CONNECTFILE_IN: {}: {why}", file.display());
                let text = fs::read_to_string(&file).map_err(|why| failed(why.to_string()))?;
                let peers = file::parse(&text, info.rank, info.size).map_err(failed)?;
                Ok(Self::Some(peers.into_iter().collect()))
            }
            (wanted, None) if wanted.unwrap_or(info.size <= FEW) => Ok(Self::Everybody),
            _ => Ok(Self::Nobody),
        }
    }

    /// The policy of a job in which the HCA of a `rank` has no queue pairs for datagrams: all peers
    /// are connected at start, or those of a file. The error is a message without a full stop.
    pub fn without_datagrams(self, settings: &Settings, rank: usize, reports: bool) -> Result<Self, String> {
        let why = format!("the HCA of rank {rank} has no queue pairs for datagrams (UD)");
        match self {
            Self::Nobody if settings.connects_at_start == Some(false) => Err(format!(
                "{why}, which GASNET_CONNECT_STATIC=0 needs to connect peers at their first use. Unset it"
            )),
            Self::Some(_) if settings.connects_later => Err(format!(
                "{why}, which connect the peers that GASNET_CONNECTFILE_IN leaves out. Unset it, or set \
                 GASNET_CONNECT_DYNAMIC=0 if the job needs no others"
            )),
            Self::Nobody => {
                if reports && config::get().get_or_default(&config::VERBOSEENV) {
                    print_line(format_args!("GASNet: ibv: all peers are connected at start: {why}"));
                }
                Ok(Self::Everybody)
            }
            policy => Ok(policy),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Nobody => Kind::Nobody,
            Self::Everybody => Kind::Everybody,
            Self::Some(_) => Kind::Some,
        }
    }

    /// The peers to which this process is connected, ascending, or none if no process of the job
    /// connects at start. `kinds`: the wishes of all processes. Collective.
    pub fn peers(&self, info: &StartInfo<'_>, kinds: &[Kind]) -> Option<Vec<JobRank>> {
        let all = || (0..info.size).map(JobRank).filter(|rank| *rank != info.rank);
        if kinds.iter().all(|kind| *kind == kinds[0]) && kinds[0] != Kind::Some {
            return (kinds[0] == Kind::Everybody).then(|| all().collect());
        }
        let own = match self {
            Self::Some(peers) => peers.as_slice(),
            _ => &[],
        };
        let lists = exchange(info, own);
        let wants = |rank: JobRank, peer: JobRank| match kinds[rank.index()] {
            Kind::Nobody => false,
            Kind::Everybody => true,
            Kind::Some => lists[rank.index()].binary_search(&peer).is_ok(),
        };
        let peers = all().filter(|peer| wants(info.rank, *peer) || wants(*peer, info.rank));
        Some(peers.collect())
    }
}

/// The lists of all processes.
pub fn exchange(info: &StartInfo<'_>, own: &[JobRank]) -> Vec<Vec<JobRank>> {
    let mut counts = record::exchange(info, &(own.len() as u32));
    // A list names each rank once at most.
    for count in &mut counts {
        *count = info.size.min(*count);
    }
    let most = counts.iter().copied().max().unwrap_or(0) as usize;
    if most == 0 {
        return vec![Vec::new(); counts.len()];
    }
    let mut bytes: Vec<u8> = own.iter().flat_map(|rank| rank.0.to_le_bytes()).collect();
    bytes.resize(4 * most, 0);
    let all: Vec<u32> = records(&(info.exchange)(&bytes)).collect();
    let lists = all.chunks_exact(most).zip(&counts);
    lists
        .map(|(list, count)| list[..*count as usize].iter().copied().map(JobRank).collect())
        .collect()
}

/// The file of a process.
fn of_rank(file: &Path, rank: JobRank) -> PathBuf {
    let text = file.to_string_lossy();
    if text.contains('%') {
        text.replace('%', &rank.to_string()).into()
    } else {
        file.to_owned()
    }
}

/// File of the peers that a process has communicated with, written at the end.
pub struct Record {
    file: File,
    rank: JobRank,
    size: u32,
    base: u32,
}

impl Record {
    /// Empties the file, before an exchange. None if none is wanted, or it cannot be written.
    pub fn create(settings: &Settings, info: &StartInfo<'_>) -> Option<Self> {
        let wanted = settings.connect_file_out.as_ref()?;
        let path = of_rank(wanted, info.rank);
        // One process of each host empties a file of several.
        let is_first = path != *wanted || info.host.first() == Some(&info.rank);
        let mut options = OpenOptions::new();
        let opened = options.append(true).create(true).open(&path);
        let opened = opened.and_then(|file| {
            if is_first {
                file.set_len(0).map(|()| file)
            } else {
                Ok(file)
            }
        });
        let file = opened.map_err(|why| warn(format_args!("ibv: GASNET_CONNECTFILE_OUT: {}: {why}.", path.display())));
        Some(Self {
            file: file.ok()?,
            rank: info.rank,
            size: info.size,
            base: settings.connect_file_base,
        })
    }

    /// Writes it, by one call, so that lines of several processes do not mix.
    pub fn write(&self, peers: &[JobRank]) {
        let text = file::format(self.rank, peers, self.size, self.base);
        if let Err(why) = (&self.file).write_all(text.as_bytes()) {
            warn(format_args!("ibv: GASNET_CONNECTFILE_OUT: {why}."));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::conformance::start_info;

    #[test]
    fn jobs_without_datagrams_connect_at_start() {
        let of = |policy: ConnectPolicy, at_start, later| {
            let mut settings = Settings::read();
            (settings.connects_at_start, settings.connects_later) = (at_start, later);
            policy.without_datagrams(&settings, 7, false)
        };
        let some = || ConnectPolicy::Some(vec![JobRank(1)]);
        assert_eq!(of(ConnectPolicy::Nobody, None, true), Ok(ConnectPolicy::Everybody));
        assert_eq!(of(ConnectPolicy::Everybody, None, true), Ok(ConnectPolicy::Everybody));
        assert_eq!(of(some(), Some(true), false), Ok(some()));
        for (policy, at_start, name) in [
            (ConnectPolicy::Nobody, Some(false), "GASNET_CONNECT_STATIC=0"),
            (some(), None, "GASNET_CONNECTFILE_IN"),
        ] {
            let why = of(policy, at_start, true).unwrap_err();
            assert!(why.contains("the HCA of rank 7") && why.contains(name), "{why}");
        }
        let kinds = [Kind::Nobody, Kind::Everybody, Kind::Some];
        let changed = [Kind::Everybody, Kind::Everybody, Kind::Some];
        assert_eq!(kinds.map(Kind::without_datagrams), changed);
    }

    #[test]
    fn lists_are_no_longer_than_the_job() {
        let all = [JobRank(0), JobRank(1)];
        let exchange = |own: &[u8]| [own, &vec![0xff; own.len()]].concat();
        let lists = super::exchange(&start_info(JobRank(0), &all, &exchange), &[JobRank(1)]);
        assert_eq!(lists, [vec![JobRank(1)], vec![JobRank(u32::MAX); 2]]);
    }
}
