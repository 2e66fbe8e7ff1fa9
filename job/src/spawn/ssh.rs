//! The ssh spawner: a tree of remote shells, one per host, each of which becomes the node agent of
//! its host (ssh-spawner README).

use std::env;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::super::layout::JobLayout;
use super::super::options::{StartOptions, MAX_RANKS};
use super::super::tree::link::{Up, WORKER_ID};
use super::super::tree::listener::Listener;
use super::super::tree::message::{AgentMessage, Host, Pairs};
use super::super::tree::secret::Secret;
use super::super::tree::{Branch, Tree};
use super::super::{refuse, JobError};
use super::script::{self, RemoteCommand};
use super::{hosts, Contact};
use gasnet_sys::{fd, mem, net, process, started};

/// Limit for the agent above to send the layout.
const START_LIMIT: Duration = Duration::from_secs(60);
/// In effect no limit.
const EVER: Duration = Duration::from_secs(24 * 60 * 60);

/// The plan by which this process becomes the node agent of its host.
pub struct HostPlan {
    pub layout: JobLayout,
    /// This host's number, if it has ranks.
    pub host: Option<u32>,
    pub tree: Tree,
}

/// Begins a job of `options.ranks` ranks on the hosts that the environment names.
pub fn begin(options: &StartOptions) -> Result<HostPlan, JobError> {
    let remote = &options.remote;
    let hosts = hosts::list(|name| env::var_os(name), remote.keep_duplicates)?;
    let most = remote.most_hosts as usize;
    if most > hosts.names.len() {
        eprintln!(
            "gasnet: warning: request for {most} hosts ignored (-N, GASNET_SPAWN_HOSTS): {} names {}",
            hosts.source,
            hosts.names.len()
        );
    }
    let Some((layout, names)) = hosts::place_ranks(&hosts.names, options.ranks, remote.most_hosts, options.nbrhd_max)
    else {
        return refuse(format!(
            "cannot place {} ranks on the hosts of {}",
            options.ranks, hosts.source
        ));
    };
    if let Some(host) = (0..layout.hosts).find(|&host| layout.ranks_on(host).len() > MAX_RANKS as usize) {
        return refuse(format!(
            "{} of {} ranks would be on host {}: one host starts at most {MAX_RANKS}. {} names {} hosts; name more",
            layout.ranks_on(host).len(),
            layout.size,
            names[host as usize],
            hosts.source,
            names.len()
        ));
    }
    if options.verbose {
        eprintln!(
            "gasnet: {} ranks on {} hosts of {}: {}",
            layout.size,
            layout.hosts,
            hosts.source,
            names.join(" ")
        );
    }
    let host = position_here(&names);
    let todo = (0..layout.hosts)
        .filter(|&number| Some(number) != host)
        .map(|number| Host {
            number,
            name: names[number as usize].clone().into_bytes(),
        });
    let mut tree = Tree::new(Secret::new(), None, options.route_output.is_some());
    branch_out(&mut tree, &layout, todo.collect(), options, remote.master.as_deref())?;
    Ok(HostPlan { layout, host, tree })
}

fn position_here(names: &[String]) -> Option<u32> {
    let own_name = net::host_name();
    let own_addresses = net::addresses();
    let is_own = |ip: IpAddr| own_addresses.iter().any(|own| own.ip == ip);
    let short = |name: &str| name.split('.').next().map(str::to_owned);
    // A longer name than this host's own, or one of another domain, is looked up: Debian resolves
    // it to 127.0.1.1.
    let means_here = |name: &str| {
        let found = (name, 0).to_socket_addrs().into_iter().flatten();
        found
            .map(|a| a.ip().to_canonical())
            .any(|ip| ip.is_loopback() || is_own(ip))
    };
    let is_here = |name: &str| {
        name == own_name
            || name == "localhost"
            || own_name.split('.').next() == Some(name)
            || name.parse().is_ok_and(is_own)
            || (short(name) == short(&own_name) && means_here(name))
    };
    names.iter().position(|name| is_here(name)).map(|i| i as u32)
}

