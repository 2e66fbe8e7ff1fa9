//! The providers of networks, as the conduits report them.

use super::json;
use gasnet_conduit::config::{self, Config, Variable};
use gasnet_conduit::ProviderReport;
use gasnet_conduit_any::gasneti_conduits;
use std::fmt::Write as _;

/// The reports of each conduit that has providers, in the current environment, whose variables are
/// in `tables`.
pub fn reports(tables: &[&'static [Variable]]) -> Vec<(&'static str, Vec<ProviderReport>)> {
    config::install(Config::load(tables).unwrap_or_else(|_| Config::defaults(tables)));
    let report = |conduit: &&'static dyn gasnet_conduit::Conduit| (conduit.identity().name, conduit.providers());
    let reports = gasneti_conduits().iter().map(report);
    reports.filter(|(_, providers)| !providers.is_empty()).collect()
}

/// A paragraph for each provider.
pub fn as_text(reports: &[(&'static str, Vec<ProviderReport>)]) -> String {
    let mut out = String::new();
    if reports.is_empty() {
        out += "\nNo conduit of this program has providers\n";
    }
    for (conduit, providers) in reports {
        let _ = writeln!(out, "\nProviders of conduit {conduit}");
        for provider in providers {
            let _ = writeln!(out, "\n{}", provider.name);
            for line in super::lines(&provider.facts).lines() {
                let _ = writeln!(out, "  {line}");
            }
        }
    }
    out
}

/// An object of conduits, each an object of providers, each an object of facts.
pub fn as_json(reports: &[(&'static str, Vec<ProviderReport>)]) -> String {
    let provider = |report: &ProviderReport| (report.name.clone(), super::object(&report.facts));
    let conduit =
        |(name, providers): &(&'static str, Vec<ProviderReport>)| (*name, json::object(providers.iter().map(provider)));
    json::object(reports.iter().map(conduit))
}
