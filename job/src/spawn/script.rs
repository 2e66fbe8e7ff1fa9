//! The remote shell's task. Its command line is the same for every job, so that any login shell
//! understands it and process lists show no secret: it reads one line from standard input and
//! evaluates it. The line changes to the directory, sets the variables, and becomes the program.
//!
//! The rest of standard input is the program's: a shell's `read` consumes no byte too many. If a
//! start-up file of the login shell reads the line instead, what follows, perhaps the program's
//! input, is not evaluated.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use gasnet_sys::started;

/// The command line. `_GASNET_N` is a newline, which the line, `_GASNET_L`, cannot contain. The
/// user may have variables of any other names.
pub const COMMAND: &str = concat!(
    r#"exec /bin/sh -c '_GASNET_N=$(printf "\nx"); _GASNET_N=${_GASNET_N%x}; IFS= read -r _GASNET_L && "#,
    r#"case $_GASNET_L in ": GASNet; "*) eval "$_GASNET_L"; exit;; esac; "#,
    r#"echo "gasnet: host $(uname -n): the start-up line has not arrived on standard input. "#,
    r#"Does a start-up file of the login shell, or an option of the remote shell, consume it?" >&2; exit 1'"#
);
/// The first bytes of the line.
const BEGIN: &[u8] = b": GASNet; cd ";

/// Variables of a session, of process managers, and of [`COMMAND`].
const NOT_SENT: [&str; 16] = [
    "_GASNET_N",
    "_GASNET_L",
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "HOSTNAME",
    "SSH_CONNECTION",
    "SSH_CLIENT",
    "SSH_TTY",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "DISPLAY",
    "XAUTHORITY",
    "TERM",
    "MAIL",
];
const NOT_SENT_PREFIXES: [&str; 4] = ["XDG_", "DBUS_", "PMI_", "PMIX_"];

/// A word, quoted for `sh`.
pub fn quoted_word(word: &OsStr) -> Vec<u8> {
    with_newline(word, b"\n")
}

/// A word, quoted for `sh`, without a newline.
fn quoted(word: &OsStr) -> Vec<u8> {
    with_newline(word, br#"'"$_GASNET_N"'"#)
}

fn with_newline(word: &OsStr, newline: &[u8]) -> Vec<u8> {
    let mut text = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend(br"'\''"),
            b'\n' => text.extend(newline),
            other => text.push(other),
        }
    }
    text.push(b'\'');
    text
}

/// A command between `env` and a program whose name contains an equals sign, which `env` would take
/// for a variable. It only runs the program and, unlike a shell, keeps all variables.
pub fn behind_env(words: &[OsString]) -> &'static str {
    if words.first().is_some_and(|program| program.as_bytes().contains(&b'=')) {
        " nice -n 0"
    } else {
        ""
    }
}

fn is_identifier(name: &[u8]) -> bool {
    let is_alpha = |b: &u8| b.is_ascii_alphabetic() || *b == b'_';
    name.first().is_some_and(is_alpha) && name.iter().all(|b| is_alpha(b) || b.is_ascii_digit())
}

fn is_sent(name: &str) -> bool {
    !NOT_SENT.contains(&name) && !NOT_SENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// How the program is started.
pub struct RemoteCommand<'a> {
    pub folder: &'a OsStr,
    /// The sender's environment. The values of the remote session win, except for those in `wins`.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables that replace those of the session, besides all of GASNet's.
    pub wins: Vec<String>,
    /// An assignment of our own.
    pub assignment: String,
    /// The name of `env` there.
    pub env: &'a OsStr,
    /// The program and its arguments.
    pub words: Vec<OsString>,
}

impl RemoteCommand<'_> {
    fn wins(&self, name: &str) -> bool {
        name.starts_with("GASNET_") || name == "LD_LIBRARY_PATH" || self.wins.iter().any(|w| w == name)
    }

    /// The line, with a newline at its end.
    pub fn line(&self) -> Vec<u8> {
        let mut line = BEGIN.to_vec();
        line.extend(quoted(self.folder));
        line.extend(b" || exit 1; ");
        let mut odd = Vec::new();
        for (name, value) in &self.environment {
            let text = name.to_string_lossy();
            if !self.wins(&text) && !is_sent(&text) {
                continue;
            }
            if !is_identifier(name.as_bytes()) {
                let mut pair = name.clone();
                pair.push("=");
                pair.push(value);
                odd.push(b' ');
                odd.extend(quoted(&pair));
                continue;
            }
            if !self.wins(&text) {
                line.extend(format!("[ \"${{{text}+x}}\" ] || ").bytes());
            }
            line.extend(format!("{text}=").bytes());
            line.extend(quoted(value));
            line.extend(format!("; export {text}; ").bytes());
        }
        line.extend(self.assignment.bytes());
        line.extend(b"; exec");
        // A shell cannot assign these names; env can.
        if !odd.is_empty() {
            line.push(b' ');
            line.extend(quoted(self.env));
            line.extend(b" --");
            line.extend(odd);
            line.extend(behind_env(&self.words).bytes());
        }
        for word in &self.words {
            line.push(b' ');
            line.extend(quoted(word));
        }
        line.push(b'\n');
        line
    }
}

