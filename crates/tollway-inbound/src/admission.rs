//! What a caller is before anything is taken.

/// What a caller is before anything is taken. `C` says what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission<C> {
    /// The caller is let through; nothing is counted.
    Free,
    /// The caller is refused, whatever its limits.
    Blocked,
    /// The caller is let through if a take of this is granted.
    Counted(C),
}

impl<C> Admission<C> {
    /// The same admission, with something else that is counted.
    pub fn map<D>(self, change: impl FnOnce(C) -> D) -> Admission<D> {
        match self {
            Self::Free => Admission::Free,
            Self::Blocked => Admission::Blocked,
            Self::Counted(counted) => Admission::Counted(change(counted)),
        }
    }
}
