//! Jobs that aprun and srun start, over the emulator of Cray's PMI. The program is the test, the
//! launcher, and each rank: [`ROLE`] says which.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::{Bootstrap, Conduit};
use gasnet_conduit_gni::Gni;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

/// `launcher`, or what a rank does. Unset: this is the test.
const ROLE: &str = "GNI_PMI_TEST";

fn main() {
    match env::var(ROLE).ok().as_deref() {
        None => tests(),
        Some(role) => match role.strip_prefix("launcher:") {
            Some(role) => launch(role),
            None => rank(role),
        },
    }
}

/// The folder of the emulator's library, which Cargo puts beside the program.
fn folder() -> PathBuf {
    env::current_exe()
        .unwrap()
        .parent()
        .map_or_else(PathBuf::new, PathBuf::from)
}

fn launch(role: &str) {
    env::set_var(ROLE, role);
    let mut words: Vec<OsString> = env::args_os().skip(1).collect();
    words.push(env::current_exe().unwrap().into());
    exit(emulator_pmi::launch::run(&words, &folder()))
}

/// Runs a job. Returns its exit code and output.
fn job(line: &str, role: &str, variables: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(line.split(' ')).env(ROLE, format!("launcher:{role}"));
    command.env("GASNET_GNI_PMI_LIBRARY", folder().join("libemulator_pmi.so"));
    for variable in variables.split(';').filter(|variable| !variable.is_empty()) {
        let (name, value) = variable.split_once('=').unwrap();
        command.env(name, value);
    }
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.code(), text.concat())
}

/// A job ends with this code, and prints this.
fn check(line: &str, role: &str, variables: &str, code: i32, text: &str) {
    let (ended, output) = job(line, role, variables);
    assert_eq!(ended, Some(code), "{line} {role} {variables}:\n{output}");
    assert!(
        output.contains(text),
        "{line} {role} {variables}: no \"{text}\" in\n{output}"
    );
}

fn tests() {
    for line in [
        "aprun -n 1",
        "aprun -n 2",
        "aprun -n 7 -N 3",
        "srun -K0 -W60 -mcyclic -n 5 -N 2",
    ] {
        check(line, "exchange", "", 0, "");
        check(line, "exchange", "EMU_PMI=seed=99 colon-lists", 0, "");
    }
    check("srun -n 2", "exchange", "EMU_PMI=cookies-only", 0, "");
    check("aprun -n 3", "leave-alone", "", 0, "");
    check("aprun -n 3", "code", "", 4, "exit codes: 4");
    check(
        "aprun -n 3",
        "vanish",
        "",
        137,
        "rank 1 on nid00100 has ended without PMI_Finalize",
    );
    check(
        "aprun -n 3",
        "abort",
        "",
        137,
        "rank 1 ends the job: libgasnet ends the job",
    );
    check("aprun -n 2", "shared", "", 0, "");
    check(
        "aprun -n 1",
        "refused",
        "GASNET_HOST_DETECT=hostname",
        0,
        "only conduit is possible",
    );
    check("aprun -n 1", "exchange", "GASNET_HOST_DETECT=conduit", 0, "");
    let missing = "GASNET_GNI_PMI_LIBRARY=/nowhere/libpmi.so.0";
    check(
        "aprun -n 1",
        "refused",
        missing,
        0,
        "cannot open the PMI library of Cray (/nowhere/libpmi.so.0)",
    );
    let other = "GASNET_GNI_PMI_LIBRARY=libc.so.6";
    check(
        "aprun -n 1",
        "refused",
        other,
        0,
        "libc.so.6 has no function PMI_Allgather",
    );
    check("aprun -n 2", "fork", "", 0, "");
    println!("jobs of Cray's launchers: ok");
}

/// What a rank contributes.
fn bytes(rank: u32, length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (rank as usize * 31 + index / 3) as u8)
        .collect()
}

fn exchange(bootstrap: &dyn Bootstrap, (rank, size): (u32, u32), length: usize) {
    let all = bootstrap.exchange(&bytes(rank, length)).expect("an exchange");
    let expected: Vec<u8> = (0..size).flat_map(|rank| bytes(rank, length)).collect();
    assert!(all == expected, "rank {rank}: {length} bytes of each are wrong");
}

fn rank(role: &str) {
    let gni: &'static Gni = Box::leak(Box::new(Gni::new()));
    config::install(Config::load(&[gni.variables()]).unwrap());
    let bootstrap = gni.bootstrap().unwrap();
    assert!(bootstrap.has_started_this(), "started by a launcher of Cray");
    // As an MPI would have done before.
    let first = (role == "shared").then(|| Gni::new().bootstrap().unwrap().join().unwrap());
    let place = match bootstrap.join() {
        Ok(place) if role != "refused" => place,
        Ok(_) => panic!("the start succeeds"),
        Err(why) => return println!("{why}"),
    };
    let own = (place.rank, place.size);
    assert_eq!(first.map_or(own, |first| (first.rank, first.size)), own);
    let node: u32 = env::var("EMU_UGNI_NODE").unwrap().parse().unwrap();
    assert_eq!(place.node, Some(100 + node), "the node of rank {}", place.rank);
    for length in [8, 1, 0, 7, 4096, 65_536, 200_001] {
        exchange(bootstrap, own, length);
    }
    let descriptors = bootstrap.descriptors();
    assert!(descriptors
        .iter()
        .all(|fd| Path::new(&format!("/proc/self/fd/{fd}")).exists()));
    match role {
        "shared" => {
            // The other library finalises.
            assert!(descriptors.is_empty());
            bootstrap.leave(false);
            let again = Gni::new();
            again.bootstrap().unwrap().join().expect("not finalised yet");
            again.bootstrap().unwrap().leave(true);
            return;
        }
        "vanish" if place.rank == 1 => return,
        "abort" if place.rank == 1 => bootstrap.abort(),
        "vanish" | "abort" => drop(bootstrap.exchange(b"never complete")),
        // The others have left.
        "leave-alone" if place.rank == 2 => while bootstrap.exchange(b"x").is_ok() {},
        "fork" => {
            assert!(!descriptors.is_empty());
            // SAFETY: the child only closes descriptors and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                for fd in &descriptors {
                    // SAFETY: the child has no other user of it.
                    unsafe { libc::close(*fd) };
                }
                // SAFETY: ends the child.
                unsafe { libc::_exit(0) };
            }
            // SAFETY: null is allowed.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            exchange(bootstrap, own, 100);
        }
        _ => {}
    }
    bootstrap.leave(true);
    // Others, too, may call it again.
    bootstrap.leave(true);
    if role == "code" {
        exit(4);
    }
}
