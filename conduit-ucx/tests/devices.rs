//! Memory of devices for which UCX has no module: the library of Debian has none.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::start_info;
use gasnet_conduit::{Conduit, Device, JobRank, SegmentMemory, Stop};
use gasnet_conduit_ucx::Ucx;

#[test]
fn memory_without_a_module_is_left_to_messages() {
    let conduit = Ucx::with_transports(c"tcp");
    config::install(Config::load(&[conduit.variables()]).unwrap());
    let all = [JobRank(0)];
    let network = conduit.start(&start_info(JobRank(0), &all, &<[u8]>::to_vec)).unwrap();
    let segments = network.abilities().segments.unwrap();
    let room = vec![0_u8; 4096];
    for device in [Device::Cuda(0), Device::Hip(0), Device::LevelZero(0)] {
        let memory = SegmentMemory {
            device: Some(device),
            ..SegmentMemory::host(room.as_ptr() as usize, room.len())
        };
        assert_eq!(segments.register_device(&memory, &|| None), None, "{device}");
    }
    network.stop(Stop::Orderly);
}