/// Connects to the agent of `contact`, and starts the hosts below this one.
pub fn join(contact: &Contact, options: &StartOptions) -> Result<HostPlan, JobError> {
    let addresses = contact.resolve(env::var("SSH_CONNECTION").ok().as_deref());
    let joined = connect_up(contact, &addresses, options).and_then(|joined| {
        let (own, hosts) = (contact.host, joined.layout.hosts);
        let is_wrong = |host: &Host| host.number >= hosts || host.number == own;
        if own >= hosts || joined.todo.iter().any(is_wrong) {
            return refuse("was asked to start hosts that are not in the job");
        }
        Ok(joined)
    });
    let Joined {
        layout, todo, mut tree, ..
    } = joined.map_err(|error| JobError::new(format!("host {}: {error}", net::host_name())))?;
    let place = place_below(contact, tree.own_address());
    branch_out(&mut tree, &layout, todo, options, place.as_deref())?;
    Ok(HostPlan {
        layout,
        host: Some(contact.host),
        tree,
    })
}

/// The address of this host for agents below it, if the user has limited the job to a network: the
/// one that `reached` the agent above. Not a loopback or link-local address, which other hosts do
/// not reach.
fn place_below(above: &Contact, reached: Option<IpAddr>) -> Option<String> {
    let is_reachable = |ip: &IpAddr| !ip.is_loopback() && net::addresses().iter().any(|own| own.ip == *ip);
    let reached = reached.filter(|ip| above.chosen && is_reachable(ip))?;
    Some(reached.to_string())
}

/// State that an agent got from the one above.
pub struct Joined {
    pub layout: JobLayout,
    /// Variables of the first host.
    pub variables: Pairs,
    /// The hosts below this one.
    pub todo: Vec<Host>,
    pub tree: Tree,
}

/// Connects to the agent of `contact` at one of these addresses, and waits for the layout.
pub fn connect_up(contact: &Contact, addresses: &[SocketAddr], options: &StartOptions) -> Result<Joined, JobError> {
    let failed = |why: &str| {
        JobError::new(format!(
            "cannot connect to the host above ({why}). Set GASNET_MASTERIP to an address of the first host that can \
             be reached from here, or with a process manager GASNET_WORKERIP to the network to use"
        ))
    };
    if addresses.is_empty() {
        let names = contact.addresses.join(", ");
        return Err(failed(&format!("cannot resolve any of its names: {names}")));
    }
    // The agent above may have to start other hosts before it answers.
    let limit = options.remote.limit.unwrap_or(EVER);
    let routed = options.route_output.is_some();
    let up = Up::call(addresses, contact.secret, contact.host, routed, limit);
    let mut up = up.map_err(|why| failed(&why))?;
    match up.link.wait(START_LIMIT) {
        Ok(AgentMessage::Start {
            ranges,
            nbrhd_max,
            variables,
            todo,
        }) => Ok(Joined {
            layout: JobLayout::new(ranges, nbrhd_max)
                .ok_or_else(|| JobError::new("received an impossible job layout"))?,
            variables,
            todo,
            tree: Tree::new(contact.secret, Some(up), routed),
        }),
        Ok(_) => refuse("received an unexpected message instead of the job's layout"),
        Err(why) => refuse(format!("did not receive the job's layout: {why}")),
    }
}

/// Divides `todo` equally among as many remote shells as may be started from here.
fn parts(todo: Vec<Host>, out_degree: u32) -> Vec<Vec<Host>> {
    let most = if out_degree == 0 {
        usize::MAX
    } else {
        out_degree as usize
    };
    let count = todo.len().min(most);
    let mut rest = todo.into_iter();
    let total = rest.len();
    (0..count)
        .map(|i| {
            rest.by_ref()
                .take(total / count + usize::from(i < total % count))
                .collect()
        })
        .collect()
}

