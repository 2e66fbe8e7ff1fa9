//! UCX of this machine: what the conduit would use, for the choice of a conduit and `gasnet_info`.

use crate::settings::Settings;
use crate::start::{by, open_worker, Opened};
use gasnet_conduit::ProviderReport;
use gasnet_sys::maybe_locked::Sharing;

/// Opens what a process that is alone would use. The error is a message.
fn open(settings: &Settings) -> Result<Opened, String> {
    open_worker((1, 1), Sharing::SEVERAL, settings, None)
}

/// Transports with remote DMA over a network, by the beginnings of their names.
const REMOTE_DMA: [&str; 3] = ["rc_", "dc_", "ugni_"];

/// Whether UCX, if it can be used, has remote DMA. The error is a message.
pub fn has_remote_dma() -> Result<bool, String> {
    let worker = open(&Settings::read())?.worker;
    Ok(REMOTE_DMA.iter().any(|transport| worker.has_transport(transport)))
}

/// The report about UCX.
pub fn report() -> ProviderReport {
    let settings = Settings::read();
    match open(&settings) {
        Err(why) => ProviderReport {
            name: "UCX".into(),
            facts: vec![("use", format!("impossible: {why}"))],
        },
        Ok(opened) => {
            let library = opened.library;
            ProviderReport {
                name: format!("UCX {}.{}", library.version.0, library.version.1),
                facts: vec![
                    ("use", "chosen".into()),
                    ("file", library.path.clone()),
                    ("transports", opened.worker.resources.join(", ")),
                    ("puts and gets", "UCX; a flush of the target completes puts".into()),
                    (
                        "atomics",
                        by(settings.atomics, "Active Messages (GASNET_UCX_ATOMICS=0)").into(),
                    ),
                    ("lost peers", by(opened.reports_errors, "the node agents").into()),
                ],
            }
        }
    }
}
