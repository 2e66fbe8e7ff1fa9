//! A tool's view of a job of other processes, for reading only.
//!
//! Every process of a job keeps a descriptor of the job control block open. The kernel lets the
//! same user open it again, through `/proc`, and stops nobody. It shows the ranks of its host. With
//! several hosts, the node agent at the root of the tree answers for all of them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::control_block::{ControlBlock, Unreadable};
use super::counters::VERSION;
use super::host::CONTROL_NAME;
use super::job::Job;
use super::tree::message::{frame_length, AgentMessage, LENGTH_BYTES};
use super::view::{ranks_here, RankView};
use gasnet_sys::clock::monotonic_ns;
use gasnet_sys::fd;
use gasnet_sys::process::{self, Pid};

/// Limit for the silence of the root while it collects answers.
const SILENCE: Duration = Duration::from_secs(2);

/// A reading of a job.
#[derive(Debug)]
pub struct Reading {
    /// Nanoseconds of this host's monotonic clock, to which all times in `ranks` refer.
    pub at: u64,
    /// In ascending order.
    pub ranks: Vec<RankView>,
    /// Whether all hosts were asked. Ranks that are missing then have not started, or are on hosts
    /// that have not answered.
    pub is_of_all: bool,
}

/// A job.
#[derive(Debug)]
pub struct JobView {
    control: ControlBlock,
    /// Device and inode of its control block: those of no other job.
    object: (u64, u64),
}

impl JobView {
    /// This process's job.
    pub fn own(job: &Job) -> Self {
        Self {
            control: job.control,
            object: (0, 0),
        }
    }

    /// The job of a process: a rank, a node agent, or a launcher process above those. The error is
    /// a message.
    pub fn of(pid: Pid) -> Result<Self, String> {
        if process::is_gone(pid) {
            return Err(format!("there is no process {pid}"));
        }
        if let Some(job) = of_process(pid)? {
            return Ok(job);
        }
        // A child that has just ended, or belongs to another user, is no job's.
        for below in descendants(pid) {
            if let Ok(Some(job)) = of_process(below) {
                return Ok(job);
            }
        }
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Err(format!(
            "neither process {pid} ({}) nor a child of it belongs to a GASNet job that has started",
            name.trim_end()
        ))
    }

    /// The only job on this host of which a rank runs the program with this name, as far as this
    /// user may see them. The error is a message.
    pub fn of_program(name: &str) -> Result<Self, String> {
        // The words as it was started, which a link or an interpreter has, too.
        let runs = |pid: &Pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let names = words.split(|&byte| byte == 0).take(2);
            let mut names = names.filter_map(|word| word.rsplit(|&byte| byte == b'/').next());
            names.any(|program| program == name.as_bytes())
        };
        let mut jobs: Vec<(Pid, Self)> = Vec::new();
        for pid in processes().filter(runs) {
            match of_process(pid) {
                Ok(Some(job)) if jobs.iter().all(|(_, known)| known.object != job.object) => jobs.push((pid, job)),
                _ => {}
            }
        }
        if jobs.len() > 1 {
            let pids: Vec<String> = jobs.iter().map(|(pid, _)| pid.to_string()).collect();
            return Err(format!(
                "{} jobs run {name}. Give the number of one of these processes, each of another job: {}",
                pids.len(),
                pids.join(", ")
            ));
        }
        let job = jobs.pop().map(|(_, job)| job);
        job.ok_or_else(|| format!("no GASNet job of this user runs {name} on this host"))
    }

    /// The number of ranks in the job.
    pub fn size(&self) -> u32 {
        self.control.ranks()
    }

    /// Reads the state of the ranks: of all hosts at the root of the tree, otherwise of this host.
    pub fn read(&self) -> Reading {
        let of_all = match self.control.answers().load(Ordering::Relaxed) {
            0 => None,
            number => ask(number).ok(),
        };
        let is_of_all = of_all.is_some();
        let mut ranks = of_all.unwrap_or_default();
        // A root that does not run answers nothing, not even for its own host.
        for here in ranks_here(&self.control) {
            if ranks.iter().all(|known| known.rank != here.rank) {
                ranks.push(here);
            }
        }
        ranks.sort_by_key(|rank| rank.rank);
        Reading {
            at: monotonic_ns(),
            ranks,
            is_of_all,
        }
    }
}

/// The name of the socket at which the root answers tools, in the abstract namespace.
pub fn socket_name(number: u64) -> String {
    format!("gasnet-tools-{number:016x}")
}

/// Asks the root for the ranks of all hosts, until it has no more or is silent.
fn ask(number: u64) -> io::Result<Vec<RankView>> {
    let mut root = fd::connect_to_name(socket_name(number).as_bytes(), SILENCE)?;
    let (_, user) = fd::peer_process(root.as_raw_fd())?;
    if user != process::user() && process::user() != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    root.set_read_timeout(Some(SILENCE))?;
    let mut all = Vec::new();
    while let Ok(AgentMessage::View { at, ranks, .. }) = receive(&mut root) {
        let later = monotonic_ns().wrapping_sub(at);
        for mut rank in ranks {
            rank.shift(later);
            all.push(rank);
        }
    }
    Ok(all)
}

