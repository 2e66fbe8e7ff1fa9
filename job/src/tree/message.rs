//! Messages between agents: frames of a length, a kind, and numbers in little-endian order.
#![forbid(unsafe_code)]

use super::super::control_block::Phase;
use super::super::layout::RankRange;

/// The ranks of a part of the job: of one host, or of a host and those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCounts {
    /// Ranks that have not called exit.
    pub running: u32,
    /// Ranks that exist.
    pub present: u32,
    /// The number of arrivals in exit, after which the next two were counted.
    pub epoch: u32,
    /// Windows in a row in which all running ranks only waited.
    pub waiting: u32,
    /// Windows in a row in which all running ranks only waited or polled.
    pub idle: u32,
}

/// Names and values.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A host to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its number.
    pub number: u32,
    /// Its name or address.
    pub name: Vec<u8>,
}

/// A message between the agents of two hosts, or between a worker and the launcher process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentMessage {
    /// Down: the layout of the job, with the limit of neighbourhoods; variables of the first host,
    /// which a process manager may not have passed on; the hosts that the receiver must start.
    Start {
        ranges: Vec<RankRange>,
        nbrhd_max: u32,
        variables: Pairs,
        todo: Vec<Host>,
    },
    /// Down: the phase of the job's end, its exit code, and the epoch of [`RankCounts`].
    Phase { phase: Phase, code: i32, epoch: u32 },
    /// Down: the result of an exchange: the bytes of all ranks, in the order of ranks.
    Result { round: u32, bytes: Vec<u8> },
    /// Down: a signal for all ranks.
    Signal { number: i32 },
    /// Up: the bytes of all ranks of some hosts in an exchange, host by host, in the order of
    /// ranks.
    Gather {
        round: u32,
        length: u32,
        parts: Vec<(u32, Vec<u8>)>,
    },
    /// Up, before the layout is known: a host by its first rank, its name, and its ranks.
    HostRanks { first: u32, name: Vec<u8>, ranks: Vec<u32> },
    /// From a worker: the rank that it requests, and the identity of its host.
    Register { requested_rank: Option<u32>, host: Vec<u8> },
    /// To a worker: its rank, the number of ranks, the job's name, and the launcher's environment.
    Assign {
        rank: u32,
        size: u32,
        job: Vec<u8>,
        environment: Pairs,
    },
    /// From a worker: it waits for all workers, and publishes values under keys.
    Fence { puts: Pairs },
    /// From a worker: requests a value that rank `owner` has published.
    Get { owner: u32, key: Vec<u8> },
    /// To a worker: that value; empty at the end of a fence.
    Value { bytes: Vec<u8> },
    /// Up: a rank is in exit, or was lost.
    Ended { code: i32, lost: bool },
    /// Up: the state of the sender's part of the job.
    Report(RankCounts),
}

/// Most bytes of a frame.
pub const MOST: usize = 1 << 30;

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let length = self.u32()?;
        Some(self.bytes(length as usize)?.to_vec())
    }

    fn pairs(&mut self) -> Option<Pairs> {
        self.list(|from| Some((from.text()?, from.text()?)))
    }

    /// A count and as many items. Memory is allocated only for items that are there.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

fn put(frame: &mut Vec<u8>, numbers: &[u32]) {
    for number in numbers {
        frame.extend(number.to_le_bytes());
    }
}

fn put_text(frame: &mut Vec<u8>, text: &[u8]) {
    put(frame, &[text.len() as u32]);
    frame.extend(text);
}

fn put_pairs(frame: &mut Vec<u8>, pairs: &[(Vec<u8>, Vec<u8>)]) {
    put(frame, &[pairs.len() as u32]);
    for (name, value) in pairs {
        put_text(frame, name);
        put_text(frame, value);
    }
}

