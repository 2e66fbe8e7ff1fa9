//! `aprun` and, by other names, `srun` and `prun`.

use std::path::PathBuf;

fn main() {
    let own = std::env::current_exe().unwrap_or_default();
    let folder = own.parent().map_or_else(PathBuf::new, PathBuf::from);
    let words: Vec<_> = std::env::args_os().collect();
    std::process::exit(emulator_pmi::launch::run(&words, &folder));
}
