//! Backtraces.
//!
//! Mechanisms, in the default order: the client's own (`gasnett_backtrace_user`; by its name, or as `USER`), `GDB` (all threads; when gdb is installed
//! and may attach), `EXECINFO` (in the process, calling thread only). The settings are read once, in [`init`], so that a
//! signal handler neither allocates nor reads the environment.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use libc::c_int;

use crate::process::{say_to, Label};
use crate::{env, freeze, os, parse, process, system};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    User,
    Gdb,
    Execinfo,
}

struct Settings {
    wanted: bool,
    /// Ranks that may print; looked at when it matters, because the rank may not be known yet.
    nodes: String,
    all_threads: bool,
    order: Vec<Mechanism>,
    /// gdb and its arguments up to `-p`; the process id follows when it is used, because a fork changes it.
    gdb: Option<Vec<CString>>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();
static COPY: OnceLock<fn(&[u8])> = OnceLock::new();

/// Sets what else is told every line of a backtrace, in whatever context that is printed. The first call wins.
pub fn set_copy(copy: fn(&[u8])) {
    let _ = COPY.set(copy);
}

/// Reads the settings and registers `GASNET_BACKTRACE_SIGNAL` and `GASNET_FREEZE_SIGNAL`. Call it early; later calls do
/// nothing. Reporting a backtrace does it, too.
pub fn init() {
    let _ = settings();
}

/// The settings, read at the first call.
fn settings() -> &'static Settings {
    SETTINGS.get().unwrap_or_else(|| {
        // Read outside of the cell's initialisation: a bad value is a fatal error, which asks again.
        let settings = read_settings();
        SETTINGS.get_or_init(|| settings)
    })
}

fn read_settings() -> Settings {
    let wanted = env::bool("GASNET_BACKTRACE", false);
    let nodes = env::text("GASNET_BACKTRACE_NODES", Some("*")).unwrap_or_default();
    let all_threads = env::bool("GASNET_BACKTRACE_MT", true);
    let gdb = gdb_command(all_threads);
    let order = order(gdb.is_some());
    freeze::init();
    watch("GASNET_FREEZE_SIGNAL", os::Reaction::Freeze);
    watch("GASNET_BACKTRACE_SIGNAL", os::Reaction::Backtrace);
    os::prepare_execinfo();
    Settings {
        wanted,
        nodes,
        all_threads,
        order,
        gdb,
    }
}

/// Registers the reaction to the signal that a variable names.
fn watch(variable: &str, reaction: os::Reaction) {
    let Some(text) = env::text(variable, None).filter(|t| !t.trim().is_empty()) else {
        return;
    };
    match parse::signal(&text) {
        Ok(signal) if os::react(signal, reaction) => {}
        Ok(signal) => process::warn(format_args!("{variable}={text}: signal {signal} cannot be caught")),
        Err(_) => process::warn(format_args!(
            "{variable}={text} is not the name of a signal (such as SIGUSR1): ignored"
        )),
    }
}

/// The client's mechanism and its name.
fn user() -> Option<(String, os::UserBacktrace)> {
    let user = os::user_backtrace()?;
    Some((user.name()?, user))
}

fn order(have_gdb: bool) -> Vec<Mechanism> {
    let user_name = user().map(|(name, _)| name);
    let mut default: Vec<&str> = user_name.as_deref().into_iter().collect();
    if have_gdb {
        default.push("GDB");
    }
    default.push("EXECINFO");
    let list = env::text("GASNET_BACKTRACE_TYPE", Some(&default.join(","))).unwrap_or_default();
    let mut order = Vec::new();
    for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        let users = user_name
            .as_deref()
            .is_some_and(|user| user.eq_ignore_ascii_case(name) || name.eq_ignore_ascii_case("USER"));
        let mechanism = if users {
            Mechanism::User
        } else if name.eq_ignore_ascii_case("GDB") && have_gdb {
            Mechanism::Gdb
        } else if name.eq_ignore_ascii_case("EXECINFO") {
            Mechanism::Execinfo
        } else {
            process::warn(format_args!(
                "GASNET_BACKTRACE_TYPE: {name} is not available here and is ignored; available: {}",
                default.join(",")
            ));
            continue;
        };
        order.push(mechanism);
    }
    order
}

