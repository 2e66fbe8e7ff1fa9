//! Errors of the start.
#![forbid(unsafe_code)]

use std::fmt;

/// A failure of the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    /// The failed step, the reason, and a remedy.
    pub message: String,
}

impl JobError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    /// For a system call that failed.
    pub(crate) fn io(what: &str, why: &std::io::Error) -> Self {
        Self::new(format!("{what} failed: {why}"))
    }
}

/// Fails the start.
pub(crate) fn refuse<T>(message: impl Into<String>) -> Result<T, JobError> {
    Err(JobError::new(message))
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for JobError {}