impl AgentMessage {
    /// Its frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut frame = vec![0; 4];
        match self {
            Self::Start {
                ranges,
                nbrhd_max,
                variables,
                todo,
            } => {
                frame.push(b'S');
                put(&mut frame, &[*nbrhd_max]);
                put(&mut frame, &[ranges.len() as u32]);
                for range in ranges {
                    put(&mut frame, &[range.first, range.count, range.host]);
                }
                put_pairs(&mut frame, variables);
                put(&mut frame, &[todo.len() as u32]);
                for host in todo {
                    put(&mut frame, &[host.number]);
                    put_text(&mut frame, &host.name);
                }
            }
            Self::Phase { phase, code, epoch } => {
                frame.push(b'P');
                put(&mut frame, &[*phase as u32, *code as u32, *epoch]);
            }
            Self::Result { round, bytes } => {
                frame.push(b'R');
                put(&mut frame, &[*round]);
                frame.extend(bytes);
            }
            Self::Signal { number } => {
                frame.push(b'K');
                put(&mut frame, &[*number as u32]);
            }
            Self::Gather { round, length, parts } => {
                frame.push(b'G');
                put(&mut frame, &[*round, *length, parts.len() as u32]);
                for (host, bytes) in parts {
                    put(&mut frame, &[*host]);
                    put_text(&mut frame, bytes);
                }
            }
            Self::HostRanks { first, name, ranks } => {
                frame.push(b'H');
                put(&mut frame, &[*first]);
                put_text(&mut frame, name);
                put(&mut frame, &[ranks.len() as u32]);
                put(&mut frame, ranks);
            }
            Self::Ended { code, lost } => {
                frame.push(b'E');
                put(&mut frame, &[*code as u32, u32::from(*lost)]);
            }
            Self::Report(counts) => {
                frame.push(b'C');
                put(
                    &mut frame,
                    &[counts.running, counts.present, counts.epoch, counts.waiting, counts.idle],
                );
            }
            Self::Register { .. } | Self::Assign { .. } | Self::Fence { .. } | Self::Get { .. } | Self::Value { .. } => {
                self.put_worker(&mut frame);
            }
        }
        let length = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&length.to_le_bytes());
        frame
    }

    /// The same for messages of workers and the launcher process.
    fn put_worker(&self, frame: &mut Vec<u8>) {
        match self {
            Self::Register { requested_rank, host } => {
                frame.push(b'W');
                put(frame, &[u32::from(requested_rank.is_some()), requested_rank.unwrap_or(0)]);
                put_text(frame, host);
            }
            Self::Assign {
                rank,
                size,
                job,
                environment,
            } => {
                frame.push(b'L');
                put(frame, &[*rank, *size]);
                put_text(frame, job);
                put_pairs(frame, environment);
            }
            Self::Fence { puts } => {
                frame.push(b'F');
                put_pairs(frame, puts);
            }
            Self::Get { owner, key } => {
                frame.push(b'Q');
                put(frame, &[*owner]);
                put_text(frame, key);
            }
            Self::Value { bytes } => {
                frame.push(b'V');
                put_text(frame, bytes);
            }
            _ => unreachable!("defect: an agent message among those of workers"),
        }
    }

    /// Takes the first complete frame off `stream`. An error if the bytes are not a frame.
    pub fn decode(stream: &mut Vec<u8>) -> Result<Option<Self>, &'static str> {
        let Some((length, _)) = stream.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > MOST {
            return Err("a message has an impossible length");
        }
        let Some(body) = stream.get(4..4 + length) else {
            return Ok(None);
        };
        let message = Self::parse(body[0], Reader(&body[1..])).ok_or("a message is malformed")?;
        stream.drain(..4 + length);
        Ok(Some(message))
    }

    fn parse(kind: u8, mut from: Reader<'_>) -> Option<Self> {
        match kind {
            b'S' => {
                let nbrhd_max = from.u32()?;
                let ranges = from.list(|f| {
                    Some(RankRange {
                        first: f.u32()?,
                        count: f.u32()?,
                        host: f.u32()?,
                    })
                })?;
                let variables = from.pairs()?;
                let todo = from.list(|f| {
                    Some(Host {
                        number: f.u32()?,
                        name: f.text()?,
                    })
                })?;
                from.end(Self::Start {
                    ranges,
                    nbrhd_max,
                    variables,
                    todo,
                })
            }
            b'P' => {
                let phase = Phase::from_raw(from.u32()?);
                let (code, epoch) = (from.u32()? as i32, from.u32()?);
                from.end(Self::Phase { phase, code, epoch })
            }
            b'R' => {
                let round = from.u32()?;
                let bytes = from.0.to_vec();
                Some(Self::Result { round, bytes })
            }
            b'K' => {
                let number = from.u32()? as i32;
                from.end(Self::Signal { number })
            }
            b'G' => {
                let (round, length) = (from.u32()?, from.u32()?);
                let parts = from.list(|f| Some((f.u32()?, f.text()?)))?;
                from.end(Self::Gather { round, length, parts })
            }
            b'H' => {
                let (first, name) = (from.u32()?, from.text()?);
                let ranks = from.list(Reader::u32)?;
                from.end(Self::HostRanks { first, name, ranks })
            }
            b'E' => {
                let (code, lost) = (from.u32()? as i32, from.u32()? != 0);
                from.end(Self::Ended { code, lost })
            }
            b'C' => {
                let counts = RankCounts {
                    running: from.u32()?,
                    present: from.u32()?,
                    epoch: from.u32()?,
                    waiting: from.u32()?,
                    idle: from.u32()?,
                };
                from.end(Self::Report(counts))
            }
            _ => Self::parse_worker(kind, from),
        }
    }

    fn parse_worker(kind: u8, mut from: Reader<'_>) -> Option<Self> {
        match kind {
            b'W' => {
                let (set, number, host) = (from.u32()?, from.u32()?, from.text()?);
                let requested_rank = (set != 0).then_some(number);
                from.end(Self::Register { requested_rank, host })
            }
            b'L' => {
                let (rank, size, job, environment) = (from.u32()?, from.u32()?, from.text()?, from.pairs()?);
                from.end(Self::Assign {
                    rank,
                    size,
                    job,
                    environment,
                })
            }
            b'F' => {
                let puts = from.pairs()?;
                from.end(Self::Fence { puts })
            }
            b'Q' => {
                let (owner, key) = (from.u32()?, from.text()?);
                from.end(Self::Get { owner, key })
            }
            b'V' => {
                let bytes = from.text()?;
                from.end(Self::Value { bytes })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<AgentMessage> {
        let range = RankRange {
            first: 3,
            count: 4,
            host: 1,
        };
        let host = Host {
            number: 2,
            name: b"node\xff2".to_vec(),
        };
        vec![
            AgentMessage::Start {
                ranges: vec![range; 3],
                nbrhd_max: 2,
                variables: vec![(b"GASNET_A".to_vec(), b"b\nc".to_vec())],
                todo: vec![host],
            },
            AgentMessage::Phase {
                phase: Phase::Leave,
                code: -3,
                epoch: 9,
            },
            AgentMessage::Result {
                round: 7,
                bytes: vec![1, 2, 3],
            },
            AgentMessage::Signal { number: 15 },
            AgentMessage::Gather {
                round: 1,
                length: 2,
                parts: vec![(0, vec![1, 2]), (4, vec![])],
            },
            AgentMessage::HostRanks {
                first: 2,
                name: b"node3".to_vec(),
                ranks: vec![2, 3, 9],
            },
            AgentMessage::Register {
                requested_rank: Some(3),
                host: b"x".to_vec(),
            },
            AgentMessage::Assign {
                rank: 1,
                size: 2,
                job: b"j".to_vec(),
                environment: vec![(b"A".to_vec(), b"b=c".to_vec())],
            },
            AgentMessage::Fence {
                puts: vec![(b"at".to_vec(), vec![0, 1]); 2],
            },
            AgentMessage::Get {
                owner: 4,
                key: b"at".to_vec(),
            },
            AgentMessage::Value { bytes: vec![9] },
            AgentMessage::Ended { code: 137, lost: true },
            AgentMessage::Report(RankCounts {
                running: 1,
                present: 2,
                epoch: 3,
                waiting: 4,
                idle: 5,
            }),
        ]
    }

    #[test]
    fn messages_travel_in_pieces() {
        let mut stream = Vec::new();
        let mut got = Vec::new();
        for byte in all().iter().flat_map(AgentMessage::encode) {
            stream.push(byte);
            got.extend(AgentMessage::decode(&mut stream).unwrap());
        }
        assert_eq!(got, all());
        assert!(stream.is_empty());
    }

    #[test]
    fn what_is_cut_or_changed_is_refused_or_read_as_something_else_but_never_out_of_bounds() {
        for message in all() {
            let frame = message.encode();
            for length in 0..frame.len() - 4 {
                let mut cut = (length as u32).to_le_bytes().to_vec();
                cut.extend(&frame[4..4 + length]);
                if let Ok(other) = AgentMessage::decode(&mut cut) {
                    // This one may have any length.
                    let is_any = matches!(other, Some(AgentMessage::Result { .. }));
                    assert!(is_any, "{message:?} cut to {length}");
                }
            }
            for place in 4..frame.len() {
                let mut changed = frame.clone();
                changed[place] ^= 0x80;
                let _ = AgentMessage::decode(&mut changed);
            }
        }
        assert!(AgentMessage::decode(&mut vec![0xff; 8]).is_err());
        assert!(AgentMessage::decode(&mut vec![0; 8]).is_err());
    }
}
