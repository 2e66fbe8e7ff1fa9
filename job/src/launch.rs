//! How the started process becomes the node agent of its host and forks the ranks there.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::agent::output::{self, OutputMode};
use super::agent::{self, AgentSetup, Child};
use super::control_block::ControlBlock;
use super::fresh::{self, Program};
use super::host::{control_memory, host_memory, nbrhd_memory, HostState, RankMemory};
use super::job::Job;
use super::layout::JobLayout;
use super::options::StartMethod;
use super::spawn::ssh::{self, HostPlan};
use super::tree::listener::MAX_UNAUTHENTICATED;
use super::tree::Tree;
use super::{control_socket, custom, mpi, pmi_bootstrap, stand_in, JobError, StartOptions};
use gasnet_sys::process::{self, Fork};
use gasnet_sys::{cpus, fd, signal};

pub(super) fn launch(options: &StartOptions) -> Result<Job, JobError> {
    let starts_ranks = match &options.start {
        StartMethod::Fork => options.ranks > 1,
        StartMethod::Ssh | StartMethod::SshChild(_) | StartMethod::Custom => true,
        StartMethod::Managed | StartMethod::CustomWorker | StartMethod::Fresh(_) => false,
    };
    let are_fresh = starts_ranks && fresh::are_needed()?;
    if are_fresh {
        stand_in::fork_agent()?;
    }
    let place = match &options.start {
        StartMethod::Ssh => ssh::begin(options)?,
        // The launcher process reports its own errors; it has no ranks.
        StartMethod::Custom => match custom::run(options)? {},
        StartMethod::CustomWorker => return pmi_bootstrap::join(options),
        StartMethod::Fresh(invitation) => return fresh::join(invitation, options),
        StartMethod::Managed if options.ranks > 1 => return pmi_bootstrap::join(options),
        StartMethod::Fork | StartMethod::Managed => alone(options)?,
        StartMethod::SshChild(contact) => ssh::join(contact, options).unwrap_or_else(|error| {
            eprintln!("gasnet: {error}");
            process::end(1);
        }),
    };
    let HostPlan { layout, host, tree } = place;
    let here = host.map_or(0, |host| layout.ranks_on(host).len() as u32);
    let relayed = !tree.is_alone();
    let program = are_fresh
        .then(|| Program::of_this(options, layout.size, here))
        .transpose()?;
    let control = match &program {
        None => control_block(options, layout.size, here, relayed)
            .map_err(|e| JobError::io("mapping the job control block", &e))?,
        Some(program) => program.control_block(layout.size, here, relayed)?,
    };
    let host_state = HostState {
        control,
        token: tree.secret.token(),
        cpus: cpus::usable(),
        layout,
        host,
        relayed,
    };
    if host_state.layout.size == 1 && !relayed && !are_fresh {
        let memory = nbrhd_memory(options, &host_memory(options)?)?;
        return Ok(Job::new(options, &host_state, 0, memory, None));
    }
    Launch::new(options, host_state, here, tree, program).run()
}

/// A control block for forked ranks. Where there is no memory object for it, tools cannot find it.
fn control_block(options: &StartOptions, ranks: u32, here: u32, relayed: bool) -> io::Result<ControlBlock> {
    match control_memory(options, ranks, here) {
        Ok(memory) => ControlBlock::on(memory.fd(), ranks, here, relayed),
        Err(_) => ControlBlock::create(ranks, here, relayed),
    }
}

/// A job on this host alone.
fn alone(options: &StartOptions) -> Result<HostPlan, JobError> {
    let layout = JobLayout::from_hosts(&vec![0; options.ranks as usize], options.nbrhd_max)
        .ok_or_else(|| JobError::new("a job needs at least one rank"))?;
    Ok(HostPlan {
        layout,
        host: Some(0),
        tree: Tree::alone(),
    })
}

/// State of the process that forks the ranks.
struct Launch<'a> {
    options: &'a StartOptions,
    host_state: HostState,
    children: Vec<Child>,
    outputs: Vec<(u32, [OwnedFd; 2])>,
    tree: Tree,
    /// If ranks are fresh processes.
    program: Option<Program>,
    /// Signals are blocked from before the first fork until a rank is ready for them.
    mask: signal::Mask,
    /// A client that ignores SIGCHLD would hide how ranks end. The ranks get its action back.
    child_signal: Option<libc::sigaction>,
    descriptors: Option<libc::rlimit>,
}

impl<'a> Launch<'a> {
    fn new(options: &'a StartOptions, host_state: HostState, here: u32, tree: Tree, program: Option<Program>) -> Self {
        // A control socket and two pipes per rank, the connections of each host, twice as
        // many unauthenticated peers as are kept, the memory of one neighbourhood, and some spare.
        let wanted = process::open_descriptors()
            + 3 * u64::from(here)
            + 4 * tree.branches.len() as u64
            + 2 * MAX_UNAUTHENTICATED as u64
            + 32;
        let descriptors = process::allow_descriptors(wanted).ok();
        let _ = process::flush_streams();
        let mask = signal::block_all();
        let child_signal = signal::saved(libc::SIGCHLD);
        signal::set_default(libc::SIGCHLD);
        Self {
            options,
            host_state,
            children: Vec::with_capacity(here as usize),
            outputs: Vec::new(),
            tree,
            program,
            mask,
            child_signal,
            descriptors,
        }
    }