/// The program and its arguments as it was started. A name with a path is kept, because its
/// directory may differ on other hosts.
pub fn program() -> Result<Vec<OsString>, String> {
    let words = started::words().into_iter();
    let mut words: Vec<OsString> = words.map(|word| OsString::from_vec(word.into_bytes())).collect();
    let name = words.first().cloned().unwrap_or_default();
    if Path::new(&name).components().count() < 2 {
        let path = env::current_exe().map_err(|e| format!("cannot get the path of this program: {e}"))?;
        match words.first_mut() {
            Some(first) => *first = path.into_os_string(),
            None => words.push(path.into_os_string()),
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Output, Stdio};

    /// Runs the remote shell's command with these variables and this input.
    fn run(own: &[(&str, &str)], input: &[u8]) -> Output {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", COMMAND]).env_clear().env("PATH", "/usr/bin:/bin");
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = shell.envs(own.iter().copied()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    /// The output of the program behind the line, which also gets `rest`.
    fn arrive(start: &RemoteCommand<'_>, own: &[(&str, &str)], rest: &str) -> String {
        let output = run(own, &[&start.line(), rest.as_bytes()].concat()).stdout;
        String::from_utf8_lossy(&output).into_owned()
    }

    #[test]
    fn everything_arrives_as_it_was() {
        let odd = "a'b\n\"c\" $HOME `id` \\n ! #\n";
        let pair = |n: &str, v: &str| (OsString::from(n), OsString::from(v));
        let program =
            r#"pwd; printf '%s|' "$@" "$VALUE" "$OWN" "$NAMED" "$GASNET_X" "$_C" "$SSH_TTY" "$n" "$line"; cat"#;
        let mut start = RemoteCommand {
            folder: OsStr::new("/usr"),
            environment: vec![
                pair("VALUE", odd),
                pair("OWN", "theirs"),
                pair("NAMED", "theirs"),
                pair("GASNET_X", "theirs"),
                pair("BASH_FUNC_f%%", "() {\n :; }"),
                pair("SSH_TTY", "x"),
                pair("n", "5"),
                pair("line", "one\ntwo"),
            ],
            wins: vec!["NAMED".into(), "n".into()],
            assignment: "_C='1 2'; export _C".into(),
            env: OsStr::new("env"),
            words: ["/bin/sh", "-c", program, "x", odd, ""].map(OsString::from).to_vec(),
        };
        let own = [("OWN", "mine"), ("NAMED", "mine"), ("GASNET_X", "mine")];
        let got = arrive(&start, &own, "line 1\nline 2");
        let wanted = format!("/usr\n{odd}||{odd}|mine|theirs|theirs|1 2||5|one\ntwo|line 1\nline 2");
        assert_eq!(got, wanted);
        // A shell would drop the odd name.
        start.words = vec!["/usr/bin/env".into()];
        let got = arrive(&start, &own, "");
        assert!(got.contains("BASH_FUNC_f%%=() {\n :; }\n"));
        // The variables of COMMAND are not passed on.
        assert!(!got.contains("_GASNET_"));
        // A program whose name contains an equals sign.
        let folder = std::env::temp_dir().join(format!("gasnet-script-{}=x", std::process::id()));
        std::os::unix::fs::symlink("/usr/bin/env", &folder).unwrap();
        start.words = vec![folder.clone().into_os_string()];
        let got = arrive(&start, &own, "");
        std::fs::remove_file(&folder).unwrap();
        assert!(got.contains("BASH_FUNC_f%%=() {\n :; }\n"));
    }

    #[test]
    fn a_line_that_was_taken_away() {
        for (input, fails) in [
            ("", true),
            ("echo hello\n: GASNet; echo hello\n", true),
            (": GASNet; echo hello >&2\n", false),
        ] {
            let out = run(&[], input.as_bytes());
            assert!(out.stdout.is_empty() && out.status.success() != fails);
            let message = String::from_utf8_lossy(&out.stderr);
            assert_eq!(message.contains("has not arrived"), fails, "{input}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_ends_it() {
        let start = RemoteCommand {
            folder: OsStr::new("/no/such/folder"),
            environment: Vec::new(),
            wins: Vec::new(),
            assignment: ":".into(),
            env: OsStr::new("env"),
            words: vec!["echo".into(), "there".into()],
        };
        assert!(arrive(&start, &[], "").is_empty());
    }
}
