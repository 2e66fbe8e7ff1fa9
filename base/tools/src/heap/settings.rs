//! `GASNET_MALLOC_*`, read at the first allocation. The table of variables of the runtime reports
//! invalid values later.

use std::ffi::CStr;
use std::sync::OnceLock;

use super::Fill;
use crate::parse;

/// The settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub init: Option<Fill>,
    pub clobber: Option<Fill>,
    pub leak_all: bool,
    pub scan_freed: bool,
    pub extra: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings. Does not allocate.
pub(super) fn get() -> &'static Settings {
    SETTINGS.get_or_init(read)
}

fn value(name: &CStr) -> Option<&'static str> {
    gasnet_sys::env::get(name)?.to_str().ok()
}

fn flag(name: &CStr) -> bool {
    value(name).is_some_and(|v| parse::boolean(v).unwrap_or(false))
}

fn fill(name: &CStr) -> Fill {
    value(name).and_then(|v| Fill::parse(v).ok()).unwrap_or(Fill::NAN)
}

fn read() -> Settings {
    let scan_freed = flag(c"GASNET_MALLOC_SCANFREED");
    Settings {
        init: flag(c"GASNET_MALLOC_INIT").then(|| fill(c"GASNET_MALLOC_INITVAL")),
        clobber: (scan_freed || flag(c"GASNET_MALLOC_CLOBBER")).then(|| fill(c"GASNET_MALLOC_CLOBBERVAL")),
        leak_all: scan_freed || flag(c"GASNET_MALLOC_LEAKALL"),
        scan_freed,
        extra: flag(c"GASNET_MALLOC_EXTRACHECK"),
    }
}
