//! Variables of the first host. A process manager may not pass on the environment of the job (Open
//! MPI passes on only what is named). So other hosts take variables that they lack from the
//! first host.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::tree::message::Pairs;
use super::{JobError, StartOptions};
use gasnet_conduit::config;

/// The variables of this process.
pub fn own() -> Pairs {
    let of_job = |(name, _): &(OsString, OsString)| name.to_str().is_some_and(config::is_of_job);
    let bytes = |(name, value): (OsString, OsString)| (name.into_vec(), value.into_vec());
    env::vars_os().filter(of_job).map(bytes).collect()
}

/// Sets those of `given` that this process lacks. If there are any, reads the configuration again
/// and updates the options.
pub fn take_over(given: Pairs, options: &mut StartOptions) -> Result<(), JobError> {
    let mut changed = false;
    for (name, value) in given {
        let (name, value) = (OsString::from_vec(name), OsString::from_vec(value));
        let is_safe = name
            .to_str()
            .is_some_and(|name| config::is_of_job(name) && !name.contains('='));
        if is_safe && env::var_os(&name).is_none_or(|own| own.is_empty()) {
            env::set_var(&name, &value);
            changed = true;
        }
    }
    if changed {
        config::reload().map_err(|e| {
            JobError::new(format!(
                "the environment of the first host is invalid on this host: {e}"
            ))
        })?;
        options.refresh(config::get());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;
    use gasnet_conduit::config::Config;

    #[test]
    fn what_lacks_is_taken_and_nothing_else() {
        let pair = |name: &str, value: &str| (name.into(), value.into());
        env::set_var("GASNET_TEST_HAS", "own");
        let mut options = StartOptions::from_config(&Config::defaults(&[]), &Library::default()).unwrap();
        let given = vec![
            pair("GASNET_TEST_HAS", "other"),
            pair("GASNET_TEST_LACKS", "x y"),
            pair("AMMPI_TEST_LACKS", "7"),
            pair("TEST_FOREIGN", "x"),
        ];
        take_over(given, &mut options).unwrap();
        assert_eq!(env::var("GASNET_TEST_HAS").unwrap(), "own");
        assert_eq!(env::var("GASNET_TEST_LACKS").unwrap(), "x y");
        assert_eq!(env::var("AMMPI_TEST_LACKS").unwrap(), "7");
        assert!(env::var_os("TEST_FOREIGN").is_none());
        let own = own();
        assert!(own.contains(&pair("GASNET_TEST_LACKS", "x y")) && own.contains(&pair("AMMPI_TEST_LACKS", "7")));
        let is_ours = |name: &[u8]| name.starts_with(b"GASNET_") || name.starts_with(b"AMMPI_");
        assert!(own.iter().all(|(name, _)| is_ours(name)));
    }
}
