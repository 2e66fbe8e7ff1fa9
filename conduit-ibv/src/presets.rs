//! Variables of other libraries that are set for them while this conduit starts.
#![forbid(unsafe_code)]

use crate::ffi::Devices;
use gasnet_sys::env;
use std::ffi::CStr;

/// Variables without which the providers of HCAs lock their queues.
const SINGLE_THREADED: [&CStr; 2] = [c"MLX4_SINGLE_THREADED", c"MLX5_SINGLE_THREADED"];

/// Variables that are set until this is dropped.
///
/// libmlx5 reads its variable whenever a device is opened, and obeys the last value for all queues
/// that anybody in the process makes (rdma-core@65: providers/mlx5/mlx5.c). Queues of MPI, UCX or
/// NCCL must have locks: so each HCA is opened once more when the variable is gone.
pub struct Presets(Vec<&'static CStr>);

impl Presets {
    /// Sets them before a device is opened, except those that the user has set.
    pub fn new(single_threaded: bool) -> Self {
        let unset = SINGLE_THREADED.into_iter().filter(|name| env::get(name).is_none());
        let set: Vec<_> = unset.filter(|_| single_threaded).collect();
        for name in &set {
            env::set(name, c"1");
        }
        Self(set)
    }
}

impl Drop for Presets {
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        for name in &self.0 {
            env::unset(name);
        }
        if let Ok(devices) = Devices::list() {
            (0..devices.count).for_each(|index| drop(devices.open(index)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_left_out_of_single_threaded_programs() {
        drop(Presets::new(false));
        let get = || [c"MLX5_SINGLE_THREADED", c"MLX4_SINGLE_THREADED"].map(env::get);
        env::set(c"MLX4_SINGLE_THREADED", c"0");
        assert_eq!(get(), [None, Some(c"0")]);
        let presets = Presets::new(true);
        assert_eq!(get(), [Some(c"1"), Some(c"0")]);
        drop(presets);
        assert_eq!(get(), [None, Some(c"0")]);
    }
}
