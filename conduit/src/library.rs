//! Opening libraries that are no dependency of ours: those of devices' vendors, and those for NUMA and PMIx. A machine without them gets a sentence, not an
//! error of the loader.

use std::ffi::{c_char, c_int, c_void, CStr, CString};

use crate::config::{self, Config, Key};
use gasnet_sys::process;

/// A library, as what needs it knows it.
#[derive(Debug)]
pub struct Vendor {
    /// What it is for.
    pub what: &'static str,
    /// Names to look for, the best first.
    pub names: &'static [&'static CStr],
    /// Where it comes from.
    pub source: &'static str,
    /// The variable that names another one.
    pub variable: &'static Key<Option<String>>,
    /// A function that it must have.
    pub probe: &'static CStr,
}

/// Of `GEX_MK_CLASS_CUDA_UVA`.
pub static CUDA: Vendor = Vendor {
    what: "CUDA driver library",
    names: &[c"libcuda.so.1"],
    source: "it comes with NVIDIA's driver (Debian: package libcuda1), not with the CUDA toolkit",
    variable: &config::CUDA_LIBRARY,
    probe: c"cuInit",
};

/// Of `GEX_MK_CLASS_HIP`.
pub static HIP: Vendor = Vendor {
    what: "HIP runtime library",
    names: &[
        c"libamdhip64.so",
        c"libamdhip64.so.7",
        c"libamdhip64.so.6",
        c"libamdhip64.so.5",
    ],
    source: "it comes with AMD's ROCm (Debian: package libamdhip64-5; ROCm itself: hip-runtime-amd)",
    variable: &config::HIP_LIBRARY,
    probe: c"hipInit",
};

/// Of `GEX_MK_CLASS_ZE`.
pub static ZE: Vendor = Vendor {
    what: "Level Zero loader library",
    names: &[c"libze_loader.so.1"],
    source: "it comes with Intel's Level Zero (Debian: package libze1)",
    variable: &config::ZE_LIBRARY,
    probe: c"zeInit",
};

/// Of segments that lie near their ranks.
pub static NUMA: Vendor = Vendor {
    what: "NUMA library",
    names: &[c"libnuma.so.1"],
    source: "it comes with numactl (Debian: package libnuma1)",
    variable: &config::NUMA_LIBRARY,
    probe: c"numa_available",
};

/// Of jobs that a process manager with PMIx starts.
pub static PMIX: Vendor = Vendor {
    what: "PMIx library",
    names: &[c"libpmix.so.2", c"libpmix.so"],
    source: "it comes with the process manager that started this process, or with OpenPMIx (Debian: package libpmix2)",
    variable: &config::PMIX_LIBRARY,
    probe: c"PMIx_Init",
};

/// An open library. It is never closed: vendors' libraries have threads and exit handlers.
#[derive(Debug)]
pub struct Library {
    handle: *mut c_void,
    vendor: &'static Vendor,
    name: String,
}

fn loader_says() -> String {
    // SAFETY: gives a string of the loader's that is valid until this thread's next call of it.
    let text: *mut c_char = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".into();
    }
    // SAFETY: not null, ends with NUL.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Library {
    /// Opens a vendor's library. The error says what was looked for, what the loader said, and what to install.
    pub fn open(vendor: &'static Vendor, config: &Config) -> Result<Self, String> {
        if process::is_static() {
            return Err(format!(
                "the {} cannot be opened by a statically linked program; link it without -static",
                vendor.what
            ));
        }
        let wanted = config.get(vendor.variable);
        let wanted: Vec<CString> = wanted.into_iter().filter_map(|name| CString::new(name).ok()).collect();
        let names: Vec<&CStr> = if wanted.is_empty() {
            vendor.names.to_vec()
        } else {
            wanted.iter().map(CString::as_c_str).collect()
        };
        let mut said = Vec::new();
        for name in &names {
            // SAFETY: the name ends with NUL; the library's own start-up code is the vendor's.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if !handle.is_null() {
                return Ok(Self {
                    handle,
                    vendor,
                    name: name.to_string_lossy().into_owned(),
                });
            }
            said.push((name.to_string_lossy(), loader_says()));
        }
        // A library that is there and cannot be opened says more than one that is not there.
        let there = said.iter().find(|(name, why)| !why.starts_with(&**name));
        let why = there.or(said.first()).map_or("", |(_, why)| why);
        let names: Vec<&str> = said.iter().map(|(name, _)| &**name).collect();
        Err(format!(
            "the {} ({}) cannot be opened: {why}; {}; {} names another one",
            vendor.what,
            names.join(", "),
            vendor.source,
            vendor.variable.variable.name
        ))
    }

    /// The address of a function of the library.
    pub fn function(&self, name: &CStr) -> Result<*mut c_void, String> {
        // SAFETY: the handle is open, the name ends with NUL.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if address.is_null() {
            return Err(format!(
                "{} has no function {} ({}); it is too old, or not the {}; {}",
                self.name,
                name.to_string_lossy(),
                loader_says(),
                self.vendor.what,
                self.vendor.source
            ));
        }
        Ok(address)
    }

    /// The file that was opened.
    pub fn path(&self) -> String {
        let Ok(address) = self.function(self.vendor.probe) else {
            return self.name.clone();
        };
        // SAFETY: all-zero bytes are a valid `Dl_info`: it has pointers only.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is writable; any address may be asked for.
        let known: c_int = unsafe { libc::dladdr(address, &raw mut info) };
        if known == 0 || info.dli_fname.is_null() {
            return self.name.clone();
        }
        // SAFETY: not null, ends with NUL, valid as long as the library is open.
        unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned()
    }
}

