//! Opening the HCAs and ports of this process.
#![forbid(unsafe_code)]

use crate::boot_record::{ipv4, turns, BootRecord};
use crate::connect::policy::Kind;
use crate::ffi::{Channel, Context, DatagramSettings, Datagrams, Functions, LocalPort};
use crate::memory::advice::advised;
use crate::peers::Mailbox;
use crate::ports::subnet::{self, Offer, Prefix};
use crate::ports::{self, hca_identity, mix, Choice, Hca, Host, Link, Path};
use crate::rail::{sharing, Needs, Rail};
use crate::settings::{PortSettings, Settings};
use crate::xrc;
use gasnet_conduit::locality::Ranks;
use gasnet_conduit::{config, print_line, JobRank, StartInfo};
use gasnet_conduit_util::record::exchange;
use gasnet_ibv_abi as abi;
use std::net::{IpAddr, Ipv4Addr};

/// The HCAs and ports of a process.
pub struct Network {
    /// The HCAs, by rail.
    contexts: Vec<Context>,
    paths: Vec<Path>,
    link: Link,
}

/// Whether this process could start the conduit. The error is a message without a full stop.
pub fn probe() -> Result<(), String> {
    /// That of a job is not known yet.
    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let wanted = PortSettings::read();
    let hcas = Host::open(&wanted, HOST)?.hcas;
    wanted.choose(&hcas, &wanted.wanted(Ranks::default())).map(|_| ())
}

/// Warns of processes whose HCAs do not page on demand, as GASNET_ODP_VERBOSE says.
pub fn warn_of_paging(all: &[BootRecord], rank: JobRank, settings: &Settings) {
    let lacking: Vec<usize> = (0..all.len()).filter(|rank| !all[*rank].has_on_demand).collect();
    if !settings.on_demand || settings.on_demand_verbose == 0 || lacking.is_empty() || config::is_quiet() {
        return;
    }
    if rank.0 == 0 {
        gasnet_conduit::warn(format_args!(
            "ibv: the HCAs of {} of {} processes do not page on demand. Their long transfers of memory outside \
             segments register it each time. GASNET_ODP_VERBOSE=0 suppresses this.",
            lacking.len(),
            all.len()
        ));
    }
    if settings.on_demand_verbose > 1 && lacking.contains(&rank.index()) {
        print_line(format_args!("GASNet: ibv: rank {rank}: no paging on demand"));
    }
}

/// Warns if children of the client could take registered memory from it.
pub fn warn_of_forks(rank: JobRank) {
    let prepared = Functions::get().map_or(Ok(()), Functions::prepare_fork);
    if let Some(why) = prepared.err().filter(|_| rank == JobRank(0) && !config::is_quiet()) {
        gasnet_conduit::warn(format_args!(
            "ibv: ibv_fork_init failed: {why}. Another library may have registered memory before. If this program \
             forks, it may lose segments to its children; RDMAV_FORK_SAFE=1 prevents that."
        ));
    }
}

/// The HCAs of a process, opened before it knows of the others.
pub struct Opened {
    pub rails: Box<[Rail]>,
    pub paths: Box<[Path]>,
    /// None: the HCA has no queue pairs for them.
    pub datagrams: Option<Datagrams>,
    /// That of the datagrams, if a thread is to wait for them.
    pub channel: Option<Channel>,
    pub has_atomics: bool,
    link: Link,
}

/// Opens what this process uses. `has_thread`: a thread waits for datagrams. The error is a message
/// without a full stop.
pub fn open(info: &StartInfo<'_>, settings: &Settings, network: Network, has_thread: bool) -> Result<Opened, String> {
    let pairs = |rail: usize| network.paths.iter().filter(|path| path.rail == rail).count();
    let file = (xrc::is_wanted(settings, info) && info.host_fd >= 0).then_some(info.host_fd);
    let rails = network.contexts.into_iter().enumerate().map(|(index, context)| {
        let name = context.name.clone();
        let needs = Needs {
            place: index,
            peers: info.size as usize,
            pairs: pairs(index),
            sleeps: info.threads_sleep,
            xrc_file: file,
            sharing: sharing(info, has_thread),
        };
        Rail::new(context, settings, needs).map_err(|why| format!("{name}: {why}"))
    });
    let rails: Box<[Rail]> = rails.collect::<Result<_, String>>()?;
    let first: &Path = &network.paths[0];
    let rail: &Rail = &rails[first.rail];
    let channel = has_thread.then(|| Channel::new(&rail.context)).transpose();
    let name = &rail.context.name;
    let channel = channel.map_err(|why| format!("{name}: ibv_create_comp_channel failed: {}", advised(why)))?;
    let datagrams = Datagrams::new(
        &rail.context,
        &rail.domain,
        DatagramSettings {
            port: first.port,
            token: info.message_token(),
            sends: settings.datagram_sends,
            receives: settings.datagram_receives(remote(info)),
        },
        channel.as_ref().or(rail.channel.as_ref()),
    )
    .map_err(|why| format!("{name}: a queue pair for datagrams failed: {}", advised(why)))?;
    Ok(Opened {
        has_atomics: rails
            .iter()
            .all(|rail| rail.context.attributes.atomic_cap != abi::IBV_ATOMIC_NONE),
        rails,
        paths: network.paths.into(),
        channel: channel.filter(|_| datagrams.is_some()),
        datagrams,
        link: network.link,
    })
}

