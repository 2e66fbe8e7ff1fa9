//! The emulator of uGNI for a test program: its library, which Cargo puts beside the program, and
//! a fabric of its own, which disappears with the process.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::Conduit;
use gasnet_conduit_gni::Gni;
use gasnet_sys::env;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// The variable with the options of the emulator for a test process.
const OPTIONS: &str = "GNI_TEST_EMULATOR";

/// Lets the conduits of this process use an emulator. Once per process, since a library reads its
/// options once.
pub fn emulate() {
    use_emulator(&std::env::var(OPTIONS).unwrap_or_default());
    config::install(Config::load(&[Gni::new().variables()]).unwrap());
}

fn use_emulator(options: &str) {
    let path = std::env::current_exe().unwrap().with_file_name("libemulator_ugni.so");
    assert!(path.exists(), "{} was not built", path.display());
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let options = CString::new(format!("dir={} yield=10 fma=1000 {options}", fabric())).unwrap();
    env::set(c"GASNET_GNI_LIBRARY", &path);
    env::set(c"EMU_UGNI", &options);
    for (name, value) in [(c"PMI_GNI_PTAG", c"17"), (c"PMI_GNI_COOKIE", c"305419896")] {
        env::set(name, value);
    }
}

/// Runs tests of this program in a process with these options of the emulator and variables.
/// Returns what it printed.
#[allow(dead_code, reason = "not every test program calls it")]
pub fn run_again(options: &str, variables: &str, arguments: &str) -> String {
    let (has_passed, output) = run(options, variables, arguments);
    assert!(
        has_passed && !output.contains(" 0 passed"),
        "{options} {variables} {arguments}:\n{output}"
    );
    output
}

/// The same, also where tests fail. Returns whether all have passed.
pub fn run(options: &str, variables: &str, arguments: &str) -> (bool, String) {
    let output = command(options, variables, arguments).output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), text.concat())
}

/// This program, to run tests with these options of the emulator and variables.
pub fn command(options: &str, variables: &str, arguments: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let variables = variables.split_whitespace().map(|word| word.split_once('=').unwrap());
    command.env(OPTIONS, options).envs(variables);
    command.args(arguments.split_whitespace());
    command
}

/// A new folder that a shell removes when it reads the end of its standard input, which is that of
/// this process.
pub fn fabric() -> String {
    static FABRICS: AtomicU32 = AtomicU32::new(0);
    let mut names = std::iter::repeat_with(|| {
        let number = FABRICS.fetch_add(1, SeqCst);
        format!("/dev/shm/emu-ugni.test.{}.{number}", std::process::id())
    });
    // An earlier process of the same number may have left one, if its shell was killed too.
    let create = |folder: &String| match std::fs::create_dir(folder) {
        Err(why) if why.kind() == ErrorKind::AlreadyExists => false,
        created => {
            created.unwrap();
            true
        }
    };
    let folder = names.find(create).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"read -r _; rm -rf -- "$1""#, "cleaner", &folder]);
    // A signal to the group of this process must not end it.
    shell.process_group(0);
    #[allow(clippy::zombie_processes, reason = "it ends after this process")]
    let mut cleaner = shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::mem::forget(cleaner.stdin.take());
    folder
}
