//! Selects the conduit of a job. Most libraries have one; the universal library has several.
//!
//! 1. Before the ranks exist, conduits that cannot carry the job (no network, too few ranks) are
//!    ruled out.
//! 2. Each process probes the remaining conduits ([`Conduit::probe`]), and all ranks exchange the
//!    results.
//! 3. The job uses the first conduit, in order of preference, that all ranks can use.
//!
//! `GASNET_CONDUIT` selects one instead.

use std::fmt::Write;

use gasnet_conduit::config::AUTO_CONDUIT;
use gasnet_conduit::Conduit;
use gasnet_job::{Job, StartOptions};

/// Maximum number of conduits in a library: bits of the masks that ranks exchange.
const MAX_CONDUITS: usize = 32;

/// A conduit, and why it was ruled out.
struct Candidate {
    conduit: &'static dyn Conduit,
    refusal: Option<String>,
}

impl Candidate {
    fn name(&self) -> &'static str {
        self.conduit.identity().name
    }
}

/// The conduit that a value of `GASNET_CONDUIT` selects; none for auto.
fn named(wanted: &str) -> Option<String> {
    let wanted = wanted.trim();
    (!wanted.eq_ignore_ascii_case(AUTO_CONDUIT)).then(|| wanted.to_ascii_lowercase())
}

/// The selection while it is in progress.
pub struct ConduitChoice {
    candidates: Vec<Candidate>,
    /// The conduit that `GASNET_CONDUIT` selects, if it is not [`AUTO_CONDUIT`].
    wanted: Option<String>,
    /// A value of `GASNET_SUPERNODE_MAXSIZE` that no eligible conduit supports.
    unsupported: Option<u32>,
}

impl ConduitChoice {
    /// Step 1. An error if no conduit can carry a job with these options, or if `wanted` is not
    /// among `conduits`. If no eligible conduit has a network, the limit of neighbourhoods is
    /// removed from the options, with a warning: clients set it for all conduits alike.
    pub fn new(conduits: &[&'static dyn Conduit], wanted: &str, options: &mut StartOptions) -> Result<Self, String> {
        assert!(conduits.len() <= MAX_CONDUITS, "defect: more conduits than bits");
        let candidate = |&conduit: &&'static dyn Conduit| Candidate { conduit, refusal: None };
        let mut choice = Self {
            candidates: conduits.iter().map(candidate).collect(),
            wanted: named(wanted),
            unsupported: None,
        };
        let splits = (1..options.ranks).contains(&options.nbrhd_max);
        if choice.eligible().all(|i| !conduits[i].identity().has_network()) {
            choice.unsupported = Some(std::mem::take(&mut options.nbrhd_max)).filter(|_| splits);
        }
        for candidate in &mut choice.candidates {
            candidate.refusal = refusal(candidate.conduit, options);
        }
        choice.checked()
    }

    /// The limit of neighbourhoods is the site's default (`--disable-pshm`), which is for conduits
    /// that have a network: no warning.
    #[must_use]
    pub fn with_default_limit(mut self) -> Self {
        self.unsupported = None;
        self
    }

    /// Changes the selected conduit to that of the first host's environment, which is known only
    /// after the job start.
    pub fn with_wanted(mut self, wanted: &str) -> Result<Self, String> {
        self.wanted = named(wanted);
        self.checked()
    }

    fn checked(self) -> Result<Self, String> {
        match &self.wanted {
            Some(wanted) if self.candidates.len() > 1 && self.index_of(wanted).is_none() => Err(format!(
                "GASNET_CONDUIT={wanted}: this library holds {}. Use one of these or auto, or a library that was built \
                 with {wanted}.",
                self.names()
            )),
            _ if self.eligible().next().is_none() => Err(self.refusals()),
            _ => Ok(self),
        }
    }

    fn names(&self) -> String {
        self.candidates
            .iter()
            .map(Candidate::name)
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.candidates.iter().position(|c| c.name() == name)
    }

    /// Indices of the conduits that are not ruled out; only the selected one, if the library has
    /// it.
    fn eligible(&self) -> impl Iterator<Item = usize> + '_ {
        let only = self.wanted.as_deref().and_then(|name| self.index_of(name));
        (0..self.candidates.len())
            .filter(move |&i| self.candidates[i].refusal.is_none() && only.is_none_or(|only| only == i))
    }

    /// Why no conduit is left.
    fn refusals(&self) -> String {
        let only = self.wanted.as_deref().and_then(|name| self.index_of(name));
        let all = self
            .candidates
            .iter()
            .enumerate()
            .filter(|(i, _)| only.is_none_or(|only| only == *i));
        let text: Vec<&str> = all.filter_map(|(_, c)| c.refusal.as_deref()).collect();
        text.join(" ")
    }

