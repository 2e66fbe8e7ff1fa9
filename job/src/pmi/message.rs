//! Messages of PMI-1 and PMI-2: a command and fields `name=value`.
//!
//! PMI-1: one line, `cmd=put kvsname=a key=b value=c`. PMI-2: the number of characters in six
//! columns, then `cmd=kvs-put;key=b;value=c;`. The first message of either version, and its answer,
//! are lines.

/// Columns of the length of a PMI-2 message.
pub const LENGTH: usize = 6;

/// A version of the protocol, by the encoding of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// PMI-1: lines.
    One,
    /// PMI-2: counted messages.
    Two,
}

#[derive(Debug, PartialEq, Eq)]
pub struct PmiMessage {
    pub command: String,
    fields: Vec<(String, String)>,
}

impl Version {
    fn separator(self) -> char {
        match self {
            Self::One => ' ',
            Self::Two => ';',
        }
    }

    /// A whole message. Values contain no separators, and are not empty: hydra 5.0 does not parse
    /// that.
    pub fn encode(self, command: &str, fields: &[(&str, &str)]) -> String {
        let separator = self.separator();
        let fields: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{separator}{name}={value}"))
            .collect();
        let text = format!("cmd={command}{}", fields.concat());
        match self {
            Self::One => text + "\n",
            Self::Two => format!("{:LENGTH$}{text};", text.len() + 1),
        }
    }

    /// Parses a message without its length or the end of its line. A part without `=` continues the
    /// value before it: texts for people contain separators.
    pub fn parse(self, text: &str) -> Option<PmiMessage> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for part in text.split(self.separator()).filter(|part| !part.trim().is_empty()) {
            if let Some((name, value)) = part.split_once('=') {
                fields.push((name.into(), value.into()));
            } else {
                let (_, value) = fields.last_mut()?;
                value.push(self.separator());
                value.push_str(part);
            }
        }
        let at = fields.iter().position(|(name, _)| name == "cmd")?;
        let (_, command) = fields.remove(at);
        Some(PmiMessage { command, fields })
    }
}

impl PmiMessage {
    /// The value of a field; of the first one if there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn number(&self, name: &str) -> Option<u32> {
        self.field(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings() {
        assert_eq!(Version::One.encode("barrier_in", &[]), "cmd=barrier_in\n");
        let fields = [("kvsname", "a"), ("key", "b")];
        assert_eq!(Version::One.encode("get", &fields), "cmd=get kvsname=a key=b\n");
        assert_eq!(
            Version::Two.encode("kvs-get", &fields),
            "    28cmd=kvs-get;kvsname=a;key=b;"
        );
        for (version, text) in [
            (
                Version::One,
                " rc=-1 cmd=get_result  msg=no such key value=a=b n=12 big=99999999999",
            ),
            (
                Version::Two,
                "cmd=get_result;rc=-1;msg=no;such;;key;value=a=b;n=12;big=99999999999",
            ),
        ] {
            let message = version.parse(text).unwrap();
            assert_eq!(
                (message.command.as_str(), message.field("rc")),
                ("get_result", Some("-1"))
            );
            let why = ["no", "such", "key"].join(&version.separator().to_string());
            assert_eq!(message.field("msg"), Some(why.as_str()));
            assert_eq!((message.field("value"), message.field("none")), (Some("a=b"), None));
            let numbers = ["n", "rc", "big", "none"].map(|name| message.number(name));
            assert_eq!(numbers, [Some(12), None, None, None]);
        }
    }

    #[test]
    fn what_is_no_message() {
        for bad in [
            "",
            " ",
            ";",
            ";;",
            "rc=0",
            "rc=0;",
            "nonsense",
            "nonsense cmd=a",
            "cmd;",
        ] {
            assert_eq!(Version::One.parse(bad), None, "{bad}");
            assert_eq!(Version::Two.parse(bad), None, "{bad}");
        }
    }
}
