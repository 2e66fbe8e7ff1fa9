//! The hosts of a job: host lists in variables, files and batch systems (ssh-spawner README,
//! "Runtime Configuration" and "Process Layout").

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::super::layout::{JobLayout, RankRange};
use super::super::{refuse, JobError};
use gasnet_conduit::config::built_in;

/// Sources of host names. The first that is set wins.
const SOURCES: [(&str, Form); 12] = [
    ("GASNET_SSH_NODEFILE", Form::File),
    ("GASNET_SSH_SERVERS", Form::List),
    ("AMUDP_SSH_SERVERS", Form::List),
    ("SSH_SERVERS", Form::List),
    ("GASNET_NODEFILE", Form::File),
    ("PBS_NODEFILE", Form::File),
    ("LSB_HOSTS", Form::List),
    // LSF does not set LSB_HOSTS if it would exceed 4096 bytes.
    ("LSB_DJOB_HOSTFILE", Form::File),
    ("LSB_MCPU_HOSTS", Form::Pairs),
    ("PE_HOSTFILE", Form::File),
    ("SLURM_JOB_NODELIST", Form::Slurm),
    ("SLURM_NODELIST", Form::Slurm),
];
/// Number of those that users set.
const BY_HAND: usize = 5;

/// Limits of a list, which may come from anywhere: bytes of a file, hosts, bytes of a name, and
/// brackets in an item of Slurm's form.
const FILE_MAX: u64 = 64 << 20;
const HOSTS_MAX: usize = 1 << 20;
/// Words that are read of a list: more than are accepted, in pairs too.
const WORDS_MAX: usize = 2 * (HOSTS_MAX + 1);
const NAME_MAX: usize = 255;
const BRACKETS_MAX: usize = 8;
/// Digits of a number in brackets.
const DIGITS_MAX: usize = 20;

/// The form of a list.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A file with a name at the beginning of each line. The rest of the line and comments are
    /// ignored.
    File,
    /// Names separated by commas or white space.
    List,
    /// Alternating names and numbers of processors.
    Pairs,
    /// Slurm's compressed form: `node[1-3,07],login`.
    Slurm,
}

/// A list of hosts and its source.
#[derive(Debug, PartialEq, Eq)]
pub struct Hosts {
    /// The names, in order.
    pub names: Vec<String>,
    /// A variable, or the site's default of one.
    pub source: &'static str,
}

/// Whether a user has named hosts.
pub fn are_named(environment: impl Fn(&str) -> Option<OsString>) -> bool {
    SOURCES[..BY_HAND]
        .iter()
        .any(|(name, _)| environment(name).is_some_and(|v| !v.is_empty()))
}

/// Whether this process is in a Slurm step, which has processors of its own. An interactive step
/// (the shell of `salloc`) has none.
pub fn is_in_step(environment: impl Fn(&str) -> Option<OsString>) -> bool {
    const INTERACTIVE: &str = "4294967290";
    environment("SLURM_STEP_ID").is_some_and(|id| !id.is_empty() && id != INTERACTIVE)
}

/// The hosts of a batch system's allocation, if there are several and the user has not named any.
/// An unreadable list causes a warning that starts with `who`.
pub fn allocated(who: &str, environment: impl Fn(&str) -> Option<OsString>) -> Option<Hosts> {
    let is_set = |(name, _): &(&str, Form)| environment(name).is_some_and(|v| !v.is_empty());
    if are_named(&environment) || !SOURCES[BY_HAND..].iter().any(is_set) {
        return None;
    }
    match list(environment, false) {
        Ok(hosts) => Some(hosts).filter(|hosts| hosts.names.len() > 1),
        Err(error) => {
            eprintln!("{who}: {}; all ranks are on this host", error.message);
            None
        }
    }
}

/// The hosts that `environment` names, without duplicates unless they are to be kept.
pub fn list(environment: impl Fn(&str) -> Option<OsString>, keep_duplicates: bool) -> Result<Hosts, JobError> {
    let set =
        |&(name, form): &(&'static str, Form)| environment(name).filter(|v| !v.is_empty()).map(|v| (name, form, v));
    let of_site =
        || built_in("GASNET_SSH_NODEFILE").map(|file| ("the default of GASNET_SSH_NODEFILE", Form::File, file.into()));
    let Some((source, form, value)) = SOURCES.iter().find_map(set).or_else(of_site) else {
        let all: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        return refuse(format!("no hosts are known: none of {} is set", all.join(", ")));
    };
    let text = value.to_string_lossy();
    let content = match form {
        Form::File => read(value.as_ref()).map_err(|e| format!("cannot read the list of hosts: {e}")),
        _ => Ok(text.to_string()),
    };
    match content.and_then(|content| parse(form, &content, keep_duplicates)) {
        Ok(names) if names.is_empty() => refuse(format!("{source}={}: it contains no host name", shortened(&text))),
        Ok(names) => Ok(Hosts { names, source }),
        Err(why) => refuse(format!("{source}={}: {why}", shortened(&text))),
    }
}

/// The names in a list, without duplicates unless they are to be kept.
pub fn parse(form: Form, text: &str, keep_duplicates: bool) -> Result<Vec<String>, String> {
    let mut names = match form {
        Form::List => parse_list(text),
        Form::Pairs => parse_list(text).into_iter().step_by(2).collect(),
        Form::Slurm => parse_slurm(text)?,
        Form::File => parse_file(text),
    };
    if names.len() > HOSTS_MAX {
        return Err(format!("more than {HOSTS_MAX} hosts"));
    }
    if let Some(bad) = names.iter().find(|name| name.len() > NAME_MAX) {
        return Err(format!(
            "a host name has more than {NAME_MAX} bytes: {}",
            shortened(bad)
        ));
    }
    // The remote shell would take it for an option.
    if let Some(bad) = names.iter().find(|name| name.starts_with('-')) {
        return Err(format!("{bad} is not a host name"));
    }
    if !keep_duplicates {
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
    }
    Ok(names)
}

/// Names that commas or white space separate, [`WORDS_MAX`] at most.
pub fn parse_list(text: &str) -> Vec<String> {
    let names = text
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|name| !name.is_empty());
    names.take(WORDS_MAX).map(str::to_owned).collect()
}