    /// Steps 2 and 3. Collective. The error is empty on ranks that know no more than rank 0.
    pub fn agree(mut self, job: &Job) -> Result<Chosen, String> {
        let mut informed = job.rank() == 0;
        if job.leaders().len() > 1 {
            self.need_network(job.host_count());
        }
        if self.candidates.len() > 1 {
            for i in self.eligible().collect::<Vec<_>>() {
                self.candidates[i].refusal = self.candidates[i].conduit.probe(job.size()).err().map(|e| e.message);
                informed |= self.candidates[i].refusal.is_some();
            }
            let own: u32 = self.eligible().map(|i| 1 << i).sum();
            let all = job.exchange(&own.to_ne_bytes());
            let masks: Vec<u32> = all
                .chunks_exact(4)
                .map(|c| u32::from_ne_bytes(c.try_into().unwrap_or_default()))
                .collect();
            self.rule_out(&masks);
        }
        let Some(index) = self.eligible().next() else {
            return Err(if informed { self.refusals() } else { String::new() });
        };
        let explanation = self.explanation(index);
        let conduit = self.candidates[index].conduit;
        Ok(Chosen {
            conduit,
            explanation,
            warning: self.warning(index),
        })
    }

    /// Rules out conduits without a network: the job turned out to have several neighbourhoods, on
    /// `hosts` hosts.
    fn need_network(&mut self, hosts: u32) {
        let without = self
            .candidates
            .iter_mut()
            .filter(|c| !c.conduit.identity().has_network());
        for candidate in without {
            let name = candidate.name();
            candidate.refusal.get_or_insert_with(|| {
                format!(
                    "The {name} conduit has no network, but the ranks of this job, on {hosts} hosts, do not form \
                    one neighbourhood."
                )
            });
        }
    }

    /// Rules out conduits that a rank cannot use.
    fn rule_out(&mut self, masks: &[u32]) {
        for i in self.eligible().collect::<Vec<_>>() {
            let mut without = (0..masks.len()).filter(|&rank| masks[rank] & 1 << i == 0);
            if let Some(rank) = without.next() {
                let (name, more) = (self.candidates[i].name(), without.count());
                let more = if more == 0 {
                    String::new()
                } else {
                    format!(" and {more} others")
                };
                self.candidates[i].refusal = Some(format!("The {name} conduit cannot be used on rank {rank}{more}."));
            }
        }
    }

    /// One line per conduit, if the library has several.
    fn explanation(&self, chosen: usize) -> String {
        let mut text = String::new();
        if self.candidates.len() == 1 {
            return text;
        }
        for (i, candidate) in self.candidates.iter().enumerate() {
            let why = match &candidate.refusal {
                _ if i == chosen && self.wanted.is_some() => "used (GASNET_CONDUIT)",
                _ if i == chosen => "used",
                Some(refusal) => refusal,
                None => "usable",
            };
            let _ = writeln!(text, "GASNet: conduit {}: {why}", candidate.name());
        }
        text
    }

    /// Settings without effect: a conduit that this library does not have, small neighbourhoods
    /// without a network.
    fn warning(&self, chosen: usize) -> Option<String> {
        let absent = self.wanted.as_deref().filter(|name| self.index_of(name).is_none());
        let absent = absent.map(|wanted| {
            format!(
                "GASNET_CONDUIT={wanted} has no effect: this program's library holds {} only. Link the program with \
                 the library of that conduit, or with the universal library (-lgasnet).",
                self.names()
            )
        });
        let limit = self.unsupported.map(|limit| {
            let name = self.candidates[chosen].name();
            format!(
                "GASNET_SUPERNODE_MAXSIZE={limit} has no effect: the {name} conduit has no network, so all ranks \
                form one neighbourhood."
            )
        });
        let all: Vec<String> = [absent, limit].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join(" "))
    }
}

/// The selected conduit.
pub struct Chosen {
    /// The conduit, not started.
    pub conduit: &'static dyn Conduit,
    /// The reasons, as lines for `GASNET_VERBOSEENV`.
    pub explanation: String,
    /// Settings without effect.
    pub warning: Option<String>,
}

