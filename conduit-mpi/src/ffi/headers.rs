//! Compares the constants with the headers of the MPIs of this machine, by C programs: Debian's
//! MPICH and Open MPI, and those of the prefixes that `GASNET_TEST_MPI` lists. A header that is
//! missing is skipped with a message.

use super::abi::{Constants, INTEL_ERRORS_RETURN, MPICH, OBJECTS, STANDARD};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const HANDLES: [&str; 6] = [
    "MPI_COMM_WORLD",
    "MPI_COMM_SELF",
    "MPI_REQUEST_NULL",
    "MPI_INFO_NULL",
    "MPI_BYTE",
    "MPI_ERRORS_RETURN",
];
const NUMBERS: [&str; 12] = [
    "(intptr_t)MPI_STATUS_IGNORE",
    "MPI_COMM_TYPE_SHARED",
    "MPI_WIN_MODEL",
    "MPI_WIN_UNIFIED",
    "MPI_MODE_NOCHECK",
    "MPI_ANY_SOURCE",
    "MPI_THREAD_SINGLE",
    "MPI_THREAD_FUNNELED",
    "MPI_THREAD_SERIALIZED",
    "MPI_THREAD_MULTIPLE",
    "MPI_SUCCESS",
    "sizeof(MPI_Comm)",
];

/// Handles, in the order of [`HANDLES`].
fn handles<H: Copy>(constants: &Constants<H>) -> [H; 6] {
    let Constants {
        comm_world,
        comm_self,
        request_null,
        info_null,
        byte,
        errors_return,
        ..
    } = *constants;
    [comm_world, comm_self, request_null, info_null, byte, errors_return]
}

/// Numbers, in the order of [`NUMBERS`].
fn numbers<H>(constants: &Constants<H>, handle_bytes: usize) -> Vec<i64> {
    let mut all = vec![
        constants.status_ignore as i64,
        constants.comm_type_shared.into(),
        constants.win_model.into(),
        constants.win_unified.into(),
        constants.mode_nocheck.into(),
        constants.any_source.into(),
    ];
    all.extend(constants.levels.map(i64::from));
    all.extend([0, handle_bytes as i64]);
    all
}

/// The lines that a C program prints which includes this header: expressions, as text or numbers.
fn printed(header: &Path, format: &str, expressions: &[&str]) -> Vec<String> {
    static PROGRAMS: AtomicU32 = AtomicU32::new(0);
    let number = PROGRAMS.fetch_add(1, Relaxed);
    let folder = std::env::temp_dir().join(format!("gasnet-mpi-headers-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("constants.c"), folder.join("constants"));
    let lines = expressions
        .iter()
        .map(|expression| format!("printf({format});\n").replace('@', expression));
    let text = format!(
        "#include <stdint.h>\n#include <stdio.h>\n#include \"{}\"\n#define QUOTED(x) #x\n#define TEXT(x) QUOTED(x)\n\
         int main(void) {{ {} return 0; }}\n",
        header.display(),
        lines.collect::<String>()
    );
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .arg("-I")
        .arg(header.parent().unwrap())
        .arg("-o")
        .args([&program, &source]);
    assert!(compiler.status().unwrap().success(), "{}", header.display());
    let output = Command::new(&program).output().unwrap().stdout;
    std::fs::remove_dir_all(&folder).unwrap();
    String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
}

fn as_numbers(header: &Path, expressions: &[&str]) -> Vec<i64> {
    let lines = printed(header, r#""%lld\n", (long long)(intptr_t)(@)"#, expressions);
    lines.iter().map(|line| line.parse().unwrap()).collect()
}

/// The headers of this name, in Debian's folder and in prefixes, that have this text.
fn found(name: &str, debian: &str, text: &str) -> Vec<PathBuf> {
    let prefixes = std::env::var("GASNET_TEST_MPI").unwrap_or_default();
    let prefixes = prefixes.split(':').filter(|prefix| !prefix.is_empty());
    let folders = prefixes.map(|prefix| Path::new(prefix).join("include"));
    let all = folders.chain([PathBuf::from(debian)]).map(|folder| folder.join(name));
    let has_text = |path: &PathBuf| std::fs::read_to_string(path).is_ok_and(|header| header.contains(text));
    let found: Vec<_> = all.filter(has_text).collect();
    if found.is_empty() {
        eprintln!("skipped: {debian}/{name} is missing, and GASNET_TEST_MPI names no other");
    }
    found
}

#[test]
fn constants_of_mpich() {
    for header in found("mpi.h", "/usr/include/x86_64-linux-gnu/mpich", "MPICH_VERSION") {
        let expected = handles(&MPICH).map(i64::from);
        assert_eq!(as_numbers(&header, &HANDLES), expected, "{}", header.display());
        assert_eq!(
            as_numbers(&header, &NUMBERS),
            numbers(&MPICH, 4),
            "{}",
            header.display()
        );
    }
}

#[test]
fn constants_of_open_mpi() {
    for header in found(
        "mpi.h",
        "/usr/lib/x86_64-linux-gnu/openmpi/include",
        "OMPI_MAJOR_VERSION",
    ) {
        let texts = printed(&header, r#""%s\n", TEXT(@)"#, &HANDLES);
        for (text, object) in texts.iter().zip(handles(&OBJECTS)) {
            let object = object.to_str().unwrap();
            let is_there = |word: &str| word == object;
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            assert!(words.any(is_there), "{}: {text} is not {object}", header.display());
        }
        assert_eq!(
            as_numbers(&header, &NUMBERS),
            numbers(&OBJECTS, 8),
            "{}",
            header.display()
        );
    }
}

#[test]
fn constants_of_the_standard() {
    for header in found("mpi_abi.h", "/usr/include", "MPI_ABI_VERSION") {
        let mut constants = STANDARD;
        if std::fs::read_to_string(&header).unwrap().contains("Copyright Intel") {
            constants.errors_return = INTEL_ERRORS_RETURN;
        }
        let expected = handles(&constants).map(|handle| handle as i64);
        assert_eq!(as_numbers(&header, &HANDLES), expected, "{}", header.display());
        assert_eq!(
            as_numbers(&header, &NUMBERS),
            numbers(&STANDARD, 8),
            "{}",
            header.display()
        );
    }
}
