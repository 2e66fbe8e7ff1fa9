//! Parsers of what arrives from other hosts, process managers and batch systems, for a fuzzer
//! ([`gasnet_conduit::conformance::fuzz`]).
#![forbid(unsafe_code)]

use crate::agent::exchange::{assemble, Gather};
use crate::control_socket::RankMessage;
use crate::layout::{JobLayout, RankRange};
use crate::pmi::message::Version;
use crate::pmi::{by_exchange, check_job_name, stream};
use crate::pmi_bootstrap::hosts::branches;
use crate::spawn::hosts::{self, Form};
use crate::spawn::Contact;
use crate::tree::frames::{self, Frames};
use crate::tree::message::{AgentMessage, Host};
use crate::tree::secret::{call, Seals, Secret};
use gasnet_conduit::conformance::fuzz::{number, Target};

/// All of them.
pub const TARGETS: &[Target] = &[
    ("job-contact", contact),
    ("job-control", control),
    ("job-exchange", exchange),
    ("job-frames", frames),
    ("job-handshake", handshake),
    ("job-hosts", hosts),
    ("job-message", message),
    ("job-pmi", pmi),
];

const SECRET: [u8; 16] = *b"a secret of jobs";
const CALLER: [u8; 16] = *b"nonce of callers";
const CALLED: [u8; 16] = *b"nonce of a agent";

/// The addresses at which an agent listens, from the store of a process manager.
fn contact(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = Secret::from_text(&text);
    let secret = Secret::from_bytes(SECRET);
    if let Some(contact) = Contact::parse(&text, secret) {
        let public = contact.public();
        let (_, value) = public.split_once('=').unwrap_or_default();
        assert_eq!(Contact::parse(value, secret), Some(contact));
    }
}

fn rank_message(bytes: &[u8]) -> Option<RankMessage> {
    RankMessage::decode(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// A message of a rank to its agent.
fn control(bytes: &[u8]) {
    if let Some(message) = rank_message(bytes) {
        assert_eq!(RankMessage::decode(message.encode()), Some(message));
    }
}

/// The store of a process manager over a conduit's exchange.
fn exchange(mut bytes: &[u8]) {
    let each = number(&mut bytes, 2) as usize % 700 + 1;
    if let Ok(longest) = by_exchange::longest(bytes) {
        assert!(longest < 1 << 16);
    }
    let mut values = by_exchange::Values::new();
    by_exchange::take_values(&mut values, bytes, each);
    assert!(values
        .iter()
        .all(|((owner, key), _)| (*owner as usize) < bytes.len() / each && !key.contains('\n')));
}

/// Both ends of a connection.
fn connection() -> (Seals, Seals) {
    let secret = Secret::from_bytes(SECRET);
    let called = |call: &[u8]| secret.answer(call, &CALLED);
    let answer = called(&call(&CALLER)).unwrap();
    let (proof, caller) = secret.prove(&CALLER, &answer, 7).unwrap();
    let (_, called) = secret.verify(&call(&CALLER), &CALLED, &proof).unwrap();
    (caller, called)
}

/// Frames in a stream that arrives in pieces, one bit of which may be changed on its way.
fn frames(mut bytes: &[u8]) {
    let (piece, changed) = (number(&mut bytes, 1) as usize + 1, number(&mut bytes, 2) as usize);
    let (mut caller, called) = connection();
    let frame = framed(bytes);
    let mut sealed = frames::seal(&mut caller.sent, &frame);
    let is_changed = changed < sealed.len();
    if is_changed {
        sealed[changed] ^= 1 << (changed % 8);
    }
    let (mut frames, mut found) = (Frames::new(called.received), Vec::new());
    let result = sealed.chunks(piece).try_for_each(|piece| {
        frames.extend(piece);
        while let Some(frame) = frames.next()? {
            found.push(frame);
        }
        Ok::<_, &str>(())
    });
    if is_changed || bytes.is_empty() {
        assert!(found.is_empty());
    } else {
        assert_eq!((result, found), (Ok(()), vec![frame]));
    }
}

/// Calls, answers and proofs of a process without the secret.
fn handshake(bytes: &[u8]) {
    let secret = Secret::from_bytes(SECRET);
    let _ = secret.answer(bytes, &CALLED);
    assert!(secret.prove(&CALLER, bytes, 7).is_none());
    assert!(secret.verify(&call(&CALLER), &CALLED, bytes).is_none());
    let (call, proof) = bytes.split_at(bytes.len().min(24));
    assert!(secret.verify(call, &CALLED, proof).is_none());
}

/// Lists of hosts, and ranks on them.
fn hosts(mut bytes: &[u8]) {
    let forms = [Form::Slurm, Form::List, Form::Pairs, Form::File];
    let choice = number(&mut bytes, 1) as usize;
    let (ranks, most) = (number(&mut bytes, 2) as u32, number(&mut bytes, 1) as u32);
    let text = String::from_utf8_lossy(bytes);
    let Ok(names) = hosts::parse(forms[choice % 4], &text, choice & 4 != 0) else {
        return;
    };
    let is_name = |name: &String| (1..=255).contains(&name.len()) && !name.starts_with('-');
    assert!(names.len() <= 1 << 20 && names.iter().all(is_name));
    if let Some((layout, hosts)) = hosts::place_ranks(&names, ranks, most, choice as u32 >> 3) {
        assert_eq!((layout.size, layout.hosts as usize), (ranks, hosts.len()));
    }
}

/// A frame with this body.
fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes()[..], body].concat()
}

