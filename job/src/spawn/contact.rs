//! The address and secret by which a program on another host, or of a custom spawner, connects
//! back. The environment carries it, in two variables that ranks do not get. Only the one without
//! the secret may appear on a command line.

use std::ffi::CStr;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::super::tree::link::WORKER_ID;
use super::super::tree::secret::Secret;
use super::super::JobError;
use gasnet_sys::env;

/// The variable without the secret. Not in the table of variables, because users do not set it.
const VARIABLE: &str = "_GASNET_CONTACT";
/// The secret. The second copy is for Open MPI, which passes on variables with this prefix.
const KEYS: [&CStr; 2] = [c"_GASNET_KEY", c"OMPI_GASNET_KEY"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Number of the new host; [`WORKER_ID`] for workers of a custom spawner.
    pub host: u32,
    pub secret: Secret,
    /// Port of the agent that listens.
    pub port: u16,
    /// Its addresses and names, the preferred one first.
    pub addresses: Vec<String>,
    /// Whether the user has chosen the address, so that no other is tried.
    pub chosen: bool,
}

impl Contact {
    /// The part without the secret, as an assignment. It contains nothing that a shell interprets,
    /// because it may pass through several.
    pub fn public(&self) -> String {
        let chosen = u8::from(self.chosen);
        let addresses = self.addresses.join(",");
        format!("{VARIABLE}={},{},{chosen},{addresses}", self.host, self.port)
    }

    /// The variables of the secret, and their value.
    pub fn key(&self) -> ([&'static str; 2], String) {
        let value = self.secret.to_text();
        (KEYS.map(|name| name.to_str().unwrap_or_default()), value)
    }

    /// Shell assignments of both parts.
    pub fn assignment(&self) -> String {
        let ([name, _], value) = self.key();
        format!("{}; {name}={value}; export {VARIABLE} {name}", self.public())
    }

    pub fn is_there() -> bool {
        std::env::var_os(VARIABLE).is_some()
    }

    /// Takes the contact of a worker, or of an agent, out of this process's environment, if it is
    /// there.
    pub fn take(of_worker: bool) -> Option<Result<Self, JobError>> {
        let public = std::env::var(VARIABLE).ok()?;
        if public.starts_with(&format!("{WORKER_ID},")) != of_worker {
            return None;
        }
        let key = KEYS.iter().find_map(|name| std::env::var(name.to_str().ok()?).ok());
        std::env::remove_var(VARIABLE);
        KEYS.into_iter().for_each(env::erase);
        Some(match key {
            None if of_worker => Err(JobError::new(
                "the command of GASNET_CSPAWN_CMD has not passed on its environment: _GASNET_KEY, the secret of \
                 the job, is not set. Make the command pass on that variable (as in ssh HOST \
                 _GASNET_KEY=$_GASNET_KEY %C)",
            )),
            key => Secret::from_text(&key.unwrap_or_default())
                .and_then(|secret| Self::parse(&public, secret))
                .ok_or_else(|| {
                    JobError::new(format!(
                        "{VARIABLE} is malformed. Unset it, or use the same version of the library on all hosts"
                    ))
                }),
        })
    }

    /// From the value of the part without the secret, and the secret.
    pub fn parse(public: &str, secret: Secret) -> Option<Self> {
        let mut words = public.split(',');
        let host = words.next()?.parse().ok()?;
        let port = words.next()?.parse().ok()?;
        let chosen = words.next()? == "1";
        Some(Self {
            host,
            secret,
            port,
            addresses: words.filter(|w| !w.is_empty()).map(str::to_owned).collect(),
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

    fn contact(chosen: bool) -> Contact {
        Contact {
            host: 3,
            secret: Secret::new(),
            port: 4711,
            addresses: vec!["10.0.0.1".into(), "fd77::1".into(), "no-such-host.invalid".into()],
            chosen,
        }
    }

    #[test]
    fn it_is_read_as_it_is_written() {
        let contact = contact(true);
        let (public, (_, key)) = (contact.public(), contact.key());
        let public = public.split_once('=').unwrap().1;
        let secret = Secret::from_text(&key).unwrap();
        assert_eq!(Contact::parse(public, secret), Some(contact));
        for bad in ["", "3", "3,4711", "x,4711,0,a", "3,99999,0,a"] {
            assert_eq!(Contact::parse(bad, secret), None, "{bad}");
        }
        for bad in ["", "0123", "x0112233445566778899aabbccddeeff"] {
            assert_eq!(Secret::from_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn where_the_shell_came_from_is_tried_first() {
        let shell = Some("10.9.0.1 22 10.9.0.2 22");
        let own = ["10.0.0.1:4711", "[fd77::1]:4711"];
        for (connection, chosen, first) in [
            (shell, false, &["10.9.0.1:4711"][..]),
            (None, false, &[]),
            (shell, true, &[]),
        ] {
            let found = contact(chosen).resolve(connection);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, [first, &own[..]].concat());
        }
    }
}