fn receive(root: &mut UnixStream) -> io::Result<AgentMessage> {
    let mut frame = vec![0; LENGTH_BYTES];
    root.read_exact(&mut frame)?;
    let length = frame_length(&frame).map_err(io::Error::other)?.unwrap_or(LENGTH_BYTES);
    frame.resize(length, 0);
    root.read_exact(&mut frame[LENGTH_BYTES..])?;
    AgentMessage::decode(&frame).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The control block that a process has open. The error is a message.
fn of_process(pid: Pid) -> Result<Option<JobView>, String> {
    let folder = format!("/proc/{pid}/fd");
    let refused = |why: &io::Error| {
        let user = fs::metadata(format!("/proc/{pid}")).map_or("unknown".into(), |process| process.uid().to_string());
        format!("cannot read the descriptors of process {pid}, of user {user}: {why}. Run gasnet_info as that user")
    };
    for entry in fs::read_dir(&folder).map_err(|e| refused(&e))?.flatten() {
        let Ok(object) = fs::read_link(entry.path()) else {
            continue;
        };
        // Objects without a name are shown as deleted; a file in GASNET_TMPDIR may have lost its
        // name.
        if !object.to_string_lossy().ends_with(" (deleted)") {
            continue;
        }
        let memory = match File::open(entry.path()) {
            Ok(memory) => memory,
            Err(why) if object.to_string_lossy().contains(CONTROL_NAME) => return Err(refused(&why)),
            Err(_) => continue,
        };
        let about = memory.metadata();
        let (length, object) = about.map_or((0, (0, 0)), |it| (it.len() as usize, (it.dev(), it.ino())));
        match ControlBlock::of_another(memory.as_raw_fd(), length) {
            Ok(control) => return Ok(Some(JobView { control, object })),
            Err(Unreadable::Other) => {}
            Err(Unreadable::Version(version)) => {
                return Err(format!(
                    "the job of process {pid} has counters of version {version}, and this gasnet_info reads version \
                     {VERSION}. Run the gasnet_info that was installed with the job's library"
                ))
            }
        }
    }
    Ok(None)
}

/// The processes of this host.
fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes below `pid`, nearest first.
fn descendants(pid: Pid) -> Vec<Pid> {
    let parents: Vec<(Pid, Pid)> = processes()
        .filter_map(|child| Some((child, process::parent_of(child)?)))
        .collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&above) = found.get(next) {
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == above)
                .map(|(child, _)| *child),
        );
        next += 1;
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::super::counters::{Wait, WaitWord};
    use super::super::view::Process;
    use super::*;
    use gasnet_sys::mem;
    use std::path::Path;

    #[test]
    fn a_job_is_found_by_its_descriptor() {
        let memory = mem::anon_memory("gasnet-control-test", Path::new("/tmp"), &mut |_| ()).unwrap();
        memory.resize(ControlBlock::bytes(3, 2)).unwrap();
        let control = ControlBlock::on(memory.fd(), 3, 2, true).unwrap();
        drop(memory);
        let pid = process::pid();
        for rank in [0, 2] {
            control.status(rank).process.store(pid as u32, Ordering::Relaxed);
        }
        let word = WaitWord {
            reason: Wait::RequestRoom,
            in_handler: true,
            peer: Some(0),
            work: 0,
        };
        control.status(2).place.store(1, Ordering::Relaxed);
        let counters = control.counters(2);
        let lane = &counters.lanes[1];
        lane.thread.store(77, Ordering::Relaxed);
        lane.wait.store(word.encode(), Ordering::Relaxed);
        lane.wait_since.store(5, Ordering::Relaxed);
        for (lane, group, word) in [(1, 0, 3), (1, 2, 3), (2, 2, 23), (4, 1, 3)] {
            counters.traffic[lane][group].0[word].store(7, Ordering::Relaxed);
        }
        counters.lanes[2].polls.store(1, Ordering::Relaxed);
        let job = JobView::of(pid).unwrap();
        assert_eq!(job.size(), 3);
        let ranks = job.read().ranks;
        assert_eq!(ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 2]);
        assert_eq!((ranks[0].process, ranks[0].threads.len()), (Process::Runs, 0));
        let thread = &ranks[1].threads[0];
        assert_eq!((thread.thread, thread.wait), (77, Some((word, 5))));
        // Threads have the sum over peers, and peers over threads: lane 4 belongs to none.
        let sums: Vec<_> = ranks[1].threads.iter().map(|thread| thread.traffic.0).collect();
        assert_eq!((sums[0][3], sums[1][3], sums[1][23]), (14, 0, 7));
        let peers: Vec<_> = ranks[1]
            .peers
            .iter()
            .map(|peer| (peer.group, peer.traffic.0[3]))
            .collect();
        assert_eq!(peers, [(0, 7), (2, 7)]);
        assert_eq!(ranks[0].peers, []);
        // At least the page of that lane.
        let control = ranks[0].memory.iter().find(|(name, _)| name == "control");
        assert!(control.is_some_and(|&(_, bytes)| (4096..ControlBlock::bytes(3, 2) as u64).contains(&bytes)));
    }
}