/// A message of another agent.
fn message(bytes: &[u8]) {
    let Some(message) = AgentMessage::decode(&framed(bytes)) else {
        return;
    };
    assert_eq!(AgentMessage::decode(&message.encode()), Some(message.clone()));
    match message {
        AgentMessage::Start {
            ranges,
            nbrhd_max,
            todo,
            ..
        } => layout(ranges, nbrhd_max, todo),
        AgentMessage::Join { ranges, nbrhd_max, .. } => layout(ranges, nbrhd_max, Vec::new()),
        AgentMessage::Gather { round, length, parts } => {
            let layout = JobLayout::from_hosts(&[0, 1, 0, 2], 0).unwrap();
            if let Ok(Some(parts)) = Gather::default().add(round, length, parts, 3) {
                let all = assemble(&layout, length as usize, &parts);
                assert!(all.is_none_or(|all| all.len() == 4 * length as usize));
            }
        }
        _ => {}
    }
}

/// The layout of a job, and the hosts that the receiver starts.
fn layout(ranges: Vec<RankRange>, nbrhd_max: u32, todo: Vec<Host>) {
    let Some(layout) = JobLayout::new(ranges, nbrhd_max) else {
        return;
    };
    for rank in [0, layout.size / 2, layout.size - 1] {
        assert!(layout.host_of(rank) < layout.hosts);
        assert!((layout.nbrhd_of(rank) as usize) < layout.leaders.len());
    }
    let on_hosts = (0..layout.hosts.min(64)).map(|host| layout.ranks_on(host).len());
    assert!(on_hosts.sum::<usize>() <= layout.size as usize);
    let _ = branches(&layout, 0, todo);
}

/// Messages of a process manager.
fn pmi(mut bytes: &[u8]) {
    let version = [Version::One, Version::Two][number(&mut bytes, 1) as usize % 2];
    while let Ok(Some((place, end))) = stream::first_message(bytes, version) {
        let (text, rest) = (&bytes[place], &bytes[end..]);
        assert!(rest.len() < bytes.len());
        bytes = rest;
        let Some(message) = std::str::from_utf8(text).ok().and_then(|text| version.parse(text)) else {
            continue;
        };
        for name in ["rc", "pmi_version", "rank", "size", "value", "kvsname"] {
            let _ = (message.field(name), message.number(name));
            let _ = check_job_name(message.field(name)).map(|name| assert!(!name.contains([' ', ';', '\n'])));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::conformance::fuzz::{replay, seeds};

    /// Seeds of an older format reach little of a parser.
    fn seeds_decode(name: &str, decodes: impl Fn(&[u8]) -> bool) {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name}");
        for seed in seeds {
            assert!(decodes(&seed), "{name}: {seed:x?}");
        }
    }

    #[test]
    fn parsers_take_any_bytes() {
        seeds_decode("job-control", |seed| rank_message(seed).is_some());
        seeds_decode("job-message", |seed| AgentMessage::decode(&framed(seed)).is_some());
        replay(TARGETS);
    }
}
