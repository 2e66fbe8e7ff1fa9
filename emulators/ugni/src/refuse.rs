//! How functions refuse: a return code and, of misuse, a message.

use gasnet_gni_abi as abi;

/// Reason why a function refuses.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    pub code: abi::gni_return_t,
    /// Empty if the caller did nothing wrong.
    pub why: &'static str,
}

pub type Outcome<T = ()> = Result<T, Refusal>;

/// A refusal that a correct program may meet.
pub const fn quiet(code: abi::gni_return_t) -> Refusal {
    Refusal { code, why: "" }
}

pub const fn invalid(why: &'static str) -> Refusal {
    Refusal {
        code: abi::GNI_RC_INVALID_PARAM,
        why,
    }
}

pub const fn refusal(code: abi::gni_return_t, why: &'static str) -> Refusal {
    Refusal { code, why }
}

/// The return code of a function, and the message.
#[inline(always)]
pub fn code(function: &str, outcome: Outcome) -> abi::gni_return_t {
    match outcome {
        Ok(()) => abi::GNI_RC_SUCCESS,
        Err(Refusal { code, why: "" }) => code,
        Err(Refusal { code, why }) => {
            complain(function, code, why);
            code
        }
    }
}

/// The return code of a function that does this.
#[inline(always)]
pub fn call(function: &str, run: impl FnOnce() -> Outcome) -> abi::gni_return_t {
    code(function, run())
}

#[cold]
pub fn complain(function: &str, code: abi::gni_return_t, why: &str) {
    let name = abi::RETURN_CODES.get(code as usize).unwrap_or(&"?");
    eprintln!("emulator of uGNI: {function}: {why}: {name}");
}

/// Ends the process after misuse that no return code expresses.
#[cold]
pub fn die(function: &str, why: &str) -> ! {
    eprintln!("emulator of uGNI: {function}: {why}");
    std::process::abort();
}

/// Reads the value behind a caller's pointer.
pub fn load<T: Copy>(pointer: *const T, why: &'static str) -> Outcome<T> {
    if pointer.is_null() {
        return Err(invalid(why));
    }
    // SAFETY: the caller of the C function passes a valid pointer or NULL.
    Ok(unsafe { pointer.read() })
}

/// Writes a value behind a caller's pointer.
#[inline(always)]
pub fn store<T>(pointer: *mut T, value: T, why: &'static str) -> Outcome {
    if pointer.is_null() {
        return Err(invalid(why));
    }
    // SAFETY: the caller of the C function passes a valid pointer or NULL.
    unsafe { pointer.write(value) };
    Ok(())
}
