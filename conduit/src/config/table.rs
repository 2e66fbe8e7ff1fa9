//! The table: every environment variable of the library, its tools, its launcher and its tests, declared once.
//!
//! A conduit that has variables of its own declares them the same way and returns them from
//! [`crate::Conduit::variables`].
#![forbid(unsafe_code)]

use super::variable::{
    choice, choice_enum, count, double, faults, flag, form, int, path, ranks, segment_limit, signal, signals, size, text,
};
use super::{FaultPlan, Key, RankSet, Scope, SegmentLimit, SignalSet, Variable};
use gasnet_tools::parse;
use std::path::PathBuf;

/// Declares keys under headings, and [`TABLE`] with all of them.
macro_rules! variables {
    ($($section:literal { $($key:ident: $type:ty = $declaration:expr;)* })*) => {
        $($(
            #[doc = concat!("Key of a variable of the section \"", $section, "\"; its declaration says what it is.")]
            pub const $key: Key<$type> = $declaration;
        )*)*

        /// Every declaration, in the order of the documentation.
        pub static TABLE: &[Variable] = &[$($($key.variable.section($section)),*),*];

        /// Checks that every key's type is the one of its value; returns the names of those that differ.
        #[cfg(test)]
        pub(super) fn keys_of_wrong_type() -> Vec<&'static str> {
            use super::FromValue;
            let mut wrong = Vec::new();
            $($(
                if <$type>::from_value(&$key.variable.default_value()).is_none() {
                    wrong.push($key.variable.name);
                }
            )*)*
            wrong
        }
    };
}

choice_enum! {
    /// How a waiting thread spends its time (`GASNET_WAITMODE`).
    pub enum WaitMode {
        /// Spin only when alone on a core, yield, and sleep after a long idle time.
        Adaptive = "adaptive",
        /// Never sleep; yield when there are more ranks than cores.
        Spin = "spin",
        /// Sleep at once.
        Block = "block",
        /// Spin for a short time, then sleep.
        SpinBlock = "spinblock",
    }
}

choice_enum! {
    /// How ranks come into being (`GASNET_SMP_SPAWNER`).
    pub enum Spawner {
        /// What is found decides.
        Auto = "auto",
        /// The started process forks them.
        Fork = "fork",
        /// A process manager that speaks PMI started them.
        Pmi = "pmi",
        /// An MPI launcher started them; it is served through the PMI that it speaks.
        Mpi = "mpi",
        /// The launcher starts them through ssh.
        Ssh = "ssh",
    }
}

choice_enum! {
    /// Algorithm of barriers (`GASNET_BARRIER`).
    pub enum BarrierKind {
        /// Shared memory inside a neighbourhood, dissemination among neighbourhoods.
        Pshm = "PSHM",
        /// The better of the two dissemination algorithms.
        Dissem = "DISSEM",
        /// Dissemination by Active Messages.
        AmDissem = "AMDISSEM",
        /// Dissemination by puts.
        RdmaDissem = "RDMADISSEM",
        /// One counter on one rank: for debugging.
        AmCentral = "AMCENTRAL",
    }
}

choice_enum! {
    /// What tells hosts apart (`GASNET_HOST_DETECT`).
    pub enum HostDetect {
        /// The value of `gethostid`.
        GetHostId = "gethostid",
        /// A hash of the host's name.
        HostName = "hostname",
        /// What the conduit offers.
        Conduit = "conduit",
    }
}