fn gdb_command(all_threads: bool) -> Option<Vec<CString>> {
    let path = std::env::var_os("PATH")?;
    let gdb = std::env::split_paths(&path)
        .map(|dir| dir.join("gdb"))
        .find(|file| os::is_executable(file))?;
    let trace = if all_threads {
        "thread apply all backtrace 60"
    } else {
        "backtrace 60"
    };
    let arguments = [
        gdb.to_str()?,
        "-nx",
        "-batch",
        "-iex",
        "set auto-load off",
        "-iex",
        "set debuginfod enabled off",
        "-ex",
        trace,
        "-p",
    ];
    arguments.iter().map(|a| CString::new(*a).ok()).collect()
}

/// Prints a backtrace to `fd` by the first mechanism that works, and tells it who else wants it. True on success.
pub fn print(fd: c_int) -> bool {
    let Some((copy, output)) = COPY.get().and_then(|copy| Some((copy, os::Captured::new()?))) else {
        return print_to(fd);
    };
    let printed = print_to(output.fd());
    output.copy_to(fd);
    if printed {
        output.each_line(copy);
    }
    printed
}

fn print_to(fd: c_int) -> bool {
    let settings = settings();
    settings.order.iter().any(|mechanism| match mechanism {
        Mechanism::User => print_user(fd, settings),
        Mechanism::Gdb => settings.gdb.as_ref().is_some_and(|command| print_gdb(fd, command)),
        Mechanism::Execinfo => {
            say_to(fd, format_args!("*** Backtrace by EXECINFO ({Label}), this thread only:"));
            os::print_execinfo(fd)
        }
    })
}

fn print_user(fd: c_int, settings: &Settings) -> bool {
    let Some(user) = os::user_backtrace() else {
        return false;
    };
    let usable = user.supports_threads() || !settings.all_threads || os::thread_count() <= 1;
    usable && user.call(fd)
}

fn print_gdb(fd: c_int, command: &[CString]) -> bool {
    let mut digits = [0; 13];
    let Some(output) = os::run_captured(command, Some(decimal(os::pid(), &mut digits)), 30_000) else {
        return false;
    };
    if !output.contains(b"#0 ") {
        return false;
    }
    say_to(fd, format_args!("*** Backtrace by GDB ({Label}):"));
    output.copy_to(fd);
    true
}

/// A number as a C string of decimal digits, without allocation.
fn decimal(number: i32, digits: &mut [u8; 13]) -> &CStr {
    let mut rest = number.unsigned_abs();
    let mut at = digits.len() - 1;
    digits[at] = 0;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return CStr::from_bytes_with_nul(&digits[at..]).unwrap_or_default();
        }
    }
}

/// The default of `gasnett_print_backtrace_ifenabled`: prints if `GASNET_BACKTRACE` (and `_NODES`) allow it.
pub(crate) fn print_if_allowed(fd: c_int) -> bool {
    let settings = settings();
    settings.wanted && process::listed(&settings.nodes) && print(fd)
}

/// Prints a backtrace if the user enabled them, through the pointer that a client may have replaced. True on success.
pub fn print_if_enabled(fd: c_int) -> bool {
    os::print_ifenabled(fd)
}

/// Checks that the executable's name is usable; the tools find the running program by themselves.
pub(crate) fn init_with(_exe: Option<&CStr>) {
    let _ = system::exe_name_c();
    init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execinfo_prints_something() {
        let output = os::Captured::new().unwrap();
        assert!(os::print_execinfo(output.fd()));
        assert!(output.contains(b"["));
        assert!(!output.contains(b"#0 no such text"));
        let lines = std::cell::Cell::new(0);
        output.each_line(|line| {
            assert!(!line.contains(&b'\n') && line.len() <= 1000);
            lines.set(lines.get() + 1);
        });
        assert!(lines.get() > 1);
    }

    #[test]
    fn numbers() {
        let mut digits = [1; 13];
        assert_eq!(decimal(0, &mut digits), c"0");
        assert_eq!(decimal(i32::MAX, &mut digits), c"2147483647");
    }
}
