//! Parsers of the values of words.

use std::time::Duration;

use emulator_common::unregistrable::Unregistrable;
use emulator_common::words::{either, fields, nth, number, within};

use gasnet_ibv_abi as abi;

use super::{Ability, Call, CqeError, Failing, Link, Odp, Operation, PortDown, Raised};
use crate::ports::port_and;
use crate::shm::Port;
use crate::text as names;

pub fn link(text: &str) -> Result<Link, String> {
    either(("ib", Link::InfiniBand), ("roce", Link::Roce))(text)
}

pub fn us(text: &str) -> Result<Duration, String> {
    number(text).map(Duration::from_micros)
}

pub fn ms(text: &str) -> Result<Duration, String> {
    number(text).map(Duration::from_millis)
}

pub fn device_or_all(text: &str) -> Result<Option<u32>, String> {
    match text {
        "" => Ok(None),
        device => number(device).map(Some),
    }
}

/// Names between commas.
pub fn abilities(text: &str) -> Result<Vec<Ability>, String> {
    let ability = |name| match name {
        "atomic" => Ok(Ability::Atomics),
        "xrc" => Ok(Ability::Xrc),
        "srq" => Ok(Ability::Srq),
        "odp" => Ok(Ability::Odp),
        _ => Err(format!("{name}: must be atomic, xrc, srq or odp")),
    };
    text.split(',').map(ability).collect()
}

pub fn atomics(text: &str) -> Result<u32, String> {
    match text {
        "none" => Ok(abi::IBV_ATOMIC_NONE),
        "hca" => Ok(abi::IBV_ATOMIC_HCA),
        "glob" => Ok(abi::IBV_ATOMIC_GLOB),
        _ => Err("must be none, hca or glob".to_string()),
    }
}

/// Bytes that stay together; 64 by default.
pub fn relaxed(text: &str) -> Result<usize, String> {
    match text {
        "" => Ok(64),
        bytes => within(1, 1 << 20)(bytes),
    }
}

/// Names between commas.
pub fn odp_bits(text: &str) -> Result<Odp, String> {
    let mut odp = Odp {
        implicit: false,
        operations: 0,
    };
    for name in text.split(',') {
        odp.operations |= match name {
            "implicit" => {
                odp.implicit = true;
                0
            }
            "send" => abi::IBV_ODP_SUPPORT_SEND,
            "recv" => abi::IBV_ODP_SUPPORT_RECV,
            "write" => abi::IBV_ODP_SUPPORT_WRITE,
            "read" => abi::IBV_ODP_SUPPORT_READ,
            "atomic" => abi::IBV_ODP_SUPPORT_ATOMIC,
            "srq" => abi::IBV_ODP_SUPPORT_SRQ_RECV,
            _ => {
                return Err(format!(
                    "{name}: must be implicit, send, recv, write, read, atomic or srq"
                ))
            }
        };
    }
    Ok(odp)
}

/// Memory that cannot be registered, and `:ERRNO`; EFAULT by default.
pub fn reg_invalid(text: &str) -> Result<(Unregistrable, i32), String> {
    let named = text
        .rsplit_once(':')
        .and_then(|(what, name)| Some((what, errno(name).ok()?)));
    let (what, errno) = named.unwrap_or((text, libc::EFAULT));
    Ok((Unregistrable::parse(what)?, errno))
}

/// `ANSWERED[:STARTED]`
pub fn rd_atom(text: &str) -> Result<[u8; 2], String> {
    let (answered, started) = text.split_once(':').unwrap_or((text, text));
    Ok([number(answered)?, number(started)?])
}

/// `BYTES[:QKEY]`
pub fn ud_outsider(text: &str) -> Result<Option<(u32, Option<u32>)>, String> {
    let (bytes, qkey) = match text.split_once(':') {
        Some((bytes, qkey)) => (bytes, Some(number(qkey)?)),
        None => (text, None),
    };
    Ok(Some((number(bytes)?, qkey)))
}

/// `FIRST[:COUNT]`
pub fn ud_error(text: &str) -> Result<Option<(u64, u64)>, String> {
    let (first, count) = text.split_once(':').unwrap_or((text, "1"));
    Ok(Some((number(first)?, number(count)?)))
}

pub fn qp_event(text: &str) -> Result<Option<(u32, u64)>, String> {
    let [name, number] = fields(text)?;
    Ok(Some((event_named(name)?, nth(number)?)))
}

