//! The variables of a conduit, one row each: the constant, the row of the table, the field of a
//! struct, and what reads it.
#![forbid(unsafe_code)]

use super::{FromValue, Key};

/// Declares the environment variables of a conduit under a heading, and the structs that hold their
/// values.
///
/// ```
/// use gasnet_conduit::config::count;
///
/// gasnet_conduit::settings! {
///     "Network: example";
///
///     /// The environment's settings.
///     #[derive(Clone, Debug)]
///     pub struct Settings(config, pub cores: usize) {
///         /// A constant and a row of the table.
///         LIMIT: u32 = count("GASNET_EXAMPLE_LIMIT", "9", 1, 99, "Read elsewhere, by its key.");
///         // A field with the name and the type of the value as well.
///         DEPTH: usize = count("GASNET_EXAMPLE_DEPTH", "64", 1, 1 << 20, "Most puts in flight.") => pub depth;
///         // A field made of the value, which has the field's name, of fields above it and of inputs.
///         SLOTS: Option<usize> = count("GASNET_EXAMPLE_SLOTS", "", 1, 64, "Slots of a peer.")
///             .unset_means("GASNET_EXAMPLE_DEPTH, at most one for each core").optional()
///             => pub slots: usize = slots.unwrap_or(depth.min(cores))
///             => pub has_own_slots: bool = config.is_set(&SLOTS);
///     }
/// }
///
/// let settings = Settings::read(8);
/// assert_eq!((settings.depth, settings.slots, settings.has_own_slots), (64, 8, false));
/// assert_eq!(TABLE.len(), 3);
/// ```
///
/// It makes the constants, of type [`Key`]; `TABLE`, with all rows; for each struct `read`, of the
/// environment, and `of`, of any configuration; and a test of the rows. `config` names the
/// configuration in expressions; inputs of `read` follow it and are fields, too.
#[macro_export]
macro_rules! settings {
    ($section:literal; $(
        $(#[$attribute:meta])*
        $vis:vis struct $name:ident($config:ident $(, $input_vis:vis $input:ident: $input_type:ty)*) {
            $(
                $(#[$note:meta])*
                $key:ident: $type:ty = $row:expr
                    $(=> $field_vis:vis $field:ident $(: $field_type:ty = $value:expr)?)*;
            )*
        }
    )+) => {
        $($(
            $(#[$note])*
            pub const $key: $crate::config::Key<$type> = $row;
        )*)+

        /// All variables.
        pub static TABLE: &[$crate::config::Variable] = &[$($($key.variable.section($section),)*)+];

        $(
            $(#[$attribute])*
            $vis struct $name {
                $($input_vis $input: $input_type,)*
                $($($field_vis $field: $crate::settings!(@type $type $(, $field_type)?),)*)*
            }

            impl $name {
                /// Reads the environment.
                pub fn read($($input: $input_type),*) -> Self {
                    Self::of($crate::config::get() $(, $input)*)
                }

                #[allow(unused_variables, reason = "a second field of a row may leave out the value")]
                fn of($config: &$crate::config::Config $(, $input: $input_type)*) -> Self {
                    $($(
                        let $field: $type = $config.get_or_default(&$key);
                        $(let $field: $field_type = $value;)?
                    )*)*
                    Self { $($input,)* $($($field,)*)* }
                }
            }
        )+

        #[cfg(test)]
        #[test]
        fn every_row_is_valid() {
            $($($crate::config::check_row(&$key);)*)+
        }
    };
    (@type $type:ty) => { $type };
    (@type $type:ty, $field_type:ty) => { $field_type };
}
pub use settings;

/// For tests of tables.
///
/// # Panics
/// If the default of a variable is invalid or not of the type of its key, or if its description is
/// not one line that ends with a full stop.
pub fn check_row<T: FromValue>(key: &Key<T>) {
    let variable = &key.variable;
    assert!(variable.has_valid_default(), "the default of {}", variable.name);
    assert!(
        T::from_value(&variable.default_value()).is_some(),
        "the type of {}",
        variable.name
    );
    let is_prose = variable.help.ends_with('.') && !variable.help.contains('\n');
    assert!(is_prose, "the description of {}", variable.name);
}
