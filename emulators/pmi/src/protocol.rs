//! Messages between a rank and the launcher: frames of a length and a body. A rank sends a request
//! and waits for its answer: a code of the library, and bytes.

/// Most bytes of a frame. More is a defect.
pub const FRAME_MAX: usize = 1 << 30;

/// A call in which all processes of a job, or of a node, take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// `PMI_Barrier`.
    Barrier,
    /// `PMI_Bcast`, from rank 0.
    Broadcast,
    /// `PMI_Allgather`.
    Gather,
    /// `PMI_Allgather_on_smp`.
    GatherOnNode,
    /// `PMI2_KVS_Fence`.
    Fence,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The process is this rank. The answer is the [`Layout`] of the job.
    Join(u32),
    Leave,
    /// It ends the job, with a message.
    Abort(String),
    Put(Vec<u8>, Vec<u8>),
    Get(Vec<u8>),
    /// Takes part in a collective call with these bytes.
    Collect(Collective, Vec<u8>),
}

const COLLECTIVES: [(u8, Collective); 5] = [
    (10, Collective::Barrier),
    (11, Collective::Broadcast),
    (12, Collective::Gather),
    (13, Collective::GatherOnNode),
    (14, Collective::Fence),
];

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = (length as u32).to_ne_bytes().to_vec();
    for part in parts {
        frame.extend(*part);
    }
    frame
}

fn take_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (first, rest) = bytes.split_first_chunk()?;
    Some((u32::from_ne_bytes(*first), rest))
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Join(rank) => frame(&[&[1], &rank.to_ne_bytes()]),
            Self::Leave => frame(&[&[2]]),
            Self::Abort(message) => frame(&[&[3], message.as_bytes()]),
            Self::Put(key, value) => frame(&[&[4], &(key.len() as u32).to_ne_bytes(), key, value]),
            Self::Get(key) => frame(&[&[5], key]),
            Self::Collect(call, bytes) => {
                let number = COLLECTIVES.iter().find(|(_, known)| known == call);
                frame(&[&[number.map_or(0, |(number, _)| *number)], bytes])
            }
        }
    }

    pub fn decode(body: &[u8]) -> Option<Self> {
        let (kind, rest) = body.split_first()?;
        Some(match kind {
            1 => Self::Join(take_u32(rest)?.0),
            2 => Self::Leave,
            3 => Self::Abort(String::from_utf8_lossy(rest).into_owned()),
            4 => {
                let (length, rest) = take_u32(rest)?;
                let (key, value) = rest.split_at_checked(length as usize)?;
                Self::Put(key.to_vec(), value.to_vec())
            }
            5 => Self::Get(rest.to_vec()),
            _ => {
                let (_, call) = COLLECTIVES.iter().find(|(number, _)| number == kind)?;
                Self::Collect(*call, rest.to_vec())
            }
        })
    }
}

pub fn encode_answer(code: i32, bytes: &[u8]) -> Vec<u8> {
    frame(&[&code.to_ne_bytes(), bytes])
}

pub fn decode_answer(body: &[u8]) -> Option<(i32, &[u8])> {
    take_u32(body).map(|(code, rest)| (code as i32, rest))
}

/// The first frame's body in `bytes`, and the length of the frame. None: it is incomplete.
pub fn first_frame(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = take_u32(bytes)?;
    Some((rest.get(..length as usize)?, 4 + length as usize))
}

/// Facts about a job that all its ranks know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    pub job: String,
    /// By rank: the number of its node, from 0.
    pub nodes: Vec<u32>,
    /// By rank: the number of its program.
    pub apps: Vec<u32>,
}

impl Layout {
    pub fn encode(&self) -> Vec<u8> {
        let numbers = [&[self.nodes.len() as u32], &self.nodes[..], &self.apps[..]].concat();
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        bytes.extend(self.job.as_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (size, rest) = take_u32(bytes)?;
        let (numbers, job) = rest.split_at_checked(8 * size as usize)?;
        let mut numbers = numbers.chunks_exact(4).filter_map(|number| Some(take_u32(number)?.0));
        Some(Self {
            job: String::from_utf8_lossy(job).into_owned(),
            nodes: numbers.by_ref().take(size as usize).collect(),
            apps: numbers.collect(),
        })
    }

    /// The ranks on the node of `rank`.
    pub fn neighbours(&self, rank: u32) -> Vec<u32> {
        let own = self.nodes.get(rank as usize);
        let on_node = (0..).zip(&self.nodes).filter(|(_, node)| Some(*node) == own);
        on_node.map(|(rank, _)| rank).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive() {
        let layout = Layout {
            job: "j".into(),
            nodes: vec![0, 0, 1],
            apps: vec![0, 1, 1],
        };
        assert_eq!(Layout::decode(&layout.encode()), Some(layout.clone()));
        assert_eq!(layout.neighbours(1), [0, 1]);
        for request in [
            Request::Join(3),
            Request::Leave,
            Request::Abort("why".into()),
            Request::Put(b"k".to_vec(), b"v".to_vec()),
            Request::Get(b"k".to_vec()),
            Request::Collect(Collective::GatherOnNode, vec![1, 2]),
        ] {
            let frame = request.encode();
            assert!(first_frame(&frame[..frame.len() - 1]).is_none());
            let (body, length) = first_frame(&frame).unwrap();
            assert_eq!((Request::decode(body), length), (Some(request), frame.len()));
        }
        assert_eq!(Request::decode(&[4, 9, 0, 0, 0]), None);
        let answer = encode_answer(-1, b"x");
        assert_eq!(decode_answer(&answer[4..]), Some((-1, &b"x"[..])));
    }
}
