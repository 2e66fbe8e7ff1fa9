//! Messages of PMI-1 and PMI-2: a command and fields `name=value`.
//!
//! PMI-1: one line, `cmd=put kvsname=a key=b value=c`. PMI-2: the number of characters in six
//! columns, then `cmd=kvs-put;key=b;value=c;`, where a `;` in a value is doubled. The first message
//! of either version, and its answer, are lines.

/// A received message.
#[derive(Debug, PartialEq, Eq)]
pub struct PmiMessage {
    /// The command.
    pub command: String,
    fields: Vec<(String, String)>,
}

impl PmiMessage {
    /// The value of a field; of the first one if there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    /// The value of a numeric field.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.field(name)?.parse().ok()
    }

    fn from_fields(mut fields: Vec<(String, String)>) -> Option<Self> {
        let at = fields.iter().position(|(name, _)| name == "cmd")?;
        let (_, command) = fields.remove(at);
        Some(Self { command, fields })
    }

    /// Parses a line, without its end. Values have no spaces, except texts for people: a word
    /// without `=` continues the value before it.
    pub fn from_line(line: &str) -> Option<Self> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for word in line.split_ascii_whitespace() {
            if let Some((name, value)) = word.split_once('=') {
                fields.push((name.into(), value.into()));
            } else if let Some((_, value)) = fields.last_mut() {
                value.push(' ');
                value.push_str(word);
            } else {
                return None;
            }
        }
        Self::from_fields(fields)
    }

    /// Parses the fields of a PMI-2 message, without its length.
    pub fn from_fields_text(text: &str) -> Option<Self> {
        let mut fields = Vec::new();
        let mut field = String::new();
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            if c != ';' || characters.next_if_eq(&';').is_some() {
                field.push(c);
                continue;
            }
            let (name, value) = field.split_once('=')?;
            fields.push((name.into(), value.into()));
            field.clear();
        }
        // The last field may lack its end.
        if let Some((name, value)) = field.split_once('=') {
            fields.push((name.into(), value.into()));
        }
        Self::from_fields(fields)
    }
}

/// A PMI-1 message. Values contain no spaces and no newlines.
pub fn line(command: &str, fields: &[(&str, &str)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
    format!("cmd={command}{}\n", fields.concat())
}

/// A PMI-2 message. No value may be empty: hydra 5.0 does not parse that.
pub fn counted(command: &str, fields: &[(&str, &str)]) -> String {
    let field = |(name, value): &(&str, &str)| format!("{name}={};", value.replace(';', ";;"));
    let fields: Vec<String> = fields.iter().map(field).collect();
    let text = format!("cmd={command};{}", fields.concat());
    format!("{:6}{text}", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        assert_eq!(line("barrier_in", &[]), "cmd=barrier_in\n");
        assert_eq!(
            line("get", &[("kvsname", "a"), ("key", "b")]),
            "cmd=get kvsname=a key=b\n"
        );
        let answer = PmiMessage::from_line("cmd=get_result rc=-1 msg=no such key value=a=b").unwrap();
        assert_eq!(answer.command, "get_result");
        assert_eq!(
            (answer.field("rc"), answer.field("msg")),
            (Some("-1"), Some("no such key"))
        );
        assert_eq!((answer.field("value"), answer.field("none")), (Some("a=b"), None));
        assert_eq!(PmiMessage::from_line(" rc=0  cmd=x ").unwrap().command, "x");
        let sizes = PmiMessage::from_line("cmd=maxes a=12 b=-1 c=99999999999").unwrap();
        assert_eq!(
            [sizes.number("a"), sizes.number("b"), sizes.number("c")],
            [Some(12), None, None]
        );
    }

    #[test]
    fn counted_messages() {
        let text = counted("kvs-put", &[("key", "a"), ("value", "x;y;;z")]);
        assert_eq!(text, "    34cmd=kvs-put;key=a;value=x;;y;;;;z;");
        assert_eq!(text.len(), 6 + 34);
        let message = PmiMessage::from_fields_text(&text[6..]).unwrap();
        assert_eq!(message.command, "kvs-put");
        assert_eq!(
            (message.field("key"), message.field("value")),
            (Some("a"), Some("x;y;;z"))
        );
        let open = PmiMessage::from_fields_text("cmd=a;rc=0").unwrap();
        assert_eq!((open.command.as_str(), open.number("rc")), ("a", Some(0)));
    }

    #[test]
    fn what_is_no_message() {
        for bad in ["", " ", "rc=0", "nonsense", "nonsense cmd=a"] {
            assert_eq!(PmiMessage::from_line(bad), None, "{bad}");
        }
        for bad in ["", ";", ";;", "rc=0;", "cmd", "cmd;", "cmd=a;b;"] {
            assert_eq!(PmiMessage::from_fields_text(bad), None, "{bad}");
        }
    }
}