/// Why a conduit cannot carry a job with these options on any machine.
fn refusal(conduit: &dyn Conduit, options: &StartOptions) -> Option<String> {
    let (identity, most) = (conduit.identity(), conduit.limits().max_ranks);
    let (name, size, nbrhd) = (identity.name, options.ranks, options.nbrhd_max);
    if !identity.has_network() && (1..size).contains(&nbrhd) {
        return Some(format!(
            "The {name} conduit has no network: all ranks must share one neighbourhood, but \
             GASNET_SUPERNODE_MAXSIZE={nbrhd} splits {size} ranks. Unset it, or use a conduit with a network."
        ));
    }
    (size > most).then(|| format!("The {name} conduit carries at most {most} ranks; this job has {size}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::config::Config;
    use gasnet_conduit::{ConduitError, Identity, Limits, Network, NoNetwork, Reach, StartInfo};
    use gasnet_job::Library;

    struct Named(&'static str, Reach, u32);

    impl Conduit for Named {
        fn identity(&self) -> Identity {
            Identity {
                name: self.0,
                version: "1",
                reach: self.1,
                takes_count: false,
            }
        }
        fn limits(&self) -> Limits {
            let (max_packet_bytes, max_ranks, requests_per_poll) = (1024, self.2, 0);
            Limits {
                max_packet_bytes,
                max_ranks,
                requests_per_poll,
            }
        }
        fn start(&self, _: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
            Ok(Box::new(NoNetwork))
        }
    }

    static THREE: [&dyn Conduit; 3] = [
        &Named("near", Reach::Neighbourhood, 100),
        &Named("fast", Reach::Hosts, 8),
        &Named("slow", Reach::Hosts, 50),
    ];

    fn choice(wanted: &str, ranks: u32, nbrhd_max: u32) -> Result<ConduitChoice, String> {
        let options = StartOptions::from_config(&Config::defaults(&[]), &Library::default()).unwrap();
        let mut options = StartOptions {
            ranks,
            nbrhd_max,
            ..options
        };
        let choice = ConduitChoice::new(&THREE, wanted, &mut options);
        if let Ok(choice) = &choice {
            let is_alone = named(wanted).as_deref() == Some("near");
            assert_eq!(options.nbrhd_max, if is_alone { 0 } else { nbrhd_max });
            assert!(is_alone || choice.unsupported.is_none());
        }
        choice
    }

    fn selected(wanted: &str, ranks: u32, nbrhd_max: u32, masks: &[u32]) -> Result<&'static str, String> {
        let mut choice = choice(wanted, ranks, nbrhd_max)?;
        choice.rule_out(masks);
        let index = choice.eligible().next().ok_or_else(|| choice.refusals())?;
        Ok(choice.candidates[index].name())
    }

    #[test]
    fn the_first_that_all_can_use_is_selected() {
        assert_eq!(selected("auto", 4, 0, &[7; 4]).unwrap(), "near");
        assert_eq!(selected("AUTO", 4, 2, &[6; 4]).unwrap(), "fast");
        assert_eq!(selected("auto", 9, 2, &[6; 9]).unwrap(), "slow");
        assert_eq!(selected("auto", 4, 2, &[6, 6, 4, 6]).unwrap(), "slow");
        assert_eq!(selected("Slow", 4, 0, &[4; 4]).unwrap(), "slow");
    }

    #[test]
    fn errors_name_conduits_and_reasons() {
        let error = selected("other", 4, 0, &[]).unwrap_err();
        assert!(error.contains("other") && error.contains("near, fast, slow"), "{error}");
        let error = selected("fast", 4, 0, &[2, 2, 0, 0]).unwrap_err();
        assert_eq!(error, "The fast conduit cannot be used on rank 2 and 1 others.");
        let error = selected("auto", 101, 0, &[]).unwrap_err();
        assert!(error.contains("at most 100") && error.contains("at most 50"), "{error}");
        let mut choice = choice("auto", 4, 2).unwrap();
        choice.rule_out(&[4; 4]);
        let text = choice.explanation(2);
        assert!(
            text.contains("conduit near: The near") && text.contains("fast: The fast") && text.contains("slow: used\n"),
            "{text}"
        );
    }

    #[test]
    fn several_hosts_need_a_network() {
        let mut choice = choice("auto", 4, 0).unwrap();
        choice.need_network(3);
        assert_eq!(choice.eligible().next(), Some(1));
        let mut options = StartOptions::from_config(&Config::defaults(&[]), &Library::default()).unwrap();
        let mut alone = ConduitChoice::new(&THREE[..1], "auto", &mut options).unwrap();
        alone.need_network(3);
        assert!(alone.eligible().next().is_none() && alone.refusals().contains("3 hosts"));
    }

    #[test]
    fn a_library_of_one_conduit_warns() {
        let mut options = StartOptions::from_config(&Config::defaults(&[]), &Library::default()).unwrap();
        let choice = ConduitChoice::new(&THREE[..1], "slow", &mut options).unwrap();
        assert!(choice.warning(0).unwrap().contains("holds near only"));
        assert_eq!(
            (choice.eligible().next(), choice.explanation(0).as_str()),
            (Some(0), "")
        );
        assert!(ConduitChoice::new(&THREE[..1], " Near ", &mut options)
            .unwrap()
            .warning(0)
            .is_none());
    }

    #[test]
    fn without_a_network_neighbourhoods_are_not_limited() {
        let choice = choice("near", 4, 2).unwrap();
        assert_eq!(choice.eligible().next(), Some(0));
        assert!(choice
            .warning(0)
            .unwrap()
            .starts_with("GASNET_SUPERNODE_MAXSIZE=2 has no effect"));
        // A limit that splits nothing gives no warning.
        assert_eq!(self::choice("near", 4, 4).unwrap().warning(0), None);
        assert_eq!(self::choice("auto", 4, 2).unwrap().warning(1), None);
    }
}
