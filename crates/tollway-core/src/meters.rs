//! The meters of a line: nearly always one or a handful, never changing in number but with the policy.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::algorithm::Meter;

/// The meters of a line, in the order of its policy's limits. A single one is kept inline.
#[derive(Clone, Debug)]
pub struct Meters(Kept);

#[derive(Clone, Debug)]
enum Kept {
    One(Meter),
    Many(Box<[Meter]>),
}

impl Deref for Meters {
    type Target = [Meter];

    #[inline]
    fn deref(&self) -> &[Meter] {
        match &self.0 {
            Kept::One(meter) => std::slice::from_ref(meter),
            Kept::Many(meters) => meters,
        }
    }
}

impl DerefMut for Meters {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Meter] {
        match &mut self.0 {
            Kept::One(meter) => std::slice::from_mut(meter),
            Kept::Many(meters) => meters,
        }
    }
}

impl Meters {
    /// As a list.
    pub fn into_vec(self) -> Vec<Meter> {
        match self.0 {
            Kept::One(meter) => vec![meter],
            Kept::Many(meters) => meters.into_vec(),
        }
    }
}

impl Default for Meters {
    fn default() -> Self {
        Self(Kept::Many(Box::default()))
    }
}

impl FromIterator<Meter> for Meters {
    fn from_iter<I: IntoIterator<Item = Meter>>(meters: I) -> Self {
        let mut meters = meters.into_iter();
        match (meters.next(), meters.next()) {
            (Some(only), None) => Self(Kept::One(only)),
            (first, second) => Self(Kept::Many(first.into_iter().chain(second).chain(meters).collect())),
        }
    }
}

impl PartialEq for Meters {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Meters {}

impl Serialize for Meters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.deref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Meters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Meter>::deserialize(deserializer)?.into_iter().collect())
    }
}
