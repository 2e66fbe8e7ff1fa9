//! Jobs whose ranks are processes: each runs a test of this program, over one emulated fabric.

use crate::emulated;
use gasnet_conduit::JobRank;
use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Time in which a job ends.
const LIMIT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(1);

/// End of a rank, and its output.
pub struct Ended {
    pub pid: u32,
    pub status: ExitStatus,
    pub output: String,
}

/// Ends processes that are still there.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs the test `name` in a process for each rank, with its options of the emulator and variables.
pub fn run(name: &str, ranks: &[(&str, &str)]) -> Vec<Ended> {
    let folder = emulated::EMULATOR.fabric();
    let output = |rank: usize| Path::new(&folder).join(format!("output.{rank}"));
    let start = |(rank, (options, variables)): (usize, &(&str, &str))| {
        let file = File::create(output(rank)).unwrap();
        let options = format!("dir={folder} {options}");
        let mut command =
            emulated::EMULATOR.command(&options, variables, &format!("--ignored --exact --nocapture {name}"));
        let numbers = [("FAULTS_RANK", rank), ("FAULTS_SIZE", ranks.len())];
        command.envs(numbers.map(|(name, number)| (name, number.to_string())));
        command.env("FAULTS_FOLDER", &folder);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        command.spawn().unwrap()
    };
    let mut children = Children(ranks.iter().enumerate().map(start).collect());
    let begun = Instant::now();
    let mut wait = |(rank, child): (usize, &mut Child)| loop {
        if let Some(status) = child.try_wait().unwrap() {
            let output = fs::read(output(rank)).unwrap();
            let output = String::from_utf8_lossy(&output).into_owned();
            return Ended {
                pid: child.id(),
                status,
                output,
            };
        }
        if begun.elapsed() > LIMIT {
            let all: Vec<_> = (0..ranks.len()).map(|rank| fs::read_to_string(output(rank))).collect();
            panic!("rank {rank} of {name} hangs: {all:#?}");
        }
        std::thread::sleep(PAUSE);
    };
    children.0.iter_mut().enumerate().map(&mut wait).collect()
}

/// A rank, in its process.
pub struct Place {
    pub rank: JobRank,
    pub all: Vec<JobRank>,
    folder: PathBuf,
    rounds: Cell<usize>,
}

impl Place {
    /// That of this process.
    pub fn find() -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        let number = |name: &str| variable(name).parse::<u32>().unwrap();
        Self {
            rank: JobRank(number("FAULTS_RANK")),
            all: (0..number("FAULTS_SIZE")).map(JobRank).collect(),
            folder: variable("FAULTS_FOLDER").into(),
            rounds: Cell::new(0),
        }
    }

    /// A file of a rank, for all ranks of the job.
    pub fn file(&self, name: &str, rank: JobRank) -> PathBuf {
        self.folder.join(format!("{name}.{rank}"))
    }

    /// Gathers the bytes of all ranks. Collective.
    pub fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let round = self.rounds.replace(self.rounds.get() + 1);
        let file = |rank: &JobRank| self.file(&format!("exchange.{round}"), *rank);
        let unfinished = self.file("unfinished", self.rank);
        fs::write(&unfinished, bytes).unwrap();
        fs::rename(&unfinished, file(&self.rank)).unwrap();
        let begun = Instant::now();
        let read = |rank: &JobRank| loop {
            if let Ok(bytes) = fs::read(file(rank)) {
                return bytes;
            }
            assert!(
                begun.elapsed() < LIMIT,
                "rank {rank} does not take part in exchange {round}"
            );
            std::thread::sleep(PAUSE);
        };
        self.all.iter().flat_map(read).collect()
    }
}
