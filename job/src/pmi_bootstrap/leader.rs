//! The leader of a host: it accepts the other ranks, sends them the host's endpoint, and forks the
//! node agent.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Instant;

use super::acceptor::Acceptor;
use super::rendezvous::{self, LocalRank, Rendezvous, MESSAGE_TIME};
use super::{handshake, hosts};
use crate::agent::{self, AgentSetup};
use crate::pmi::current::Manager;
use crate::pmi::VALUE_MAX;
use crate::spawn::ssh::{self, HostPlan, Joined};
use crate::spawn::Contact;
use crate::tree::listener::Listener;
use crate::tree::message::AgentMessage;
use crate::tree::secret::Secret;
use crate::tree::Tree;
use crate::{environment, refuse, JobError, StartOptions};
use gasnet_sys::process::{self, Fork};
use gasnet_sys::{fd, net, signal};

/// Initial knowledge of this host's agent about the others.
enum Place {
    /// It is the root, and knows all hosts.
    Root(Box<Joined>),
    /// It connects to the agent above.
    Below(Contact),
}

/// The state of the leader before it forks the agent.
pub struct Leader {
    local_ranks: BTreeMap<u32, LocalRank>,
    listener: Listener,
    first: u32,
}

impl Leader {
    /// Accepts all ranks of this host, which have connected before the fence, and sends them the
    /// endpoint.
    pub fn new(acceptor: Acceptor, rendezvous: &mut Rendezvous, options: &StartOptions) -> Result<Self, JobError> {
        let failed = |e: &io::Error| JobError::io("accepting the other ranks of this host", e);
        let own = rendezvous.own_end.take();
        // A peer that has not sent its rank by now is not a rank.
        let end = Instant::now() + MESSAGE_TIME;
        let mut local_ranks: BTreeMap<u32, LocalRank> = own
            .into_iter()
            .chain(acceptor.close())
            .filter_map(|stream| LocalRank::admit(stream, end).ok())
            .collect();
        let Some(&first) = local_ranks.keys().next() else {
            return Err(failed(&io::Error::other("no rank has connected")));
        };
        let chosen = options.worker_address()?;
        // Of a loopback address other agents get the host's name only, which may mean any.
        let listener = Listener::open(chosen.filter(|ip| !ip.is_loopback())).map_err(|e| failed(&e))?;
        let port = listener.port().map_err(|e| failed(&e))?;
        let addresses = match chosen {
            Some(address) => vec![address],
            None => net::addresses().into_iter().map(|a| a.ip).collect(),
        };
        let text = endpoint(first, port, &addresses).into_bytes();
        for member in local_ranks.values_mut() {
            let message = AgentMessage::Endpoint { text: text.clone() };
            rendezvous::send(&mut member.stream, &message, &[]).map_err(|e| failed(&e))?;
        }
        Ok(Self {
            local_ranks,
            listener,
            first,
        })
    }

    /// Forks the agent as a grandchild, so that the client has no unknown child.
    pub fn start_agent(self, manager: &mut Manager, secret: Secret, options: &StartOptions) -> Result<(), JobError> {
        let place = self.place(manager, secret, options)?;
        let _ = process::flush_streams();
        let mask = signal::block_all();
        // SAFETY: as for forked ranks: the child uses the allocator, which glibc keeps usable, and
        // our own state.
        let forked = unsafe { process::fork() }.map_err(|e| JobError::io("forking the node agent of this host", &e));
        match forked {
            Ok(Fork::Parent(pid)) => {
                process::wait(pid);
                signal::set_mask(&mask);
                Ok(())
            }
            Ok(Fork::Child) => {
                // SAFETY: as above.
                if !matches!(unsafe { process::fork() }, Ok(Fork::Child)) {
                    process::end(0);
                }
                for descriptor in manager.descriptors() {
                    fd::close_copy(descriptor);
                }
                signal::set_default(libc::SIGCHLD);
                self.be_agent(place, options)
            }
            Err(error) => {
                signal::set_mask(&mask);
                Err(error)
            }
        }
    }

    /// Reads from the manager what the agent needs.
    fn place(&self, manager: &mut Manager, secret: Secret, options: &StartOptions) -> Result<Place, JobError> {
        let host = self.first;
        if let Some(launcher) = manager.launcher_contact() {
            return Ok(Place::Below(Contact { host, ..launcher }));
        }
        let mut endpoint_of = |rank| {
            let text = manager.get(rank, "at")?;
            Contact::parse(&text, secret)
                .ok_or_else(|| JobError::new(format!("the endpoint of the host of rank {rank} is malformed")))
        };
        if let Some(above) = hosts::above(self.first) {
            let above = endpoint_of(above)?;
            return Ok(Place::Below(Contact { host, ..above }));
        }
        let mut ranks = Vec::new();
        for rank in 0..options.ranks {
            let mut endpoint = endpoint_of(rank)?;
            let name = endpoint.addresses.pop().unwrap_or_default();
            ranks.push((endpoint.host, name.into_bytes()));
        }
        let (layout, mut todo) = hosts::layout(ranks, options.nbrhd_max).map_err(JobError::new)?;
        todo.remove(0);
        Ok(Place::Root(Box::new(Joined {
            layout,
            variables: environment::own(),
            todo,
            tree: Tree::new(secret, None, options.route_output.is_some()),
        })))
    }

