//! Libraries that are opened at run time, because a machine may lack them: those of device vendors,
//! and those for NUMA and PMIx.

use std::ffi::{c_int, c_void, CStr, CString, OsStr};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;

use libloading::os::unix as loader;

use crate::config::{self, Config, Key};
use gasnet_sys::process;

/// How to find a library.
#[derive(Debug)]
pub struct Vendor {
    /// Purpose of the library.
    pub what: &'static str,
    /// File names to try, in this order.
    pub names: &'static [&'static CStr],
    /// Origin of the library: a phrase for messages, without a full stop.
    pub source: &'static str,
    /// The variable that names another file.
    pub variable: &'static Key<Option<String>>,
    /// A function that every version has.
    pub probe: &'static CStr,
}

/// For `GEX_MK_CLASS_CUDA_UVA`.
pub static CUDA: Vendor = Vendor {
    what: "CUDA driver library",
    names: &[c"libcuda.so.1"],
    source: "It comes with NVIDIA's driver (Debian: package libcuda1), not with the CUDA toolkit",
    variable: &config::CUDA_LIBRARY,
    probe: c"cuInit",
};

/// For `GEX_MK_CLASS_HIP`.
pub static HIP: Vendor = Vendor {
    what: "HIP runtime library",
    names: &[
        c"libamdhip64.so",
        c"libamdhip64.so.7",
        c"libamdhip64.so.6",
        c"libamdhip64.so.5",
    ],
    source: "It comes with AMD's ROCm (Debian: package libamdhip64-5; ROCm itself: hip-runtime-amd)",
    variable: &config::HIP_LIBRARY,
    probe: c"hipInit",
};

/// For `GEX_MK_CLASS_ZE`.
pub static ZE: Vendor = Vendor {
    what: "Level Zero loader library",
    names: &[c"libze_loader.so.1"],
    source: "It comes with Intel's Level Zero (Debian: package libze1)",
    variable: &config::ZE_LIBRARY,
    probe: c"zeInit",
};

/// For segments on the NUMA nodes of their ranks.
pub static NUMA: Vendor = Vendor {
    what: "NUMA library",
    names: &[c"libnuma.so.1"],
    source: "It comes with numactl (Debian: package libnuma1)",
    variable: &config::NUMA_LIBRARY,
    probe: c"numa_available",
};

/// For jobs that a process manager with PMIx starts.
pub static PMIX: Vendor = Vendor {
    what: "PMIx library",
    names: &[c"libpmix.so.2", c"libpmix.so"],
    source: "It comes with the process manager that started this process, or with OpenPMIx (Debian: package libpmix2)",
    variable: &config::PMIX_LIBRARY,
    probe: c"PMIx_Init",
};

/// An open library. It is never closed: vendors' libraries have threads and exit handlers.
#[derive(Debug)]
pub struct Library {
    handle: ManuallyDrop<loader::Library>,
    /// The result of `dlopen`, as a number.
    raw: usize,
    vendor: &'static Vendor,
    name: String,
}

impl Library {
    /// Opens the library. The error has the file names, the loader's reason, and what to install.
    pub fn open(vendor: &'static Vendor, config: &Config) -> Result<Self, String> {
        Self::open_one(vendor, config, vendor.names)
    }

    /// The same with other file names to try, in this order, unless the variable names a file.
    pub fn open_one(vendor: &'static Vendor, config: &Config, names: &[impl AsRef<CStr>]) -> Result<Self, String> {
        if process::is_static() {
            return Err(format!(
                "a statically linked program cannot open the {}; link it without -static",
                vendor.what
            ));
        }
        debug_assert!(vendor.variable.variable.names_file, "{}", vendor.variable.variable.name);
        let wanted = config.get_or_default(vendor.variable);
        let wanted: Vec<CString> = wanted.into_iter().filter_map(|name| CString::new(name).ok()).collect();
        let names: Vec<&CStr> = if wanted.is_empty() {
            names.iter().map(AsRef::as_ref).collect()
        } else {
            wanted.iter().map(CString::as_c_str).collect()
        };
        let mut failures = Vec::new();
        for name in &names {
            match Self::open_file(vendor, name, 0) {
                Ok(library) => return Ok(library),
                Err(why) => failures.push((name.to_string_lossy(), why.to_string())),
            }
        }
        // The reason for a file that exists is more useful than that for a missing one, which
        // starts with the name.
        let existing = failures.iter().find(|(name, why)| !why.starts_with(&**name));
        let why = existing.or(failures.first()).map_or("", |(_, why)| why);
        let names: Vec<&str> = failures.iter().map(|(name, _)| &**name).collect();
        Err(format!(
            "cannot open the {} ({}): {why}. {}. {} selects another file",
            vendor.what,
            names.join(", "),
            vendor.source,
            vendor.variable.variable.name
        ))
    }