    /// Returns in the ranks. Returns in the started process only if there is no job.
    fn run(mut self) -> Result<Job, JobError> {
        match self.fork_all() {
            Ok(Some(job)) => Ok(job),
            Ok(None) => agent::serve(AgentSetup {
                options: self.options,
                layout: &self.host_state.layout,
                host: self.host_state.host,
                // Remote shells deliver them.
                variables: Vec::new(),
                control: self.host_state.control,
                children: self.children,
                outputs: self.outputs,
                daemons: Vec::new(),
                tree: self.tree,
            }),
            Err(error) => {
                self.children.iter().for_each(Child::kill_and_wait);
                self.tree.abandon();
                self.restore();
                Err(error)
            }
        }
    }

    /// Restores what was changed for the fork.
    fn restore(&self) {
        if let Some(limit) = &self.descriptors {
            process::restore_descriptor_limit(limit);
        }
        if let Some(action) = &self.child_signal {
            signal::restore(libc::SIGCHLD, action);
        }
        signal::set_mask(&self.mask);
    }

    /// Forks the ranks of this host, neighbourhood by neighbourhood, so that each memory object is
    /// open only where it belongs. Returns a job in each rank, and none in the node agent.
    fn fork_all(&mut self) -> Result<Option<Job>, JobError> {
        let Some(host) = self.host_state.host else {
            return Ok(None);
        };
        mpi::before_ranks(self.program.is_some());
        let shared = host_memory(self.options)?;
        let ranks = self.host_state.layout.ranks_on(host);
        let mut rest = &ranks[..];
        while let Some(&first) = rest.first() {
            let nbrhd = self.host_state.layout.nbrhd(self.host_state.layout.nbrhd_of(first));
            let (these, others) = rest.split_at(nbrhd.count() as usize);
            let mut memory = Some(nbrhd_memory(self.options, &shared)?);
            for &rank in these {
                if let Some(job) = self.fork_one(rank, &mut memory)? {
                    return Ok(Some(job));
                }
            }
            rest = others;
        }
        Ok(None)
    }

    /// Forks a rank. Returns its job there, and none here.
    fn fork_one(&mut self, rank: u32, memory: &mut Option<RankMemory>) -> Result<Option<Job>, JobError> {
        let at_rank = |what: &str, error: &std::io::Error| {
            JobError::new(format!(
                "{what} for rank {rank} of {} failed: {error}. Use fewer ranks, or raise the limits of \
                 processes and descriptors (ulimit -u, ulimit -n)",
                self.host_state.layout.size
            ))
        };
        let (ours, theirs) = fd::seqpacket_pair().map_err(|e| at_rank("a socket", &e))?;
        let mode = OutputMode::of(self.options, self.tree.is_root());
        let pipes = mode
            .map(|_| output::pipes())
            .transpose()
            .map_err(|e| at_rank("a pipe", &e))?;
        let program = self.program.as_ref().zip(memory.as_ref());
        let invite =
            |(program, memory): (&Program, _)| program.invite(&self.host_state, rank, memory, [&ours, &theirs]);
        let invitation = program.map(invite).transpose()?;
        // SAFETY: this thread is the only one of the client. The child uses the allocator, which
        // glibc keeps usable across fork.
        match unsafe { process::fork() }.map_err(|e| at_rank("fork", &e))? {
            Fork::Parent(pid) => {
                self.outputs.extend(pipes.map(|(readers, _)| (rank, readers)));
                self.children.push(Child::new(rank, pid, None, ours));
                Ok(None)
            }
            Fork::Child => {
                // The forking thread stays the node agent, so its death is the agent's. This also
                // ends a rank that is stopped.
                process::die_with_parent();
                if invitation.is_none() {
                    control_socket::attach(theirs.as_fd());
                }
                // Only now: the agent's ends of this and of earlier control sockets, and its
                // connections, which the fork has copied.
                drop(ours);
                self.children.clear();
                self.outputs.clear();
                self.tree = Tree::alone();
                control_socket::check(theirs.as_raw_fd());
                if rank != 0 {
                    fd::empty_stdin();
                }
                if let Some((_, writers)) = pipes {
                    output::become_output(&writers);
                }
                self.restore();
                if let Some((program, invitation)) = self.program.as_ref().zip(invitation) {
                    program.execute(&invitation);
                }
                let memory = memory.take().expect("the loop above has made it");
                let (options, host_state) = (self.options, &self.host_state);
                Ok(Some(Job::new(options, host_state, rank, memory, Some(theirs))))
            }
        }
    }
}
