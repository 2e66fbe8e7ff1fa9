//! What a program started on another host needs to connect back: where its parent agent listens,
//! the job's secret, and its host number. It is passed in a variable, which does not show in
//! process lists and which ranks do not get.

use std::ffi::CStr;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::super::tree::secret::Secret;
use super::super::JobError;
use gasnet_sys::env;

/// The variable. Not in the table of variables, because users do not set it.
const VARIABLE: &str = "_GASNET_CONTACT";
/// The variables of a custom spawner: where the launcher process listens, and the secret.
const LAUNCHER: &str = "_GASNET_LAUNCHER";
const KEY: &str = "_GASNET_KEY";
const KEY_C: &CStr = c"_GASNET_KEY";
/// A second copy of the secret: Open MPI passes on variables with this prefix.
const OPEN_MPI_KEY: &str = "OMPI_GASNET_KEY";
const OPEN_MPI_KEY_C: &CStr = c"OMPI_GASNET_KEY";
const VARIABLE_C: &CStr = c"_GASNET_CONTACT";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Number of the new host.
    pub host: u32,
    /// The job's secret.
    pub secret: Secret,
    /// Port of the agent that listens.
    pub port: u16,
    /// Its addresses and names, the preferred one first.
    pub addresses: Vec<String>,
    /// Whether the user has chosen the address, so that no other is tried.
    pub chosen: bool,
}

impl Contact {
    /// The part that a command line may show: an assignment of where the launcher process listens,
    /// without the secret. It contains nothing that a shell interprets, because it may pass through
    /// several.
    pub fn public(&self) -> String {
        format!(
            "{LAUNCHER}={},{},{}",
            self.port,
            u8::from(self.chosen),
            self.addresses.join(",")
        )
    }

    /// The secret part: names of variables, and their value.
    pub fn key(&self) -> ([&'static str; 2], String) {
        let value = format!("{:032x}", u128::from_be_bytes(self.secret.bytes()));
        ([KEY, OPEN_MPI_KEY], value)
    }

    /// Takes both parts out of this process's environment, if they are there.
    pub fn take_public() -> Option<Result<Self, JobError>> {
        let public = std::env::var(LAUNCHER).ok()?;
        let key = std::env::var(KEY).or_else(|_| std::env::var(OPEN_MPI_KEY)).ok();
        std::env::remove_var(LAUNCHER);
        env::erase(KEY_C);
        env::erase(OPEN_MPI_KEY_C);
        let Some(key) = key else {
            return Some(Err(JobError::new(format!(
                "the command of GASNET_CSPAWN_CMD has not passed on its environment: {KEY}, the secret of \
                     the job, is not set. Make the command pass on that variable (as in ssh HOST {KEY}=${KEY} \
                     %C)"
            ))));
        };
        let mut words = public.splitn(3, ',');
        let (port, chosen, addresses) = (words.next(), words.next(), words.next());
        let text = format!(
            "0 {} {} {key} {}",
            port.unwrap_or(""),
            chosen.unwrap_or(""),
            addresses.unwrap_or("").replace(',', " ")
        );
        Some(Self::parse(&text).ok_or_else(|| {
            JobError::new(format!(
                "{LAUNCHER} and {KEY} are malformed. Use the same version of the library on all hosts"
            ))
        }))
    }

    /// A shell assignment of the variable.
    pub fn assignment(&self) -> String {
        format!(
            "{VARIABLE}='{} {} {} {:032x} {}'; export {VARIABLE}",
            self.host,
            self.port,
            u8::from(self.chosen),
            u128::from_be_bytes(self.secret.bytes()),
            self.addresses.join(" ")
        )
    }

    /// Takes the variable out of this process's environment, if it is there.
    pub fn take() -> Option<Result<Self, JobError>> {
        let text = std::env::var(VARIABLE).ok()?;
        env::erase(VARIABLE_C);
        Some(Self::parse(&text).ok_or_else(|| {
            JobError::new(format!(
                "{VARIABLE} is malformed. Unset it, or use the same version of the library on all hosts"
            ))
        }))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let host = words.next()?.parse().ok()?;
        let port = words.next()?.parse().ok()?;
        let chosen = words.next()? == "1";
        let secret = words.next().filter(|secret| secret.len() == 32)?;
        let secret = u128::from_str_radix(secret, 16).ok()?;
        let addresses = words.filter(|w| !w.is_empty()).map(str::to_owned).collect();
        Some(Self {
            host,
            secret: Secret::from_bytes(secret.to_be_bytes()),
            port,
            addresses,
            chosen,
        })
    }

    /// Addresses to connect to, in order of preference: the origin of the remote shell
    /// (`connection` is OpenSSH's `SSH_CONNECTION`) unless the user has chosen an address, then the
    /// others. Resolves names on this host.
    pub fn resolve(&self, connection: Option<&str>) -> Vec<SocketAddr> {
        let caller = connection.filter(|_| !self.chosen).and_then(|c| c.split(' ').next());
        let caller = caller
            .and_then(|ip| ip.parse::<IpAddr>().ok())
            .map(|ip| SocketAddr::new(ip.to_canonical(), self.port));
        let mut all: Vec<SocketAddr> = caller.into_iter().collect();
        for place in &self.addresses {
            let found: Vec<SocketAddr> = match place.parse::<IpAddr>() {
                Ok(ip) => vec![SocketAddr::new(ip, self.port)],
                Err(_) => (place.as_str(), self.port)
                    .to_socket_addrs()
                    .map_or_else(|_| Vec::new(), Iterator::collect),
            };
            for address in found {
                if !all.contains(&address) {
                    all.push(address);
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact() -> Contact {
        Contact {
            host: 3,
            secret: Secret::new(),
            port: 4711,
            addresses: vec!["10.0.0.1".into(), "fd77::1".into(), "no-such-host.invalid".into()],
            chosen: false,
        }
    }

    #[test]
    fn it_is_read_as_it_is_written() {
        let contact = contact();
        let text = contact.assignment();
        let value = text.split('\'').nth(1).unwrap();
        assert_eq!(Contact::parse(value), Some(contact));
        for bad in [
            "",
            "3",
            "3 4711 0",
            "3 4711 0 0123",
            "x 4711 0 0123",
            "3 99999 0 00112233445566778899aabbccddeeff a",
        ] {
            assert_eq!(Contact::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn where_the_shell_came_from_is_tried_first() {
        let text = |connection, contact: &Contact| -> Vec<String> {
            let all = contact.resolve(connection);
            all.iter().map(ToString::to_string).collect()
        };
        let mut contact = contact();
        assert_eq!(
            text(Some("10.9.0.1 22 10.9.0.2 22"), &contact),
            ["10.9.0.1:4711", "10.0.0.1:4711", "[fd77::1]:4711"]
        );
        assert_eq!(text(None, &contact).len(), 2);
        contact.chosen = true;
        assert_eq!(text(Some("10.9.0.1 22 10.9.0.2 22"), &contact).len(), 2);
    }
}
