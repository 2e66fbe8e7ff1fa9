//! UCX of this machine: what the conduit would use, for the choice of a conduit and `gasnet_info`.

use crate::ffi::Errors;
use crate::settings::Settings;
use crate::start::{by, open_worker, Opened};
use gasnet_conduit::ProviderReport;
use gasnet_sys::maybe_locked::Sharing;

/// Opens what a process that is alone would use. The error is a message.
fn open(settings: &Settings) -> Result<Opened, String> {
    open_worker((1, 1), Sharing::SEVERAL, settings, None)
}

/// Whether one of the transports has remote DMA over a network.
fn has_remote_dma(resources: &[String]) -> bool {
    let mut resources = resources.iter();
    resources.any(|name| {
        ["rc_", "dc_", "ugni_"]
            .iter()
            .any(|transport| name.starts_with(transport))
    })
}

/// Whether UCX can be used, and has remote DMA. The error is a message.
pub fn probe() -> Result<bool, String> {
    Ok(has_remote_dma(&open(&Settings::read())?.worker.resources()))
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
            let resources = opened.worker.resources();
            let (library, errors) = (opened.library, opened.errors);
            ProviderReport {
                name: format!("UCX {}.{}", library.version.0, library.version.1),
                facts: vec![
                    ("use", "chosen".into()),
                    ("file", library.path.clone()),
                    ("transports", resources.join(", ")),
                    ("puts and gets", "UCX; a flush of the target completes puts".into()),
                    (
                        "atomics",
                        by(settings.atomics, "Active Messages (GASNET_UCX_ATOMICS=0)").into(),
                    ),
                    ("lost peers", by(errors == Errors::Reported, "the node agents").into()),
                ],
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_dma_is_of_networks() {
        let has = |name: &str| has_remote_dma(&["self/memory0".into(), name.into()]);
        assert!(has("rc_verbs/mlx4_0:1") && has("dc_mlx5/mlx5_0:1"));
        assert!(!has("tcp/eth0") && !has("cma/memory") && !has("ud_verbs/mlx4_0:1"));
    }
}
