//! The table of requests of a source queue: what posts wait for, and which descriptor comes back.

use gasnet_gni_abi as abi;

use crate::object::Ep;

/// Most requests of a queue: an entry has 20 bits for the index.
pub const MOST: u32 = 1 << 20;

pub struct Request {
    pub descriptor: *mut abi::gni_post_descriptor_t,
    /// The program's, while the descriptor has the library's.
    pub post_id: u64,
    pub endpoint: Option<&'static Ep>,
    /// `GNI_CQMODE_*` of events that are still to come.
    pub waiting: u16,
    /// Events that were read, but not passed to `GNI_GetCompleted`.
    pub fetched: u16,
    /// Its endpoint was destroyed.
    pub cancelled: bool,
    next_free: u32,
}

pub struct Requests {
    table: Box<[Request]>,
    free: u32,
    used: u32,
}

const NONE: u32 = u32::MAX;

impl Requests {
    pub fn new(count: u32) -> Requests {
        let count = count.clamp(1, MOST);
        let request = |index: u32| Request {
            descriptor: std::ptr::null_mut(),
            post_id: 0,
            endpoint: None,
            waiting: 0,
            fetched: 0,
            cancelled: false,
            next_free: if index + 1 == count { NONE } else { index + 1 },
        };
        Requests {
            table: (0..count).map(request).collect(),
            free: 0,
            used: 0,
        }
    }

    /// The index of a free request, which is taken. None: the table is full.
    #[inline(always)]
    pub fn take(&mut self) -> Option<(u32, &mut Request)> {
        let index = self.free;
        let request = self.table.get_mut(index as usize)?;
        self.free = request.next_free;
        self.used += 1;
        Some((index, request))
    }

    #[inline(always)]
    pub fn give(&mut self, index: u32) {
        let request = &mut self.table[index as usize];
        (request.waiting, request.fetched, request.endpoint) = (0, 0, None);
        request.next_free = self.free;
        self.free = index;
        self.used -= 1;
    }

    /// A request that is in use.
    #[inline(always)]
    pub fn get(&mut self, index: u32) -> Option<&mut Request> {
        self.table
            .get_mut(index as usize)
            .filter(|request| request.waiting | request.fetched != 0)
    }

    /// Cancels those of an endpoint: their events will be dropped.
    pub fn cancel(&mut self, endpoint: &Ep) {
        for request in &mut self.table {
            if request.endpoint.is_some_and(|one| std::ptr::eq(one, endpoint)) {
                request.cancelled = true;
                request.endpoint = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_gives_nothing_until_one_is_given_back() {
        let mut requests = Requests::new(2);
        let (first, one) = requests.take().unwrap();
        one.waiting = 1;
        assert!(requests.get(first).is_some());
        assert!(requests.take().is_some() && requests.take().is_none());
        requests.give(first);
        assert!(requests.get(first).is_none());
        assert_eq!(requests.take().unwrap().0, first);
    }
}
