//! Which of the library's conduits a job uses. Most libraries hold one; the universal library holds several.
//!
//! What rules a conduit out for everybody (it has no network, it carries fewer ranks) is known before there are ranks. Then each process looks
//! whether it could use what is left ([`Conduit::probe`]), all tell all, and the job takes the first in the library's order, which is best first,
//! that nobody is without. `GASNET_CONDUIT` names one instead.

use std::fmt::Write;

use gasnet_conduit::config::AUTO_CONDUIT;
use gasnet_conduit::Conduit;
use gasnet_job::{Job, StartOptions};

/// Conduits of a library: as many as bits tell about.
const MOST: usize = 32;

/// What is known about the choice: a conduit, and why it is out.
struct Candidate {
    conduit: &'static dyn Conduit,
    refusal: Option<String>,
}

impl Candidate {
    fn name(&self) -> &'static str {
        self.conduit.identity().name
    }
}

/// The conduit that a value of `GASNET_CONDUIT` names.
fn named(wanted: &str) -> Option<String> {
    let wanted = wanted.trim();
    (!wanted.eq_ignore_ascii_case(AUTO_CONDUIT)).then(|| wanted.to_ascii_lowercase())
}

/// A choice that is under way.
pub struct Choice {
    candidates: Vec<Candidate>,
    /// What `GASNET_CONDUIT` names, if it is not [`AUTO_CONDUIT`].
    wanted: Option<String>,
    /// A limit of neighbourhoods that no conduit here can heed.
    unheeded: Option<u32>,
}

impl Choice {
    /// Before there are ranks: who can carry a job of these options. An error if nobody can, or if `wanted` is none of `conduits`. Where none
    /// that may be taken has a network, the options lose their limit of neighbourhoods, and a warning says so: clients set it for every
    /// conduit alike.
    pub fn new(conduits: &[&'static dyn Conduit], wanted: &str, options: &mut StartOptions) -> Result<Self, String> {
        assert!(conduits.len() <= MOST, "defect: more conduits than bits");
        let candidate = |&conduit: &&'static dyn Conduit| Candidate { conduit, refusal: None };
        let mut choice = Self {
            candidates: conduits.iter().map(candidate).collect(),
            wanted: named(wanted),
            unheeded: None,
        };
        let splits = (1..options.ranks).contains(&options.nbrhd_max);
        if splits && choice.eligible().all(|i| conduits[i].needs_single_neighbourhood()) {
            choice.unheeded = Some(std::mem::take(&mut options.nbrhd_max));
        }
        for candidate in &mut choice.candidates {
            candidate.refusal = unfit(candidate.conduit, options);
        }
        choice.checked()
    }

    /// With another wish: the first host's, which this process did not know before the job began.
    pub fn wanting(mut self, wanted: &str) -> Result<Self, String> {
        self.wanted = named(wanted);
        self.checked()
    }

    fn checked(self) -> Result<Self, String> {
        match &self.wanted {
            Some(wanted) if self.candidates.len() > 1 && self.place(wanted).is_none() => Err(format!(
                "GASNET_CONDUIT={wanted}: this library holds {}. Name one of these or auto, or use a library that was built with {wanted}.",
                self.names()
            )),
            _ if self.eligible().next().is_none() => Err(self.refusals()),
            _ => Ok(self),
        }
    }

    fn names(&self) -> String {
        self.candidates.iter().map(Candidate::name).collect::<Vec<_>>().join(", ")
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.candidates.iter().position(|c| c.name() == name)
    }

    /// Places of those that are not out. Only the wanted one, if the library has it and the choice is its user's.
    fn eligible(&self) -> impl Iterator<Item = usize> + '_ {
        let only = self.wanted.as_deref().and_then(|name| self.place(name));
        (0..self.candidates.len()).filter(move |&i| self.candidates[i].refusal.is_none() && only.is_none_or(|only| only == i))
    }

    /// Why nobody is left.
    fn refusals(&self) -> String {
        let only = self.wanted.as_deref().and_then(|name| self.place(name));
        let all = self
            .candidates
            .iter()
            .enumerate()
            .filter(|(i, _)| only.is_none_or(|only| only == *i));
        let text: Vec<&str> = all.filter_map(|(_, c)| c.refusal.as_deref()).collect();
        text.join(" ")
    }

