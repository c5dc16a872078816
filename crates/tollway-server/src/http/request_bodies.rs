//! What callers ask, as typed bodies.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use tollway::core::bounds::{AMOUNT_MAX, CALL_ID_BYTES_MAX, CHARGES_PER_TAKE_MAX, SUBJECT_BYTES_MAX};

use crate::bounds::UNITS_PER_COST_MAX;

/// Subjects and ids may have any sign but this one.
pub(super) const WITHOUT_NUL: &str = r"^[^\u0000]*$";

/// One take: under one policy, or under `all` of several at once.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = either_policy_or_all()))]
pub(crate) struct TakeBody<'a> {
    /// The policy.
    #[serde(borrow)]
    pub(crate) policy: Option<Cow<'a, str>>,
    /// For whom it counts; left out: the policy's one shared subject.
    #[serde(borrow, default)]
    #[schemars(length(max = SUBJECT_BYTES_MAX), regex(pattern = WITHOUT_NUL))]
    pub(crate) subject: Option<Cow<'a, str>>,
    /// What is taken of each unit; left out: one request.
    #[serde(borrow, default)]
    pub(crate) cost: Option<Amounts<'a>>,
    /// Several policies or subjects, granted together or not at all. Such a take is never granted for later.
    #[serde(borrow)]
    #[schemars(length(min = 1, max = CHARGES_PER_TAKE_MAX))]
    pub(crate) all: Option<Vec<ChargeBody<'a>>>,
    /// How long the caller would wait, in milliseconds: the take may be granted for a time up to then. The answer comes at
    /// once; the caller waits for `delay_ms` by itself. Left out or 0: now or not at all.
    #[serde(default)]
    pub(crate) wait_ms: Option<u64>,
    /// An id of the caller's: the same take repeated with it within ten minutes counts once.
    #[serde(borrow, default)]
    #[schemars(length(min = 1, max = CALL_ID_BYTES_MAX), regex(pattern = WITHOUT_NUL))]
    pub(crate) id: Option<Cow<'a, str>>,
}

/// With `all` there is nothing of what stands in its entries; without it there is a policy.
fn either_policy_or_all() -> serde_json::Value {
    let (text, list, none) = (json!({"type": "string"}), json!({"type": "array"}), json!({"type": "null"}));
    json!([
        {"required": ["policy"], "properties": {"policy": text, "all": none}},
        {"required": ["all"], "properties": {"all": list, "policy": none, "subject": none, "cost": none}},
    ])
}

/// One policy of a take of several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChargeBody<'a> {
    /// The policy.
    #[serde(borrow)]
    pub(crate) policy: Cow<'a, str>,
    /// For whom it counts; left out: the policy's one shared subject.
    #[serde(borrow, default)]
    #[schemars(length(max = SUBJECT_BYTES_MAX), regex(pattern = WITHOUT_NUL))]
    pub(crate) subject: Option<Cow<'a, str>>,
    /// What is taken of each unit; left out: one request.
    #[serde(borrow, default)]
    pub(crate) cost: Option<Amounts<'a>>,
}

/// Something about a permit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PermitBody<'a> {
    /// The permit, as it was given.
    #[serde(borrow)]
    pub(crate) permit: Cow<'a, str>,
}

/// What a call really took.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleBody<'a> {
    /// The permit, as it was given.
    #[serde(borrow)]
    pub(crate) permit: Cow<'a, str>,
    /// What the call really took of each unit; units that are not named stay as they were taken.
    #[serde(borrow)]
    pub(crate) cost: Amounts<'a>,
}

/// Whose meters are to be new.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetBody<'a> {
    /// The policy.
    #[serde(borrow)]
    pub(crate) policy: Cow<'a, str>,
    /// The subject; left out: the policy's one shared subject.
    #[serde(borrow, default)]
    #[schemars(length(max = SUBJECT_BYTES_MAX), regex(pattern = WITHOUT_NUL))]
    pub(crate) subject: Option<Cow<'a, str>>,
}

/// What a limit is to be.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitBody<'a> {
    /// The limit as it should be, as in `250 requests / minute`, or only its amount.
    #[serde(borrow)]
    pub(crate) to: Cow<'a, str>,
}

/// Amounts by unit, as in `{"requests": 1, "tokens": 3750}`.
#[derive(Debug, Default)]
pub(crate) struct Amounts<'a>(Vec<(Cow<'a, str>, u64)>);

impl Amounts<'_> {
    /// Each unit with its amount.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(unit, amount)| (&**unit, *amount))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Amounts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AmountsVisitor)
    }
}

struct AmountsVisitor;

/// Text that is borrowed where it can be, also as the key of a map.
#[derive(Deserialize)]
struct Unit<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Visitor<'de> for AmountsVisitor {
    type Value = Amounts<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("amounts by unit, as in {\"requests\": 1}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Amounts<'de>, A::Error> {
        let mut amounts = Amounts::default();
        while let Some((Unit(unit), amount)) = map.next_entry::<Unit<'de>, u64>()? {
            if amounts.0.iter().any(|(known, _)| *known == unit) {
                return Err(A::Error::custom("a unit stands twice in one cost"));
            }
            if amounts.0.len() >= UNITS_PER_COST_MAX {
                return Err(A::Error::custom(format_args!("a cost may name {UNITS_PER_COST_MAX} units")));
            }
            amounts.0.push((unit, amount));
        }
        Ok(amounts)
    }
}

impl JsonSchema for Amounts<'_> {
    fn schema_name() -> Cow<'static, str> {
        "Amounts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "What is taken of each unit.",
            "maxProperties": UNITS_PER_COST_MAX,
            "additionalProperties": { "type": "integer", "minimum": 0, "maximum": AMOUNT_MAX },
        })
    }
}
