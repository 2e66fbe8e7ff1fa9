//! The exchange at the start.
#![forbid(unsafe_code)]

use gasnet_conduit_util::record;

record! {
    /// Record of a process in the exchange at the start.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct BootRecord {
        pub vp: u32,
        /// The same in all processes.
        pub credits: u32,
        pub putget: bool,
        /// Whether it cannot start.
        pub has_failed: bool,
        pub has_barrier: bool,
        /// The name of the barrier, hashed. The same in all processes.
        pub barrier: u32,
    }
}
