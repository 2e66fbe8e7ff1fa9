//! Progress of a start on several hosts, printed on a terminal when it takes long.
#![forbid(unsafe_code)]

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// Time until the first line.
const AFTER: Duration = Duration::from_secs(2);
/// Erases the line of the cursor.
const ERASE: &str = "\r\x1b[K";

#[derive(Debug)]
pub struct StartLine {
    is_terminal: bool,
    since: Instant,
    /// The number of hosts in the line that the terminal shows.
    shown: Option<usize>,
}

impl StartLine {
    /// Of a start that begins now.
    pub fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            since: Instant::now(),
            shown: None,
        }
    }

    /// Text to print when `connected` of `all` hosts have connected.
    pub fn next(&mut self, connected: usize, all: usize, now: Instant) -> Option<String> {
        if connected == all {
            return self.erase().map(str::to_owned);
        }
        if !self.is_terminal || now < self.since + AFTER || self.shown == Some(connected) {
            return None;
        }
        self.shown = Some(connected);
        Some(format!("{ERASE}gasnet: {connected} of {all} hosts have connected"))
    }

    /// Text to print before other text.
    pub fn erase(&mut self) -> Option<&'static str> {
        self.shown.take().map(|_| ERASE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_a_start_that_takes_long() {
        let mut line = StartLine::new();
        line.is_terminal = true;
        let (start, late) = (line.since, line.since + AFTER);
        assert_eq!(line.next(1, 4, start), None);
        assert_eq!(
            line.next(1, 4, late).unwrap(),
            "\r\x1b[Kgasnet: 1 of 4 hosts have connected"
        );
        assert_eq!(line.next(1, 4, late), None);
        assert!(line.next(3, 4, late).unwrap().contains("3 of 4"));
        assert_eq!(line.next(4, 4, late).unwrap(), ERASE);
        assert_eq!(line.next(4, 4, late), None);
        let _ = line.next(3, 4, late);
        assert_eq!((line.erase(), line.erase()), (Some(ERASE), None));
    }

    #[test]
    fn others_get_nothing() {
        let mut line = StartLine::new();
        line.is_terminal = false;
        assert_eq!(line.next(1, 4, line.since + AFTER * 9), None);
        assert_eq!(line.next(4, 4, line.since + AFTER * 9), None);
    }
}
