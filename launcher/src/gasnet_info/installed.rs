//! Which libraries are installed beside this program: read from the file names in `../lib`, so that the answer is about
//! this installation and not about what could have been built.

use gasnet::config::report::json_string;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// File-name ends of the library kinds, per conduit and thread mode.
pub type Libraries = BTreeMap<(String, String), Vec<&'static str>>;

/// The libraries in the folder `lib` of the prefix that holds this program; empty when it is not installed.
pub fn libraries() -> Libraries {
    let mut found = Libraries::new();
    let Some(prefix) = prefix() else { return found };
    for (folder, kind, suffix) in [
        ("lib", "archive", ".a"),
        ("lib", "shared", ".so"),
        ("lib/gasnet-shared", "shared", ".so"),
    ] {
        for name in names_in(&prefix.join(folder)) {
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

fn prefix() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.to_path_buf())
}

fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// `libgasnet-smp-par.a` or `libgasnet-smp-par.so.0.1.0` is (smp, par).
fn conduit_and_mode(name: &str, suffix: &str) -> Option<(String, String)> {
    let stem = name.strip_prefix("libgasnet-")?;
    let end = stem.find(suffix)?;
    let rest = &stem[end + suffix.len()..];
    let (conduit, mode) = stem[..end].split_once('-')?;
    let known_mode = matches!(mode, "seq" | "par" | "parsync");
    (known_mode && (rest.is_empty() || rest.starts_with('.'))).then(|| (conduit.to_owned(), mode.to_owned()))
}

/// One line per library.
pub fn as_text(found: &Libraries) -> String {
    if found.is_empty() {
        return "no library is installed beside this program\n".into();
    }
    found.iter().fold(String::new(), |mut out, ((conduit, mode), kinds)| {
        let _ = writeln!(out, "{conduit}-{mode}  {}", kinds.join(", "));
        out
    })
}

/// A JSON array.
pub fn as_json(found: &Libraries) -> String {
    let row = |((conduit, mode), kinds): (&(String, String), &Vec<&str>)| {
        let kinds: Vec<String> = kinds.iter().map(|k| json_string(k)).collect();
        format!(
            "{{\"conduit\": {}, \"mode\": {}, \"kinds\": [{}]}}",
            json_string(conduit),
            json_string(mode),
            kinds.join(", ")
        )
    };
    format!("[{}]", found.iter().map(row).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names() {
        let read = |name, suffix| conduit_and_mode(name, suffix).map(|(c, m)| format!("{c}-{m}"));
        assert_eq!(read("libgasnet-smp-par.a", ".a").as_deref(), Some("smp-par"));
        assert_eq!(read("libgasnet-udp-parsync.so.0.1.0", ".so").as_deref(), Some("udp-parsync"));
        assert_eq!(read("libgasnet-smp-par.all", ".a"), None);
        assert_eq!(read("libgasnet_tools-par.a", ".a"), None);
        assert_eq!(read("libgasnet-smp-fast.a", ".a"), None);
    }
}
