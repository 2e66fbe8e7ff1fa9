//! Variables of libfabric that this conduit sets, unless the user has, before libfabric reads them.

use crate::ffi::Functions;
use crate::provider;
use crate::settings::{self, Choice};
use gasnet_conduit::{config, StartInfo};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::{env, lock};
use siphasher::sip128::SipHasher24;
use std::ffi::{CStr, CString};

/// Limits of the caches of memory registrations. Their defaults are known to slow puts and gets
/// down over cxi and verbs.
const CACHE_LIMITS: [&CStr; 2] = [c"FI_MR_CACHE_MAX_SIZE", c"FI_MR_CACHE_MAX_COUNT"];

/// Numbers of the job, by which psm2, psm3 and opx keep jobs of a host and a fabric apart. Their
/// defaults are the same in all jobs.
const JOBS: [&CStr; 3] = [c"FI_PSM2_UUID", c"FI_PSM3_UUID", c"FI_OPX_UUID"];

/// Peers of an endpoint.
const UNIVERSE_SIZE: &CStr = c"FI_UNIVERSE_SIZE";

/// libfabric, whose variables are set before its first use. The error is a message.
pub fn library() -> Result<&'static Functions, String> {
    Functions::load(before_first_use)
}

/// Sets the variables that are the same in every job.
fn before_first_use() {
    const ALWAYS: [(&CStr, &CStr); 6] = [
        // The libraries of the psm providers, which libfabric brings along, would catch signals,
        // and bind threads to cores.
        (c"HFI_NO_BACKTRACE", c"1"),
        (c"IPATH_NO_BACKTRACE", c"1"),
        (c"HFI_NO_CPUAFFINITY", c"1"),
        (c"PSM3_NO_CPUAFFINITY", c"1"),
        // Matching by the NIC alone ends the process when the NIC has no list entry left.
        (c"FI_CXI_RX_MATCH_MODE", c"hybrid"),
        // sockets takes a header from the kernel when it is whole. In a buffer of the default size
        // the part that has come can leave no window for the rest (Linux 6.18).
        (c"FI_SOCKETS_MAX_BUF_SZ", c"4194304"),
    ];
    for (name, value) in ALWAYS {
        if env::get(name).is_none() {
            env::set(name, value);
        }
    }
    let named = Choice::read().provider;
    let named = named.or_else(|| env::get(c"FI_PROVIDER").and_then(|name| Some(name.to_str().ok()?.to_owned())));
    if provider::has_cxi() || named.is_some_and(|name| caches_registrations(&name)) {
        for name in CACHE_LIMITS {
            match change(env::get(name)) {
                Change::Set => env::set(name, c"-1"),
                Change::Clear => env::unset(name),
                Change::Keep => {}
            }
        }
    }
}

/// The number of the job with this secret, from which the secret does not follow: the number is
/// readable in names of files and in messages.
fn job_id(secret: u128) -> [u8; 16] {
    let key = secret.to_le_bytes();
    SipHasher24::new_with_key(&key).hash(b"libfabric job").as_bytes()
}

/// Sets what differs between jobs. Returns the number of the job, unless the user has set one.
/// Ranks that are threads of one process, as tests start them, take turns: none changes the
/// environment while another has libfabric read it.
pub fn set_for_job(info: &StartInfo<'_>, library: (u32, u32)) -> Option<[u8; 16]> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = lock(&TURN);
    set_universe_size(info.size, library);
    set_job(info.job_token)
}

/// Sets the number of the job with this secret. psm2 and psm3 read it at the first `fi_getinfo`,
/// which the universal library calls before the start, so it is returned for the hints, too
/// ([`crate::ffi::Wanted::job`]). None if the user has set one, which hints would override.
fn set_job(secret: u128) -> Option<[u8; 16]> {
    let job = job_id(secret);
    let [psm2, psm3, _] = JOBS.map(|name| {
        let Ok(text) = CString::new(job_text(&job, name)) else {
            return false;
        };
        if change(env::get(name)) == Change::Set {
            env::set(name, &text);
        }
        env::get(name) == Some(&*text)
    });
    (psm2 && psm3).then_some(job)
}

/// As the provider of this variable reads it: opx takes no hyphens.
fn job_text(job: &[u8; 16], variable: &CStr) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(*job));
    if variable == c"FI_OPX_UUID" {
        return digits;
    }
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

/// Whether a provider has such a cache.
fn caches_registrations(provider: &str) -> bool {
    ["cxi", "verbs"].contains(&provider::first_word(provider))
}

/// A change to a variable.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Set,
    Clear,
    Keep,
}

/// The change to a variable with this value: set, unless the user has set it. An empty value asks
/// for libfabric's default.
fn change(value: Option<&CStr>) -> Change {
    match value {
        None => Change::Set,
        Some(value) if value.is_empty() => Change::Clear,
        Some(_) => Change::Keep,
    }
}

/// Sets the number of peers that libfabric expects, for a library of this version. The first
/// `fi_getinfo` reads it.
pub fn set_universe_size(ranks: u32, library: (u32, u32)) {
    if sets_universe_size(
        config::get().get_or_default(&settings::SET_UNIVERSE_SIZE),
        library,
        provider::has_cxi(),
    ) && change(env::get(UNIVERSE_SIZE)) == Change::Set
    {
        if let Ok(size) = CString::new(ranks.to_string()) {
            env::set(UNIVERSE_SIZE, &size);
        }
    }
}

/// The user's wish decides. The cxi provider before 1.15.2 crashes, and the library does not tell
/// 1.15.2 from 1.15.
fn sets_universe_size(wish: Option<bool>, library: (u32, u32), has_cxi: bool) -> bool {
    wish.unwrap_or(library > (1, 15) || !has_cxi)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_comes_first() {
        assert_eq!(
            [change(None), change(Some(c"")), change(Some(c"5"))],
            [Change::Set, Change::Clear, Change::Keep]
        );
    }

    #[test]
    fn jobs_have_numbers_of_their_own() {
        let (one, other) = (job_id(0x5eed), job_id(0x5eee));
        assert!(one != other && one == job_id(0x5eed) && one != 0x5eed_u128.to_le_bytes());
        let texts = JOBS.map(|name| job_text(&[0xab; 16], name));
        let dashed = "abababab-abab-abab-abab-abababababab";
        assert_eq!(texts, [dashed, dashed, &"ab".repeat(16)]);
    }

    #[test]
    fn providers_with_a_cache() {
        assert!(caches_registrations("verbs;ofi_rxm") && caches_registrations("cxi"));
        assert!(!caches_registrations("tcp;ofi_rxm") && !caches_registrations("efa"));
    }

    #[test]
    fn the_size_of_the_universe() {
        assert!(sets_universe_size(None, (1, 15), false) && sets_universe_size(None, (1, 16), true));
        assert!(!sets_universe_size(None, (1, 15), true) && sets_universe_size(Some(true), (1, 15), true));
        assert!(!sets_universe_size(Some(false), (1, 17), false));
    }
}