impl Opened {
    /// The part of this process in the exchange.
    pub fn boot_record(&self, settings: &Settings, connects: Kind, processes: u32) -> BootRecord {
        BootRecord {
            paths: self.paths.len() as u8,
            rails: self.rails.len() as u8,
            turns: turns(self.paths.iter().map(|path| path.rail)),
            link: self.link,
            ipv4: ipv4(self.paths.iter().map(|path| path.port.address.gid)),
            has_atomics: self.has_atomics && settings.atomics,
            probes: settings.probes,
            connects,
            has_on_demand: self.rails.iter().all(|rail| rail.on_demand.is_some()),
            is_global: self.paths.iter().any(|path| path.port.is_global),
            has_xrc: self.rails.iter().all(Rail::has_xrc),
            max_packet: settings.max_packet as u32,
            spare_credits: settings.spare_credits(processes) as u16,
            credits: self
                .rails
                .iter()
                .fold(settings.credits, |least, rail| least.min(rail.plan.credits)) as u16,
            buffer: self.rails.iter().map(|rail| rail.plan.bytes).min().unwrap_or(0) as u32,
            hca: hca_identity(&self.rails[0].context),
            pkeys: std::array::from_fn(|path| self.paths.get(path).map_or(0, |path| path.port.pkey)),
            ports: mix(self
                .paths
                .iter()
                .flat_map(|path| path.identity(&self.rails[path.rail].context))),
            mailbox: Mailbox {
                address: self.paths[0].port.address,
                number: self.datagrams.as_ref().map_or(0, Datagrams::number),
            },
        }
    }

    /// Gives all packets a global header if those of any process have one: a port that requires it
    /// takes no others. Then no path has an alternate one.
    pub fn agree_on_headers(&mut self, all: &[BootRecord]) -> Result<(), String> {
        let Some(rank) = all.iter().position(|record| record.is_global) else {
            return Ok(());
        };
        for path in &mut self.paths {
            if path.port.address.gid == [0; 16] {
                return Err(format!(
                    "packets of rank {rank} have a global header, but port {} of {} has no GID",
                    path.port.number, self.rails[path.rail].context.name
                ));
            }
            path.port.is_global = true;
            path.alternate = None;
        }
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.use_global_header();
        }
        Ok(())
    }

    /// Does without datagrams, as the HCA of another process has none.
    pub fn leave_datagrams(&mut self) {
        // The channel is that of their queue.
        self.datagrams = None;
        self.channel = None;
    }
}

/// Processes that do not share memory with this one.
fn remote(info: &StartInfo<'_>) -> usize {
    let own = (info.place_of)(info.rank);
    let ranks = (0..info.size).map(JobRank);
    ranks.filter(|rank| (info.place_of)(*rank) != own).count()
}

/// Chooses ports, and opens their HCAs. Collective. The error is a message without a full stop.
pub fn choose(info: &StartInfo<'_>, settings: &Settings) -> Result<Network, String> {
    let settings_of_ports = PortSettings::read();
    let mut wanted = settings_of_ports.wanted(Ranks::of(info));
    let found = Host::open(&settings_of_ports, info.host_address).and_then(|host| {
        if settings_of_ports.lists_ports(info.rank.0) {
            for line in host.lines(settings_of_ports.whole_process()) {
                print_line(format_args!("GASNet: ibv: rank {} detects {line}", info.rank));
            }
        }
        let choice = settings_of_ports.choose(&host.hcas, &wanted)?;
        Ok((host, choice))
    });
    let offer = found
        .as_ref()
        .map(|(host, choice)| Offer::new(&host.hcas, &wanted, choice));
    let all = exchange(info, &offer.unwrap_or_default());
    let (host, mut choice) = found?;
    let mut warnings = Vec::new();
    wanted.subnet = subnet::agree(&all, info.rank)?;
    if let Some(prefix) = wanted.subnet {
        choice = settings_of_ports.choose(&host.hcas, &wanted)?;
        warnings.push(format!(
            "the HCAs nearest to the ranks are in different InfiniBand subnets, so all ranks use those in {}, rank {} \
             {}. GASNET_IBV_PORTS names others; GASNET_IBV_PORTS_VERBOSE=0 suppresses this warning",
            Prefix(prefix),
            info.rank,
            host.hcas[choice.paths[0].0].name
        ));
    }
    warnings.extend(choice.warning.take());
    let obsolete = settings_of_ports.obsolete;
    warnings.extend(obsolete.map(|name| format!("{name} has no effect. GASNET_IBV_PORTS selects HCAs and ports")));
    if info.rank == JobRank(0) && settings_of_ports.verbosity > 0 && !config::is_quiet() {
        for warning in warnings {
            print_line(format_args!("GASNet: WARNING: ibv: {warning}."));
        }
    }
    enter(host, &choice, info.rank, settings, &settings_of_ports)
}

