//! Errors of reading or creating AWS resources.

/// An error of reading or creating a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProvisionError {
    /// What happened.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) advice: String,
}
