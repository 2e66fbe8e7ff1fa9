//! The first messages of PMI-1 and PMI-2.

use std::time::Instant;

use super::{answer_limit, Version, Wire};
use crate::mpi::{self, Mpi};
use crate::pmi::message::line;
use crate::pmi::{check_place, quoted, text, ManagerAddress, PmiInterface, WireStart};
use crate::JobError;

/// Most characters of a PMI-2 value. The protocol does not announce it; this is below the
/// interface's constant, for managers that count their additions.
const PMI2_VALUE_MAX: usize = 1000;
/// Most characters of a PMI-1 line, whatever the manager announces for values: Slurm reads 1024.
const LINE_MAX: usize = 1000;

impl Version {
    /// Version and subversion in the first message.
    fn numbers(self) -> (&'static str, &'static str) {
        match self {
            Self::One => ("1", "1"),
            Self::Two => ("2", "0"),
        }
    }
}

impl Wire {
    /// Agrees on a version, and requests rank and size.
    pub(super) fn start(&mut self, start: &WireStart) -> Result<(), JobError> {
        let limit = Some(answer_limit());
        let mut place = (start.rank.clone(), start.size.clone());
        if let ManagerAddress::Port { id, .. } = &start.place {
            place = self.introduce(id.trim(), limit)?;
        }
        self.version = self.agree(start.choice, limit)?;
        let number = |name: &str, text: Option<&str>| {
            let text = text.ok_or_else(|| format!("{name} is not set"))?;
            text.trim()
                .parse()
                .map_err(|_| format!("{name}={} is not a number", quoted(text)))
        };
        self.rank = number("PMI_RANK", place.0.as_deref()).map_err(|why| self.error(&why))?;
        match self.version {
            Version::One => {
                self.size = number("PMI_SIZE", place.1.as_deref()).map_err(|why| self.error(&why))?;
                let maxes = self.ask("get_maxes", &[], "maxes", limit)?;
                let least = |name: &str, least: usize| {
                    let most = maxes
                        .number(name)
                        .ok_or_else(|| format!("its answer to get_maxes has no number {name}"))?
                        as usize;
                    if most <= least {
                        return Err(format!("{name}={most} is too small: more than {least} is needed"));
                    }
                    Ok(most)
                };
                let most = least("vallen_max", text::PIECE_MIN).map_err(|why| self.error(&why))?;
                least("keylen_max", text::PIECE_KEY_MAX).map_err(|why| self.error(&why))?;
                let space = self.ask("get_my_kvsname", &[], "my_kvsname", limit)?;
                self.job = self.name_of_job(space.field("kvsname"))?;
                let fields = [("kvsname", self.job.as_str()), ("key", ""), ("value", "")];
                let room = LINE_MAX - line("put", &fields).len() - text::PIECE_KEY_MAX;
                // The manager may count a terminating zero.
                self.value_max = room.min(most - 1);
            }
            Version::Two => {
                let rank = self.rank.to_string();
                let job = start.job.as_deref().map(|job| ("pmijobid", job));
                let fields: Vec<_> = job
                    .into_iter()
                    .chain([("pmirank", rank.as_str()), ("threaded", "FALSE")])
                    .collect();
                let answer = self.ask("fullinit", &fields, "fullinit-response", limit)?;
                let (Some(rank), Some(size)) = (answer.number("rank"), answer.number("size")) else {
                    return Err(self.error("its answer to fullinit lacks rank and size"));
                };
                (self.rank, self.size) = (rank, size);
                self.value_max = PMI2_VALUE_MAX;
                let answer = self.ask("job-getid", &[], "job-getid-response", limit)?;
                self.job = self.name_of_job(answer.field("jobid"))?;
            }
        }
        check_place(self.rank, self.size).map_err(|why| self.error(&why))
    }

    /// Sends this process's identity after connecting; the answer contains rank and size.
    fn introduce(&mut self, id: &str, limit: Option<Instant>) -> Result<(Option<String>, Option<String>), JobError> {
        if id.is_empty() || !id.bytes().all(|c| c.is_ascii_digit()) {
            return Err(self.error(&format!("PMI_ID={} is not a number", quoted(id))));
        }
        self.ask_by_line("initack", &[("pmiid", id)], "initack", limit)?;
        let (mut rank, mut size, mut debug) = (None, None, None);
        while rank.is_none() || size.is_none() || debug.is_none() {
            let message = self.receive_line("initack", "set", limit)?;
            let value = |name, before: Option<String>| message.field(name).map(str::to_owned).or(before);
            (rank, size, debug) = (value("rank", rank), value("size", size), value("debug", debug));
        }
        Ok((rank, size))
    }

    /// Finds a version that the manager accepts.
    fn agree(&mut self, choice: PmiInterface, limit: Option<Instant>) -> Result<Version, JobError> {
        let versions: &[Version] = match choice {
            PmiInterface::Pmi1 => &[Version::One],
            PmiInterface::Pmi2 => &[Version::Two],
            PmiInterface::Auto | PmiInterface::Pmix => &[Version::One, Version::Two],
        };
        // An MPI of this process has already agreed on version 1 over this connection. Slurm
        // answers no second `init`.
        if matches!(choice, PmiInterface::Auto | PmiInterface::Pmi1)
            && !self.stream.is_own()
            && mpi::state() == Mpi::Running
        {
            return Ok(Version::One);
        }
        let mut refused = Vec::new();
        for &version in versions {
            self.version = version;
            let (major, minor) = version.numbers();
            let fields = [("pmi_version", major), ("pmi_subversion", minor)];
            let answer = self.exchange_lines("init", &fields, "response_to_init", limit)?;
            let theirs = answer.field("pmi_version").unwrap_or_default();
            match answer.field("rc") {
                Some("0") | None if theirs == major => return Ok(version),
                rc => refused.push(format!(
                    "{} (its answer: version {}, code {})",
                    version.name(),
                    quoted(theirs),
                    quoted(rc.unwrap_or_default())
                )),
            }
        }
        Err(self.error(&format!("it does not support {}", refused.join(" nor "))))
    }

    fn name_of_job(&self, name: Option<&str>) -> Result<String, JobError> {
        match name {
            Some(name) if (1..=256).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_graphic()) => {
                Ok(name.into())
            }
            Some(name) => Err(self.error(&format!("its job name is invalid: {}", quoted(name)))),
            None => Err(self.error("it sends no job name")),
        }
    }
}
