//! The libraries installed beside this program, by the file names in `../lib`: the report describes
//! this installation, not the build.

use super::machine::Root;
use super::{json, Facts};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Kinds of library (archive, shared), by conduit and thread mode.
pub type Libraries = BTreeMap<(String, String), Vec<&'static str>>;

/// Conduit and thread mode shown for the universal library.
const UNIVERSAL: (&str, &str) = ("any", "all");

/// The libraries in the folder `lib` of the prefix that holds this program; empty when it is not
/// installed.
pub fn libraries() -> Libraries {
    let mut found = Libraries::new();
    let Some(prefix) = prefix() else { return found };
    for (folder, kind, suffix) in [
        ("lib", "archive", ".a"),
        ("lib", "shared", ".so"),
        ("lib/gasnet-shared", "shared", ".so"),
    ] {
        for name in Root(prefix.clone()).names(folder) {
            if let Some(key) = conduit_and_mode(&name, suffix) {
                let kinds = found.entry(key).or_default();
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
    }
    found
}

/// How the installed libraries were built, from the archives and headers of this prefix.
pub fn build() -> Facts {
    let mut facts: Facts = vec![
        ("compiler (Rust)".into(), env!("GASNET_INFO_RUSTC").into()),
        ("compiler (C)".into(), env!("GASNET_INFO_CC").into()),
    ];
    let Some(prefix) = prefix() else { return facts };
    facts.push(("prefix".into(), prefix.display().to_string()));
    for (conduit, mode) in libraries().keys() {
        let name = if conduit == UNIVERSAL.0 {
            String::new()
        } else {
            format!("-{conduit}-{mode}")
        };
        let archive = prefix.join(format!("lib/libgasnet{name}.a"));
        if let Some(text) = std::fs::read(archive).ok().and_then(|bytes| config_string(&bytes)) {
            facts.push((format!("{conduit}-{mode}"), text));
        }
    }
    facts
}

/// The text between `$GASNetConfig: ` and ` $` in a library.
fn config_string(bytes: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"$GASNetConfig: ";
    let start = bytes.windows(MARK.len()).position(|w| w == MARK)? + MARK.len();
    let length = bytes[start..].iter().take(1000).position(|&b| b == b'$' || b == 0)?;
    Some(String::from_utf8_lossy(&bytes[start..start + length]).trim().to_owned())
}

/// Limits of the library, independent of the machine; then the numbers in the headers of each
/// conduit.
pub fn limits() -> Facts {
    let mut facts: Facts = vec![
        ("ranks of a job on one host".into(), gasnet_job::MAX_RANKS.to_string()),
        (
            "arguments of an Active Message".into(),
            gasnet::am::MAX_ARGS.to_string(),
        ),
        (
            "bytes of a Medium between neighbours".into(),
            gasnet::shm::layout::MAX_MEDIUM.to_string(),
        ),
        ("bytes of a Long".into(), gasnet::am::MAX_LONG.to_string()),
        (
            "endpoints of a process".into(),
            gasnet::endpoint::MAX_ENDPOINTS.to_string(),
        ),
    ];
    let conduits: BTreeSet<String> = libraries().into_keys().map(|(conduit, _)| conduit).collect();
    for conduit in conduits {
        let header = prefix().map(|p| p.join(format!("include/{conduit}-conduit/gasnet_core_fwd.h")));
        let text = header.and_then(|h| std::fs::read_to_string(h).ok()).unwrap_or_default();
        facts.extend(numbers(&text).map(|(name, value)| (format!("{conduit}: {name}"), value)));
    }
    facts
}

/// Numeric macros of a header. A macro of value 1 only marks a feature and is left out.
fn numbers(header: &str) -> impl Iterator<Item = (String, String)> + '_ {
    header.lines().filter_map(|line| {
        let mut words = line.strip_prefix("#define ")?.split_whitespace();
        let (name, value) = (words.next()?, words.next()?);
        let digits = value.trim_end_matches(['U', 'L', 'u', 'l']);
        let number = digits.parse::<u64>().ok()?;
        (name.starts_with("GASNET") && number != 1).then(|| (name.to_owned(), number.to_string()))
    })
}

fn prefix() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.to_path_buf())
}

/// `libgasnet-smp-par.a` or `libgasnet-smp-par.so.0.1.0` is (smp, par), `libgasnet.a` the universal
/// library.
fn conduit_and_mode(name: &str, suffix: &str) -> Option<(String, String)> {
    let stem = name.strip_prefix("libgasnet")?;
    let end = stem.find(suffix)?;
    let rest = &stem[end + suffix.len()..];
    let (conduit, mode) = if end == 0 {
        UNIVERSAL
    } else {
        stem[..end].strip_prefix('-')?.split_once('-')?
    };
    let known_mode = end == 0 || matches!(mode, "seq" | "par" | "parsync");
    (known_mode && (rest.is_empty() || rest.starts_with('.'))).then(|| (conduit.to_owned(), mode.to_owned()))
}

pub fn as_text(found: &Libraries) -> String {
    if found.is_empty() {
        return "no library is installed beside this program\n".into();
    }
    found.iter().fold(String::new(), |mut out, ((conduit, mode), kinds)| {
        let _ = writeln!(out, "{conduit}-{mode}  {}", kinds.join(", "));
        out
    })
}

pub fn as_json(found: &Libraries) -> String {
    let row = |((conduit, mode), kinds): (&(String, String), &Vec<&str>)| {
        json::object([
            ("conduit", json::string(conduit)),
            ("mode", json::string(mode)),
            ("kinds", json::array(kinds.iter().map(|kind| json::string(kind)))),
        ])
    };
    json::array(found.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_and_numbers() {
        let library = b"\x7fELF...$GASNetConfig: (libgasnet) RELEASE=1,debug $\0rest";
        assert_eq!(config_string(library).as_deref(), Some("(libgasnet) RELEASE=1,debug"));
        assert_eq!(config_string(b"nothing"), None);
        let header = "#define GASNET_MAXEPS 64\n#define GASNET_X_CONDUIT 1\n  #define NO 3\n\
                      #define GASNET_LEVEL 0U\n#define GASNET_NAME X\n";
        let found: Vec<_> = numbers(header).collect();
        assert_eq!(
            found,
            [
                ("GASNET_MAXEPS".into(), "64".into()),
                ("GASNET_LEVEL".into(), "0".into())
            ]
        );
    }

    #[test]
    fn file_names() {
        let read = |name, suffix| conduit_and_mode(name, suffix).map(|(c, m)| format!("{c}-{m}"));
        assert_eq!(read("libgasnet-smp-par.a", ".a").as_deref(), Some("smp-par"));
        assert_eq!(
            read("libgasnet-udp-parsync.so.0.1.0", ".so").as_deref(),
            Some("udp-parsync")
        );
        assert_eq!(read("libgasnet.so.0.1.0", ".so").as_deref(), Some("any-all"));
        assert_eq!(read("libgasnet-smp-par.all", ".a"), None);
        assert_eq!(read("libgasnet_tools-par.a", ".a"), None);
        assert_eq!(read("libgasnet-smp-fast.a", ".a"), None);
    }
}