fn parse_file(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines
        .filter_map(|line| line.split_whitespace().next())
        .take(WORDS_MAX)
        .map(str::to_owned)
        .collect()
}

/// The text of a file, which may be a device or a pipe.
fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        return Err(io::Error::other(format!("it has more than {} MiB", FILE_MAX >> 20)));
    }
    Ok(text)
}

/// A value as messages show it.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// Names in Slurm's compressed form.
fn parse_slurm(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        // Up to the next comma outside brackets.
        let mut depth = 0;
        let comma = |&(_, c): &(usize, char)| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            c == ',' && depth == 0
        };
        let end = rest.char_indices().find(comma).map_or(rest.len(), |(i, _)| i);
        let item = &rest[..end];
        names.extend(expand(item, HOSTS_MAX - names.len()).map_err(|why| format!("{why} in {}", shortened(item)))?);
        rest = rest[end..].trim_start_matches(',');
    }
    Ok(names)
}

/// The names of one item, at most `most`. Each pair of brackets multiplies.
fn expand(item: &str, most: usize) -> Result<Vec<String>, &'static str> {
    const UNBALANCED: &str = "unbalanced brackets";
    if item.is_empty() {
        return Err("an empty name");
    }
    if item.matches('[').count() > BRACKETS_MAX {
        return Err("too many brackets");
    }
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((front, behind)) = rest.split_once('[') {
        let (ranges, back) = behind.split_once(']').ok_or(UNBALANCED)?;
        if front.contains(']') || ranges.contains('[') {
            return Err(UNBALANCED);
        }
        let numbers = numbers(ranges, most / names.len())?;
        // The text after the brackets is in all names, too.
        let longest = names.iter().map(String::len).max().unwrap_or(0) + front.len();
        if longest.max(back.len()) > NAME_MAX {
            return Err("a name that is too long");
        }
        let with_numbers = |name: &String| {
            numbers
                .iter()
                .map(move |n| format!("{name}{front}{n}"))
                .collect::<Vec<_>>()
        };
        names = names.iter().flat_map(with_numbers).collect();
        rest = back;
    }
    if rest.contains(']') {
        return Err(UNBALANCED);
    }
    if most < names.len() {
        return Err("too many hosts");
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok(names)
}

/// The numbers of ranges such as `1-3,07`, at most `most`, as wide as the first of each range.
fn numbers(ranges: &str, most: usize) -> Result<Vec<String>, &'static str> {
    const MALFORMED: &str = "a malformed range";
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let width = low.len();
        if width > DIGITS_MAX {
            return Err(MALFORMED);
        }
        let (first, last): (u64, u64) = (
            low.parse().map_err(|_| MALFORMED)?,
            high.parse().map_err(|_| MALFORMED)?,
        );
        if last < first {
            return Err(MALFORMED);
        }
        if last - first >= (most - numbers.len()) as u64 {
            return Err("too many hosts");
        }
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

