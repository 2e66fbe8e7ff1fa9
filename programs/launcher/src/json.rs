//! JSON as the programs write it; they read none. A value is its text.

use std::fmt::Write as _;

/// A string, with its quotes.
pub fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// An array of values.
pub fn array(values: impl IntoIterator<Item = String>) -> String {
    enclosed('[', values.into_iter(), ']')
}

/// An object of names and values, in this order.
pub fn object<N: AsRef<str>>(members: impl IntoIterator<Item = (N, String)>) -> String {
    let members = members.into_iter();
    enclosed(
        '{',
        members.map(|(name, value)| string(name.as_ref()) + ": " + &value),
        '}',
    )
}

/// Each part that is an array or an object ends its line.
fn enclosed(open: char, parts: impl Iterator<Item = String>, close: char) -> String {
    let mut out = String::from(open);
    let mut separator = "";
    for part in parts {
        out += separator;
        out += &part;
        separator = if part.ends_with(['}', ']']) { ",\n" } else { ", " };
    }
    out.push(close);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(string("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }

    #[test]
    fn values_are_nested() {
        let inner = object([("a", "1".to_owned()), ("b", string("x"))]);
        assert_eq!(
            array([inner, "2".to_owned(), "3".to_owned()]),
            "[{\"a\": 1, \"b\": \"x\"},\n2, 3]"
        );
    }
}