    /// The library, if the program is linked to it, under any name, or to a library that takes the
    /// place of some of its functions.
    pub fn of_process(vendor: &'static Vendor) -> Option<Self> {
        if process::is_static() {
            return None;
        }
        let library = Self::of_handle(vendor, c"the program", loader::Library::this());
        library.probe().is_ok().then_some(library)
    }

    /// The library, if this process has it already, under one of its names: another library may
    /// have brought it.
    pub fn loaded(vendor: &'static Vendor) -> Option<Self> {
        let mut names = vendor.names.iter();
        names.find_map(|name| Self::open_file(vendor, name, libc::RTLD_NOLOAD).ok())
    }

    /// The library in a file that is not among its names. None if it cannot be opened or, when it
    /// `is_loaded` already, is not.
    pub fn in_file(vendor: &'static Vendor, name: &CStr, is_loaded: bool) -> Option<Self> {
        Self::open_file(vendor, name, if is_loaded { libc::RTLD_NOLOAD } else { 0 }).ok()
    }

    fn open_file(vendor: &'static Vendor, name: &CStr, flags: c_int) -> Result<Self, libloading::Error> {
        let file = OsStr::from_bytes(name.to_bytes());
        let flags = loader::RTLD_NOW | loader::RTLD_LOCAL | flags;
        // SAFETY: runs the initialisers of the vendor's library.
        let library = unsafe { loader::Library::open(Some(file), flags) }?;
        Ok(Self::of_handle(vendor, name, library))
    }

    fn of_handle(vendor: &'static Vendor, name: &CStr, library: loader::Library) -> Self {
        let raw = library.into_raw();
        Self {
            // SAFETY: the handle that was just taken out of the same type.
            handle: ManuallyDrop::new(unsafe { loader::Library::from_raw(raw) }),
            raw: raw as usize,
            vendor,
            name: name.to_string_lossy().into_owned(),
        }
    }

    /// A function of the library, as a pointer of type `F`.
    ///
    /// # Safety
    /// `F` is a pointer type, and the type of that function.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        // SAFETY: the caller vouches for the type; the library stays open.
        let symbol = unsafe { self.handle.get::<F>(name.to_bytes_with_nul()) };
        symbol.map(|symbol| *symbol).map_err(|why| {
            format!(
                "{} has no function {} ({why}). It is too old, or not the {}. {}",
                self.name,
                name.to_string_lossy(),
                self.vendor.what,
                self.vendor.source
            )
        })
    }

    /// A function of the library with a version of its symbol, for libraries whose functions change
    /// with it. None if the library lacks this version.
    ///
    /// # Safety
    /// `F` is a pointer type, and the type of that version of the function.
    pub unsafe fn versioned<F: Copy>(&self, name: &CStr, version: &CStr) -> Option<F> {
        assert_eq!(size_of::<F>(), size_of::<*const c_void>(), "defect: not a pointer type");
        // SAFETY: a handle of an open library, and terminated strings.
        let address = unsafe { libc::dlvsym(self.raw as *mut c_void, name.as_ptr(), version.as_ptr()) };
        // SAFETY: not null; the caller vouches for the type; the library stays open.
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }

    /// The address of the vendor's probe function.
    fn probe(&self) -> Result<*const c_void, String> {
        // SAFETY: a pointer that is not called.
        unsafe { self.function(self.vendor.probe) }
    }

    /// The path of the file that was opened.
    pub fn path(&self) -> String {
        let Ok(address) = self.probe() else {
            return self.name.clone();
        };
        // SAFETY: all-zero bytes are a valid `Dl_info`: it has pointers only.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is writable; any address is allowed.
        let known: c_int = unsafe { libc::dladdr(address, &raw mut info) };
        if known == 0 || info.dli_fname.is_null() {
            return self.name.clone();
        }
        // SAFETY: not null, terminated, valid while the library is open.
        unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned()
    }
}

