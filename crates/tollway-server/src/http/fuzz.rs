//! The way of the fuzz targets to bodies and queries.

use serde_json::{Value, json};

use super::query::Query;
use super::question::{PermitQuestion, SettleQuestion, TakeQuestion};
use crate::decide::{Party, Question};

/// Reads the body of a take, one or a list: those of them that are understood, as a list in one form.
pub fn takes(body: &[u8]) -> Result<Value, String> {
    let not_json = |error: serde_json::Error| error.to_string();
    let questions: Vec<TakeQuestion<'_>> = match body.trim_ascii_start().first() {
        Some(b'[') => serde_json::from_slice(body).map_err(not_json)?,
        _ => vec![serde_json::from_slice(body).map_err(not_json)?],
    };
    let understood = questions.iter().filter_map(|question| question.understood().ok());
    Ok(understood.map(|question| written(&question)).collect())
}

fn written(question: &Question<'_>) -> Value {
    let party = |Party { policy, subject, cost }: &Party<'_>| {
        let cost: serde_json::Map<_, _> =
            cost.iter().map(|(unit, amount)| ((*unit).to_owned(), json!(amount))).collect();
        json!({ "policy": policy, "subject": subject, "cost": cost })
    };
    let wait = question.wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    let all: Vec<Value> = question.parties.iter().map(party).collect();
    json!({ "all": all, "wait_ms": wait, "id": question.id })
}

/// Reads a body that names a permit, without a cost and with one: the permit that each finds.
pub fn permit_questions(body: &[u8]) -> [Option<String>; 2] {
    let alone = serde_json::from_slice(body).map(|question: PermitQuestion<'_>| question.permit.into_owned());
    let settled =
        serde_json::from_slice(body).map(|question: SettleQuestion<'_>| question.permit.into_owned());
    [alone.ok(), settled.ok()]
}

/// Reads a query of which these parameters are known: the value of each.
pub fn query(query: &str, known: &[&str]) -> Result<Vec<Option<String>>, String> {
    let read = Query::read(Some(query), known).map_err(|problem| problem.detail().to_owned())?;
    Ok(known.iter().map(|name| read.get(name).map(ToOwned::to_owned)).collect())
}
