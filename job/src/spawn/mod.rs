//! Starting the program of a job on other hosts.
#![forbid(unsafe_code)]

mod contact;
pub mod hosts;
pub mod script;
pub mod ssh;

pub use contact::Contact;
