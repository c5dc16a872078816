//! Entry points of the fuzz targets for bodies and queries.

use serde_json::{Value, json};

use super::observe_bodies::ObserveBody;
use super::query::Query;
use super::request_bodies::{Amounts, ChargeBody, PermitBody, SettleBody, TakeBody};

/// Parses the body of one take or of a list. Returns the valid ones in a normal form.
pub fn takes(body: &[u8]) -> Result<Value, String> {
    let not_json = |error: serde_json::Error| error.to_string();
    let takes: Vec<TakeBody<'_>> = match body.trim_ascii_start().first() {
        Some(b'[') => serde_json::from_slice(body).map_err(not_json)?,
        _ => vec![serde_json::from_slice(body).map_err(not_json)?],
    };
    Ok(takes.into_iter().filter_map(written).collect())
}

fn written(mut take: TakeBody<'_>) -> Option<Value> {
    let charge = |charge: &ChargeBody<'_>| {
        let amounts = charge.cost.iter().flat_map(Amounts::each);
        let cost: serde_json::Map<_, _> =
            amounts.map(|(unit, amount)| (unit.to_owned(), json!(amount))).collect();
        json!({ "policy": charge.policy, "subject": charge.subject, "cost": cost })
    };
    let all: Vec<Value> = take.take_charges().ok()?.iter().map(charge).collect();
    let wait = take.wait().map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    Some(json!({ "all": all, "wait_ms": wait, "id": take.id }))
}

/// Parses a body that names a permit, as one without a cost and as one with a cost. Returns the permit of each.
pub fn permit_questions(body: &[u8]) -> [Option<String>; 2] {
    let alone = serde_json::from_slice(body).map(|body: PermitBody<'_>| body.permit.into_owned());
    let settled = serde_json::from_slice(body).map(|body: SettleBody<'_>| body.permit.into_owned());
    [alone.ok(), settled.ok()]
}

/// Parses the body of `/v1/observe`. Returns the names of the vendor's headers that are kept.
pub fn observed_headers(body: &[u8]) -> Option<Vec<String>> {
    let body: ObserveBody<'_> = serde_json::from_slice(body).ok()?;
    Some(body.headers.0.iter().map(|(name, _)| name.as_str().to_owned()).collect())
}

/// Parses a query with these known parameters. Returns the value of each.
pub fn query(query: &str, known: &[&str]) -> Result<Vec<Option<String>>, String> {
    let read = Query::read(Some(query), known).map_err(|problem| problem.detail().to_owned())?;
    Ok(known.iter().map(|name| read.get(name).map(ToOwned::to_owned)).collect())
}