fn branch_out(
    tree: &mut Tree,
    layout: &JobLayout,
    todo: Vec<Host>,
    options: &StartOptions,
    master: Option<&str>,
) -> Result<(), JobError> {
    if todo.is_empty() {
        return Ok(());
    }
    let remote = &options.remote;
    let Some(words) = shlex::split(&remote.options) else {
        return refuse(format!(
            "GASNET_SSH_OPTIONS={}: a quote or backslash has no end",
            remote.options
        ));
    };
    let (listener, endpoint) = listen(master, tree.secret)?;
    let mut branches: Vec<Branch> = parts(todo, remote.out_degree)
        .into_iter()
        .map(|part| branch(layout, part))
        .collect();
    for branch in &mut branches {
        let contact = Contact {
            host: branch.host.number,
            ..endpoint.clone()
        };
        if let Err(message) = start(branch, &contact, &words, layout, options) {
            tree.expect(listener, branches, None);
            tree.abandon();
            return refuse(message);
        }
    }
    tree.expect(listener, branches, remote.limit);
    Ok(())
}

fn branch(layout: &JobLayout, mut part: Vec<Host>) -> Branch {
    let ranks = part.iter().map(|host| layout.ranks_on(host.number).len() as u32).sum();
    let todo = part.split_off(1);
    Branch::new(part.remove(0), todo, ranks)
}

/// A listening socket for other hosts, and what workers need to connect to it.
pub fn listen(master: Option<&str>, secret: Secret) -> Result<(Listener, Contact), JobError> {
    let chosen: Option<IpAddr> = master.and_then(|m| m.trim().parse().ok());
    // An address that is not this host's may be that of a router that forwards connections.
    let own = chosen.filter(|ip| net::addresses().iter().any(|a| a.ip == *ip));
    let failed = |e| JobError::new(format!("cannot create a listening socket for other hosts: {e}"));
    let listener = Listener::open(own).map_err(failed)?;
    let port = listener.port().map_err(failed)?;
    let addresses = if let Some(master) = master {
        vec![master.trim().to_owned()]
    } else {
        let ips = net::addresses().into_iter().map(|a| a.ip.to_string());
        ips.chain([net::host_name()]).collect()
    };
    let contact = Contact {
        host: WORKER_ID,
        secret,
        port,
        addresses,
        chosen: master.is_some(),
    };
    Ok((listener, contact))
}

fn remote_shell(shell: &str, words: &[String], host: &OsStr) -> Command {
    let mut command = Command::new(shell);
    if process::is_privileged() {
        command.envs(process::search_path().map(|path| ("PATH", path)));
    }
    command.args(words);
    if Path::new(shell).file_name() == Some(OsStr::new("ssh")) {
        // Options of the user come first, and win. A host whose key has changed is not trusted with
        // the job's secret.
        command.args(["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new", "-T"]);
    }
    command.arg(host).arg(script::COMMAND);
    command
}

