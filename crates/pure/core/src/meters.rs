//! The meters of an account: usually one or a few. Their number changes only with the policy.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::algorithm::Meter;

/// The meters of an account, in the order of its policy's limits. A single one is kept inline.
#[derive(Clone, Debug)]
pub struct Meters(Repr);

#[derive(Clone, Debug)]
enum Repr {
    One(Meter),
    Many(Box<[Meter]>),
}

impl Deref for Meters {
    type Target = [Meter];

    #[inline]
    fn deref(&self) -> &[Meter] {
        match &self.0 {
            Repr::One(meter) => std::slice::from_ref(meter),
            Repr::Many(meters) => meters,
        }
    }
}

impl DerefMut for Meters {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Meter] {
        match &mut self.0 {
            Repr::One(meter) => std::slice::from_mut(meter),
            Repr::Many(meters) => meters,
        }
    }
}

impl Meters {
    /// The meters as a list.
    pub fn into_vec(self) -> Vec<Meter> {
        match self.0 {
            Repr::One(meter) => vec![meter],
            Repr::Many(meters) => meters.into_vec(),
        }
    }
}

impl Default for Meters {
    fn default() -> Self {
        Self(Repr::Many(Box::default()))
    }
}

impl FromIterator<Meter> for Meters {
    fn from_iter<I: IntoIterator<Item = Meter>>(meters: I) -> Self {
        let mut meters = meters.into_iter();
        match (meters.next(), meters.next()) {
            (Some(only), None) => Self(Repr::One(only)),
            (first, second) => Self(Repr::Many(first.into_iter().chain(second).chain(meters).collect())),
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