choice_enum! {
    /// Whose processor binding counts (`GASNET_HWLOC_QUERY`).
    pub enum BindingQuery {
        /// That of the initialising thread.
        Thread = "thread",
        /// That of the whole process.
        Process = "process",
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

fn is_pmi(text: &str) -> bool {
    ["auto", "pmi1", "pmi2", "pmix"]
        .iter()
        .any(|w| text.trim().eq_ignore_ascii_case(w))
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

const FILL: &str = "NAN, sNAN, qNAN or a whole number, decimal or behind 0x,";
const MASK: &str = "a text of letters from GPRSWBLAXIOCDNHU, with ^ in front for all others,";
const ALL_EVENTS: &str = "GPRSWBLAXIOCDNHU";

variables! {
    "Start and information" {
        VERBOSEENV: bool = flag("GASNET_VERBOSEENV", false,
            "Print every variable and its value at start, and unknown GASNET_* names.");
        CONDUIT: String = form("GASNET_CONDUIT", super::AUTO_CONDUIT, "auto or the name of a conduit", is_conduit,
            "Conduit of the universal library (-lgasnet); auto takes the best that all ranks can use and, with GASNET_VERBOSEENV, says why.").ours();
        SPAWN_VERBOSE: bool = flag("GASNET_SPAWN_VERBOSE", false, "Report what the start and the end of the job do.");
        TMPDIR: Option<PathBuf> = path("GASNET_TMPDIR", "Directory for temporary files.").scope(Scope::Rank)
            .unset_means("TMPDIR, then /tmp");
        DISABLE_ENVDECODE: bool = flag("GASNET_DISABLE_ENVDECODE", false,
            "Leave environment values as a spawner encoded them.").no_effect();
        DISABLE_ARGDECODE: bool = flag("GASNET_DISABLE_ARGDECODE", false,
            "Leave command-line arguments as a spawner encoded them.").no_effect();
    }
    "Launch" {
        PSHM_NODES: u32 = count("GASNET_PSHM_NODES", "1", 1, 1 << 20, "Ranks of a job that is started without a launcher; at most 1024 on each host.")
            .scope(Scope::Launcher).unit("ranks");
        SPAWNER: Spawner = choice("GASNET_SPAWNER", "auto",
            "How the ranks come into being: fork on this host, ssh to those of a list, pmi or mpi by a process manager; auto for what is found.")
            .scope(Scope::Launcher).ours();
        SMP_SPAWNER: Spawner = choice("GASNET_SMP_SPAWNER", "auto", "The same for smp.").scope(Scope::Launcher);
        UDP_SPAWNER: Spawner = choice("GASNET_UDP_SPAWNER", "auto", "The same for udp.").scope(Scope::Launcher).ours();
        SPAWNFN: Option<String> = text("GASNET_SPAWNFN",
            "How programs of udp start their ranks, after the variables above: L on this host, S through remote shells, C by GASNET_CSPAWN_CMD.").scope(Scope::Launcher);
        CSPAWN_CMD: Option<String> = text("GASNET_CSPAWN_CMD",
            "Command that starts the ranks: %N is their number, %C what each is to run, %M hosts, %D the folder, %P the program; also AMUDP_CSPAWN_CMD, CSPAWN_CMD.")
            .scope(Scope::Launcher);
        CSPAWN_SERVERS: Option<String> = text("GASNET_CSPAWN_SERVERS", "Hosts for its %M; also AMUDP_CSPAWN_SERVERS, CSPAWN_SERVERS.")
            .scope(Scope::Launcher);
        CSPAWN_ROUTE_OUTPUT: bool = flag("GASNET_CSPAWN_ROUTE_OUTPUT", false,
            "Bring the output of ranks that GASNET_CSPAWN_CMD has started to the console. Otherwise the command has to.").scope(Scope::Launcher);
        MPIRUN_CMD: Option<String> = text("MPIRUN_CMD",
            "Command of a process manager for gasnetrun -spawner=mpi or pmi: %N ranks, %C program and arguments, %P and %A each of them, %M number of hosts, \
             %H GASNET_NODEFILE, %D the folder, %% a percent sign.").scope(Scope::Gasnetrun)
            .unset_means("srun, mpiexec.hydra, mpiexec or mpirun, as found");
        PMIRUN_CMD: Option<String> = text("PMIRUN_CMD", "The same; -spawner=pmi looks at it before MPIRUN_CMD.").scope(Scope::Gasnetrun)
            .unset_means("MPIRUN_CMD");
        ENV_CMD: Option<String> = text("GASNET_ENV_CMD", "What env is called on the other hosts; also AMUDP_ENV_CMD, ENV_CMD.").scope(Scope::Launcher)
            .unset_means("env");
        WORKER_RANK: Option<String> = text("GASNET_WORKER_RANK",
            "Number of a rank that GASNET_CSPAWN_CMD has started, or the variable that holds it, such as SLURM_PROCID.").scope(Scope::Rank);
        LINEBUFFERSZ: u32 = count("GASNET_LINEBUFFERSZ", "1024", 0, 1 << 20,
            "Longest line that is kept together when output is brought to the first host; 0: output is shown as it comes.").unit("bytes").scope(Scope::Launcher);
        USE_GETHOSTID: Option<String> = text("GASNET_USE_GETHOSTID", "Old name of GASNET_HOST_DETECT=gethostid.").no_effect();
        SSH_SERVERS: Option<String> = text("GASNET_SSH_SERVERS",
            "Hosts to start ranks on, between commas or spaces; also AMUDP_SSH_SERVERS, SSH_SERVERS.").scope(Scope::Launcher);
        SSH_NODEFILE: Option<PathBuf> = path("GASNET_SSH_NODEFILE", "File of hosts, one in each line; counts before GASNET_SSH_SERVERS.")
            .scope(Scope::Launcher);
        NODEFILE: Option<PathBuf> = path("GASNET_NODEFILE", "The same; counts after GASNET_SSH_SERVERS.").scope(Scope::Launcher)
            .unset_means("the list of a batch system: PBS_NODEFILE, LSB_HOSTS, PE_HOSTFILE, SLURM_JOB_NODELIST");
        SSH_KEEPDUP: bool = flag("GASNET_SSH_KEEPDUP", false, "A host that is named twice gets ranks twice.").scope(Scope::Launcher);
        SSH_CMD: Option<String> = text("GASNET_SSH_CMD", "Remote shell; also AMUDP_SSH_CMD, SSH_CMD.").scope(Scope::Launcher).unset_means("ssh");
        SSH_OPTIONS: Option<String> = text("GASNET_SSH_OPTIONS",
            "What the remote shell gets before the host's name, with a shell's quotes; also AMUDP_SSH_OPTIONS, SSH_OPTIONS.").scope(Scope::Launcher);
        SSH_OUT_DEGREE: u32 = count("GASNET_SSH_OUT_DEGREE", "32", 0, 65536,
            "Most remote shells that one host starts; 0 for no limit, so that the first host starts all.").scope(Scope::Launcher);
        SSH_REMOTE_PATH: Option<PathBuf> = path("GASNET_SSH_REMOTE_PATH", "Folder on the other hosts; also AMUDP_SSH_REMOTE_PATH, SSH_REMOTE_PATH.")
            .scope(Scope::Launcher).unset_means("the current one");
        MASTERIP: Option<String> = text("GASNET_MASTERIP", "Address of the host that starts a job, as the other hosts reach it.")
            .scope(Scope::Launcher).unset_means("where a remote shell came from, then all addresses of that host");
        WORKERIP: Option<String> = text("GASNET_WORKERIP", "An address of the network that ranks on different hosts shall use.")
            .scope(Scope::Launcher).unset_means("that by which their hosts have found each other");
        SPAWN_HOSTS: u32 = count("GASNET_SPAWN_HOSTS", "0", 0, 1 << 20, "Most hosts of a list to use; 0 for all.").scope(Scope::Launcher).ours();
        SPAWN_ENVIRONMENT: Option<String> = text("GASNET_SPAWN_ENVIRONMENT",
            "Variables, between commas, that win over those which a host's own session sets. All others are passed on where it does not.")
            .scope(Scope::Launcher).ours();
        SPAWN_TIMEOUT: f64 = double("GASNET_SPAWN_TIMEOUT", "120", 0.0, 86400.0,
            "How long the other hosts of a job may take to call the one that has started them; a process manager's ranks wait for each other ten times as long; 0 for ever.").unit("seconds")
            .scope(Scope::Launcher).ours();
        PMI: String = form("GASNET_PMI", "auto", "auto, pmi1, pmi2 or pmix", is_pmi,
            "Which interface to use of the process manager that has started the ranks.").scope(Scope::Launcher).ours();
        PMIX_LIBRARY: Option<String> = text("GASNET_PMIX_LIBRARY", "PMIx library, by name or path.").scope(Scope::Rank)
            .unset_means("libpmix.so.2, then libpmix.so").ours();
        LABEL_OUTPUT: bool = flag("GASNET_LABEL_OUTPUT", false, "Put the rank in front of every line of output.")
            .scope(Scope::Launcher).ours();
    }
    "Exit and signals" {
        CATCH_EXIT: bool = flag("GASNET_CATCH_EXIT", true, "End the whole job when a rank returns from main or calls exit.");
        NO_CATCH_SIGNAL: Option<SignalSet> = signals("GASNET_NO_CATCH_SIGNAL",
            "Signals that keep the handler they had; * for all of them.");
        EXITTIMEOUT: Option<f64> = double("GASNET_EXITTIMEOUT", "", 0.0, 86400.0,
            "How long an ending job waits for its ranks before it kills them.").unit("seconds").optional()
            .unset_means("the smaller of GASNET_EXITTIMEOUT_MAX and GASNET_EXITTIMEOUT_MIN + ranks × GASNET_EXITTIMEOUT_FACTOR; for ranks that neither wait nor poll GASNET_EXITTIMEOUT_MAX after a success, a second after a failure");
        EXITTIMEOUT_MAX: f64 = double("GASNET_EXITTIMEOUT_MAX", "30", 0.0, 86400.0, "Upper bound of the computed exit timeout.")
            .unit("seconds");
        EXITTIMEOUT_MIN: f64 = double("GASNET_EXITTIMEOUT_MIN", "2", 0.0, 86400.0, "Constant part of the computed exit timeout.")
            .unit("seconds");
        EXITTIMEOUT_FACTOR: f64 = double("GASNET_EXITTIMEOUT_FACTOR", "0.25", 0.0, 3600.0,
            "Part of the exit timeout for each rank.")
            .unit("seconds");
        FS_SYNC: bool = flag("GASNET_FS_SYNC", false, "Call sync when the job ends.");
    }
    "Debugging" {
        FREEZE: bool = flag("GASNET_FREEZE", false, "Pause at start until a debugger lets the rank go on.");
        FREEZE_ON_ERROR: bool = flag("GASNET_FREEZE_ON_ERROR", false, "Pause for a debugger on a fatal error or signal.");
        FREEZE_SIGNAL: Option<i32> = signal("GASNET_FREEZE_SIGNAL", "Signal that pauses the rank for a debugger.");
        BACKTRACE: bool = flag("GASNET_BACKTRACE", false, "Print a backtrace on a fatal error or signal, to the trace file as well.");
        BACKTRACE_NODES: RankSet = ranks("GASNET_BACKTRACE_NODES", "Ranks that may print a backtrace.");
        BACKTRACE_SIGNAL: Option<i32> = signal("GASNET_BACKTRACE_SIGNAL", "Signal that prints a backtrace and goes on.");
        BACKTRACE_TYPE: Option<String> = text("GASNET_BACKTRACE_TYPE",
            "Sources of a backtrace, in order of preference: the name of the client's own, GDB, EXECINFO.");
        BACKTRACE_MT: bool = flag("GASNET_BACKTRACE_MT", true, "Show all threads in a backtrace, where its source can.");
        STALL_TIMEOUT: f64 = double("GASNET_STALL_TIMEOUT", "0", 0.0, 1e6,
            "Report what a rank waits for after this long without progress, and when it goes on; with GASNET_BACKTRACE also where. 0 for never.")
            .unit("seconds").ours();
    }
    "Segments" {
        MAX_SEGSIZE: SegmentLimit = segment_limit("GASNET_MAX_SEGSIZE", "0.85/H",
            "Upper limit of segment memory, per process (/P) or per host (/H).");
        USE_HUGEPAGES: bool = flag("GASNET_USE_HUGEPAGES", false,
            "Use huge pages for segments; falls back to normal pages. Where it is not set and HUGETLB_DEFAULT_PAGE_SIZE is: yes.");
        NUMA: bool = flag("GASNET_NUMA", true,
            "On machines with several NUMA nodes, prefer that of a rank's cores for its segment, unless its cores are of several nodes.").ours();
        NUMA_LIBRARY: Option<String> = text("GASNET_NUMA_LIBRARY",
            "NUMA library, by name or path; used even if the machine seems to have one node.").scope(Scope::Rank)
            .unset_means("libnuma.so.1, if the machine has several nodes").ours();
        DISABLE_MUNMAP: bool = flag("GASNET_DISABLE_MUNMAP", false,
            "Make malloc keep its memory: no mmap, no return to the system.").no_effect();
        USE_PSHM_SINGLETON: bool = flag("GASNET_USE_PSHM_SINGLETON", false,
            "Use shared memory also for a neighbourhood of one process.").no_effect();
    }
    "Device memory" {
        CUDA_LIBRARY: Option<String> = text("GASNET_CUDA_LIBRARY", "CUDA driver library, by name or path.").scope(Scope::Rank)
            .unset_means("libcuda.so.1").ours();
        HIP_LIBRARY: Option<String> = text("GASNET_HIP_LIBRARY", "HIP runtime library, by name or path.").scope(Scope::Rank)
            .unset_means("libamdhip64.so, then .so.7, .so.6 and .so.5").ours();
        ZE_LIBRARY: Option<String> = text("GASNET_ZE_LIBRARY", "Level Zero loader library, by name or path.").scope(Scope::Rank)
            .unset_means("libze_loader.so.1").ours();
    }
    "Neighbourhoods" {
        SUPERNODE_MAXSIZE: u32 = count("GASNET_SUPERNODE_MAXSIZE", "0", 0, 65535,
            "Most processes in a neighbourhood; 0 for no limit. Without a network all are one, and a smaller number gets a warning.").unit("ranks");
        HOST_DETECT: HostDetect = choice("GASNET_HOST_DETECT", "hostname", "What tells hosts apart.").no_effect();
        NODEMAP_EXACT: bool = flag("GASNET_NODEMAP_EXACT", true, "Find every neighbour, in any layout of the ranks.").no_effect();
        PSHM_NETWORK_DEPTH: u32 = count("GASNET_PSHM_NETWORK_DEPTH", "32", 4, 65536,
            "Largest messages to a neighbour that fit its queue before the sender waits.").unit("messages");
        PSHM_RING_SIZE: u64 = size("GASNET_PSHM_RING_SIZE", "0", 0, 1 << 30,
            "Bytes of one ring of requests; 0 for automatic; rounded down to a power of two from 4 KB to 2 MB.").unit("bytes").ours();
        PSHM_KERNEL_COPY: bool = flag("GASNET_PSHM_KERNEL_COPY", true,
            "Let the kernel copy to and from memory of neighbours that is not shared; otherwise messages carry it.").ours();
        PSHM_COLL_TEAMS: u32 = count("GASNET_PSHM_COLL_TEAMS", "256", 0, 65535,
            "Teams of a process whose collectives may use shared memory; one in 16 of them also for long data.").unit("teams").ours();
        PSHM_BARRIER_HIER: bool = flag("GASNET_PSHM_BARRIER_HIER", true,
            "Meet in shared memory first in a barrier among neighbourhoods.").no_effect();
        PSHM_BARRIER_RADIX: i64 = int("GASNET_PSHM_BARRIER_RADIX", "0", -65535, 65535,
            "Radix of the barrier in shared memory: 0 flat, positive children per process, negative group size.").no_effect();
    }
    "Waiting and threads" {
        WAITMODE: WaitMode = choice("GASNET_WAITMODE", "adaptive",
            "How a waiting thread spends its time.").scope(Scope::Rank).ours();
        HOST_CORES: u32 = count("GASNET_HOST_CORES", "0", 0, 1 << 20,
            "Processor cores that the ranks of a host share: more ranks than these are patient with each other. 0: those that the ranks may run on, within \
             the quota of their control group.").unit("cores").ours();
        MAX_THREADS: u32 = count("GASNET_MAX_THREADS", "4294967295", 1, u32::MAX,
            "Most client threads of a process that GASNet serves at one time.").unit("threads").unset_means("no limit");
        THREAD_STACK_MIN: u64 = size("GASNET_THREAD_STACK_MIN", "0", 0, 1 << 40,
            "Least stack of threads that a conduit starts; smp and sock start none.").unit("bytes").no_effect();
        THREAD_STACK_PAD: u64 = size("GASNET_THREAD_STACK_PAD", "0", 0, 1 << 40,
            "Added to the default stack of such threads.").unit("bytes").no_effect();
    }
    "Barriers and collectives" {
        BARRIER: BarrierKind = choice("GASNET_BARRIER", "DISSEM",
            "Algorithm of barriers; every name gives the one that fits the neighbourhoods.").no_effect();
        COLL_SCRATCH_SIZE: u64 = size("GASNET_COLL_SCRATCH_SIZE", "2MB", 0, 1 << 40,
            "Scratch space of the primordial team on each rank; small values are raised.").unit("bytes").no_effect();
        COLL_ENABLE_SEARCH: bool = flag("GASNET_COLL_ENABLE_SEARCH", false,
            "Search for the best algorithm of each collective.").no_effect();
        COLL_TUNING_FILE: Option<PathBuf> = path("GASNET_COLL_TUNING_FILE", "File of the results of that search.").no_effect();
    }
    "Non-contiguous transfers" {
        VIS_AMPIPE: bool = flag("GASNET_VIS_AMPIPE", true, "Pack small pieces into Active Messages.").no_effect();
        VIS_MAXCHUNK: Option<u64> = size("GASNET_VIS_MAXCHUNK", "", 0, 1 << 40,
            "Largest piece that is packed.").unit("bytes").optional().no_effect();
        VIS_PUT_MAXCHUNK: Option<u64> = size("GASNET_VIS_PUT_MAXCHUNK", "", 0, 1 << 40, "Largest piece of a put that is packed.")
            .unit("bytes").optional().unset_means("GASNET_VIS_MAXCHUNK").no_effect();
        VIS_GET_MAXCHUNK: Option<u64> = size("GASNET_VIS_GET_MAXCHUNK", "", 0, 1 << 40, "Largest piece of a get that is packed.")
            .unit("bytes").optional().unset_means("GASNET_VIS_MAXCHUNK").no_effect();
        VIS_REMOTECONTIG: bool = flag("GASNET_VIS_REMOTECONTIG", true,
            "Pack transfers that are contiguous at the remote end into one put or get.").no_effect();
    }
    "Timers and limits" {
        TSC_RATE: String = form("GASNET_TSC_RATE", "walltime", "walltime, cpuinfo or a rate in Hz from 1000000 to 100000000000",
            is_tsc_rate, "Where the rate of the processor's tick counter comes from.").scope(Scope::Rank);
        TSC_RATE_TOLERANCE: f64 = double("GASNET_TSC_RATE_TOLERANCE", "0.0005", 0.0, 1.0,
            "Relative error of the calibrated tick rate that gives a warning.").scope(Scope::Rank);
        TSC_RATE_HARD_TOLERANCE: f64 = double("GASNET_TSC_RATE_HARD_TOLERANCE", "0.02", 0.0, 1.0,
            "Relative error of the calibrated tick rate that ends the job.").scope(Scope::Rank);
        TSC_VERBOSE: bool = flag("GASNET_TSC_VERBOSE", false, "Report the calibration of the tick rate.").scope(Scope::Rank);
        MAXIMIZE_RLIMIT_CPU: bool = flag("GASNET_MAXIMIZE_RLIMIT_CPU", true,
            "Let gasnett_maximize_rlimits raise the limit of processor time.").scope(Scope::Rank);
        MAXIMIZE_RLIMIT_DATA: bool = flag("GASNET_MAXIMIZE_RLIMIT_DATA", true,
            "Let gasnett_maximize_rlimits raise the limit of the data segment.").scope(Scope::Rank);
        MAXIMIZE_RLIMIT_STACK: bool = flag("GASNET_MAXIMIZE_RLIMIT_STACK", true,
            "Let gasnett_maximize_rlimits raise the limit of the stack.").scope(Scope::Rank);
        MAXIMIZE_RLIMIT_RSS: bool = flag("GASNET_MAXIMIZE_RLIMIT_RSS", true,
            "Let gasnett_maximize_rlimits raise the limit of resident memory.").scope(Scope::Rank);
        MAXIMIZE_RLIMIT_AS: bool = flag("GASNET_MAXIMIZE_RLIMIT_AS", true,
            "Let gasnett_maximize_rlimits raise the limit of address space.").scope(Scope::Rank);
        HWLOC_QUERY: BindingQuery = choice("GASNET_HWLOC_QUERY", "thread",
            "Whose processor binding chooses a network card.").no_effect();
    }
    "Tracing and statistics" {
        TRACEFILE: Option<String> = text("GASNET_TRACEFILE",
            "File of the trace; % stands for the rank; also stdout, stderr or -.");
        TRACEMASK: String = form("GASNET_TRACEMASK", ALL_EVENTS, MASK, is_trace_mask, "Kinds of events in the trace.");
        TRACENODES: RankSet = ranks("GASNET_TRACENODES", "Ranks that write a trace.");
        TRACEFLUSH: bool = flag("GASNET_TRACEFLUSH", false, "Write the trace after every line.");
        TRACELOCAL: bool = flag("GASNET_TRACELOCAL", true, "Trace puts and gets of a rank to itself too.");
        STATSFILE: Option<String> = text("GASNET_STATSFILE", "File of the statistics; as GASNET_TRACEFILE.");
        STATSMASK: String = form("GASNET_STATSMASK", ALL_EVENTS, MASK, is_trace_mask,
            "Kinds of events in the statistics.");
        STATSNODES: RankSet = ranks("GASNET_STATSNODES", "Ranks that write statistics.");
    }
    "Checks of the debug flavour" {
        SD_INIT: bool = flag("GASNET_SD_INIT", true,
            "Fill prepared payload buffers with a pattern, and check at Commit that it is gone.").debug_only();
        SD_INITVAL: String = form("GASNET_SD_INITVAL", "NAN", FILL, is_fill, "That pattern.").debug_only();
        SD_INITLEN: u64 = size("GASNET_SD_INITLEN", "128", 0, 1 << 30,
            "Length of that pattern; 0 counts as 1.").unit("bytes").debug_only();
        MALLOC_INIT: bool = flag("GASNET_MALLOC_INIT", false, "Fill new memory of the debug allocator.").debug_only();
        MALLOC_INITVAL: String = form("GASNET_MALLOC_INITVAL", "NAN", FILL, is_fill, "What to fill new memory with.").debug_only();
        MALLOC_CLOBBER: bool = flag("GASNET_MALLOC_CLOBBER", false, "Overwrite memory that is freed.").debug_only();
        MALLOC_CLOBBERVAL: String = form("GASNET_MALLOC_CLOBBERVAL", "NAN", FILL, is_fill,
            "What to overwrite it with.").debug_only();
        MALLOC_LEAKALL: bool = flag("GASNET_MALLOC_LEAKALL", false, "Never hand out freed memory again.").debug_only();
        MALLOC_SCANFREED: bool = flag("GASNET_MALLOC_SCANFREED", false, "Look for writes to freed memory.").debug_only();
        MALLOC_EXTRACHECK: bool = flag("GASNET_MALLOC_EXTRACHECK", false, "Check the heap more often.").debug_only();
        MALLOCFILE: Option<String> = text("GASNET_MALLOCFILE", "File of a heap report at exit; as GASNET_TRACEFILE, but ranks do not share one: use %.").debug_only();
        MALLOCNODES: RankSet = ranks("GASNET_MALLOCNODES", "Ranks that write a heap report.").debug_only();
    }
    // Clients and job scripts set these whatever the conduit is. Values are not looked at; a conduit that uses one declares it itself, and then it
    // leaves this list.
    "Other conduits and launchers" {
        PHYSMEM_MAX: Option<String> = text("GASNET_PHYSMEM_MAX", "Most memory of a host that ibv registers; see GASNET_MAX_SEGSIZE.").no_effect();
        PHYSMEM_PROBE: Option<String> = text("GASNET_PHYSMEM_PROBE", "Try at start how much memory ibv can register.").no_effect();
        PHYSMEM_NOPROBE: Option<String> = text("GASNET_PHYSMEM_NOPROBE", "The contrary, in old releases.").no_effect();
        COLL_SCRATCH_SEG_SIZE: Option<String> = text("GASNET_COLL_SCRATCH_SEG_SIZE",
            "Old name of GASNET_COLL_SCRATCH_SIZE.").no_effect();
        IBV_SPAWNER: Option<String> = text("GASNET_IBV_SPAWNER", "As GASNET_SPAWNER, for ibv.").no_effect();
        OFI_SPAWNER: Option<String> = text("GASNET_OFI_SPAWNER", "The same for ofi.").no_effect();
        UCX_SPAWNER: Option<String> = text("GASNET_UCX_SPAWNER", "The same for ucx.").no_effect();
        IBV_SPAWNFN: Option<String> = text("GASNET_IBV_SPAWNFN", "The same for ibv, as upcxx-run passes it.").no_effect();
        SPAWN_CONTROL: Option<String> = text("GASNET_SPAWN_CONTROL", "Who tells the ranks of a network where they are.").no_effect();
        ROUTE_OUTPUT: bool = flag("GASNET_ROUTE_OUTPUT", false,
            "Bring output to the first host over the job's own connections. Otherwise the remote shell does it.").scope(Scope::Launcher);
        QUIET: Option<String> = text("GASNET_QUIET", "Leave out warnings that networks give at start; there are none here.").no_effect();
        SUPPRESS_DEBUG_WARNING: Option<String> = text("GASNET_SUPPRESS_DEBUG_WARNING",
            "Leave out a warning of debug builds; there is none here.").no_effect();
        RCV_THREAD: Option<String> = text("GASNET_RCV_THREAD", "Receive on a thread of the conduit.").no_effect();
        PINNED_REGIONS_MAX: Option<String> = text("GASNET_PINNED_REGIONS_MAX", "Most registered regions of ibv.").no_effect();
        IBV_PORTS_VERBOSE: Option<String> = text("GASNET_IBV_PORTS_VERBOSE", "Report the ports that ibv uses.").no_effect();
        USE_FENCED_PUTS: Option<String> = text("GASNET_USE_FENCED_PUTS", "Fence puts of ibv; memory of neighbours needs none.").no_effect();
        USE_ODP: Option<String> = text("GASNET_USE_ODP", "Let ibv page on demand.").no_effect();
        ODP_VERBOSE: Option<String> = text("GASNET_ODP_VERBOSE", "Warn where ibv cannot.").no_effect();
        AMRDMA_MAX_PEERS: Option<String> = text("GASNET_AMRDMA_MAX_PEERS", "Peers to which ibv sends messages by puts.").no_effect();
        DOMAIN_COUNT: Option<String> = text("GASNET_DOMAIN_COUNT", "Communication domains of aries.").no_effect();
        AM_DOMAIN_POLL_MASK: Option<String> = text("GASNET_AM_DOMAIN_POLL_MASK", "How often aries polls the domains of others.").no_effect();
        MPI_THREAD: Option<String> = text("GASNET_MPI_THREAD", "Thread level for which mpi starts MPI.").no_effect();
    }
    "Testing the library" {
        FAULTS: Option<FaultPlan> = faults("GASNET_FAULTS", "Faults to inject between ranks.").ours();
        CALL_COUNTS: Option<PathBuf> = path("GASNET_CALL_COUNTS",
            "File to which the call audit appends the functions that a program calls.")
            .scope(Scope::Tests).ours();
        CALL_PROGRAM: Option<String> = text("GASNET_CALL_PROGRAM", "Name of the program in that file.").scope(Scope::Tests).ours();
        TEST_POLITE_SYNC: bool = flag("GASNET_TEST_POLITE_SYNC", false, "Test programs yield while they wait.").scope(Scope::Tests);
        TEST_SET_AFFINITY: bool = flag("GASNET_TEST_SET_AFFINITY", false,
            "Test programs bind their threads to cores.").scope(Scope::Tests);
        TEST_THREAD_LIMIT: Option<u32> = count("GASNET_TEST_THREAD_LIMIT", "", 1, u32::MAX, "Most threads of a test program.")
            .unit("threads").scope(Scope::Tests).optional();
        TEST_TIME_SLACK: Option<f64> = double("GASNET_TEST_TIME_SLACK", "", 0.0, 1e9,
            "Slack of time measurements in test programs.")
            .scope(Scope::Tests).optional();
    }
}
