//! Backtraces.
//!
//! Mechanisms, in the default order:
//!
//! - the client's own (`gasnett_backtrace_user`), by its name or as `USER`
//! - `GDB`: all threads, if gdb is installed and may attach
//! - `EXECINFO`: in the process, calling thread only
//!
//! The settings are read once, in [`init`], so that a signal handler neither allocates nor reads
//! the environment.

use std::ffi::{CStr, CString};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

use gasnet_sys::signal;
use gasnet_sys::subprocess::{run_captured, Captured};
use libc::c_int;

use crate::abi::native::{self, UserBacktrace};
use crate::process::{print_line_to, Label};
use crate::{env, freeze, parse, process, system};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    User,
    Gdb,
    Execinfo,
}

struct Settings {
    enabled: bool,
    /// Ranks that may print. Evaluated late, because the rank may not be known yet.
    nodes: String,
    all_threads: bool,
    order: Vec<Mechanism>,
    /// gdb and its arguments up to `-p`. The process id is added on use, because a fork changes it.
    gdb: Option<Vec<CString>>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();
static COPY: OnceLock<fn(&[u8])> = OnceLock::new();

/// Sets a function that gets every line of a backtrace, in the context that prints it. Only the
/// first call has an effect.
pub fn set_copy(copy: fn(&[u8])) {
    let _ = COPY.set(copy);
}

/// Reads the settings and handles `GASNET_BACKTRACE_SIGNAL` and `GASNET_FREEZE_SIGNAL`. Call it
/// early; later calls have no effect. Printing a backtrace calls it too.
pub fn init() {
    let _ = settings();
}

/// The settings, read at the first call.
fn settings() -> &'static Settings {
    SETTINGS.get().unwrap_or_else(|| {
        // Read outside the initialisation of the cell: an invalid value is a fatal error, which
        // reads again.
        let settings = read_settings();
        SETTINGS.get_or_init(|| settings)
    })
}

fn read_settings() -> Settings {
    let enabled = env::bool("GASNET_BACKTRACE", false);
    let nodes = env::text("GASNET_BACKTRACE_NODES", Some("*")).unwrap_or_default();
    let all_threads = env::bool("GASNET_BACKTRACE_MT", true);
    let gdb = gdb_command(all_threads);
    let order = order(gdb.is_some());
    freeze::init();
    watch("GASNET_FREEZE_SIGNAL", on_freeze_signal);
    watch("GASNET_BACKTRACE_SIGNAL", on_backtrace_signal);
    gasnet_sys::backtrace::prepare();
    Settings {
        enabled,
        nodes,
        all_threads,
        order,
        gdb,
    }
}

extern "C" fn on_freeze_signal(_: c_int) {
    signal::preserving_errno(freeze::here);
}

extern "C" fn on_backtrace_signal(_: c_int) {
    signal::preserving_errno(|| {
        print(2);
    });
}

/// Installs `handler` for the signal that a variable names.
fn watch(variable: &str, handler: extern "C" fn(c_int)) {
    let Some(text) = env::text(variable, None).filter(|t| !t.trim().is_empty()) else {
        return;
    };
    match parse::signal(&text) {
        Ok(signal) if signal::set_handler(signal, handler as libc::sighandler_t) != libc::SIG_ERR => {}
        Ok(signal) => process::warn(format_args!("{variable}={text}: signal {signal} cannot be caught")),
        Err(_) => process::warn(format_args!(
            "{variable}={text} is not the name of a signal (such as SIGUSR1): ignored"
        )),
    }
}

/// The client's mechanism and its name.
fn user() -> Option<(String, UserBacktrace)> {
    let user = native::user_backtrace()?;
    Some((user.name()?.to_string_lossy().into_owned(), user))
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
    // A debugger with privileges obeys variables and files of the caller.
    if gasnet_sys::process::is_privileged() {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    let gdb = std::env::split_paths(&path)
        .map(|dir| dir.join("gdb"))
        .find(|file| is_executable(file))?;
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

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Name of captured output in `/proc`.
const CAPTURED: &CStr = c"gasnet-backtrace";

/// Prints a backtrace to `fd` by the first mechanism that works, and passes it to the function of
/// [`set_copy`]. True on success.
pub fn print(fd: c_int) -> bool {
    let Some((copy, output)) = COPY.get().and_then(|copy| Some((copy, Captured::new(CAPTURED)?))) else {
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
            print_line_to(
                fd,
                format_args!("*** Backtrace by EXECINFO ({Label}), this thread only:"),
            );
            gasnet_sys::backtrace::print(fd)
        }
    })
}

fn print_user(fd: c_int, settings: &Settings) -> bool {
    let Some(user) = native::user_backtrace() else {
        return false;
    };
    let usable = user.supports_threads() || !settings.all_threads || gasnet_sys::process::threads() <= 1;
    usable && user.call(fd)
}

fn print_gdb(fd: c_int, command: &[CString]) -> bool {
    let mut digits = [0; 13];
    let Some(output) = run_captured(
        CAPTURED,
        command,
        Some(decimal(gasnet_sys::process::pid(), &mut digits)),
        30_000,
    ) else {
        return false;
    };
    if !output.contains(b"#0 ") {
        return false;
    }
    print_line_to(fd, format_args!("*** Backtrace by GDB ({Label}):"));
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

/// The default of `gasnett_print_backtrace_ifenabled`: prints if `GASNET_BACKTRACE` (and `_NODES`)
/// allow it.
pub(crate) fn print_if_allowed(fd: c_int) -> bool {
    let settings = settings();
    settings.enabled && process::listed(&settings.nodes) && print(fd)
}

/// Prints a backtrace if the user enabled them, through the pointer that clients may replace. True
/// on success.
pub fn print_if_enabled(fd: c_int) -> bool {
    native::print_backtrace_if_enabled(fd)
}

/// As [`init`]. The name of the executable is not needed: `/proc/self/exe` has it.
pub(crate) fn init_with(_exe: Option<&CStr>) {
    let _ = system::exe_name_c();
    init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execinfo_prints_something() {
        let output = Captured::new(CAPTURED).unwrap();
        assert!(gasnet_sys::backtrace::print(output.fd()));
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