/// Places ranks on the first `most` of `names` (0: on all), in equal blocks, larger ones first.
/// Also returns the names of the hosts by their numbers. A name that is repeated is one host with
/// several blocks.
pub fn place_ranks(names: &[String], ranks: u32, most: u32, nbrhd_max: u32) -> Option<(JobLayout, Vec<String>)> {
    let most = if most == 0 { ranks } else { most.min(ranks) };
    let entries = &names[..names.len().min(most as usize)];
    let count = u32::try_from(entries.len()).ok().filter(|&n| n > 0)?;
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut hosts = Vec::new();
    let mut ranges = Vec::new();
    let mut first = 0;
    for (i, name) in entries.iter().enumerate() {
        let host = *numbers.entry(name).or_insert_with(|| {
            hosts.push(name.clone());
            hosts.len() as u32 - 1
        });
        let count = ranks / count + u32::from((i as u32) < ranks % count);
        ranges.push(RankRange { first, count, host });
        first += count;
    }
    Some((JobLayout::new(ranges, nbrhd_max)?, hosts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)], keep: bool) -> Result<Hosts, String> {
        let find = |name: &str| pairs.iter().find(|p| p.0 == name).map(|p| OsString::from(p.1));
        list(find, keep).map_err(|e| e.message)
    }

    #[test]
    fn lists_of_every_kind() {
        for (pairs, keep, names) in [
            (
                &[("GASNET_SSH_SERVERS", " a,b  c\n,a "), ("SLURM_JOB_NODELIST", "x")][..],
                false,
                "a b c",
            ),
            (&[("SSH_SERVERS", "a b a")], true, "a b a"),
            (&[("LSB_MCPU_HOSTS", "a 42 b 42 ")], true, "a b"),
            (
                &[("SLURM_NODELIST", "node[1-3,07],login,r[1-2]n[09-10]")],
                true,
                "node1 node2 node3 node07 login r1n09 r1n10 r2n09 r2n10",
            ),
        ] {
            let hosts = from(pairs, keep).unwrap();
            assert_eq!((hosts.names.join(" "), hosts.source), (names.into(), pairs[0].0));
        }
        assert_eq!(
            parse_file("# comment\n\nnode1 4 queue\n  node2 # two\n"),
            ["node1", "node2"]
        );
    }

    #[test]
    fn errors_are_reported() {
        for (pairs, part) in [
            (&[][..], "GASNET_SSH_SERVERS"),
            (&[("GASNET_NODEFILE", "/no/such/file")], "/no/such/file"),
            (&[("GASNET_SSH_SERVERS", " , ")], "no host name"),
            (&[("GASNET_SSH_SERVERS", "a -oProxyCommand=x")], "-oProxy"),
        ] {
            assert!(from(pairs, false).unwrap_err().contains(part), "{part}");
        }
        for bad in [
            "node[1-",
            "node[3-1]",
            "node[a]",
            "node]",
            "n[0-99999999999]",
            "n[]",
            "n]a[1]",
            "n[[1]]",
            "a[1],,[",
        ] {
            assert!(from(&[("SLURM_JOB_NODELIST", bad)], false).is_err(), "{bad}");
        }
    }

    #[test]
    fn lists_without_end_are_refused() {
        let (zeros, brackets, name) = ("0".repeat(70_000), "[1]".repeat(40_000), "x".repeat(300));
        let slurm = "SLURM_JOB_NODELIST";
        for (source, value, part) in [
            (slurm, format!("n[{zeros}]"), "a malformed range"),
            (slurm, format!("n[{zeros}1-2]"), "a malformed range"),
            (slurm, brackets, "too many brackets"),
            (slurm, "n[0-1048576]".into(), "too many hosts"),
            (slurm, "n[0-1023][0-1024]".into(), "too many hosts"),
            (slurm, "n[0-1048575],m".into(), "too many hosts"),
            (slurm, format!("{name}[1][2]"), "a name that is too long"),
            (slurm, format!("n[0-1048575]{name}"), "a name that is too long"),
            (slurm, format!("n,{name}"), "more than 255 bytes"),
            ("GASNET_SSH_SERVERS", format!("a {name}"), "more than 255 bytes"),
            ("GASNET_SSH_NODEFILE", "/dev/zero".into(), "more than 64 MiB"),
        ] {
            let why = from(&[(source, &value)], true).unwrap_err();
            assert!(why.contains(part) && why.starts_with(source), "{why}");
            assert!(why.len() < 600, "{} bytes", why.len());
        }
        let all = from(&[(slurm, "n[0-1023][0-1023]")], true).unwrap();
        assert_eq!((all.names.len(), &*all.names[1024]), (1 << 20, "n10"));
        assert_eq!(
            shortened("é".repeat(300).as_str()).chars().count(),
            200 + "… (600 bytes)".chars().count()
        );
    }

    #[test]
    fn an_interactive_step_is_none() {
        let is = |id: Option<&str>| is_in_step(|_| id.map(OsString::from));
        assert!(is(Some("0")) && is(Some("7")));
        assert!(!is(None) && !is(Some("")) && !is(Some("4294967290")));
    }

    #[test]
    fn ranks_are_laid_out_in_blocks() {
        for (names, ranks, most, first_host, hosts) in [
            ("a b c", 8, 0, &[0, 1, 2][..], "a b c"),
            ("n1 n2 n1 n2", 8, 0, &[0, 1, 4, 5], "n1 n2"),
            ("a b c", 2, 0, &[0], "a b"),
            ("a b c", 8, 2, &[0, 1, 2, 3], "a b"),
            ("a a b b c", 8, 2, &[0, 1, 2, 3, 4, 5, 6, 7], "a"),
            ("a a b b c", 8, 3, &[0, 1, 2, 3, 4, 5], "a b"),
            ("a b", 8, 5, &[0, 1, 2, 3], "a b"),
        ] {
            let (layout, names) = place_ranks(&parse_list(names), ranks, most, 0).unwrap();
            assert_eq!((&layout.ranks_on(0)[..], names.join(" ")), (first_host, hosts.into()));
            assert_eq!((layout.size, layout.hosts), (ranks, names.len() as u32));
        }
        assert!(place_ranks(&[], 8, 0, 0).is_none());
    }
}