/// For `gasnet_info`: the library that a program would use here for each class of devices and for
/// NUMA, or the reason why there is none. Opens the libraries.
pub fn found(config: &Config) -> Vec<(&'static str, String)> {
    let state = |vendor: &'static Vendor| match Library::open(vendor, config) {
        Ok(library) => match library.probe() {
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

/// Declares a table of functions of a library, and a function that fills it.
#[macro_export]
macro_rules! vendor_functions {
    ($(#[$about:meta])* $table:ident of $vendor:ident {
        $($name:ident = $symbol:literal ($($arg:ty),*) $(-> $result:ty)?;)*
    }) => {
        $(#[$about])*
        pub struct $table {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl $table {
            /// The functions, looked up once per process. The error is a message.
            fn get() -> Result<&'static Self, String> {
                static TABLE: std::sync::OnceLock<Result<$table, String>> = std::sync::OnceLock::new();
                TABLE.get_or_init(Self::open).as_ref().map_err(Clone::clone)
            }

            fn open() -> Result<Self, String> {
                let library = $crate::library::Library::open(&$crate::library::$vendor, $crate::config::get())?;
                Ok(Self {$(
                    // SAFETY: the vendor documents a function of this name with this signature.
                    $name: unsafe { library.function::<unsafe extern "C" fn($($arg),*) $(-> $result)?>($symbol)? },
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
        source: "It comes from nowhere",
        variable: &config::CUDA_LIBRARY,
        probe: c"none",
    };
    static NOWHERE: Vendor = Vendor {
        names: &[c"libgasnet-no-such-library.so.1", c"libgasnet-nor-this-one.so"],
        ..BASE
    };
    static PROGRAM: Vendor = Vendor {
        probe: c"getpid",
        ..BASE
    };
    static LIBC: Vendor = Vendor {
        names: &[c"libc.so.6"],
        ..BASE
    };

    #[test]
    fn errors_name_what_is_missing() {
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
        // SAFETY: pointers that are not called.
        let find = |name| unsafe { library.function::<*const c_void>(name) };
        assert!(find(c"malloc").is_ok());
        let why = find(c"gasnet_no_such_function").unwrap_err();
        assert!(
            why.contains("gasnet_no_such_function (") && why.contains("undefined symbol"),
            "{why}"
        );
        // SAFETY: pointers that are not called.
        let versioned = |version| unsafe { library.versioned::<*const c_void>(c"malloc", version) };
        assert!(versioned(c"GLIBC_2.2.5").is_some() || !cfg!(target_arch = "x86_64"));
        assert!(versioned(c"GLIBC_1.0").is_none());
        assert_eq!(library.path(), "libc.so.6");
        assert!(Library::loaded(&LIBC).is_some() && Library::loaded(&NOWHERE).is_none());
        assert!(Library::of_process(&LIBC).is_none(), "its probe is in no library");
        let program = Library::of_process(&PROGRAM).unwrap();
        // SAFETY: a pointer that is not called.
        assert!(unsafe { program.function::<*const c_void>(c"malloc") }.is_ok());
        let names = [c"libgasnet-no-such-library.so.1", c"libc.so.6"];
        assert!(Library::open_one(&NOWHERE, &config, &names).is_ok());
        let in_file = |name, is_loaded| Library::in_file(&NOWHERE, name, is_loaded).is_some();
        assert!(in_file(c"libc.so.6", true) && in_file(c"libc.so.6", false));
        assert!(!in_file(c"libutil.so.1", true) && in_file(c"libutil.so.1", false));
    }
}
