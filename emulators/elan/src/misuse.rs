//! Misuse ends the process with a message, as in libelan.

#[cold]
pub fn die(call: &str, why: &str) -> ! {
    eprintln!("emulator of Elan: {call}: {why}");
    std::process::abort();
}

/// The same, for a call of process `vp`.
#[cold]
pub fn die_as(vp: u32, call: &str, why: &str) -> ! {
    eprintln!("emulator of Elan: process {vp}: {call}: {why}");
    std::process::abort();
}
