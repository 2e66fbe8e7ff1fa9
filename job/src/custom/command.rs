//! The command that starts the ranks, and its placeholders.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Child, Command};

use crate::options::{CustomCommand, StartOptions};
use crate::spawn::script::{behind_env, program, quoted_word};
use crate::spawn::Contact;
use crate::{refuse, JobError};
use gasnet_sys::{process, started};

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

impl CustomCommand {
    pub fn start(&self, options: &StartOptions, contact: &Contact) -> Result<Child, JobError> {
        let Some(pattern) = &self.command else {
            return refuse("GASNET_SPAWNFN=C: GASNET_CSPAWN_CMD, the command that starts the ranks, is not set");
        };
        let words = program().map_err(JobError::new)?;
        let line = self.fill(pattern, options.ranks, &words, contact)?;
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
                Some(b'D') => line.extend(quotes.word(started::folder().unwrap_or_default().as_os_str())),
                Some(b'P') => line.extend(quotes.word(words.first().map_or(OsStr::new(""), OsString::as_os_str))),
                Some(b'M') if self.servers.is_empty() => {
                    return refuse("GASNET_CSPAWN_CMD has %M, but GASNET_CSPAWN_SERVERS names no hosts");
                }
                Some(b'M') => {
                    let most = self.servers.len().min(ranks as usize);
                    line.extend(hosts(&self.servers[..most], quotes)?);
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

/// The hosts of `%M`. Names that a command could take for options are refused; others are quoted.
fn hosts(servers: &[String], quotes: Quotes) -> Result<Vec<u8>, JobError> {
    let is_plain = |c: char| c.is_alphanumeric() || "._-:@%/".contains(c);
    if let Some(bad) = servers.iter().find(|name| name.starts_with('-')) {
        return refuse(format!("GASNET_CSPAWN_SERVERS: {bad} is not a host name"));
    }
    let word = |name: &String| {
        if quotes == Quotes::None && name.chars().all(is_plain) {
            name.clone().into_bytes()
        } else {
            quotes.word(name.as_ref())
        }
    };
    Ok(servers.iter().map(word).collect::<Vec<_>>().join(&b' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::secret::Secret;

    #[test]
    fn words_stay_words_inside_quotes() {
        let word = OsStr::new(r#"a'b"c$d`e\f g"#);
        for (quotes, mark) in [(Quotes::None, ""), (Quotes::Single, "'"), (Quotes::Double, "\"")] {
            let text = [b"printf %s ", mark.as_bytes(), &quotes.word(word), mark.as_bytes()].concat();
            let output = Command::new("/bin/sh").arg("-c").arg(OsString::from_vec(text)).output();
            assert_eq!(OsString::from_vec(output.unwrap().stdout), word, "{quotes:?}");
        }
    }

    #[test]
    fn patterns_are_filled() {
        let contact = Contact {
            host: 5,
            secret: Secret::new(),
            port: 7,
            addresses: vec!["10.0.0.1".into()],
            chosen: false,
        };
        let custom = CustomCommand {
            servers: vec!["a".into(), "b".into(), "c".into()],
            env: Some("/bin/env".into()),
            rank_in: Some("PMI_RANK".into()),
            ..CustomCommand::default()
        };
        let named = |names: &[&str]| CustomCommand {
            servers: names.iter().map(|&name| name.into()).collect(),
            ..CustomCommand::default()
        };
        let (foreign, options) = (named(&["a", "b;$x'"]), named(&["a", "-oProxyCommand=x"]));
        for (custom, pattern, filled) in [
            (
                &custom,
                "run -n %N -h '%M' 100%% %P",
                Ok("run -n 2 -h 'a b' 100% './a b'"),
            ),
            (
                &custom,
                r#"run "a '%P" '%P"' \'%P \%%"#,
                Ok(r#"run "a './a b" './a b"' \''./a b' \%"#),
            ),
            // Without the secret.
            (
                &custom,
                "%C",
                Ok("/bin/env '_GASNET_CONTACT=5,7,0,10.0.0.1' '_GASNET_WORKER_RANK=PMI_RANK' './a b' 'x'\\''y'"),
            ),
            (
                &CustomCommand::default(),
                "%C",
                Ok("env '_GASNET_CONTACT=5,7,0,10.0.0.1' './a b' 'x'\\''y'"),
            ),
            (&custom, "on %M", Ok("on a b")),
            (
                &foreign,
                r#"on %M '%M' "%M""#,
                Ok(r#"on a 'b;$x'\''' 'a b;$x'\''' "a b;\$x'""#),
            ),
            (&options, "on %M", Err("-oProxyCommand=x")),
            (&custom, "%X", Err("%X")),
            (&CustomCommand::default(), "%M", Err("SERVERS")),
        ] {
            let words = ["./a b".into(), "x'y".into()];
            match (custom.fill(pattern.as_ref(), 2, &words, &contact), filled) {
                (Ok(line), Ok(filled)) => assert_eq!(line, filled),
                (Err(why), Err(part)) => assert!(why.message.contains(part), "{why}"),
                other => panic!("{pattern}: {other:?}"),
            }
        }
    }
}
