//! Misuse ends the process with a message, as in libelan.

#[cold]
pub fn die(call: &str, why: &str) -> ! {
    eprintln!("emulator of Elan: {call}: {why}");
    std::process::abort();
}

/// Reports misuse in a call of process `vp`, and ends the process.
#[cold]
pub fn die_as(vp: u32, call: &str, why: &str) -> ! {
    eprintln!("emulator of Elan: process {vp}: {call}: {why}");
    std::process::abort();
}
