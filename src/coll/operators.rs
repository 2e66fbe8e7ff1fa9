//! Operators of reductions (GASNet-EX 0.19, "Data types and operations", "User-Defined Reduction
//! Operations").

use std::ffi::c_void;

use super::p2p::Span;
use crate::thread;
use gasnet_conduit::atomic_codes as codes;

/// `gex_Coll_ReduceFn_t`.
pub type UserFn = unsafe extern "C-unwind" fn(*const c_void, *mut c_void, usize, *const c_void);
/// Combines `count` operands of a built-in type: `out[i] = left[i] op right[i]`.
type BuiltIn = fn(*const u8, *const u8, *mut u8, usize);

/// `GEX_DT_USER`.
const DT_USER: u32 = 0x40;
/// `GEX_OP_USER`.
const OP_USER: u32 = 0x4000_0000;
/// `GEX_OP_USER_NC`.
const OP_USER_NC: u32 = 0x8000_0000;

#[derive(Clone, Copy)]
enum Function {
    BuiltIn(BuiltIn),
    User(UserFn, *mut c_void),
}

/// A reduction operator: how two vectors are combined.
#[derive(Clone, Copy)]
pub struct Operator {
    function: Function,
    /// Bytes per element.
    pub element: usize,
    /// Whether operands may be exchanged.
    pub commutes: bool,
}

// SAFETY: the client's function may run on any thread, with the client's pointer (GASNet-EX 0.19,
// "Shall not assume that the executing thread was created by the client").
unsafe impl Send for Operator {}
// SAFETY: as above.
unsafe impl Sync for Operator {}

/// The operator arguments of a reduction call.
#[derive(Clone, Copy, Debug)]
pub struct OperatorArgs {
    /// `gex_DT_t`.
    pub dt: u32,
    /// Bytes per element.
    pub element: usize,
    /// `gex_OP_t`.
    pub op: u32,
    /// The client's function, for `GEX_OP_USER` and `GEX_OP_USER_NC`.
    pub user: Option<UserFn>,
    /// Passed to the client's function.
    pub cdata: *mut c_void,
}

impl Operator {
    /// The operator for `args`, or why they are invalid.
    pub fn new(args: &OperatorArgs) -> Result<Self, String> {
        let user = matches!(args.op, OP_USER | OP_USER_NC);
        let size = match args.dt {
            DT_USER if !user => {
                return Err(format!(
                    "GEX_DT_USER needs GEX_OP_USER or GEX_OP_USER_NC, not operation {:#x}",
                    args.op
                ))
            }
            DT_USER => args.element,
            dt => size_of_type(dt).ok_or_else(|| format!("{dt:#x} is not a GEX_DT_* type"))?,
        };
        if args.element != size || size == 0 {
            return Err(format!(
                "dt_sz is {}, but an element of type {:#x} has {size} bytes",
                args.element, args.dt
            ));
        }
        let function = match args.user {
            Some(function) if user => Function::User(function, args.cdata),
            None if user => return Err("user_op must not be null".into()),
            _ => Function::BuiltIn(built_in(args.dt, args.op).ok_or_else(|| {
                format!(
                    "operation {:#x} is not a GEX_OP_* for reductions of type {:#x}",
                    args.op, args.dt
                )
            })?),
        };
        Ok(Self {
            function,
            element: size,
            commutes: args.op != OP_USER_NC,
        })
    }

    /// `right = left op right`, element by element. Both have the same length, a multiple of an
    /// element.
    pub fn combine(&self, left: Span, right: Span) {
        self.combine_into(left, right, right);
    }

    /// `out = left op right`, element by element. All have the same length, a multiple of an
    /// element. `out` may be `right`.
    pub fn combine_into(&self, left: Span, right: Span, out: Span) {
        debug_assert!(left.bytes == right.bytes && left.bytes == out.bytes && left.bytes % self.element == 0);
        let count = left.bytes / self.element;
        match self.function {
            _ if count == 0 => {}
            Function::BuiltIn(function) => function(left.at, right.at, out.at, count),
            Function::User(function, cdata) => {
                out.copy_from(right);
                let set_reducing = |reducing| {
                    if cfg!(feature = "debug-checks") {
                        thread::current().reducing.set(reducing);
                    }
                };
                set_reducing(true);
                // SAFETY: the client's function, called as the specification says; the vectors are
                // valid by the contract of Span.
                unsafe { function(left.at.cast(), out.at.cast(), count, cdata) };
                set_reducing(false);
            }
        }
    }
}

