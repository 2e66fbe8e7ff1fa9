//! What `gasnet_info` and the universal library learn of UCX before a start.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::Conduit;
use gasnet_conduit_ucx::Ucx;
use gasnet_sys::env;

#[test]
fn this_machine_is_reported() {
    let conduit = Ucx::new();
    env::set(c"GASNET_CONDUIT", c"ucx");
    config::install(Config::load(&[conduit.variables()]).unwrap());
    let providers = conduit.providers();
    let [report] = &providers[..] else {
        panic!("{providers:?}");
    };
    assert_eq!(report.facts[0], ("use", "chosen".to_owned()), "{report:?}");
    let transports = report.facts.iter().find(|(label, _)| *label == "transports");
    assert!(transports.is_some_and(|(_, text)| text.contains("tcp/")), "{report:?}");
    conduit.probe(2).unwrap();
}
