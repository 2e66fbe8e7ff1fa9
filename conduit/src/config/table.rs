//! The table of environment variables: those of the library, its tools, its launcher and its tests,
//! each declared once.
//!
//! A conduit that has variables of its own declares them by [`super::settings!`], whose rows look
//! the same, and returns them from [`crate::Conduit::variables`].
#![forbid(unsafe_code)]

use super::variable::{
    choice, choice_enum, count, double, faults, flag, form, int, path, ranks, segment_limit, signal, signals, size,
    text,
};
use super::{Choice, FaultPlan, FromValue, Key, RankSet, Scope, SegmentLimit, SignalSet, Value, Variable};
use gasnet_tools::parse;
use std::path::PathBuf;

/// Declares keys under headings, and [`TABLE`], which lists them all.
macro_rules! variables {
    ($($section:literal { $($key:ident: $type:ty = $declaration:expr;)* })*) => {
        $($(
            #[doc = concat!(
                "Key of a variable of the section \"", $section, "\"; its declaration has the description."
            )]
            pub const $key: Key<$type> = $declaration;
        )*)*

        /// Every declaration, in the order of the documentation.
        pub static TABLE: &[Variable] = &[$($($key.variable.section($section)),*),*];

        #[cfg(test)]
        #[test]
        fn every_row_is_valid() {
            $($(super::check_row(&$key);)*)*
        }
    };
}

choice_enum! {
    /// How a thread waits (`GASNET_WAITMODE`).
    pub enum WaitMode {
        /// Spin for microseconds unless oversubscribed, yield for milliseconds, then block.
        Adaptive = "adaptive",
        /// Never block. Spin, then yield.
        Spin = "spin",
        /// Do not spin, and block after a short time.
        Block = "block",
        /// As adaptive.
        SpinBlock = "spinblock",
    }
}

/// What starts the ranks (`GASNET_SPAWNER`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spawner {
    /// A process of this host forks them.
    #[default]
    Fork,
    /// The program starts itself on other hosts through remote shells.
    Ssh,
    /// A process manager: `PMIRUN_CMD`, or the first one on the path.
    Pmi,
    /// As `Pmi`, but `MPIRUN_CMD` takes precedence.
    Mpi,
    /// The user's command: `GASNET_CSPAWN_CMD`. Only options have a word for it.
    Custom,
}

impl Spawner {
    /// Its name in options and variables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Ssh => "ssh",
            Self::Pmi => "pmi",
            Self::Mpi => "mpi",
            Self::Custom => "custom",
        }
    }

    /// Whether a process manager starts the ranks.
    pub fn is_manager(self) -> bool {
        matches!(self, Self::Pmi | Self::Mpi)
    }
}

/// None is chosen from the environment.
impl Choice for Option<Spawner> {
    const WORDS: &'static [&'static str] = &["auto", "fork", "pmi", "mpi", "ssh"];
    const VARIANTS: &'static [Self] = &[
        None,
        Some(Spawner::Fork),
        Some(Spawner::Pmi),
        Some(Spawner::Mpi),
        Some(Spawner::Ssh),
    ];
}

impl FromValue for Option<Spawner> {
    fn from_value(value: &Value) -> Option<Self> {
        let Value::Choice(index) = value else { return None };
        Self::VARIANTS.get(*index).copied()
    }
}

choice_enum! {
    /// The interface of a process manager (`GASNET_PMI`).
    pub enum PmiInterface {
        /// The one that the manager offers.
        Auto = "auto",
        /// PMI-1 only.
        Pmi1 = "pmi1",
        /// PMI-2 only.
        Pmi2 = "pmi2",
        /// PMIx only.
        Pmix = "pmix",
    }
}

choice_enum! {
    /// What identifies a host (`GASNET_HOST_DETECT`).
    pub enum HostDetect {
        /// The value of `gethostid`.
        GetHostId = "gethostid",
        /// A hash of the host's name.
        HostName = "hostname",
        /// The conduit's own identifier.
        Conduit = "conduit",
    }
}

choice_enum! {
    /// Whose processor binding counts (`GASNET_HWLOC_QUERY`).
    pub enum BindingQuery {
        /// The binding of the initialising thread.
        Thread = "thread",
        /// The binding of the whole process.
        Process = "process",
    }
}

choice_enum! {
    /// Contents of a recording besides calls (`GASNET_RECORD_PAYLOAD`).
    pub enum RecordPayload {
        /// None.
        None = "none",
        /// A checksum of each message and put.
        Checksum = "checksum",
        /// The arguments and payloads, too.
        All = "all",
    }
}

fn is_tsc_rate(text: &str) -> bool {
    let word = text.trim();
    ["walltime", "wallclock", "cpuinfo"]
        .iter()
        .any(|w| word.eq_ignore_ascii_case(w))
        || parse::integer(word).is_ok_and(|hz| (1_000_000..=100_000_000_000).contains(&hz))
}

