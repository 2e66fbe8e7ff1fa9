//! The command that starts the ranks, and what stands for what in it.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Child, Command};

use super::{refuse, JobError, Secret, StartOptions};
use crate::job::spawn::script::{behind_env, program, quoted_word};
use crate::job::spawn::Contact;
use crate::os::process;

/// The command of `GASNET_CSPAWN_CMD` and what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Custom {
    /// The pattern.
    pub command: Option<OsString>,
    /// Hosts for `%M`. `GASNET_CSPAWN_SERVERS`.
    pub servers: Vec<String>,
    /// What `env` is called on the other hosts. `GASNET_ENV_CMD`.
    pub env: Option<OsString>,
}

impl Custom {
    /// Starts the command.
    pub fn start(
        &self,
        options: &StartOptions,
        secret: Secret,
        port: u16,
        places: &[String],
        chosen: bool,
    ) -> Result<Child, JobError> {
        let Some(pattern) = &self.command else {
            return refuse("GASNET_SPAWNFN=C: GASNET_CSPAWN_CMD, the command that starts the ranks, is not set".into());
        };
        let contact = Contact {
            host: 0,
            secret,
            port,
            places: places.to_vec(),
            chosen,
        };
        let words = program(options.counted).map_err(|message| JobError { message })?;
        let line = self.fill(pattern, options.ranks, &words, &contact)?;
        if options.verbose {
            eprintln!("gasnet: {}", String::from_utf8_lossy(line.as_bytes()));
        }
        let (name, value) = contact.key();
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&line).env(name, value);
        process::die_with_spawner(&mut command);
        command.spawn().map_err(|e| JobError {
            message: format!("the command of GASNET_CSPAWN_CMD cannot be started: {e}"),
        })
    }

    /// The command of one rank.
    fn of_rank(&self, words: &[OsString], contact: &Contact) -> Vec<u8> {
        let mut line = self.env.as_deref().unwrap_or(OsStr::new("env")).as_bytes().to_vec();
        line.push(b' ');
        line.extend(quoted_word(contact.public().as_ref()));
        line.extend(behind_env(words).bytes());
        for word in words {
            line.push(b' ');
            line.extend(quoted_word(word));
        }
        line
    }

    fn fill(&self, pattern: &OsStr, ranks: u32, words: &[OsString], contact: &Contact) -> Result<OsString, JobError> {
        let mut line = Vec::new();
        let mut bytes = pattern.as_bytes().iter();
        while let Some(&byte) = bytes.next() {
            if byte != b'%' {
                line.push(byte);
                continue;
            }
            match bytes.next() {
                Some(b'N') => line.extend(ranks.to_string().bytes()),
                Some(b'C') => line.extend(self.of_rank(words, contact)),
                Some(b'D') => line.extend(quoted_word(env::current_dir().unwrap_or_default().as_os_str())),
                Some(b'P') => line.extend(quoted_word(words.first().map_or(OsStr::new(""), OsString::as_os_str))),
                Some(b'M') if self.servers.is_empty() => {
                    return refuse("GASNET_CSPAWN_CMD has %M, but GASNET_CSPAWN_SERVERS names no hosts".into());
                }
                Some(b'M') => {
                    let most = self.servers.len().min(ranks as usize);
                    line.extend(self.servers[..most].join(" ").bytes());
                }
                Some(b'%') => line.push(b'%'),
                other => {
                    let other = other.map_or_else(String::new, |&b| char::from(b).to_string());
                    return refuse(format!(
                        "GASNET_CSPAWN_CMD: %{other} stands for nothing; there are %N, %C, %D, %M, %P and %%"
                    ));
                }
            }
        }
        Ok(OsString::from_vec(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_filled() {
        let contact = Contact {
            host: 0,
            secret: Secret::new(),
            port: 7,
            places: vec!["10.0.0.1".into()],
            chosen: false,
        };
        let custom = Custom {
            command: None,
            servers: vec!["a".into(), "b".into(), "c".into()],
            env: Some("/bin/env".into()),
        };
        let words = ["./a b".into(), "x'y".into()];
        let fill = |pattern: &str| {
            custom
                .fill(pattern.as_ref(), 2, &words, &contact)
                .map(|l| l.to_string_lossy().into_owned())
        };
        assert_eq!(fill("run -n %N -h '%M' 100%% %P").unwrap(), "run -n 2 -h 'a b' 100% './a b'");
        let line = fill("%C").unwrap();
        assert!(
            line.starts_with("/bin/env '_GASNET_CONSOLE=7,0,10.0.0.1' './a b' 'x'"),
            "{line}"
        );
        // The secret is not on the command line.
        assert!(!line.contains(&contact.key().1));
        assert!(fill("%X").unwrap_err().message.contains("%X"));
        let none = Custom::default();
        assert!(none
            .fill("%M".as_ref(), 2, &words, &contact)
            .unwrap_err()
            .message
            .contains("SERVERS"));
    }
}