    /// The conduit that all processes of `job` can use. Collective. An error is empty on ranks that can say no more than rank 0 says.
    pub fn agree(mut self, job: &Job) -> Result<Chosen, String> {
        let mut informed = job.rank() == 0;
        if job.leaders().len() > 1 {
            self.need_network(job.host_count());
        }
        if self.candidates.len() > 1 {
            for i in self.eligible().collect::<Vec<_>>() {
                self.candidates[i].refusal = self.candidates[i].conduit.probe().err().map(|e| e.message);
                informed |= self.candidates[i].refusal.is_some();
            }
            let own: u32 = self.eligible().map(|i| 1 << i).sum();
            let all = job.exchange(&own.to_ne_bytes());
            let masks: Vec<u32> = all
                .chunks_exact(4)
                .map(|c| u32::from_ne_bytes(c.try_into().unwrap_or_default()))
                .collect();
            self.heed(&masks);
        }
        let Some(place) = self.eligible().next() else {
            return Err(if informed { self.refusals() } else { String::new() });
        };
        let explanation = self.explanation(place);
        let conduit = self.candidates[place].conduit;
        Ok(Chosen {
            conduit,
            explanation,
            warning: self.warning(place),
        })
    }

    /// Ranks that share no memory need a network: on several `hosts`, which may not have been known before.
    fn need_network(&mut self, hosts: u32) {
        let without = self.candidates.iter_mut().filter(|c| c.conduit.needs_single_neighbourhood());
        for candidate in without {
            let name = candidate.name();
            candidate.refusal.get_or_insert_with(|| {
                format!("The {name} conduit has no network, but the ranks of this job are on {hosts} hosts, or not all neighbours there.")
            });
        }
    }

    /// What a process is without, nobody uses.
    fn heed(&mut self, masks: &[u32]) {
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

    /// One line per conduit, if there is a choice.
    fn explanation(&self, chosen: usize) -> String {
        let mut text = String::new();
        if self.candidates.len() == 1 {
            return text;
        }
        for (i, candidate) in self.candidates.iter().enumerate() {
            let why = match &candidate.refusal {
                _ if i == chosen && self.wanted.is_some() => "used, as GASNET_CONDUIT asks",
                _ if i == chosen => "used",
                Some(refusal) => refusal,
                None => "could be used",
            };
            let _ = writeln!(text, "GASNet: conduit {}: {why}", candidate.name());
        }
        text
    }

    /// What the user asked for and does not get: a conduit that a library of one conduit does not have, small neighbourhoods without a network.
    fn warning(&self, chosen: usize) -> Option<String> {
        let absent = self.wanted.as_deref().filter(|name| self.place(name).is_none());
        let absent = absent.map(|wanted| {
            format!(
                "GASNET_CONDUIT={wanted} has no effect: this program's library holds {} only. Link the program with that conduit's library, or \
                 with the universal one (-lgasnet).",
                self.names()
            )
        });
        let limit = self.unheeded.map(|limit| {
            let name = self.candidates[chosen].name();
            format!("GASNET_SUPERNODE_MAXSIZE={limit} has no effect: the {name} conduit has no network, so all ranks are one neighbourhood.")
        });
        let all: Vec<String> = [absent, limit].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join(" "))
    }
}

/// The outcome of a choice.
pub struct Chosen {
    /// The conduit, not started.
    pub conduit: &'static dyn Conduit,
    /// Why it, and why not the others: lines for `GASNET_VERBOSEENV`.
    pub explanation: String,
    /// What the user should know.
    pub warning: Option<String>,
}