    fn be_agent(self, place: Place, options: &StartOptions) -> ! {
        // A control socket, two pipes and a process for each rank; connections of other hosts;
        // unauthenticated peers; some spare.
        let _ = process::allow_descriptors(process::open_descriptors() + 4 * self.local_ranks.len() as u64 + 1024);
        let mut options = options.clone();
        match self.setup(place, &mut options) {
            Ok(setup) => agent::serve(setup),
            Err(error) => {
                eprintln!("gasnet: host {}: {error}", net::host_name());
                process::end(1);
            }
        }
    }

    /// Connects to the agent above, and gives the ranks of this host what they need.
    fn setup(self, place: Place, options: &mut StartOptions) -> Result<AgentSetup<'_>, JobError> {
        let Joined {
            layout,
            variables,
            todo,
            mut tree,
        } = match place {
            Place::Root(joined) => *joined,
            Place::Below(above) => ssh::connect_up(&above, &above.resolve(None), options)?,
        };
        let is_possible = |host: &u32| layout.ranks_on(*host).iter().eq(self.local_ranks.keys());
        let host = (self.first < layout.size).then(|| layout.host_of(self.first));
        let Some(host) = host.filter(is_possible) else {
            return refuse("the job's layout has other ranks on this host than those that have found each other");
        };
        let branches = hosts::branches(&layout, host, todo).map_err(JobError::new)?;
        tree.expect(self.listener, branches, options.remote.limit);
        environment::take_over(variables.clone(), options)?;
        let host = Some(host);
        handshake::give(options, HostPlan { layout, host, tree }, variables, self.local_ranks)
    }
}

/// The endpoint of an agent, as a contact without the secret: as many addresses as a value may
/// hold, then the host's name.
fn endpoint(first: u32, port: u16, addresses: &[IpAddr]) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || ".-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = net::host_name().chars().map(plain).collect();
    let mut text = format!("{first},{port},1,");
    for address in addresses.iter().filter(|address| !address.is_loopback()) {
        let address = format!("{address},");
        if text.len() + address.len() + name.len() <= VALUE_MAX {
            text += &address;
        }
    }
    text + &name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;
    use gasnet_conduit::config::Config;

    #[test]
    fn the_first_rank_leads_those_that_send_their_rank() {
        let job = Secret::new();
        let mut first = Rendezvous::at(job, 7, None).unwrap();
        let silent: Vec<_> = (1..=100).map(|rank| Rendezvous::at(job, rank, None).unwrap()).collect();
        drop(silent);
        let mut incomplete = Rendezvous::at(job, 9, None).unwrap();
        std::io::Write::write_all(&mut &incomplete.leader, b"\x04\0\0\0").unwrap();
        let mut second = Rendezvous::at(job, 3, None).unwrap();
        assert!(first.acceptor.is_some() && second.acceptor.is_none());
        second.introduce().unwrap();
        first.introduce().unwrap();
        let options = StartOptions::from_config(&Config::defaults(&[]), &Library::default()).unwrap();
        let leader = Leader::new(first.acceptor.take().unwrap(), &mut first, &options).unwrap();
        assert_eq!(leader.local_ranks.keys().copied().collect::<Vec<_>>(), [3, 7]);
        let (AgentMessage::Endpoint { text }, _) = rendezvous::receive(&mut second.leader).unwrap() else {
            panic!("not an endpoint");
        };
        assert!(text.starts_with(b"3,") && leader.first == 3);
        assert!(rendezvous::receive(&mut incomplete.leader).is_err());
    }

    #[test]
    fn the_leader_listens_where_the_ranks_network_is() {
        let mut options = StartOptions::from_config(&Config::defaults(&[]), &Library::default()).unwrap();
        let address = net::addresses().first().map(|own| own.ip);
        for (workers, listens) in [
            (None, None),
            (Some("127.0.0.1".parse().unwrap()), None),
            (address, address.filter(|ip| !ip.is_loopback())),
        ] {
            options.workers = workers;
            let mut rendezvous = Rendezvous::at(Secret::new(), 0, None).unwrap();
            rendezvous.introduce().unwrap();
            let leader = Leader::new(rendezvous.acceptor.take().unwrap(), &mut rendezvous, &options).unwrap();
            let ip = leader.listener.ip().unwrap();
            assert_eq!(Some(ip).filter(|ip| !ip.is_unspecified()), listens);
        }
    }
}
