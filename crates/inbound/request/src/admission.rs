//! How a caller is admitted, before anything is charged.

/// How a caller is admitted, before anything is charged. `C` is what is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission<C> {
    /// The caller is let through; nothing is counted.
    Free,
    /// The caller is refused, whatever its limits.
    Blocked,
    /// The caller is let through if this charge is granted.
    Counted(C),
}

impl<C> Admission<C> {
    /// The same admission with another charge.
    pub fn map<D>(self, change: impl FnOnce(C) -> D) -> Admission<D> {
        match self {
            Self::Free => Admission::Free,
            Self::Blocked => Admission::Blocked,
            Self::Counted(counted) => Admission::Counted(change(counted)),
        }
    }
}