fn is_fill(text: &str) -> bool {
    gasnet_tools::heap::Fill::parse(text).is_ok()
}

fn is_conduit(text: &str) -> bool {
    let name = text.trim();
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn is_trace_mask(text: &str) -> bool {
    text.strip_prefix('^')
        .unwrap_or(text)
        .bytes()
        .all(|b| b"GPRSWBLAXIOCDNHU".contains(&b.to_ascii_uppercase()))
}

const FILL: &str = "NAN, sNAN, qNAN or a whole number, decimal or hexadecimal (0x),";
const MASK: &str = "letters from GPRSWBLAXIOCDNHU, or ^ and the letters to leave out,";
const ALL_EVENTS: &str = "GPRSWBLAXIOCDNHU";

variables! {
    "Start and information" {
        VERBOSEENV: bool = flag("GASNET_VERBOSEENV", false,
            "Print the value of every variable at start, and unknown GASNET_* names.");
        CONDUIT: String = form("GASNET_CONDUIT", super::AUTO_CONDUIT, "auto or the name of a conduit", is_conduit,
            "Conduit of the universal library (-lgasnet). auto chooses the best one that all ranks can use; \
             GASNET_VERBOSEENV prints the reason.")
            .ours();
        SPAWN_VERBOSE: bool = flag("GASNET_SPAWN_VERBOSE", false, "Report the steps of job start and job exit.");
        TMPDIR: Option<PathBuf> = path("GASNET_TMPDIR", "Directory for temporary files.").scope(Scope::Rank)
            .unset_means("TMPDIR, then /tmp");
        DISABLE_ENVDECODE: bool = flag("GASNET_DISABLE_ENVDECODE", false,
            "Do not decode environment values that a spawner encoded.").no_effect();
        DISABLE_ARGDECODE: bool = flag("GASNET_DISABLE_ARGDECODE", false,
            "Do not decode command-line arguments that a spawner encoded.").no_effect();
    }
    "Launch" {
        PSHM_NODES: u32 = count("GASNET_PSHM_NODES", "1", 1, 1 << 20,
            "Ranks of a job that is started without a launcher, at most 1024 per host.")
            .scope(Scope::Launcher).unit("ranks");
        SPAWNER: Option<Spawner> = choice("GASNET_SPAWNER", "auto",
            "How the ranks are started: fork on this host, ssh on a list of hosts, pmi or mpi by a process manager; \
             auto decides from the environment.")
            .scope(Scope::Launcher).ours();
        // Clients set these whatever the conduit of the program is, so they are known in all
        // libraries. Job start reads `GASNET_<CONDUIT>_SPAWNER` of any conduit; that of a new one
        // is declared in its `Conduit::variables`.
        SMP_SPAWNER: Option<Spawner> = choice("GASNET_SMP_SPAWNER", "auto", "As GASNET_SPAWNER, for smp.")
            .scope(Scope::Launcher);
        UDP_SPAWNER: Option<Spawner> = choice("GASNET_UDP_SPAWNER", "auto", "As GASNET_SPAWNER, for udp.")
            .scope(Scope::Launcher).ours();
        IBV_SPAWNER: Option<Spawner> = choice("GASNET_IBV_SPAWNER", "auto", "As GASNET_SPAWNER, for ibv.")
            .scope(Scope::Launcher);
        UCX_SPAWNER: Option<Spawner> = choice("GASNET_UCX_SPAWNER", "auto", "As GASNET_SPAWNER, for ucx.")
            .scope(Scope::Launcher);
        OFI_SPAWNER: Option<Spawner> = choice("GASNET_OFI_SPAWNER", "auto", "As GASNET_SPAWNER, for ofi.")
            .scope(Scope::Launcher);
        MPI_SPAWNER: Option<Spawner> = choice("GASNET_MPI_SPAWNER", "auto",
            "As GASNET_SPAWNER, for mpi. Where it is not set, gasnetrun_mpi runs the launcher of an MPI.")
            .scope(Scope::Launcher).ours();
        SPAWNFN: Option<String> = text("GASNET_SPAWNFN",
            "How udp programs start their ranks where the variables above do not decide: L on this host, S through \
             remote shells, C by GASNET_CSPAWN_CMD.")
            .scope(Scope::Launcher);
        CSPAWN_CMD: Option<String> = text("GASNET_CSPAWN_CMD",
            "Command that starts the ranks: %N number of ranks, %C command of a rank, %M hosts, %D working directory, \
             %P program. Also read from AMUDP_CSPAWN_CMD, CSPAWN_CMD.")
            .scope(Scope::Launcher);
        CSPAWN_SERVERS: Option<String> = text("GASNET_CSPAWN_SERVERS",
            "Hosts for %M of GASNET_CSPAWN_CMD. Also read from AMUDP_CSPAWN_SERVERS, CSPAWN_SERVERS.")
            .scope(Scope::Launcher);
        CSPAWN_ROUTE_OUTPUT: bool = flag("GASNET_CSPAWN_ROUTE_OUTPUT", false,
            "Forward the output of ranks that GASNET_CSPAWN_CMD started to the launcher process. Otherwise the command \
             must forward it.")
            .scope(Scope::Launcher);
        MPIRUN_CMD: Option<String> = text("MPIRUN_CMD",
            "Command of the process manager for gasnetrun -spawner=mpi or pmi: %N number of ranks, %C program and \
             arguments, %P program, %A arguments, %M number of hosts, %H GASNET_NODEFILE, %D working directory, %V -v \
             if gasnetrun has it, %% a percent sign.")
            .scope(Scope::Gasnetrun)
            .unset_means("the first of srun, aprun, mpiexec.hydra, mpiexec and mpirun that exists");
        PMIRUN_CMD: Option<String> = text("PMIRUN_CMD",
            "As MPIRUN_CMD, for gasnetrun -spawner=pmi; takes precedence over MPIRUN_CMD there.")
            .scope(Scope::Gasnetrun)
            .unset_means("MPIRUN_CMD");
        ENV_CMD: Option<String> = text("GASNET_ENV_CMD",
            "The env command on the other hosts. Also read from AMUDP_ENV_CMD, ENV_CMD.")
            .scope(Scope::Launcher)
            .unset_means("env");
        WORKER_RANK: Option<String> = text("GASNET_WORKER_RANK",
            "Rank of a process that GASNET_CSPAWN_CMD started, or the name of the variable that holds it, such as \
             SLURM_PROCID.")
            .scope(Scope::Rank);
        LINEBUFFERSZ: u32 = count("GASNET_LINEBUFFERSZ", "1024", 0, 1 << 20,
            "Longest line that stays whole when output is forwarded to the first host; 0 forwards output as it \
             arrives.")
            .unit("bytes").scope(Scope::Launcher);
        USE_GETHOSTID: Option<String> = text("GASNET_USE_GETHOSTID", "Old name of GASNET_HOST_DETECT=gethostid.")
            .no_effect();
        SSH_SERVERS: Option<String> = text("GASNET_SSH_SERVERS",
            "Hosts for the ranks, separated by commas or spaces. Also read from AMUDP_SSH_SERVERS, SSH_SERVERS.")
            .scope(Scope::Launcher);
        SSH_NODEFILE: Option<PathBuf> = path("GASNET_SSH_NODEFILE",
            "File of hosts, one per line; takes precedence over GASNET_SSH_SERVERS.")
            .scope(Scope::Launcher);
        NODEFILE: Option<PathBuf> = path("GASNET_NODEFILE",
            "File of hosts, one per line; used where neither GASNET_SSH_NODEFILE nor GASNET_SSH_SERVERS is set.")
            .scope(Scope::Launcher)
            .unset_means("the host list of the batch system, the first that is set: PBS_NODEFILE, LSB_HOSTS, \
                LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS, PE_HOSTFILE, SLURM_JOB_NODELIST, SLURM_NODELIST");
        SSH_KEEPDUP: bool = flag("GASNET_SSH_KEEPDUP", false,
            "Keep duplicates in the host list: a host that is listed twice gets two shares of the ranks.")
            .scope(Scope::Launcher);
        SSH_CMD: Option<String> = text("GASNET_SSH_CMD", "Remote shell. Also read from AMUDP_SSH_CMD, SSH_CMD.")
            .scope(Scope::Launcher).unset_means("ssh");
        SSH_OPTIONS: Option<String> = text("GASNET_SSH_OPTIONS",
            "Arguments of the remote shell before the host name, quoted as in a shell. Also read from \
             AMUDP_SSH_OPTIONS, SSH_OPTIONS.")
            .scope(Scope::Launcher).names_file();
        SSH_OUT_DEGREE: u32 = count("GASNET_SSH_OUT_DEGREE", "32", 0, 65536,
            "Maximum number of remote shells that one host starts; 0 for no limit: the first host starts all of them.")
            .scope(Scope::Launcher);
        SSH_REMOTE_PATH: Option<PathBuf> = path("GASNET_SSH_REMOTE_PATH",
            "Working directory on the other hosts. Also read from AMUDP_SSH_REMOTE_PATH, SSH_REMOTE_PATH.")
            .scope(Scope::Launcher).unset_means("the current directory");
        MASTERIP: Option<String> = text("GASNET_MASTERIP",
            "Address at which the other hosts reach the launcher process.")
            .scope(Scope::Launcher).unset_means("the address from which the remote shell came, then every address of \
                that host");
        WORKERIP: Option<String> = text("GASNET_WORKERIP",
            "Network that ranks on different hosts use, given by any address in it.")
            .scope(Scope::Launcher).unset_means("the network over which their hosts connected at start");
        SPAWN_HOSTS: u32 = count("GASNET_SPAWN_HOSTS", "0", 0, 1 << 20,
            "Maximum number of hosts to use from a list; 0 for all.")
            .scope(Scope::Launcher).ours();
        SPAWN_ENVIRONMENT: Option<String> = text("GASNET_SPAWN_ENVIRONMENT",
            "Variables, separated by commas, that override the values of the session on each host. All other variables \
             are passed on where the session does not set them.")
            .scope(Scope::Launcher).ours();
        SPAWN_TIMEOUT: f64 = double("GASNET_SPAWN_TIMEOUT", "120", 0.0, 86400.0,
            "How long the launcher process waits for the other hosts to connect. Ranks of a process manager wait for \
             each other ten times as long. 0 for no limit.")
            .unit("seconds")
            .scope(Scope::Launcher).ours();
        PMI: PmiInterface = choice("GASNET_PMI", "auto",
            "Interface of the process manager that started the ranks.").scope(Scope::Launcher).ours();
        PMIX_LIBRARY: Option<String> = text("GASNET_PMIX_LIBRARY", "PMIx library, as a name or path.")
            .scope(Scope::Rank)
            .unset_means("libpmix.so.2, then libpmix.so").ours();
        LABEL_OUTPUT: bool = flag("GASNET_LABEL_OUTPUT", false, "Prefix every line of output with the rank.")
            .scope(Scope::Launcher).ours();
    }
    "Exit and signals" {
        CATCH_EXIT: bool = flag("GASNET_CATCH_EXIT", true,
            "End the whole job when a rank returns from main or calls exit.");
        NO_CATCH_SIGNAL: Option<SignalSet> = signals("GASNET_NO_CATCH_SIGNAL",
            "Signals whose handlers GASNet does not replace; * for all signals.");
        EXITTIMEOUT: Option<f64> = double("GASNET_EXITTIMEOUT", "", 0.0, 86400.0,
            "How long an ending job waits for its ranks before it kills them.").unit("seconds").optional()
            .unset_means("the smaller of GASNET_EXITTIMEOUT_MAX and GASNET_EXITTIMEOUT_MIN + ranks × \
                GASNET_EXITTIMEOUT_FACTOR; for ranks that neither wait nor poll: GASNET_EXITTIMEOUT_MAX after a \
                success, \
                one second after a failure");
        EXITTIMEOUT_MAX: f64 = double("GASNET_EXITTIMEOUT_MAX", "30", 0.0, 86400.0,
            "Upper bound of the computed exit timeout.")
            .unit("seconds");
        EXITTIMEOUT_MIN: f64 = double("GASNET_EXITTIMEOUT_MIN", "2", 0.0, 86400.0,
            "Constant part of the computed exit timeout.")
            .unit("seconds");
        EXITTIMEOUT_FACTOR: f64 = double("GASNET_EXITTIMEOUT_FACTOR", "0.25", 0.0, 3600.0,
            "Part of the computed exit timeout that is added per rank.")
            .unit("seconds");
        FS_SYNC: bool = flag("GASNET_FS_SYNC", false, "Call sync at job exit.");
    }
    "Debugging" {
        FREEZE: bool = flag("GASNET_FREEZE", false, "Pause at start until a debugger resumes the rank.");
        FREEZE_ON_ERROR: bool = flag("GASNET_FREEZE_ON_ERROR", false,
            "Pause for a debugger on a fatal error or signal.");
        FREEZE_SIGNAL: Option<i32> = signal("GASNET_FREEZE_SIGNAL", "Signal that pauses the rank for a debugger.");
        BACKTRACE: bool = flag("GASNET_BACKTRACE", false,
            "Print a backtrace on a fatal error or signal, also to the trace file.");
        BACKTRACE_NODES: RankSet = ranks("GASNET_BACKTRACE_NODES", "Ranks that print backtraces.");
        BACKTRACE_SIGNAL: Option<i32> = signal("GASNET_BACKTRACE_SIGNAL",
            "Signal on which the rank prints a backtrace and continues.");
        BACKTRACE_TYPE: Option<String> = text("GASNET_BACKTRACE_TYPE",
            "Backtrace mechanisms, in order of preference: GDB, EXECINFO, or the name of the client's own.");
        BACKTRACE_MT: bool = flag("GASNET_BACKTRACE_MT", true,
            "Show all threads in a backtrace, if the mechanism can.");
        STALL_TIMEOUT: f64 = double("GASNET_STALL_TIMEOUT", "0", 0.0, 1e6,
            "After this long without progress, report what a rank waits for, and later when it continues. \
             GASNET_BACKTRACE adds a backtrace. 0 for never.")
            .unit("seconds").ours();
        COUNTERS: bool = flag("GASNET_COUNTERS", true,
            "Count messages, polls and waits of each rank, for gasnet_info --attach. Off: it shows processes only.")
            .ours();
    }
    "Segments" {
        MAX_SEGSIZE: SegmentLimit = segment_limit("GASNET_MAX_SEGSIZE", "0.85/H",
            "Upper limit of segment memory, per process (/P) or per host (/H).");
        LIMIT_TO_SEGMENTS: bool = flag("GASNET_LIMIT_TO_SEGMENTS", true,
            "Refuse remote addresses outside bound segments. Off: GEX_FLAG_PEER_SEG_UNKNOWN and _SOME reach all memory \
             of a rank. No effect in GASNET_SEGMENT_EVERYTHING, where all memory is a segment.")
            .ours();
        USE_HUGEPAGES: bool = flag("GASNET_USE_HUGEPAGES", false,
            "Use huge pages for segments, or normal pages where there are none. On by default if \
             HUGETLB_DEFAULT_PAGE_SIZE is set.");
        NUMA: bool = flag("GASNET_NUMA", true,
            "Prefer the NUMA node of a rank's cores for its segment. No effect on machines with one node, or if the \
             cores belong to several nodes.")
            .ours();
        NUMA_LIBRARY: Option<String> = text("GASNET_NUMA_LIBRARY",
            "NUMA library, as a name or path. If set, it is used even if the machine seems to have one node.")
            .scope(Scope::Rank)
            .unset_means("libnuma.so.1 if the machine has several nodes").ours();
        DISABLE_MUNMAP: Option<bool> = flag("GASNET_DISABLE_MUNMAP", false,
            "Make malloc keep freed memory (mallopt: M_TRIM_THRESHOLD -1, M_MMAP_MAX 0), so that large messages in new \
             memory cause no page faults. NO returns it to the system.")
            .optional()
            .unset_means("YES if the job uses a network");
        USE_PSHM_SINGLETON: bool = flag("GASNET_USE_PSHM_SINGLETON", false,
            "Use shared memory also for a neighbourhood of one process.").no_effect();
    }
    "Device memory" {
        CUDA_LIBRARY: Option<String> = text("GASNET_CUDA_LIBRARY", "CUDA driver library, as a name or path.")
            .scope(Scope::Rank)
            .unset_means("libcuda.so.1").ours();
        HIP_LIBRARY: Option<String> = text("GASNET_HIP_LIBRARY", "HIP runtime library, as a name or path.")
            .scope(Scope::Rank)
            .unset_means("libamdhip64.so, then .so.7, .so.6 and .so.5").ours();
        ZE_LIBRARY: Option<String> = text("GASNET_ZE_LIBRARY", "Level Zero loader library, as a name or path.")
            .scope(Scope::Rank)
            .unset_means("libze_loader.so.1").ours();
    }
    "Neighbourhoods" {
        SUPERNODE_MAXSIZE: u32 = count("GASNET_SUPERNODE_MAXSIZE", "0", 0, 65535,
            "Maximum number of processes in a neighbourhood; 0 for no limit. Without a network all ranks form one \
             neighbourhood, and a smaller number gives a warning.")
            .unit("ranks");
        HOST_DETECT: HostDetect = choice("GASNET_HOST_DETECT", "hostname", "How hosts are identified.").no_effect();
        NODEMAP_EXACT: bool = flag("GASNET_NODEMAP_EXACT", true, "Find every neighbour, whatever the rank layout.")
            .no_effect();
        PSHM_NETWORK_DEPTH: u32 = count("GASNET_PSHM_NETWORK_DEPTH", "32", 4, 65536,
            "Number of maximum-size messages that the queue of a neighbour holds before the sender waits.")
            .unit("messages");
        PSHM_RING_SIZE: u64 = size("GASNET_PSHM_RING_SIZE", "0", 0, 1 << 30,
            "Size of one request ring, rounded down to a power of two from 4 KB to 2 MB; 0 for automatic.")
            .unit("bytes").ours();
        PSHM_KERNEL_COPY: bool = flag("GASNET_PSHM_KERNEL_COPY", true,
            "Let the kernel copy to and from memory of neighbours that is not shared. Otherwise messages carry the \
             data.")
            .ours();
        PSHM_COLL_TEAMS: u32 = count("GASNET_PSHM_COLL_TEAMS", "256", 0, 65535,
            "Maximum number of teams per process whose collectives use shared memory; one in 16 of these also for long \
             data.")
            .unit("teams").ours();
        PSHM_BARRIER_HIER: bool = flag("GASNET_PSHM_BARRIER_HIER", true,
            "Hierarchical barriers: shared memory first, then the network.").no_effect();
        PSHM_BARRIER_RADIX: i64 = int("GASNET_PSHM_BARRIER_RADIX", "0", -65535, 65535,
            "Radix of the barrier in shared memory: 0 flat, positive: children per process, negative: group size.")
            .no_effect();
    }
    "Waiting and threads" {
        WAITMODE: WaitMode = choice("GASNET_WAITMODE", "adaptive",
            "How a thread waits. adaptive and spinblock spin, then yield, and block after some milliseconds; spin \
             never blocks; block spins least.")
            .scope(Scope::Rank).ours();
        HOST_CORES: u32 = count("GASNET_HOST_CORES", "0", 0, 1 << 20,
            "Processor cores that the ranks of a host share. With more ranks than cores, waiting ranks yield early. 0 \
             for the cores that the ranks may run on, within the quota of their control group.")
            .unit("cores").ours();
        MAX_THREADS: u32 = count("GASNET_MAX_THREADS", "2147483647", 1, i32::MAX as u32,
            "Maximum number of client threads per process that use GASNet at the same time.")
            .unit("threads").unset_means("no limit");
        THREAD_STACK_MIN: u64 = size("GASNET_THREAD_STACK_MIN", "0", 0, 1 << 40,
            "Minimum stack size of threads that the library starts.").unit("bytes");
        THREAD_STACK_PAD: u64 = size("GASNET_THREAD_STACK_PAD", "0", 0, 1 << 40,
            "Added to the stack size of threads that the library starts.").unit("bytes");
    }
    "Barriers and collectives" {
        BARRIER: Option<String> = text("GASNET_BARRIER",
            "PSHM, AMDISSEM or AMCENTRAL: barriers use messages over every network, by the algorithm that fits the \
             neighbourhoods. DISSEM or RDMADISSEM: the same, but ibv and gni write words into memory of peers, as \
             they do by default. With other values a network with a barrier of its own uses it (elan, the collective \
             engine of Aries).");
        COLL_SCRATCH_SIZE: u64 = size("GASNET_COLL_SCRATCH_SIZE", "2MB", 0, 1 << 40,
            "Scratch space of the primordial team on each rank; small values are raised to the minimum.")
            .unit("bytes").no_effect();
        COLL_ENABLE_SEARCH: bool = flag("GASNET_COLL_ENABLE_SEARCH", false,
            "Search for the best algorithm of each collective.").no_effect();
        COLL_TUNING_FILE: Option<PathBuf> = path("GASNET_COLL_TUNING_FILE",
            "File for the results of GASNET_COLL_ENABLE_SEARCH.")
            .no_effect();
    }
    "Non-contiguous transfers" {
        VIS_AMPIPE: bool = flag("GASNET_VIS_AMPIPE", true, "Pack small chunks into Active Messages.").no_effect();
        VIS_MAXCHUNK: Option<u64> = size("GASNET_VIS_MAXCHUNK", "", 0, 1 << 40,
            "Largest chunk that is packed.").unit("bytes").optional().no_effect();
        VIS_PUT_MAXCHUNK: Option<u64> = size("GASNET_VIS_PUT_MAXCHUNK", "", 0, 1 << 40,
            "Largest chunk of a put that is packed.")
            .unit("bytes").optional().unset_means("GASNET_VIS_MAXCHUNK").no_effect();
        VIS_GET_MAXCHUNK: Option<u64> = size("GASNET_VIS_GET_MAXCHUNK", "", 0, 1 << 40,
            "Largest chunk of a get that is packed.")
            .unit("bytes").optional().unset_means("GASNET_VIS_MAXCHUNK").no_effect();
        VIS_REMOTECONTIG: bool = flag("GASNET_VIS_REMOTECONTIG", true,
            "Pack transfers that are contiguous at the remote end into one put or get.").no_effect();
    }
    "Timers and limits" {
        TSC_RATE: String = form("GASNET_TSC_RATE", "walltime", "walltime, cpuinfo or a rate in Hz from 1000000 to \
            100000000000",
            is_tsc_rate, "Source of the tick rate of the processor's time-stamp counter.").scope(Scope::Rank);
        TSC_RATE_TOLERANCE: f64 = double("GASNET_TSC_RATE_TOLERANCE", "0.0005", 0.0, 1.0,
            "Relative error of the calibrated tick rate above which a warning is printed.").scope(Scope::Rank);
        TSC_RATE_HARD_TOLERANCE: f64 = double("GASNET_TSC_RATE_HARD_TOLERANCE", "0.02", 0.0, 1.0,
            "Relative error of the calibrated tick rate above which the job ends.").scope(Scope::Rank);
        TSC_VERBOSE: bool = flag("GASNET_TSC_VERBOSE", false, "Report the calibration of the tick rate.")
            .scope(Scope::Rank);
        MAXIMIZE_RLIMIT_CPU: bool = flag("GASNET_MAXIMIZE_RLIMIT_CPU", true,
            "Let gasnett_maximize_rlimits raise the limit on CPU time.").scope(Scope::Rank);
        MAXIMIZE_RLIMIT_DATA: bool = flag("GASNET_MAXIMIZE_RLIMIT_DATA", true,
            "Let gasnett_maximize_rlimits raise the limit on the data segment.").scope(Scope::Rank);
        MAXIMIZE_RLIMIT_STACK: bool = flag("GASNET_MAXIMIZE_RLIMIT_STACK", true,
            "Let gasnett_maximize_rlimits raise the limit on the stack.").scope(Scope::Rank);
        MAXIMIZE_RLIMIT_RSS: bool = flag("GASNET_MAXIMIZE_RLIMIT_RSS", true,
            "Let gasnett_maximize_rlimits raise the limit on resident memory.").scope(Scope::Rank);
        MAXIMIZE_RLIMIT_AS: bool = flag("GASNET_MAXIMIZE_RLIMIT_AS", true,
            "Let gasnett_maximize_rlimits raise the limit on the address space.").scope(Scope::Rank);
        HWLOC_QUERY: BindingQuery = choice("GASNET_HWLOC_QUERY", "thread",
            "Whose processors select the network adapter (GASNET_OFI_DEVICE_TYPE, GASNET_IBV_PORTS_TYPE): those of \
             the initialising thread, or of all threads that exist then.");
    }
    "Tracing and statistics" {
        TRACEFILE: Option<String> = text("GASNET_TRACEFILE",
            "Trace file; % stands for the rank. Also stdout, stderr or -.");
        TRACEMASK: String = form("GASNET_TRACEMASK", ALL_EVENTS, MASK, is_trace_mask, "Event kinds in the trace.");
        TRACENODES: RankSet = ranks("GASNET_TRACENODES", "Ranks that write a trace.");
        TRACEFLUSH: bool = flag("GASNET_TRACEFLUSH", false, "Flush the trace after every line.");
        TRACELOCAL: bool = flag("GASNET_TRACELOCAL", true, "Also trace puts and gets of a rank to itself.");
        STATSFILE: Option<String> = text("GASNET_STATSFILE", "Statistics file, named as in GASNET_TRACEFILE.");
        STATSMASK: String = form("GASNET_STATSMASK", ALL_EVENTS, MASK, is_trace_mask,
            "Event kinds in the statistics.");
        STATSNODES: RankSet = ranks("GASNET_STATSNODES", "Ranks that write statistics.");
        RECORD: Option<String> = text("GASNET_RECORD",
            "Recording of all calls for gasnet_replay, named as in GASNET_TRACEFILE. Ranks cannot share a file: use %.")
            .names_file().ours();
        RECORD_SIZE: u64 = size("GASNET_RECORD_SIZE", "16M", 1 << 12, 1 << 40,
            "Size of each rank's recording, of 16 bytes for each operation; later ones replace the first. Rounded \
             down to a power of two.").unit("bytes").ours();
        RECORD_PAYLOAD: RecordPayload = choice("GASNET_RECORD_PAYLOAD", "none",
            "What recordings contain of messages and puts besides their sizes: a checksum of arguments and payload, \
             or these themselves, too.").ours();
    }
    "Checks of the debug flavour" {
        SD_INIT: bool = flag("GASNET_SD_INIT", true,
            "Fill prepared payload buffers with a pattern, and check at Commit that the client has overwritten it.")
            .debug_only();
        SD_INITVAL: String = form("GASNET_SD_INITVAL", "NAN", FILL, is_fill, "Pattern of GASNET_SD_INIT.").debug_only();
        SD_INITLEN: u64 = size("GASNET_SD_INITLEN", "128", 0, 1 << 30,
            "Length of the pattern of GASNET_SD_INIT; 0 counts as 1.").unit("bytes").debug_only();
        MALLOC_INIT: bool = flag("GASNET_MALLOC_INIT", false, "Fill new memory of the debug allocator.").debug_only();
        MALLOC_INITVAL: String = form("GASNET_MALLOC_INITVAL", "NAN", FILL, is_fill, "Pattern of GASNET_MALLOC_INIT.")
            .debug_only();
        MALLOC_CLOBBER: bool = flag("GASNET_MALLOC_CLOBBER", false, "Overwrite memory that is freed.").debug_only();
        MALLOC_CLOBBERVAL: String = form("GASNET_MALLOC_CLOBBERVAL", "NAN", FILL, is_fill,
            "Pattern of GASNET_MALLOC_CLOBBER.").debug_only();
        MALLOC_LEAKALL: bool = flag("GASNET_MALLOC_LEAKALL", false, "Never reuse freed memory.").debug_only();
        MALLOC_SCANFREED: bool = flag("GASNET_MALLOC_SCANFREED", false, "Check for writes to freed memory.")
            .debug_only();
        MALLOC_EXTRACHECK: bool = flag("GASNET_MALLOC_EXTRACHECK", false, "Check the heap more often.").debug_only();
        MALLOCFILE: Option<String> = text("GASNET_MALLOCFILE",
            "Heap report at exit, named as in GASNET_TRACEFILE. Ranks cannot share a file: use %.")
            .debug_only();
        MALLOCNODES: RankSet = ranks("GASNET_MALLOCNODES", "Ranks that write a heap report.").debug_only();
    }
    // Clients and job scripts set these for every conduit. Their values are not checked. A conduit
    // that uses one declares it in a table of its own, and the variable leaves this list.
    "Other conduits and launchers" {
        PHYSMEM_NOPROBE: Option<String> = text("GASNET_PHYSMEM_NOPROBE",
            "The opposite of GASNET_PHYSMEM_PROBE, in old releases.")
            .no_effect();
        COLL_SCRATCH_SEG_SIZE: Option<String> = text("GASNET_COLL_SCRATCH_SEG_SIZE",
            "Old name of GASNET_COLL_SCRATCH_SIZE.").no_effect();
        IBV_SPAWNFN: Option<String> = text("GASNET_IBV_SPAWNFN", "As GASNET_SPAWNER, for ibv, as upcxx-run sets it.")
            .no_effect();
        SPAWN_CONTROL: Option<String> = text("GASNET_SPAWN_CONTROL",
            "Spawner through which the ranks of a network exchange their addresses.")
            .no_effect();
        ROUTE_OUTPUT: bool = flag("GASNET_ROUTE_OUTPUT", false,
            "Forward output to the first host over the connections of the job. Otherwise the remote shell forwards it.")
            .scope(Scope::Launcher);
        QUIET: bool = flag("GASNET_QUIET", false, "Suppress warnings of networks at start.");
        SUPPRESS_DEBUG_WARNING: Option<String> = text("GASNET_SUPPRESS_DEBUG_WARNING",
            "Suppress the warning of debug builds; this library has none.").no_effect();
        RCV_THREAD: bool = flag("GASNET_RCV_THREAD", false,
            "Receive on a thread of the library while no thread of the client polls, from neighbours and the network; \
             handlers run in it. Thread mode PAR only; not with smp, nor over networks that cannot wake a thread.");
        RCV_THREAD_RATE: u32 = count("GASNET_RCV_THREAD_RATE", "0", 0, 1 << 20,
            "Most wake-ups per second of the receive thread. 0: no limit.");
        RCV_THREAD_LOAD: f64 = double("GASNET_RCV_THREAD_LOAD", "1", 0.001, 1.0,
            "Most time that the receive thread is awake, as a part of all time.");
        RCV_THREAD_IDLE: u32 = count("GASNET_RCV_THREAD_IDLE", "0", 0, 1 << 31,
            "Time without arrivals after which the receive thread sleeps.").unit("ns");
        RCV_THREAD_POLL_MODE: Option<String> = text("GASNET_RCV_THREAD_POLL_MODE",
            "How the receive thread shares the network with other threads: each conduit's own locks decide.")
            .no_effect();
        SND_THREAD: bool = flag("GASNET_SND_THREAD", false,
            "A thread for completions: networks execute operations without one, and GASNET_RCV_THREAD also takes their \
             completions.").no_effect();
        SND_THREAD_RATE: Option<String> = text("GASNET_SND_THREAD_RATE", "See GASNET_SND_THREAD.").no_effect();
        SND_THREAD_IDLE: Option<String> = text("GASNET_SND_THREAD_IDLE", "See GASNET_SND_THREAD.").no_effect();
        SND_THREAD_POLL_MODE: Option<String> = text("GASNET_SND_THREAD_POLL_MODE", "See GASNET_SND_THREAD.")
            .no_effect();
        DOMAIN_COUNT: Option<String> = text("GASNET_DOMAIN_COUNT", "Number of communication domains of aries.")
            .no_effect();
        AM_DOMAIN_POLL_MASK: Option<String> = text("GASNET_AM_DOMAIN_POLL_MASK",
            "How often aries polls the domains of other threads.")
            .no_effect();
    }
    "Testing the library" {
        FAULTS: Option<FaultPlan> = faults("GASNET_FAULTS",
            "Faults to inject into the network. An error in release libraries.")
            .ours().debug_only();
        CALL_COUNTS: Option<PathBuf> = path("GASNET_CALL_COUNTS",
            "File to which the call audit appends the functions that a program calls.")
            .scope(Scope::Tests).ours();
        CALL_PROGRAM: Option<String> = text("GASNET_CALL_PROGRAM",
            "Name of the program in the file of GASNET_CALL_COUNTS.")
            .scope(Scope::Tests).ours();
        TEST_POLITE_SYNC: bool = flag("GASNET_TEST_POLITE_SYNC", false, "Test programs yield while they wait.")
            .scope(Scope::Tests);
        TEST_SET_AFFINITY: bool = flag("GASNET_TEST_SET_AFFINITY", false,
            "Test programs bind their threads to cores.").scope(Scope::Tests);
        TEST_THREAD_LIMIT: Option<u32> = count("GASNET_TEST_THREAD_LIMIT", "", 1, u32::MAX,
            "Maximum number of threads of a test program.")
            .unit("threads").scope(Scope::Tests).optional();
        TEST_TIME_SLACK: Option<f64> = double("GASNET_TEST_TIME_SLACK", "", 0.0, 1e9,
            "Tolerance of time measurements in test programs.")
            .scope(Scope::Tests).optional();
    }
}
