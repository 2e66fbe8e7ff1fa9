//! The MPI of this machine, for `gasnet_info`. Nothing initialises it.
#![forbid(unsafe_code)]

use crate::ffi::Found;
use gasnet_conduit::ProviderReport;

/// The report about the library that the conduit would open here.
pub fn report() -> ProviderReport {
    let (name, facts) = match Found::load() {
        Err(why) => ("MPI", vec![("use", format!("impossible: {why}"))]),
        Ok(found) => {
            let about = found.about();
            let device = about.device.iter().map(|device| ("device", device.clone()));
            let mut facts = vec![
                ("use", "where it is named (GASNET_CONDUIT=mpi, gasnetrun_mpi)".into()),
                ("file", about.path.clone()),
                ("ABI", about.abi.into()),
            ];
            facts.extend(device);
            (&*about.version, facts)
        }
    };
    ProviderReport {
        name: name.into(),
        facts,
    }
}
