//! Environment variables of this conduit.
#![forbid(unsafe_code)]

use gasnet_conduit::config::{choice, count, flag, text, Key, Scope, Spawner, Variable};

/// The section of the reference page.
const SECTION: &str = "Network: elan";

/// File of the shim.
pub static SHIM: Key<Option<String>> = text(
    "GASNET_ELAN_SHIM",
    "Library to open instead of libgasnet_elan_shim.so: a path, or a name that the loader searches.",
)
.names_file()
.ours();
pub const SPAWNER: Key<Option<Spawner>> = choice("GASNET_ELAN_SPAWNER", "auto", "As GASNET_SPAWNER, for elan.")
    .scope(Scope::Launcher)
    .ours();
pub const NETWORKDEPTH: Key<u32> = count(
    "GASNET_NETWORKDEPTH",
    "1024",
    1,
    1 << 20,
    "Puts under way from a process: more need more memory of the NIC. Rounded up to a multiple of 64.",
)
.scope(Scope::Rank);
pub const NBI_THROTTLE: Key<Option<u32>> = count(
    "GASNET_NBI_THROTTLE",
    "",
    1,
    1 << 20,
    "Puts and gets of the client that are under way from a process.",
)
.scope(Scope::Rank)
.unset_means("GASNET_NETWORKDEPTH")
.optional();
pub const PUTGET: Key<bool> = flag(
    "GASNET_ELAN_PUTGET",
    true,
    "Use libelan's puts and gets. If not, puts and gets go by Active Messages.",
)
.ours();
pub const AM_CREDITS: Key<Option<u32>> = count(
    "GASNET_ELAN_AM_CREDITS",
    "",
    1,
    1 << 16,
    "Requests, and as many replies, from a process to a peer that the peer has not received. Each takes a slot of a \
     queue at the peer.",
)
.ours()
.unset_means("4096 for all peers together, but from 2 to 64")
.optional();
pub const BUFFERS: Key<Option<u32>> = count(
    "GASNET_ELAN_BUFFERS",
    "",
    8,
    1 << 16,
    "Buffers of 65 KiB for long messages and copies, half of them to send. Fewer where libelan's memory is short.",
)
.ours()
.scope(Scope::Rank)
.unset_means("LIBELAN_TPORT_NSLOTS")
.optional();

/// All of them.
pub static TABLE: &[Variable] = &Variable::all_in(
    SECTION,
    &[
        SHIM.variable,
        SPAWNER.variable,
        NETWORKDEPTH.variable,
        NBI_THROTTLE.variable,
        PUTGET.variable,
        AM_CREDITS.variable,
        BUFFERS.variable,
    ],
);
