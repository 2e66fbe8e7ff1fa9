//! The command that starts the ranks, and its placeholders.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Child, Command};

use super::{Secret, StartOptions};
use crate::spawn::script::{behind_env, program, quoted_word};
use crate::spawn::Contact;
use crate::{refuse, JobError};
use gasnet_sys::process;

/// The command of `GASNET_CSPAWN_CMD` and its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Custom {
    /// The command, with placeholders.
    pub command: Option<OsString>,
    /// Hosts for `%M`. `GASNET_CSPAWN_SERVERS`.
    pub servers: Vec<String>,
    /// The name of `env` on the other hosts. `GASNET_ENV_CMD`.
    pub env: Option<OsString>,
    /// The variable that holds a worker's rank, if the launcher process knows its name.
    /// `GASNET_WORKER_RANK`.
    pub rank_in: Option<String>,
}

/// Passes `rank_in` to workers, where the variable of that name is not passed on.
pub(super) const RANK_IN: &str = "_GASNET_WORKER_RANK";

/// The kind of quotes at a position of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
}

impl Quotes {
    /// The state after a byte of the command.
    fn behind(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::None, b'\'') => Self::Single,
            (Self::None, b'"') => Self::Double,
            (Self::Single, b'\'') | (Self::Double, b'"') => Self::None,
            _ => self,
        }
    }

    /// A word, quoted for the shell at this position.
    fn word(self, word: &OsStr) -> Vec<u8> {
        let all = word.as_bytes();
        match self {
            Self::None => quoted_word(word),
            Self::Single => all
                .iter()
                .flat_map(|&b| if b == b'\'' { br"'\''".to_vec() } else { vec![b] })
                .collect(),
            Self::Double => {
                let escaped = |&b: &u8| {
                    if br#""\$`"#.contains(&b) {
                        vec![b'\\', b]
                    } else {
                        vec![b]
                    }
                };
                all.iter().flat_map(escaped).collect()
            }
        }
    }
}

impl Custom {
    /// Starts the command.
    pub fn start(
        &self,
        options: &StartOptions,
        secret: Secret,
        port: u16,
        addresses: &[String],
        chosen: bool,
    ) -> Result<Child, JobError> {
        let Some(pattern) = &self.command else {
            return refuse("GASNET_SPAWNFN=C: GASNET_CSPAWN_CMD, the command that starts the ranks, is not set");
        };
        let contact = Contact {
            host: 0,
            secret,
            port,
            addresses: addresses.to_vec(),
            chosen,
        };
        let words = program().map_err(JobError::new)?;
        let line = self.fill(pattern, options.ranks, &words, &contact)?;
        if options.verbose {
            eprintln!("gasnet: {}", String::from_utf8_lossy(line.as_bytes()));
        }
        let (names, value) = contact.key();
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&line).envs(names.map(|name| (name, &value)));
        process::die_with_spawner(&mut command);
        command
            .spawn()
            .map_err(|e| JobError::new(format!("cannot start the command of GASNET_CSPAWN_CMD: {e}")))
    }

    /// The command line of one rank.
    fn of_rank(&self, words: &[OsString], contact: &Contact) -> Vec<u8> {
        let mut line = self.env.as_deref().unwrap_or(OsStr::new("env")).as_bytes().to_vec();
        line.push(b' ');
        line.extend(quoted_word(contact.public().as_ref()));
        // For commands that do not pass the environment on.
        if let Some(requested_rank) = &self.rank_in {
            line.push(b' ');
            line.extend(quoted_word(format!("{RANK_IN}={requested_rank}").as_ref()));
        }
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
        let mut quotes = Quotes::None;
        while let Some(&byte) = bytes.next() {
            if byte != b'%' {
                line.push(byte);
                quotes = quotes.behind(byte);
                if byte == b'\\' && quotes != Quotes::Single {
                    // The next byte is no quote. A per cent sign stands for itself only if it is
                    // doubled.
                    if let Some(&next) = bytes.as_slice().first().filter(|&&next| next != b'%') {
                        line.push(next);
                        bytes.next();
                    }
                }
                continue;
            }
            match bytes.next() {
                Some(b'N') => line.extend(ranks.to_string().bytes()),
                Some(b'C') => line.extend(self.of_rank(words, contact)),
                Some(b'D') => line.extend(quotes.word(env::current_dir().unwrap_or_default().as_os_str())),
                Some(b'P') => line.extend(quotes.word(words.first().map_or(OsStr::new(""), OsString::as_os_str))),
                Some(b'M') if self.servers.is_empty() => {
                    return refuse("GASNET_CSPAWN_CMD has %M, but GASNET_CSPAWN_SERVERS names no hosts");
                }
                Some(b'M') => {
                    let most = self.servers.len().min(ranks as usize);
                    line.extend(self.servers[..most].join(" ").bytes());
                }
                Some(b'%') => line.push(b'%'),
                other => {
                    let other = other.map_or_else(String::new, |&b| char::from(b).to_string());
                    return refuse(format!(
                        "GASNET_CSPAWN_CMD: %{other} is unknown; there are %N, %C, %D, %M, %P and %%"
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
    fn words_stay_words_inside_quotes() {
        let word = OsStr::new(r#"a'b"c$d`e\f g"#);
        for (quotes, mark) in [(Quotes::None, ""), (Quotes::Single, "'"), (Quotes::Double, "\"")] {
            let text = [mark.as_bytes(), &quotes.word(word), mark.as_bytes()].concat();
            let output = Command::new("/bin/sh")
                .arg("-c")
                .arg(OsString::from_vec([b"printf %s ", &text[..]].concat()))
                .output()
                .unwrap();
            assert_eq!(OsString::from_vec(output.stdout), word, "{quotes:?}");
        }
    }

    #[test]
    fn patterns_are_filled() {
        let contact = Contact {
            host: 0,
            secret: Secret::new(),
            port: 7,
            addresses: vec!["10.0.0.1".into()],
            chosen: false,
        };
        let custom = Custom {
            command: None,
            servers: vec!["a".into(), "b".into(), "c".into()],
            env: Some("/bin/env".into()),
            rank_in: None,
        };
        let words = ["./a b".into(), "x'y".into()];
        let fill = |pattern: &str| {
            custom
                .fill(pattern.as_ref(), 2, &words, &contact)
                .map(|l| l.to_string_lossy().into_owned())
        };
        assert_eq!(
            fill("run -n %N -h '%M' 100%% %P").unwrap(),
            "run -n 2 -h 'a b' 100% './a b'"
        );
        assert_eq!(
            fill(r#"run "a '%P" '%P"' \'%P \%%"#).unwrap(),
            r#"run "a './a b" './a b"' \''./a b' \%"#
        );
        let line = fill("%C").unwrap();
        assert!(
            line.starts_with("/bin/env '_GASNET_LAUNCHER=7,0,10.0.0.1' './a b' 'x'"),
            "{line}"
        );
        // The secret is not on the command line.
        assert!(!line.contains(&contact.key().1));
        let knows = Custom {
            rank_in: Some("PMI_RANK".into()),
            ..custom.clone()
        };
        let line = knows.fill("%C".as_ref(), 2, &words, &contact).unwrap();
        assert!(
            line.to_string_lossy()
                .contains(" '_GASNET_WORKER_RANK=PMI_RANK' './a b'"),
            "{line:?}"
        );
        assert!(fill("%X").unwrap_err().message.contains("%X"));
        let none = Custom::default();
        assert!(none
            .fill("%M".as_ref(), 2, &words, &contact)
            .unwrap_err()
            .message
            .contains("SERVERS"));
    }
}
