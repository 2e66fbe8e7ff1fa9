//! Reports of `gasnet_info` about the providers of this machine. Each is selected and opened as in
//! a job, so that the facts are those of a job.

use crate::ffi::{mr_mode, Functions, Info, Infos};
use crate::presets;
use crate::provider::{self, Needs, Verdict};
use crate::rma::Abilities;
use crate::select;
use crate::settings::{Choice, Settings};
use crate::start::{self, Opened};
use crate::versions::{self, End, Version};
use gasnet_conduit::ProviderReport;

/// The providers: those that can be used, in libfabric's order, then the others.
pub fn providers(choice: &Choice) -> Result<Vec<ProviderReport>, String> {
    let library = presets::library()?;
    let all: Vec<Info> = Infos::everything(library)?.iter().collect();
    let chosen = select::select(library, choice, Needs::default()).map(|selected| selected.info.provider());
    let mut reports = Vec::new();
    for name in provider::different(all.iter().map(Info::provider)) {
        let (text, rest) = match opened(library, choice, &name) {
            Ok(rest) if chosen.as_ref() == Ok(&name) => ("chosen".into(), rest),
            Ok(rest) => (
                verdict_text(provider::verdict(choice, &name, version(library, &all, &name))),
                rest,
            ),
            Err(why) => (format!("impossible: {}", reason(&all, &name, why)), Vec::new()),
        };
        let facts = std::iter::once(("use", text)).chain(rest).collect();
        reports.push(ProviderReport { name, facts });
    }
    // A stable sort.
    reports.sort_by_key(|report| report.facts.len() == 1);
    Ok(reports)
}

fn verdict_text(verdict: Verdict) -> String {
    match verdict {
        Verdict::Allowed => "possible: libfabric lists another one first".into(),
        Verdict::NotNamed => "possible: GASNET_OFI_PROVIDER names another one".into(),
        Verdict::NotIncluded => "excluded: GASNET_OFI_PROVIDER_INCLUDE lacks it".into(),
        Verdict::Excluded => "excluded: GASNET_OFI_PROVIDER_EXCLUDE has it".into(),
        Verdict::Defective(defect) => format!("excluded: it {}; {}", defect.what, defect.remedy()),
    }
}

/// The version of a provider.
fn version(library: &Functions, all: &[Info], name: &str) -> Version {
    let info = all.iter().find(|info| info.provider() == name);
    info.map_or((library.version.0, library.version.1, 0), |info| {
        versions::of(info, library)
    })
}

/// Why a provider that libfabric lists cannot be used.
fn reason(all: &[Info], name: &str, why: String) -> String {
    let mut infos = all.iter().filter(|info| info.provider() == name);
    let Some(reliable) = infos.find(|info| info.is_reliable()) else {
        return "it has no reliable connectionless endpoints (FI_EP_RDM)".into();
    };
    let [(_, modes), ..] = reliable.names();
    if modes.contains("FI_MSG_PREFIX") {
        return "it demands FI_MSG_PREFIX".into();
    }
    why
}

/// Facts about the conduit over a provider, or the reason why it cannot use the provider.
fn opened(library: &'static Functions, choice: &Choice, name: &str) -> Result<Vec<(&'static str, String)>, String> {
    let choice = Choice {
        provider: Some(name.to_owned()),
        ..choice.clone()
    };
    let selected = select::select(library, &choice, Needs::default())?;
    if selected.info.provider() != name {
        return Err(format!("{} takes its place", selected.info.provider()));
    }
    let (has_multi_receive, has_atomics, version) = (selected.multi_receive, selected.atomics, selected.version);
    let end = versions::end(name, version);
    let settings = Settings::read();
    // The most that a job asks for.
    let threads = versions::threads(&selected.info, true, true);
    let Opened {
        mut endpoint,
        abilities,
        receives,
    } = start::open_selected(selected, &choice, &settings, threads)?;
    let info = endpoint.info();
    let mut facts = vec![
        ("device", info.domain()),
        (
            "Active Messages",
            receive_text(receives.takes_many(), has_multi_receive, end),
        ),
    ];
    facts.extend(operations(
        abilities,
        start::atomics_by_messages(has_atomics, version, &choice, &endpoint),
        info,
    ));
    for (label, names) in info.names() {
        let text = match label {
            _ if names.is_empty() => "no demands".into(),
            "threading" if threads.take_turns => format!("{names}; a lock admits one thread"),
            _ => names,
        };
        facts.push((label, text));
    }
    let author = if info.mr_mode() & mr_mode::PROV_KEY == 0 {
        "random"
    } else {
        "the provider's"
    };
    facts.push(("keys", format!("{} bytes, {author}", info.key_bytes())));
    let wait = match endpoint.wake {
        Some(_) => "descriptor (FI_WAIT_FD)",
        None => "none: waiting ranks poll",
    };
    facts.push(("wait object", wait.into()));
    let (messages, puts) = start::inject_limits(&settings, info);
    facts.push((
        "injected",
        format!("messages of {messages} bytes, puts of {puts} bytes"),
    ));
    let largest = match info.max_bytes() {
        most if most >= isize::MAX as usize => "any".into(),
        most => format!("{most} bytes"),
    };
    facts.push(("largest operation", largest));
    // SAFETY: called once; then the regions of the receive buffers are dropped before the rest.
    unsafe { endpoint.close() };
    drop(receives);
    Ok(facts)
}

fn receive_text(takes_many: bool, has_multi_receive: bool, end: End) -> String {
    match (takes_many, has_multi_receive) {
        (false, true) if end == End::Unknown => {
            "a receive buffer per message (FI_MULTI_RECV of this version ends buffers too early)".into()
        }
        (true, _) => "receive buffers for many messages (FI_MULTI_RECV)".into(),
        (false, true) => "a receive buffer per message (GASNET_OFI_RECEIVE_BUFF_SIZE=recv)".into(),
        (false, false) => "a receive buffer per message (no FI_MULTI_RECV)".into(),
    }
}

/// Implementations of the operations on memory.
fn operations(abilities: Abilities, atomics_by_messages: Option<&str>, info: &Info) -> [(&'static str, String); 4] {
    let puts = if abilities.rma {
        "provider (FI_RMA with FI_DELIVERY_COMPLETE)".into()
    } else {
        "Active Messages (no FI_RMA with FI_DELIVERY_COMPLETE)".into()
    };
    let long = if abilities.announces {
        let bytes = info.cq_data_bytes();
        format!("puts with notification (FI_REMOTE_CQ_DATA of {bytes} bytes)")
    } else if !abilities.rma {
        "messages (no FI_RMA)".into()
    } else {
        "puts above 32 KiB, each followed by a message (no FI_REMOTE_CQ_DATA)".into()
    };
    let device_memory = if abilities.rma && info.takes_device_memory() {
        "provider, of segments that it registers (FI_HMEM)".into()
    } else {
        "Active Messages (no FI_HMEM, or not wanted: GASNET_OFI_HMEM)".into()
    };
    let atomics = match atomics_by_messages {
        Some(why) => format!("Active Messages ({why})"),
        None if crate::atomics::are_all(abilities.atomics) => "provider".into(),
        None => "provider, but Active Messages in domains with an operation that it lacks".into(),
    };
    [
        ("puts and gets", puts),
        ("device memory", device_memory),
        ("Longs above 8 KiB", long),
        ("atomics", atomics),
    ]
}
