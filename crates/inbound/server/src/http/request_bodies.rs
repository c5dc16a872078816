//! The bodies of requests.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use tollway::core::bounds::{AMOUNT_MAX, CALL_ID_BYTES_MAX, CHARGES_PER_TAKE_MAX, SUBJECT_BYTES_MAX};

use crate::bounds::UNITS_PER_COST_MAX;

/// Subjects and ids may have any character but NUL.
pub(super) const WITHOUT_NUL: &str = r"^[^\u0000]*$";

/// One take: under one policy, or under `all` of several at once.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = either_policy_or_all()))]
pub(crate) struct TakeBody<'a> {
    /// The policy.
    #[serde(borrow)]
    pub(crate) policy: Option<Cow<'a, str>>,
    /// The subject; left out: the policy's one shared subject. An empty one is an error.
    #[serde(borrow, default)]
    #[schemars(length(min = 1, max = SUBJECT_BYTES_MAX), regex(pattern = WITHOUT_NUL))]
    pub(crate) subject: Option<Cow<'a, str>>,
    /// The cost by unit; left out: one request.
    #[serde(borrow, default)]
    pub(crate) cost: Option<Amounts<'a>>,
    /// Several policies or subjects: all are charged or none. Such a take is never granted with a delay.
    #[serde(borrow)]
    #[schemars(length(min = 1, max = CHARGES_PER_TAKE_MAX))]
    pub(crate) all: Option<Vec<ChargeBody<'a>>>,
    /// How long the caller would wait, in milliseconds: the take may be granted with a delay up to this. The response comes
    /// at once; the caller waits for `delay_ms` itself. Left out or 0: now or not at all.
    #[serde(default)]
    pub(crate) wait_ms: Option<u64>,
    /// An idempotency key: the same take repeated with it within ten minutes counts once.
    #[serde(borrow, default)]
    #[schemars(length(min = 1, max = CALL_ID_BYTES_MAX), regex(pattern = WITHOUT_NUL))]
    pub(crate) id: Option<Cow<'a, str>>,
}

/// Either `policy`, or `all` without `policy`, `subject` and `cost`, which its entries have.
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
    /// The subject; left out: the policy's one shared subject. An empty one is an error.
    #[serde(borrow, default)]
    #[schemars(length(min = 1, max = SUBJECT_BYTES_MAX), regex(pattern = WITHOUT_NUL))]
    pub(crate) subject: Option<Cow<'a, str>>,
    /// The cost by unit; left out: one request.
    #[serde(borrow, default)]
    pub(crate) cost: Option<Amounts<'a>>,
}

/// A permit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PermitBody<'a> {
    /// The permit, as it was issued.
    #[serde(borrow)]
    pub(crate) permit: Cow<'a, str>,
}

/// The actual cost of a call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleBody<'a> {
    /// The permit, as it was issued.
    #[serde(borrow)]
    pub(crate) permit: Cow<'a, str>,
    /// The actual cost by unit; units that are not named stay as they were taken.
    #[serde(borrow)]
    pub(crate) cost: Amounts<'a>,
}

/// The usage to reset.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetBody<'a> {
    /// The policy.
    #[serde(borrow)]
    pub(crate) policy: Cow<'a, str>,
    /// The subject; left out: the policy's one shared subject. An empty one is an error.
    #[serde(borrow, default)]
    #[schemars(length(min = 1, max = SUBJECT_BYTES_MAX), regex(pattern = WITHOUT_NUL))]
    pub(crate) subject: Option<Cow<'a, str>>,
}

/// The new value of a limit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitBody<'a> {
    /// The new limit, as in `250 requests / minute`, or only its amount.
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

/// A map key that is borrowed where possible.
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
                return Err(A::Error::custom("a unit occurs twice in one cost"));
            }
            if amounts.0.len() >= UNITS_PER_COST_MAX {
                return Err(A::Error::custom(format_args!("a cost has at most {UNITS_PER_COST_MAX} units")));
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
            "description": "Amounts by unit.",
            "maxProperties": UNITS_PER_COST_MAX,
            "additionalProperties": { "type": "integer", "minimum": 0, "maximum": AMOUNT_MAX },
        })
    }
}
