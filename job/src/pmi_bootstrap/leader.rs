//! The leader of a host: it accepts the other ranks, sends them the host's endpoint, and forks the
//! node agent.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Instant;

use super::acceptor::Acceptor;
use super::discovery::Discovery;
use super::rendezvous::{LocalRank, Rendezvous, MESSAGE_TIME};
use super::{environment, handshake, Manager};
use crate::spawn::Contact;
use crate::tree::link::{Listener, Up};
use crate::tree::message::AgentMessage;
use crate::tree::secret::Secret;
use crate::{address_in, agent, refuse, JobError, StartOptions};
use gasnet_sys::process::{self, Fork};
use gasnet_sys::{fd, net, signal};

/// Hosts whose agents connect to the same agent, if each has one rank.
const DEGREE: u32 = 16;
/// Most addresses in an endpoint.
const MAX_ADDRESSES: usize = 16;

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
        let listener = Listener::open(None).map_err(|e| failed(&e))?;
        let port = u32::from(listener.port().map_err(|e| failed(&e))?);
        let own = match options.workers {
            Some(network) => vec![address_in(network)?],
            None => net::addresses()
                .into_iter()
                .map(|a| a.ip)
                .filter(|ip| !ip.is_loopback())
                .collect(),
        };
        let addresses = own
            .iter()
            .take(MAX_ADDRESSES)
            .map(ToString::to_string)
            .chain([net::host_name()]);
        let addresses = addresses.map(String::into_bytes).collect();
        let endpoint = AgentMessage::Endpoint { first, port, addresses }.encode();
        for member in local_ranks.values_mut() {
            member.stream.write_all(&endpoint).map_err(|e| failed(&e))?;
        }
        Ok(Self {
            local_ranks,
            listener,
            first,
        })
    }

    /// Forks the agent as a grandchild, so that the client has no unknown child.
    pub fn start_agent(self, manager: &mut Manager, options: &StartOptions) -> Result<(), JobError> {
        let secret = manager.get(0, "secret")?;
        let secret: [u8; 16] = secret
            .try_into()
            .map_err(|_| JobError::new("the secret of the job was damaged on its way"))?;
        let secret = Secret::from_bytes(secret);
        let launcher = manager.launcher_contact();
        let above = match self.first.checked_sub(1).filter(|_| launcher.is_none()) {
            Some(before) => {
                let owner = before / DEGREE;
                let Some(AgentMessage::Endpoint { first, port, addresses }) =
                    AgentMessage::decode(&manager.get(owner, "at")?)
                else {
                    return refuse(format!("the endpoint of the host of rank {owner} is malformed"));
                };
                Some(Contact {
                    host: first,
                    secret,
                    port: port as u16,
                    addresses: addresses
                        .iter()
                        .map(|a| String::from_utf8_lossy(a).into_owned())
                        .collect(),
                    chosen: true,
                })
            }
            None => launcher,
        };
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
                self.be_agent(secret, above, options)
            }
            Err(error) => {
                signal::set_mask(&mask);
                Err(error)
            }
        }
    }

    fn be_agent(self, secret: Secret, above: Option<Contact>, options: &StartOptions) -> ! {
        // A control socket, two pipes and a process for each rank; connections of other hosts;
        // unauthenticated peers; some spare.
        let _ = process::allow_descriptors(process::open_descriptors() + 4 * self.local_ranks.len() as u64 + 1024);
        let end = |why: String| -> ! {
            eprintln!("gasnet: host {}: {why}", net::host_name());
            process::end(1);
        };
        let ranks: Vec<u32> = self.local_ranks.keys().copied().collect();
        let limit = options.remote.connect_limit();
        let routed = options.route_output.is_some();
        let connect = |above: Contact| Up::call(&above.resolve(None), above.secret, self.first, routed, limit);
        let up = above.map(connect).transpose().unwrap_or_else(|why: String| {
            end(format!(
                "cannot connect to the host above ({why}). GASNET_WORKERIP selects the network"
            ))
        });
        let discovery = Discovery::new(self.first, ranks, up, (secret, self.listener), options);
        let found = discovery.run().unwrap_or_else(|why| end(why));
        let mut options = options.clone();
        environment::take_over(found.variables.clone(), &mut options).unwrap_or_else(|e| end(e.message));
        let setup = handshake::give(&options, found, self.local_ranks).unwrap_or_else(|e| end(e.message));
        agent::serve(setup);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;
    use gasnet_conduit::config::Config;
    use gasnet_sys::mem;

    #[test]
    fn who_binds_first_leads_and_the_others_are_let_in() {
        let job = format!("test-{}", mem::random_u64());
        let mut first = Rendezvous::at(&job, 5).unwrap();
        let mut second = Rendezvous::at(&job, 3).unwrap();
        assert!(first.acceptor.is_some() && second.acceptor.is_none());
        first.introduce().unwrap();
        second.introduce().unwrap();
        let acceptor = first.acceptor.take().unwrap();
        let options = StartOptions::from_config(&Config::defaults(&[]), &Library::default()).unwrap();
        let leader = Leader::new(acceptor, &mut first, &options).unwrap();
        assert_eq!(leader.local_ranks.keys().copied().collect::<Vec<_>>(), [3, 5]);
        let endpoint = AgentMessage::decode(&second.receive().unwrap());
        assert!(matches!(endpoint, Some(AgentMessage::Endpoint { first: 3, .. })) && leader.first == 3);
    }

    #[test]
    fn who_does_not_say_which_rank_it_is_is_nobody() {
        let job = format!("test-{}", mem::random_u64());
        let mut first = Rendezvous::at(&job, 0).unwrap();
        let silent: Vec<_> = (1..=100).map(|rank| Rendezvous::at(&job, rank).unwrap()).collect();
        drop(silent);
        let mut last = Rendezvous::at(&job, 9).unwrap();
        (&last.leader).write_all(b"\x04\0\0\0").unwrap();
        let mut second = Rendezvous::at(&job, 7).unwrap();
        second.introduce().unwrap();
        first.introduce().unwrap();
        let options = StartOptions::from_config(&Config::defaults(&[]), &Library::default()).unwrap();
        let leader = Leader::new(first.acceptor.take().unwrap(), &mut first, &options).unwrap();
        assert_eq!(leader.local_ranks.keys().copied().collect::<Vec<_>>(), [0, 7]);
        assert!(second.receive().is_ok() && last.receive().is_err());
    }
}