/// Opens the HCAs of a choice.
fn enter(
    mut host: Host,
    choice: &Choice,
    rank: JobRank,
    settings: &Settings,
    wanted: &PortSettings,
) -> Result<Network, String> {
    let mut used: Vec<usize> = choice.paths.iter().map(|(hca, _)| *hca).collect();
    used.sort_unstable();
    used.dedup();
    let contexts = used.iter().filter_map(|hca| host.contexts[*hca].take());
    let contexts: Vec<Context> = contexts.collect();
    let (mut paths, mut links) = (Vec::new(), Vec::new());
    for ((hca, number), alternate) in choice.paths.iter().zip(&choice.alternates) {
        let rail = used.partition_point(|other| other < hca);
        let context = &contexts[rail];
        let hca = OpenHca {
            rail,
            hca: &host.hcas[*hca],
            context,
        };
        let (mut path, link) = hca.path(*number, settings, wanted)?;
        path.alternate = alternate.and_then(|number| hca.alternate(number, &path));
        if wanted.verbosity > 1 {
            let text = describe(&path, link);
            print_line(format_args!("GASNet: ibv: rank {rank} uses {} {text}", context.name));
        }
        paths.push(path);
        links.push(link);
    }
    let link = links[0];
    match links.iter().find(|other| **other != link) {
        None => Ok(Network { contexts, paths, link }),
        Some(other) => Err(format!(
            "its ports use {link} and {other}. Choose ports with GASNET_IBV_PORTS, or GIDs of one version with \
             GASNET_IBV_GID_INDEX"
        )),
    }
}

/// An HCA that this process uses.
struct OpenHca<'a> {
    rail: usize,
    hca: &'a Hca,
    context: &'a Context,
}

impl OpenHca<'_> {
    /// A path over a port.
    fn path(&self, number: u8, settings: &Settings, wanted: &PortSettings) -> Result<(Path, Link), String> {
        let (context, name) = (self.context, &self.context.name);
        let attributes = context.port(number);
        let attributes = attributes.map_err(|why| format!("{name} port {number} cannot be queried: {why}"))?;
        let local = self.hca.local(number);
        let (port, link) = local.ok_or_else(|| format!("defect: {name} port {number}"))?;
        let device = &context.attributes;
        let most = device.max_qp_rd_atom.clamp(1, 255) as u8;
        let mtu = attributes.active_mtu as u8;
        let path = Path {
            rail: self.rail,
            port,
            alternate: None,
            mtu: wanted.mtu.map_or(mtu, |most| most.min(mtu)),
            reads: match settings.reads {
                0 => most,
                some => some.min(most),
            },
            initiated: device.max_qp_init_rd_atom.clamp(1, 255) as u8,
            max_message: ports::largest_message(attributes.max_msg_sz),
        };
        Ok((path, link))
    }

    /// The port to which the HCA moves the traffic of a path. LIDs name it.
    fn alternate(&self, number: u8, path: &Path) -> Option<LocalPort> {
        let attributes = self.context.port(number).ok()?;
        let (port, _) = self.hca.local(number)?;
        let is_member = ports::pkey::may_agree(port.pkey, path.port.pkey);
        let flags = self.context.attributes.device_cap_flags;
        let has_migration = is_member && flags & abi::IBV_DEVICE_AUTO_PATH_MIG != 0;
        (has_migration && !port.is_global && !path.port.is_global && attributes.active_mtu as u8 >= path.mtu)
            .then_some(port)
    }
}

/// A path in reports.
fn describe(path: &Path, link: Link) -> String {
    let alternate = path.alternate.map(|port| format!(", alternate port {}", port.number));
    format!(
        "port {}: {}, MTU {}, {} gets of a peer at a time{}",
        path.port.number,
        ports::describe(&path.port, link),
        128_u32 << path.mtu,
        path.reads,
        alternate.unwrap_or_default()
    )
}
