//! The environment variables of this conduit, and their values.
#![forbid(unsafe_code)]

use gasnet_conduit::config::{choice, count, flag, settings, text, Scope, Spawner};

settings! {
    "Network: elan";

    /// The environment's settings.
    #[derive(Clone, Copy, Debug)]
    pub struct Settings(config) {
        SHIM: Option<String> = text("GASNET_ELAN_SHIM",
            "Library to open instead of libgasnet_elan_shim.so: a path, or a name that the loader searches.")
            .names_file().ours();
        SPAWNER: Option<Spawner> = choice("GASNET_ELAN_SPAWNER", "auto", "As GASNET_SPAWNER, for elan.")
            .scope(Scope::Launcher).ours();
        NETWORKDEPTH: u32 = count("GASNET_NETWORKDEPTH", "1024", 1, 1 << 20,
            "Most puts in flight from a process, rounded up to a multiple of 64. More puts need more memory of the \
             NIC.")
            .scope(Scope::Rank) => pub depth;
        NBI_THROTTLE: Option<u32> = count("GASNET_NBI_THROTTLE", "", 1, 1 << 20,
            "Most puts and gets of the client in flight from a process.")
            .scope(Scope::Rank).unset_means("GASNET_NETWORKDEPTH").optional()
            => pub most_operations: u32 = most_operations.unwrap_or(depth);
        PUTGET: bool = flag("GASNET_ELAN_PUTGET", true,
            "Use libelan's puts and gets. If not, puts and gets go by Active Messages.").ours() => pub putget;
        AM_CREDITS: Option<u32> = count("GASNET_ELAN_AM_CREDITS", "", 1, 1 << 16,
            "Most requests from a process to a peer that the peer has not received; replies have the same limit. Each \
             takes a slot of a queue at the peer.")
            .ours().unset_means("4096 for all peers together, but from 2 to 64").optional() => pub credits;
        BUFFERS: Option<u32> = count("GASNET_ELAN_BUFFERS", "", 8, 1 << 16,
            "Buffers of 65 KiB for long messages and copies; half of them send. A process has fewer if libelan's \
             memory is short.")
            .ours().scope(Scope::Rank).unset_means("LIBELAN_TPORT_NSLOTS").optional() => pub buffers;
    }
}
