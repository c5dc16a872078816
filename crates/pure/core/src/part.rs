//! Parts of a store that fail one by one.

use std::sync::Arc;

/// A part of a store that fails and comes back while others work, such as a node of a Redis Cluster. Most stores are one part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Part(Option<Arc<str>>);

impl Part {
    /// The only part of a store that is not divided.
    pub const WHOLE: Self = Self(None);

    /// One of several, by the name that operators know, such as `HOST:PORT`.
    pub fn named(name: Arc<str>) -> Self {
        Self(Some(name))
    }

    /// Its name; the only part of a store has none.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}