/// Why a conduit cannot carry a job of these options, whatever the machine.
fn unfit(conduit: &dyn Conduit, options: &StartOptions) -> Option<String> {
    let (name, most) = (conduit.identity().name, conduit.limits().max_ranks);
    let (size, nbrhd) = (options.ranks, options.nbrhd_max);
    if conduit.needs_single_neighbourhood() && (1..size).contains(&nbrhd) {
        return Some(format!(
            "The {name} conduit has no network: all ranks must share one neighbourhood, but GASNET_SUPERNODE_MAXSIZE={nbrhd} splits {size} \
             ranks. Unset it, or use a conduit with a network."
        ));
    }
    (size > most).then(|| format!("The {name} conduit carries at most {most} ranks; this job has {size}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::config::Config;
    use gasnet_conduit::{Busy, Class, ConduitError, Identity, JobRank, Limits, PollScope, StartInfo, Upcalls};
    use gasnet_job::Library;

    struct Named(&'static str, bool, u32);

    impl Conduit for Named {
        fn identity(&self) -> Identity {
            let (name, version) = (self.0, "1");
            Identity { name, version }
        }
        fn limits(&self) -> Limits {
            let (max_packet_bytes, max_ranks, rails) = (1024, self.2, 0);
            Limits {
                max_packet_bytes,
                max_ranks,
                rails,
            }
        }
        fn start(&self, _: &StartInfo<'_>) -> Result<(), ConduitError> {
            Ok(())
        }
        fn needs_single_neighbourhood(&self) -> bool {
            self.1
        }
        fn send(&self, _: JobRank, _: Class, _: &[&[u8]]) -> Result<(), Busy> {
            Err(Busy)
        }
        fn poll(&self, _: PollScope, _: &mut dyn Upcalls) -> usize {
            0
        }
        fn stop(&self) {}
    }

    static THREE: [&dyn Conduit; 3] = [&Named("near", true, 100), &Named("fast", false, 8), &Named("slow", false, 50)];

    fn choice(wanted: &str, ranks: u32, nbrhd_max: u32) -> Result<Choice, String> {
        let options = StartOptions::from_config(&Config::defaults(&[]), &Library::default()).unwrap();
        let mut options = StartOptions {
            ranks,
            nbrhd_max,
            ..options
        };
        let choice = Choice::new(&THREE, wanted, &mut options);
        if let Ok(choice) = &choice {
            assert_eq!(options.nbrhd_max, if choice.unheeded.is_some() { 0 } else { nbrhd_max });
        }
        choice
    }

    fn taken(wanted: &str, ranks: u32, nbrhd_max: u32, masks: &[u32]) -> Result<&'static str, String> {
        let mut choice = choice(wanted, ranks, nbrhd_max)?;
        choice.heed(masks);
        let place = choice.eligible().next().ok_or_else(|| choice.refusals())?;
        Ok(choice.candidates[place].name())
    }

    #[test]
    fn the_first_that_all_have_is_taken() {
        assert_eq!(taken("auto", 4, 0, &[7; 4]).unwrap(), "near");
        assert_eq!(taken("AUTO", 4, 2, &[6; 4]).unwrap(), "fast");
        assert_eq!(taken("auto", 9, 2, &[6; 9]).unwrap(), "slow");
        assert_eq!(taken("auto", 4, 2, &[6, 6, 4, 6]).unwrap(), "slow");
        assert_eq!(taken("Slow", 4, 0, &[4; 4]).unwrap(), "slow");
    }

    #[test]
    fn who_is_left_out_is_named_with_the_reason() {
        let error = taken("other", 4, 0, &[]).unwrap_err();
        assert!(error.contains("other") && error.contains("near, fast, slow"), "{error}");
        let error = taken("fast", 4, 0, &[2, 2, 0, 0]).unwrap_err();
        assert_eq!(error, "The fast conduit cannot be used on rank 2 and 1 others.");
        let error = taken("auto", 101, 0, &[]).unwrap_err();
        assert!(error.contains("at most 100") && error.contains("at most 50"), "{error}");
        let mut choice = choice("auto", 4, 2).unwrap();
        choice.heed(&[4; 4]);
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
        let mut alone = Choice::new(&THREE[..1], "auto", &mut options).unwrap();
        alone.need_network(3);
        assert!(alone.eligible().next().is_none() && alone.refusals().contains("3 hosts"));
    }

    #[test]
    fn a_library_of_one_conduit_warns() {
        let mut options = StartOptions::from_config(&Config::defaults(&[]), &Library::default()).unwrap();
        let choice = Choice::new(&THREE[..1], "slow", &mut options).unwrap();
        assert!(choice.warning(0).unwrap().contains("holds near only"));
        assert_eq!((choice.eligible().next(), choice.explanation(0).as_str()), (Some(0), ""));
        assert!(Choice::new(&THREE[..1], " Near ", &mut options).unwrap().warning(0).is_none());
    }

    #[test]
    fn without_a_network_neighbourhoods_are_not_limited() {
        let choice = choice("near", 4, 2).unwrap();
        assert_eq!(choice.eligible().next(), Some(0));
        assert!(choice
            .warning(0)
            .unwrap()
            .starts_with("GASNET_SUPERNODE_MAXSIZE=2 has no effect"));
        // A limit that splits nothing needs no word.
        assert_eq!(self::choice("near", 4, 4).unwrap().warning(0), None);
        assert_eq!(self::choice("auto", 4, 2).unwrap().warning(1), None);
    }
}
