//! Describes what a stalled rank waits for, for the stall watchdog ([`crate::stall`]).

use std::fmt::Write as _;

use crate::barrier;
use crate::event::{Category, Op, OpKind};
use crate::rma::transfer;
use crate::runtime::{self, Runtime};
use crate::stall::{self, Reason};
use gasnet_conduit::Class;

/// Maximum number of transfers in a report.
const MAX_LINES: usize = 8;

/// Describes what a wait is for: the rest of "Waits for …".
pub fn describe(reason: Reason) -> String {
    let rt = runtime::get();
    match reason {
        Reason::Event(event) => match event.operation() {
            Some(op) => of_operation("an event", op),
            None => "an event".into(),
        },
        Reason::Implicit(op, _) => of_operation("implicit operations", op),
        Reason::SomeEvent(count, _) => format!("one of {count} events{}", outstanding_parts(None)),
        Reason::AllEvents(count, _) => format!("all of {count} events{}", outstanding_parts(None)),
        Reason::NamedBarrier => named_barrier(rt),
        Reason::Room(class, rank) => {
            let what = match class {
                Class::Request => "request",
                Class::Reply => "reply",
            };
            format!("space for a {what} to rank {rank}, which has not handled earlier messages: does it poll?")
        }
        Reason::Conduit(rank) => format!(
            "space in the {} conduit for a transfer with rank {rank}",
            rt.conduit.name
        ),
        Reason::Source(rank) => format!("the local completion of a put to rank {rank}"),
        Reason::Collective(name) => format!("a blocking collective ({}){}", stall::algorithm(name), stall::notes()),
        Reason::Condition => format!(
            "a condition of the client (GASNET_BLOCKUNTIL){}",
            outstanding_parts(None)
        ),
    }
}

/// The outstanding parts of an operation, by category and in detail.
fn of_operation(what: &str, op: &'static Op) -> String {
    let names = [
        (Category::Put, "put"),
        (Category::Local, "local completion"),
        (Category::Source, "local completion"),
        (Category::Get, "get"),
        (Category::Rmw, "atomic"),
        (Category::Coll, "collective"),
    ];
    let open: Vec<String> = names
        .iter()
        .map(|(category, name)| (op.count(*category), name))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}{}", if count == 1 { "" } else { "s" }))
        .collect();
    format!(
        "{what} ({} outstanding){}",
        open.join(", "),
        outstanding_parts(Some(op))
    )
}

/// Outstanding collectives and transfers of this process or of one operation, to append to a
/// message.
fn outstanding_parts(op: Option<&'static Op>) -> String {
    let mut text = String::new();
    if op.is_none_or(|op| op.count(Category::Coll) > 0) {
        text += &stall::notes();
    }
    for open in transfer::open(op, MAX_LINES) {
        let (verb, side) = match open.kind {
            OpKind::Get => ("get", "from"),
            OpKind::Rmw => ("atomic", "on"),
            _ => ("put", "to"),
        };
        let _ = write!(
            text,
            "; a {verb} {side} rank {}: {} of {} bytes outstanding",
            open.peer, open.left, open.bytes
        );
    }
    text
}

fn named_barrier(rt: &Runtime) -> String {
    let what = "gasnet_barrier_wait: the barrier";
    let number = barrier::of_job().entered();
    let late = rt.late_for_barrier(number);
    if late.is_empty() {
        format!(
            "{what} (number {number}): all ranks have entered it, but a message from another neighbourhood is missing"
        )
    } else {
        format!("{what} (number {number}): {} not entered it", stall::list(&late))
    }
}