/// For `gasnet_info`: of each class of devices, and for NUMA, which library a program would use here, or why none. Opens the libraries that there are.
pub fn found(config: &Config) -> Vec<(&'static str, String)> {
    let state = |vendor: &'static Vendor| match Library::open(vendor, config) {
        Ok(library) => match library.function(vendor.probe) {
            Ok(_) => library.path(),
            Err(why) => format!("none: {why}"),
        },
        Err(why) => format!("none: {why}"),
    };
    [&CUDA, &HIP, &ZE, &NUMA]
        .map(|vendor| (vendor.what, state(vendor)))
        .into_iter()
        .collect()
}

/// Declares a table of functions of a library, and how to fill it.
#[macro_export]
macro_rules! vendor_functions {
    ($(#[$about:meta])* $table:ident of $vendor:ident { $($name:ident = $symbol:literal ($($arg:ty),*) $(-> $result:ty)?;)* }) => {
        $(#[$about])*
        pub struct $table {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl $table {
            /// The functions, once for the process. The error is a sentence.
            fn get() -> Result<&'static Self, String> {
                static TABLE: std::sync::OnceLock<Result<$table, String>> = std::sync::OnceLock::new();
                TABLE.get_or_init(Self::open).as_ref().map_err(Clone::clone)
            }

            fn open() -> Result<Self, String> {
                let library = $crate::library::Library::open(&$crate::library::$vendor, $crate::config::get())?;
                Ok(Self {$(
                    $name: {
                        let address = library.function($symbol)?;
                        // SAFETY: the vendor documents a function of this name with this signature.
                        unsafe {
                            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($arg),*) $(-> $result)?>(address)
                        }
                    },
                )*})
            }
        }
    };
}
pub use crate::vendor_functions as functions;

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Vendor = Vendor {
        what: "test",
        names: &[],
        source: "it comes from nowhere",
        variable: &config::CUDA_LIBRARY,
        probe: c"none",
    };
    static NOWHERE: Vendor = Vendor {
        names: &[c"libgasnet-no-such-library.so.1", c"libgasnet-nor-this-one.so"],
        ..BASE
    };
    static LIBC: Vendor = Vendor {
        names: &[c"libc.so.6"],
        ..BASE
    };

    #[test]
    fn what_is_missing_is_said() {
        let config = Config::defaults(&[]);
        let why = Library::open(&NOWHERE, &config).unwrap_err();
        for part in [
            "no-such-library",
            "nor-this-one",
            "from nowhere",
            "GASNET_CUDA_LIBRARY",
            "test",
        ] {
            assert!(why.contains(part), "{why}");
        }
        let library = Library::open(&LIBC, &config).unwrap();
        assert!(library.function(c"malloc").is_ok());
        assert!(library
            .function(c"gasnet_no_such_function")
            .unwrap_err()
            .contains("gasnet_no_such_function"));
        assert_eq!(library.path(), "libc.so.6");
    }
}
