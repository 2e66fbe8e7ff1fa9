//! NUMA placement of segments: on a machine with several NUMA nodes, a rank that may run on the
//! cores of one node only asks the kernel to take its segment's pages from there, regardless of
//! first touch: a neighbour's put may be first. Pages of other ranks are placed by first touch. It
//! is a preference: memory of other nodes is taken when that node has none.

use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};

use gasnet_conduit::config;
use gasnet_conduit::library::functions;
use gasnet_sys::cpus;

/// The kernel's mode of a policy.
const MPOL_PREFERRED: c_int = 1;
/// Nodes that a mask can name here; the kernel's own limit is 1024.
const NODES: usize = 1024;
const WORD: usize = c_ulong::BITS as usize;

functions! {
    /// Of libnuma.
    #[derive(Debug)]
    Functions of NUMA {
        available = c"numa_available" () -> c_int;
        node_of_cpu = c"numa_node_of_cpu" (c_int) -> c_int;
        bind = c"mbind" (*mut c_void, c_ulong, c_int, *const c_ulong, c_ulong, c_uint) -> c_long;
    }
}

/// Prefers this rank's node for the `bytes` at `base`, an untouched mapping. Returns an error
/// message only if a GASNET_NUMA variable is set.
pub fn prefer_own_node(base: usize, bytes: usize) -> Result<(), String> {
    let config = config::get();
    if !config.get(&config::NUMA) {
        return Ok(());
    }
    if !config.is_set(&config::NUMA_LIBRARY)
        && !has_several_nodes(&std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default())
    {
        return Ok(());
    }
    let bound = bind_to_node(base, bytes);
    // Without it things are slower, not wrong.
    if config.is_set(&config::NUMA) || config.is_set(&config::NUMA_LIBRARY) {
        return bound;
    }
    Ok(())
}

fn bind_to_node(base: usize, bytes: usize) -> Result<(), String> {
    let numa = Functions::get()?;
    // SAFETY: no preconditions; the library's other functions need this call first.
    if unsafe { (numa.available)() } < 0 {
        return Err("the kernel has no NUMA policies".into());
    }
    let node_of = |cpu| {
        // SAFETY: any number may be asked for.
        unsafe { (numa.node_of_cpu)(cpu as c_int) }
    };
    let nodes = cpus::numbers().into_iter().map(node_of);
    let Some(node) = common_node(nodes) else { return Ok(()) };
    let mut mask: [c_ulong; NODES / WORD] = [0; NODES / WORD];
    mask[node / WORD] |= 1 << (node % WORD);
    // The kernel uses one bit less than the number that it is given.
    // SAFETY: a mapping of ours; a policy changes no memory. The mask has that many bits.
    let result = unsafe {
        (numa.bind)(
            base as *mut c_void,
            bytes as c_ulong,
            MPOL_PREFERRED,
            mask.as_ptr(),
            NODES as c_ulong + 1,
            0,
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(format!(
        "cannot bind segment memory to node {node}: {}",
        std::io::Error::last_os_error()
    ))
}

/// Whether the kernel's list of nodes names more than one.
fn has_several_nodes(list: &str) -> bool {
    list.contains(['-', ','])
}

/// The node that all are on, if they are on one that is known.
fn common_node(mut nodes: impl Iterator<Item = c_int>) -> Option<usize> {
    let first = nodes.next()?;
    let known = usize::try_from(first).ok().filter(|&node| node < NODES)?;
    nodes.all(|node| node == first).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_known_node_or_none() {
        assert_eq!(common_node([1, 1, 1].into_iter()), Some(1));
        assert_eq!(common_node([1, 0].into_iter()), None);
        assert_eq!(common_node([-1, -1].into_iter()), None);
        assert_eq!(common_node([].into_iter()), None);
        assert_eq!(common_node([NODES as c_int].into_iter()), None);
    }

    #[test]
    fn machines() {
        assert!(has_several_nodes("0-1\n") && has_several_nodes("0,2\n"));
        assert!(!has_several_nodes("0\n") && !has_several_nodes(""));
    }
}
