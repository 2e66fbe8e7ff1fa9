//! The emulator of a network for a test program: its library, which Cargo puts beside the program,
//! and a fabric of its own, which disappears with the process.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// An emulator of `emulators/`.
#[derive(Debug)]
pub struct Emulator {
    /// Its name there.
    pub name: &'static str,
    /// The variable with its options for a test process.
    pub options: &'static str,
}

/// Ends this process, a child of a test, if it has not ended by itself after this time.
pub fn end_after(time: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(time);
        eprintln!("the child hangs");
        std::process::abort();
    });
}

/// Whether the part of the plans that a text `SEED:N` names has this one.
fn is_taken(part: &str, plan: &str) -> bool {
    let one_in = part.rsplit_once(':').and_then(|(_, one_in)| one_in.parse::<u64>().ok());
    let one_in = one_in.filter(|&one_in| one_in > 0);
    let one_in = one_in.unwrap_or_else(|| panic!("GASNET_TEST_PLANS is '{part}'; it must be SEED:N"));
    // FNV-1a, which stays the same from release to release.
    let hash = part
        .bytes()
        .chain(plan.bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
    (hash >> 32) % one_in == 0
}

impl Emulator {
    /// The options for this process.
    pub fn own_options(&self) -> String {
        std::env::var(self.options).unwrap_or_default()
    }

    /// Its library.
    pub fn library(&self) -> PathBuf {
        let name = format!("libemulator_{}.so", self.name);
        let path = std::env::current_exe().unwrap().with_file_name(name);
        assert!(path.exists(), "{} was not built", path.display());
        path
    }

    /// This program, to run tests with these options of the emulator and variables.
    pub fn command(&self, options: &str, variables: &str, arguments: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let variables = variables.split_whitespace().map(|word| word.split_once('=').unwrap());
        command.env(self.options, options).envs(variables);
        command.args(arguments.split_whitespace());
        command
    }

    /// Runs tests of this program over the emulator. Returns whether all have passed, and their
    /// output.
    pub fn run(&self, options: &str, variables: &str, arguments: &str) -> (bool, String) {
        let output = self.command(options, variables, arguments).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.success(), text.concat())
    }

    /// The same for tests that must pass. Returns their output.
    pub fn run_again(&self, options: &str, variables: &str, arguments: &str) -> String {
        let (has_passed, output) = self.run(options, variables, arguments);
        assert!(
            has_passed && !output.contains(" 0 passed"),
            "{options} {variables} {arguments}:\n{output}"
        );
        output
    }

    /// A plan, by its name: tests of this program, but plans, with these options and variables.
    /// `GASNET_TEST_PLANS=SEED:N` takes one plan in N, chosen by the text.
    pub fn run_plan(&self, name: &str, options: &str, variables: &str, tests: &str) {
        let part = std::env::var("GASNET_TEST_PLANS").unwrap_or_default();
        if part.is_empty() || is_taken(&part, name) {
            self.run_again(options, variables, &format!("{tests} --skip plans"));
        }
    }

    /// A new folder that a shell removes when it reads the end of its standard input, which is that
    /// of this process.
    pub fn fabric(&self) -> String {
        static FABRICS: AtomicU32 = AtomicU32::new(0);
        let mut names = std::iter::repeat_with(|| {
            let number = FABRICS.fetch_add(1, SeqCst);
            format!("/dev/shm/emu-{}.test.{}.{number}", self.name, std::process::id())
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
}
