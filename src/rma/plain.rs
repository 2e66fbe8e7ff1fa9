//! The usual access over a network: between host memory and the attached segment of a process that
//! shares no memory with this one, which the thread has reached before ([`crate::recent`]). A few
//! loads find its way to the conduit; all others are for [`super::put`] and [`super::get`].

use super::native::{self, Native};
use super::{Access, Manner, Started};
use crate::endpoint;
use crate::event::{Op, OpKind};
use crate::runtime;
use crate::thread;
use crate::types::Location;
use gasnet_conduit::{JobRank, RemoteSegment};

/// A way, and what is to take it.
pub struct Plain {
    via: Native<'static>,
    segment: RemoteSegment,
    access: Access,
}

impl Plain {
    /// The way between `bytes` bytes of host memory at `local` and those at `remote` of the
    /// primordial endpoint of `rank`, if it is this one.
    #[inline(always)]
    pub fn find(rank: JobRank, remote: usize, local: *mut u8, bytes: usize) -> Option<Self> {
        let segment = thread::current().recent.find(rank, remote, bytes)?;
        if bytes == 0 || !endpoint::is_attached(0) {
            return None;
        }
        let rt = runtime::get();
        let rma = rt.abilities.rma?;
        let access = Access {
            peer: Location { rank, ep: 0 },
            remote,
            local,
            device: None,
            bytes,
        };
        Some(Self {
            via: Native { rt, rma },
            segment,
            access,
        })
    }

    /// Starts a put.
    #[inline(always)]
    pub fn put(&self, op: &'static Op, kind: OpKind) {
        let manner = Manner {
            immediate: false,
            kind,
            copy: false,
        };
        let started = native::put(self.via, &self.access, self.segment, op, manner);
        debug_assert_eq!(started, Ok(Started::UnderWay));
    }

    /// Starts a get.
    #[inline(always)]
    pub fn get(&self, op: &'static Op) {
        let started = native::get(self.via, &self.access, self.segment, op, false);
        debug_assert_eq!(started, Ok(Started::UnderWay));
    }
}