/// Starts the remote shell of a branch, and passes it the line.
fn start(
    branch: &mut Branch,
    contact: &Contact,
    words: &[String],
    layout: &JobLayout,
    options: &StartOptions,
) -> Result<(), String> {
    let remote = &options.remote;
    let here = started::folder().map_err(|e| format!("cannot get the current directory: {e}"))?;
    let folder = remote.folder.clone().unwrap_or_else(|| here.into_os_string());
    let start = RemoteCommand {
        folder: &folder,
        environment: env::vars_os().collect(),
        wins: remote.wins.clone(),
        assignment: contact.assignment(),
        env: &remote.env,
        words: script::program()?,
    };
    let name = OsString::from_vec(branch.host.name.clone());
    let mut command = remote_shell(&remote.command, words, &name);
    let line = start.line();
    // Only rank 0's host gets more input. A file does not block if the shell does not read.
    let goes_on = layout.host_of(0) == branch.host.number;
    command.stdin(if goes_on {
        Stdio::piped()
    } else {
        let file = mem::file_of("gasnet-start", &options.directory, &line);
        Stdio::from(file.map_err(|e| format!("cannot allocate memory for the input of a remote shell: {e}"))?)
    });
    // ssh makes a pipe non-blocking for all processes that share it: output of local ranks to a
    // full pipe would be lost.
    let output = |stream| fd::reopen_pipe(stream).map_or_else(Stdio::inherit, Stdio::from);
    command.stdout(output(1)).stderr(output(2));
    // A process group of its own, so that signals of a terminal do not end the connection before
    // the job.
    command.process_group(0);
    process::die_with_spawner(&mut command);
    if options.verbose {
        eprintln!("gasnet: host {}: {command:?}", name.to_string_lossy());
    }
    let mut shell = command.spawn().map_err(|e| {
        let advice = match e.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => "`ulimit -n` limits open files",
            Some(libc::EAGAIN | libc::ENOMEM) => "`ulimit -u` limits processes, `ulimit -v` memory",
            _ => "GASNET_SSH_CMD selects another one; options belong in GASNET_SSH_OPTIONS",
        };
        format!(
            "cannot start the remote shell \"{}\" for host {}: {e}. {advice}",
            remote.command,
            name.to_string_lossy()
        )
    })?;
    branch.shell = Some(shell.id() as i32);
    branch.input = shell.stdin.take().map(|input| (input.into(), line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_refuses_a_key_that_has_changed() {
        let key_checks = |shell: &str, words: &[String]| -> Vec<String> {
            let command = remote_shell(shell, words, OsStr::new("node"));
            let all = command.get_args().map(|word| word.to_string_lossy().into_owned());
            all.filter(|word| word.starts_with("StrictHostKeyChecking")).collect()
        };
        let own = ["-o".to_owned(), "StrictHostKeyChecking=yes".to_owned()];
        assert_eq!(key_checks("/usr/bin/ssh", &[]), ["StrictHostKeyChecking=accept-new"]);
        assert_eq!(key_checks("ssh", &own), [&own[1], "StrictHostKeyChecking=accept-new"]);
        assert!(key_checks("rsh", &[]).is_empty());
    }

    #[test]
    fn agents_listen_where_they_have_reached_the_one_above() {
        let own = net::addresses().first().map(|own| own.ip);
        let loopback = "127.0.0.1".parse().ok();
        for (chosen, reached, limited) in [
            (true, own, own.filter(|ip| !ip.is_loopback())),
            (true, loopback, None),
            (true, None, None),
            (false, own, None),
        ] {
            let above = Contact {
                host: 1,
                secret: Secret::new(),
                port: 1,
                addresses: Vec::new(),
                chosen,
            };
            let place = place_below(&above, reached);
            let (listener, contact) = listen(place.as_deref(), above.secret).unwrap();
            let ip = listener.ip().unwrap();
            assert_eq!(
                Some(ip).filter(|ip| !ip.is_unspecified()),
                limited,
                "{chosen} {reached:?}"
            );
            assert_eq!(contact.chosen, limited.is_some());
        }
    }

    #[test]
    fn hosts_are_parted_equally() {
        let host = |number| Host {
            number,
            name: Vec::new(),
        };
        let numbers = |degree| -> Vec<Vec<u32>> {
            let all = parts((0..7).map(host).collect(), degree);
            all.iter().map(|part| part.iter().map(|h| h.number).collect()).collect()
        };
        assert_eq!(numbers(3), [vec![0, 1, 2], vec![3, 4], vec![5, 6]]);
        assert_eq!(numbers(0).len(), 7);
        assert_eq!(numbers(1), [vec![0, 1, 2, 3, 4, 5, 6]]);
    }
}
