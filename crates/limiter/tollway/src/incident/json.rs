//! An incident as JSON: one shape for the file, the webhook and `tollway incidents --json`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tollway_core::{Name, PermitId, Subject, Timestamp};

use super::{Acquisition, Incident};
use crate::LimitUsage;

/// The fields of an incident, in the order in which they are written.
#[derive(Serialize, Deserialize)]
struct IncidentFields<'a> {
    id: Cow<'a, str>,
    at: Time,
    policy: Cow<'a, str>,
    subject: Cow<'a, str>,
    said: Cow<'a, str>,
    process: u32,
    in_flight: u64,
    degraded: bool,
    limits: Vec<LimitFields<'a>>,
    recent: Vec<GrantFields<'a>>,
}

#[derive(Serialize, Deserialize)]
struct LimitFields<'a> {
    name: Cow<'a, str>,
    unit: Cow<'a, str>,
    amount: u64,
    capacity: u64,
    used: u64,
    remaining: u64,
    resets_at: Time,
    as_of: Time,
}

#[derive(Serialize, Deserialize)]
struct GrantFields<'a> {
    granted_at: Time,
    due_at: Time,
    permit: PermitId,
    subject: Cow<'a, str>,
    cost: BTreeMap<Cow<'a, str>, u64>,
}

/// A time as in RFC 3339, in UTC.
#[derive(Clone, Copy)]
struct Time(Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        let micros = u64::try_from(time.as_microsecond()).map_err(serde::de::Error::custom)?;
        Ok(Self(Timestamp::from_micros(micros)))
    }
}

impl Serialize for Incident {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = IncidentFields {
            id: Cow::Borrowed(&self.id),
            at: Time(self.at),
            policy: Cow::Borrowed(self.policy.as_str()),
            subject: Cow::Borrowed(self.subject.as_str()),
            said: Cow::Borrowed(&self.said),
            process: self.process,
            in_flight: self.in_flight,
            degraded: self.degraded,
            limits: self.limits.iter().map(limit_fields).collect(),
            recent: self.recent.iter().map(grant_fields).collect(),
        };
        fields.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Incident {
    /// Ignores fields that it does not know: a newer version may have written them.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = IncidentFields::deserialize(deserializer)?;
        Ok(Self {
            id: fields.id.into_owned(),
            at: fields.at.0,
            policy: name(&fields.policy)?,
            subject: subject(&fields.subject)?,
            said: fields.said.into_owned(),
            process: fields.process,
            in_flight: fields.in_flight,
            degraded: fields.degraded,
            limits: fields.limits.iter().map(limit).collect::<Result<_, _>>()?,
            recent: fields.recent.iter().map(grant).collect::<Result<_, _>>()?,
        })
    }
}

fn limit_fields(limit: &LimitUsage) -> LimitFields<'_> {
    LimitFields {
        name: Cow::Borrowed(limit.name.as_str()),
        unit: Cow::Borrowed(limit.unit.as_str()),
        amount: limit.amount,
        capacity: limit.capacity,
        used: limit.used,
        remaining: limit.remaining,
        resets_at: Time(limit.resets_at),
        as_of: Time(limit.as_of),
    }
}

fn limit<E: serde::de::Error>(fields: &LimitFields<'_>) -> Result<LimitUsage, E> {
    let (resets_at, as_of) = (fields.resets_at.0, fields.as_of.0);
    Ok(LimitUsage {
        name: name(&fields.name)?,
        unit: name(&fields.unit)?,
        amount: fields.amount,
        capacity: fields.capacity,
        used: fields.used,
        remaining: fields.remaining,
        resets_at,
        resets_in: resets_at.since(as_of),
        as_of,
    })
}

fn grant_fields(grant: &Acquisition) -> GrantFields<'_> {
    GrantFields {
        granted_at: Time(grant.granted_at),
        due_at: Time(grant.due_at),
        permit: grant.permit,
        subject: Cow::Borrowed(grant.subject.as_str()),
        cost: grant.cost.iter().map(|(unit, amount)| (Cow::Borrowed(unit.as_str()), *amount)).collect(),
    }
}

fn grant<E: serde::de::Error>(fields: &GrantFields<'_>) -> Result<Acquisition, E> {
    let cost = fields.cost.iter().map(|(unit, amount)| Ok((name(unit)?, *amount)));
    Ok(Acquisition {
        granted_at: fields.granted_at.0,
        due_at: fields.due_at.0,
        permit: fields.permit,
        subject: subject(&fields.subject)?,
        cost: cost.collect::<Result<_, _>>()?,
    })
}

fn name<E: serde::de::Error>(text: &str) -> Result<Name, E> {
    Name::new(text).map_err(E::custom)
}

fn subject<E: serde::de::Error>(text: &str) -> Result<Subject, E> {
    Subject::new(text).map_err(E::custom)
}
