//! The families of checks, as macros that make a test of each check for each conduit.

/// Makes a test of each check for each conduit: `name: constructor;`.
#[macro_export]
macro_rules! conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make,
        identity every_size exactly_once one_way largest_both_ways replies_only busy_recovers many_threads
        first_contact stop_with_traffic stop_in_a_signal_handler peer_lost
    })* };
}

/// The same for networks that do not notice the end of a peer: the node agents do.
#[macro_export]
macro_rules! lossless_conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make,
        identity every_size exactly_once one_way largest_both_ways replies_only busy_recovers many_threads
        first_contact stop_with_traffic stop_in_a_signal_handler
    })* };
}

/// The same for conduits that put and get.
#[macro_export]
macro_rules! rma_conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make,
        every_put_and_get source_is_free constants_are_put before_packets many_at_once keys_are_checked
    })* };
}

/// The same for conduits with small puts.
#[macro_export]
macro_rules! small_put_conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make, small_puts })* };
}

/// The same for networks without keys, which reach all that a segment's owner does.
#[macro_export]
macro_rules! keyless_rma_conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make,
        every_put_and_get source_is_free constants_are_put before_packets many_at_once
    })* };
}

/// The same for conduits with puts that notify.
#[macro_export]
macro_rules! notify_conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make,
        notified_after_data notified_source_is_free notified_busy_recovers notified_many_at_once notified_by_threads
    })* };
}

/// The same for conduits with send buffers, and puts that notify.
#[macro_export]
macro_rules! send_buffers_conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make,
        reserved_packets_arrive reserved_buffers_hold_nothing_up notified_from_send_buffers
    })* };
}

/// The same for conduits that gather.
#[macro_export]
macro_rules! gather_conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make,
        gathered_packets_arrive gathered_busy_recovers
    })* };
}

/// The same for conduits with a barrier.
#[macro_export]
macro_rules! barrier_conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make,
        barrier_waits_for_all barrier_ands_words
    })* };
}

/// The same for conduits with words.
#[macro_export]
macro_rules! words_conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make, words_come_whole words_make_barriers })* };
}

/// The same for conduits with remote atomics.
#[macro_export]
macro_rules! atomics_conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make, atomics_lose_nothing })* };
}

/// The same for a conduit's [`crate::Bootstrap`], made by a [`super::MakeBootstrap`].
#[macro_export]
macro_rules! bootstrap_conformance_tests {
    ($($name:ident: $make:expr;)*) => { $($crate::each_check! { $name $make,
        bootstrap_gathers bootstrap_leaves_alone
    })* };
}

/// A test of each of these checks.
#[doc(hidden)]
#[macro_export]
macro_rules! each_check {
    ($name:ident $make:expr, $($check:ident)*) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $check() {
                    $crate::conformance::$check(&$make);
                }
            )*
        }
    };
}
