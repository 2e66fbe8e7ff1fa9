//! A line of a trace or statistics file. The grammar is in `docs/tracing.md`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The rank that wrote it.
    pub rank: u32,
    /// Its thread; none for lines about the whole rank.
    pub thread: Option<u32>,
    /// Nanoseconds since the start of the job.
    pub at: u64,
    /// `FILE:LINE`, or `-`.
    pub source: &'a str,
    /// Letter of the category.
    pub letter: char,
    pub name: &'a str,
    rest: &'a str,
}

/// Parses a line without its line break. The error is a message.
pub fn parse(text: &str) -> Result<Line<'_>, &'static str> {
    let (who, rest) = text.split_once(' ').ok_or("it has no space")?;
    let (rank, thread) = who.split_once(':').ok_or("it does not begin with RANK:THREAD")?;
    let rank = rank.parse().map_err(|_| "its rank is not a number")?;
    let thread = match thread {
        "*" => None,
        number => Some(number.parse().map_err(|_| "its thread is not a number")?),
    };
    let (time, rest) = rest.split_once(" [").ok_or("it has no time or no source line")?;
    let (source, rest) = rest.split_once("] (").ok_or("its source line does not end")?;
    let mut letters = rest.chars();
    let letter = letters
        .next()
        .filter(char::is_ascii_uppercase)
        .ok_or("it has no category")?;
    let rest = letters
        .as_str()
        .strip_prefix(") ")
        .ok_or("its category is not one letter")?;
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') {
        return Err("it has no event name");
    }
    Ok(Line {
        rank,
        thread,
        at: nanoseconds(time).ok_or("its time is not a number of seconds with nine decimals")?,
        source,
        letter,
        name,
        rest,
    })
}

fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if fraction.len() != 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    seconds
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(fraction.parse().ok()?)
}

impl<'a> Line<'a> {
    /// The value of a word `key=value`. `text` extends to the end of the line.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        let (words, text) = match self.rest.strip_prefix("text=") {
            Some(text) => ("", Some(text)),
            None => self
                .rest
                .split_once(" text=")
                .map_or((self.rest, None), |(words, text)| (words, Some(text))),
        };
        if key == "text" {
            return text;
        }
        words
            .split(' ')
            .find_map(|word| word.split_once('=').filter(|(k, _)| *k == key))
            .map(|(_, value)| value)
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }

    /// The duration of an event that must have one.
    pub fn time(&self) -> Result<u64, &'static str> {
        self.number("ns").ok_or("it has no time")
    }

    /// The other rank.
    pub fn peer(&self) -> Result<u32, &'static str> {
        let peer = self.number("peer").and_then(|n| u32::try_from(n).ok());
        peer.ok_or("it has no peer")
    }

    /// The fields after the event name.
    pub fn words(&self) -> &'a str {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_parts() {
        let line = parse("2:1 1.000000002 [a b.c:42] (P) PUT_NB peer=3 bytes=64 ns=9 text=x peer=7").unwrap();
        assert_eq!((line.rank, line.thread, line.at), (2, Some(1), 1_000_000_002));
        assert_eq!((line.source, line.letter, line.name), ("a b.c:42", 'P', "PUT_NB"));
        assert_eq!(
            (line.number("peer"), line.number("bytes"), line.get("text")),
            (Some(3), Some(64), Some("x peer=7"))
        );
        assert_eq!((line.get("pee"), line.number("text")), (None, None));
        let bare = parse("0:* 0.000000000 [-] (U) END").unwrap();
        assert_eq!((bare.thread, bare.words()), (None, ""));
        assert_eq!(
            parse("0:0 0.000000000 [-] (H) NOTE text=").unwrap().get("text"),
            Some("")
        );
    }

    #[test]
    fn malformed_lines_are_errors() {
        for bad in [
            "",
            "hello",
            "x:0 0.000000000 [-] (P) PUT",
            "0:y 0.000000000 [-] (P) PUT",
            "0:0 0.0 [-] (P) PUT",
            "0:0 99999999999999999999.000000000 [-] (P) PUT",
            "0:0 0.000000000 (P) PUT",
            "0:0 0.000000000 [-] P PUT",
            "0:0 0.000000000 [-] (P PUT",
            "0:0 0.000000000 [-] (P) ",
            "0:0 0.000000000 [-] (P) put",
            "0:0 0.00000",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
