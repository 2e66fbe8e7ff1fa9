//! A set-user-ID program, which another user starts. Needs root, and a folder that allows such
//! programs.

use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use gasnet_conduit::config::{self, text, Config, Key, Variable};
use gasnet_sys::process;

const LIBRARY: Key<Option<String>> = text("GASNET_OF_TEST_LIBRARY", "A conduit's.");
static TABLE: &[Variable] = &[LIBRARY.variable];

/// Variables of files, under all their names, and two others.
const SET: [(&str, &str); 8] = [
    ("AMUDP_SSH_OPTIONS", "-oProxyCommand=x"),
    ("GASNET_OF_TEST_LIBRARY", "/x.so"),
    ("GASNET_SSH_CMD", "/x"),
    ("GASNET_TMPDIR", "/x"),
    ("GASNET_TRACEFILE", "/x"),
    ("PE_HOSTFILE", "/x"),
    ("GASNET_PSHM_NODES", "3"),
    ("OF_TEST", "x"),
];
const IGNORED: usize = 6;

/// Marks the process that [`a_privileged_program_ignores_variables_of_files`] starts.
const MARK: &str = "PRIVILEGED_PROGRAM_OF_TEST";
const NOBODY: u32 = 65534;

#[test]
fn a_privileged_program_ignores_variables_of_files() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return eprintln!("skipped: not root");
    }
    let folder = env::temp_dir().join(format!("gasnet-privileged-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let ends: Vec<_> = [0o755, 0o4755].map(|mode| run(&folder.join("program"), mode)).into();
    fs::remove_dir_all(&folder).unwrap();
    let [plain, privileged] = &ends[..] else { unreachable!() };
    assert!(plain.contains("privileged: false"), "{plain}");
    if privileged.contains("privileged: false") {
        return eprintln!("skipped: {} is mounted without set-user-ID programs", folder.display());
    }
    assert!(privileged.contains("privileged: true"), "{privileged}");
}

/// The output of a copy of this program, with these permissions and as another user.
fn run(program: &Path, mode: u32) -> String {
    fs::copy(env::current_exe().unwrap(), program).unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(mode)).unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", "the_program_itself", "--nocapture", "--test-threads=1"]);
    command.env_clear().env(MARK, "1").envs(SET).uid(NOBODY).gid(NOBODY);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text.into_owned()
}

#[test]
fn the_program_itself() {
    if env::var_os(MARK).is_none() {
        return;
    }
    let is_privileged = process::is_privileged();
    let config = Config::load(&[TABLE]).unwrap();
    let ignored = if is_privileged { &SET[..IGNORED] } else { &[] };
    assert!(
        config.ignored().iter().eq(ignored.iter().map(|(name, _)| *name)),
        "{:?}",
        config.ignored()
    );
    for (name, value) in SET {
        let expected = Some(OsString::from(value)).filter(|_| !config.ignored().contains(&name.into()));
        assert_eq!(env::var_os(name), expected, "{name}");
    }
    assert_eq!(config.get(&LIBRARY).is_none(), is_privileged);
    assert_eq!(config.get(&config::TRACEFILE).is_none(), is_privileged);
    assert_eq!(config.get(&config::PSHM_NODES), 3);
    let path = process::search_path();
    assert_eq!(
        path.is_some_and(|path| path == "/usr/local/bin:/usr/bin:/bin"),
        is_privileged
    );
    println!("privileged: {is_privileged}");
}