fn size_of_type(dt: u32) -> Option<usize> {
    (codes::operations(dt) != 0).then(|| codes::bytes(dt))
}

fn each<T: Copy>(left: *const u8, right: *const u8, out: *mut u8, count: usize, op: impl Fn(T, T) -> T) {
    for i in 0..count {
        // SAFETY: all vectors have `count` elements (contract of `combine_into`); those of the
        // client may be unaligned.
        let (a, b) = unsafe {
            (
                left.cast::<T>().add(i).read_unaligned(),
                right.cast::<T>().add(i).read_unaligned(),
            )
        };
        // SAFETY: as above.
        unsafe { out.cast::<T>().add(i).write_unaligned(op(a, b)) };
    }
}

macro_rules! integers {
    ($type:ty, $op:expr) => {
        match $op {
            0x1 => |l, r, o, n| each::<$type>(l, r, o, n, |a, b| a & b),
            0x2 => |l, r, o, n| each::<$type>(l, r, o, n, |a, b| a | b),
            0x4 => |l, r, o, n| each::<$type>(l, r, o, n, |a, b| a ^ b),
            0x8 => |l, r, o, n| each::<$type>(l, r, o, n, <$type>::wrapping_add),
            0x20 => |l, r, o, n| each::<$type>(l, r, o, n, <$type>::wrapping_mul),
            op => return ordered!($type, op),
        }
    };
}

macro_rules! floats {
    ($type:ty, $op:expr) => {
        match $op {
            0x8 => |l, r, o, n| each::<$type>(l, r, o, n, |a, b| a + b),
            0x20 => |l, r, o, n| each::<$type>(l, r, o, n, |a, b| a * b),
            op => return ordered!($type, op),
        }
    };
}

macro_rules! ordered {
    ($type:ty, $op:expr) => {
        match $op {
            0x40 => Some(|l, r, o, n| each::<$type>(l, r, o, n, |a, b| if a < b { a } else { b })),
            0x80 => Some(|l, r, o, n| each::<$type>(l, r, o, n, |a, b| if a > b { a } else { b })),
            _ => None,
        }
    };
}

/// The function for `GEX_DT_*` and `GEX_OP_*` bits: AND, OR, XOR, ADD, MULT, MIN, MAX; the first
/// three only for integers.
fn built_in(dt: u32, op: u32) -> Option<BuiltIn> {
    Some(match dt {
        1 => integers!(i32, op),
        2 => integers!(u32, op),
        4 => integers!(i64, op),
        8 => integers!(u64, op),
        16 => floats!(f32, op),
        32 => floats!(f64, op),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined<T: Copy>(dt: u32, op: u32, left: T, right: T) -> Option<T> {
        let args = OperatorArgs {
            dt,
            element: size_of::<T>(),
            op,
            user: None,
            cdata: std::ptr::null_mut(),
        };
        let operator = Operator::new(&args).ok()?;
        let (mut left, mut right) = ([left; 3], [right; 3]);
        let bytes = 3 * size_of::<T>();
        let span = |at: *mut T| Span { at: at.cast(), bytes };
        operator.combine(span(left.as_mut_ptr()), span(right.as_mut_ptr()));
        Some(right[2])
    }

    #[test]
    fn built_in_operations_compute() {
        let results = [0x1, 0x2, 0x4, 0x8, 0x20, 0x40, 0x80].map(|op| combined(4, op, 12i64, 10));
        assert_eq!(results, [8, 14, 6, 22, 120, 10, 12].map(Some));
        let results = [0x1, 0x2, 0x4, 0x8, 0x20, 0x40, 0x80].map(|op| combined(32, op, 1.5f64, -2.0));
        assert_eq!(
            results,
            [None, None, None, Some(-0.5), Some(-3.0), Some(-2.0), Some(1.5)]
        );
        assert_eq!(combined(2, 0x8, u32::MAX, 2), Some(1));
        assert_eq!(combined(1, 0x40, -1i32, 1), Some(-1));
        assert_eq!(combined(2, 0x40, u32::MAX, 1), Some(1));
        // SUB, two bits, no bit, an unknown type, a wrong size.
        assert_eq!(combined(4, 0x10, 1i64, 1), None);
        assert_eq!(combined(4, 0x3, 1i64, 1), None);
        assert_eq!(combined(4, 0, 1i64, 1), None);
        assert_eq!(combined(3, 8, 1i64, 1), None);
        assert_eq!(combined(1, 8, 1i64, 1), None);
    }
}