/// Calls that fail, and their errno.
pub fn failing(text: &str) -> Result<Option<(u64, i32)>, String> {
    let [calls, name] = fields(text)?;
    Ok(Some((number(calls)?, errno(name)?)))
}

/// `CALL:FIRST:COUNT:ERRNO`
pub fn failing_call(text: &str) -> Result<Failing, String> {
    let [call, first, count, name] = fields(text)?;
    let call = match call {
        "create_cq" => Call::CreateCq,
        "create_qp" => Call::CreateQp,
        "create_srq" => Call::CreateSrq,
        "fork_init" => Call::ForkInit,
        "open_device" => Call::OpenDevice,
        "open_xrcd" => Call::OpenXrcd,
        "reg_mr" => Call::RegMr,
        _ => {
            return Err(
                "must begin with create_cq, create_qp, create_srq, fork_init, open_device, open_xrcd or reg_mr"
                    .to_string(),
            )
        }
    };
    Ok(Failing {
        call,
        first: nth(first)?,
        count: number(count)?,
        errno: errno(name)?,
    })
}

pub fn errno(name: &str) -> Result<i32, String> {
    Ok(match name {
        "EAGAIN" => libc::EAGAIN,
        "EFAULT" => libc::EFAULT,
        "EHOSTUNREACH" => libc::EHOSTUNREACH,
        "EINVAL" => libc::EINVAL,
        "EIO" => libc::EIO,
        "ENETUNREACH" => libc::ENETUNREACH,
        "ENOMEM" => libc::ENOMEM,
        "ENOSYS" => libc::ENOSYS,
        "EOPNOTSUPP" => libc::EOPNOTSUPP,
        "ETIMEDOUT" => libc::ETIMEDOUT,
        other => number(other)?,
    })
}

pub fn event_named(name: &str) -> Result<u32, String> {
    names::event_named(name).ok_or_else(|| format!("{name} is no event"))
}

pub fn raised(text: &str) -> Result<Raised, String> {
    let fields: Vec<&str> = text.split(':').collect();
    let (3 | 4) = fields.len() else {
        return Err("needs NAME:DEVICE:AFTER_MS[:PORT]".to_string());
    };
    Ok(Raised {
        kind: event_named(fields[0])?,
        device: number(fields[1])?,
        port: fields
            .get(3)
            .map_or(Ok(1), |port| within(1, u32::MAX)(port))
            .map_err(|_| "ports count from 1")?,
        after: ms(fields[2])?,
    })
}

/// `DEVICE:PORT:AFTER_MS[:REST]`: an event of a port that changes it.
pub fn port_change<'a>(kind: &str, text: &'a str) -> Result<(Port, Raised, &'a str), String> {
    let (port, rest) = port_and(text)?;
    let (after, rest) = rest.split_once(':').unwrap_or((rest, ""));
    let raised = Raised {
        kind: event_named(kind)?,
        device: port.device,
        port: port.port + 1,
        after: ms(after)?,
    };
    Ok((port, raised, rest))
}

pub fn port_down(text: &str) -> Result<PortDown, String> {
    let fields: Vec<&str> = text.split(':').collect();
    let (3 | 4) = fields.len() else {
        return Err("needs DEVICE:PORT:AFTER_MS[:UP_MS]".to_string());
    };
    let up = fields.get(3).map(|text| ms(text)).transpose()?;
    let port: u32 = number(fields[1])?;
    Ok(PortDown {
        device: number(fields[0])?,
        port: port.checked_sub(1).ok_or("ports count from 1")?,
        after: ms(fields[2])?,
        up,
    })
}

pub fn operation_named(name: &str) -> Result<Operation, String> {
    Ok(match name {
        "send" => Operation::Send,
        "write" => Operation::Write,
        "read" => Operation::Read,
        "atomic" => Operation::Atomic,
        _ => return Err("must begin with send, write, read or atomic".to_string()),
    })
}

pub fn lost_completion(text: &str) -> Result<(Operation, u64), String> {
    let [operation, number] = fields(text)?;
    Ok((operation_named(operation)?, nth(number)?))
}

pub fn cqe_error(text: &str) -> Result<CqeError, String> {
    let [operation, of_kind, status] = fields(text)?;
    let operation = operation_named(operation)?;
    let status = match number(status) {
        Ok(status) => status,
        Err(_) => names::status_named(status).ok_or("ends in no status of completions")?,
    };
    Ok(CqeError {
        operation,
        nth: nth(of_kind)?,
        status,
    })
}
