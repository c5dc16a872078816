//! `/openapi.json`: all routes of a listener with their bodies, generated from the route table and the body types.

use std::sync::OnceLock;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use tollway_inbound::headers::{TooManyRequests, WOULD_DENY};

use super::body::Response;
use super::observe_bodies::{ObserveAnswer, ObserveBody};
use super::problem::Problem;
use super::request_bodies::{LimitBody, PermitBody, ResetBody, SettleBody, TakeBody, WITHOUT_NUL};
use super::response_bodies::{BatchEntry, BeginAnswer, DoneAnswer, RenewAnswer, SettleAnswer, TakeAnswer};
use super::response_body::Body;
use super::route::{Access, Endpoint, Route, routes};
use crate::admin::{HealthAnswer, LimitsAnswer, PoliciesAnswer, RedisHealthAnswer, UsageAnswer};
use crate::bounds::TAKES_PER_BATCH_MAX;
#[cfg(feature = "consumers")]
use crate::consumers::JsonShape;
use crate::handler::AdminHandler;
use crate::listener::ListenerKind;

/// Serves the document of the listener that got the request, with the routes of its handler.
pub(super) fn answer(kind: ListenerKind, handler: Option<&dyn AdminHandler>) -> Response {
    let bytes = match handler.filter(|_| kind.is_administration()) {
        None => kept(kind),
        Some(handler) => {
            let mut document = document(kind);
            if let Some(paths) = document["paths"].as_object_mut() {
                paths.extend(handler.openapi_paths());
            }
            Bytes::from(document.to_string())
        }
    };
    let mut response = Response::new(Body::new(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The document without a handler, which never changes.
fn kept(kind: ListenerKind) -> Bytes {
    static DECISIONS: OnceLock<Bytes> = OnceLock::new();
    static ADMINISTRATION: OnceLock<Bytes> = OnceLock::new();
    let kept = match kind {
        kind if kind.is_administration() => &ADMINISTRATION,
        _ => &DECISIONS,
    };
    kept.get_or_init(|| Bytes::from(document(kind).to_string())).clone()
}

/// The document of a listener.
pub(super) fn document(kind: ListenerKind) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let mut paths = Map::new();
    for route in routes(kind) {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = describe(route, &mut schemas);
    }
    let title = match kind {
        kind if kind.is_administration() => "Tollway: administration",
        _ => "Tollway: decisions",
    };
    json!({
        "openapi": "3.1.0",
        "info": { "title": title, "version": env!("CARGO_PKG_VERSION"), "license": { "name": "Apache-2.0 OR MIT" } },
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn describe(route: &Route, schemas: &mut SchemaGenerator) -> Value {
    let Description { summary, query, body, answers } = Description::of(route.endpoint, schemas);
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| parameter(name, "path", true, about_path(name), &text()));
    let in_query = query.iter().map(QueryParameter::described);
    let problem = schemas.subschema_for::<Problem>();
    let mut responses: Map<String, Value> = answers.into_iter().map(|answer| answer.described()).collect();
    responses
        .insert("default".to_owned(), content("The request failed.", "application/problem+json", &problem));
    if route.endpoint == Endpoint::Authorize {
        // An unknown token, and a blocked consumer.
        for status in ["401", "403"] {
            responses[status]["content"]["application/problem+json"] = json!({ "schema": &problem });
        }
        let about = "Shadow policies that would have denied it.";
        responses["200"]["headers"] =
            json!({ WOULD_DENY: { "description": about, "schema": { "type": "string" } } });
    }
    let method = route.method.as_str().to_lowercase();
    let mut described = json!({
        "operationId": format!("{method}{}", operation_name(route.endpoint)),
        "summary": summary,
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": responses,
    });
    if let Some(schema) = body {
        described["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    match route.access {
        Access::Open => {}
        // Only if the config has a token for decisions.
        Access::Decide | Access::DecideHere => described["security"] = json!([{}, { "token": [] }]),
        Access::Read | Access::Write => described["security"] = json!([{ "token": [] }]),
    }
    described
}

fn about_path(name: &str) -> &'static str {
    match name {
        "consumer_id" => "The consumer.",
        "rate_limiting_id" | "record_id" => "The record.",
        "hour" => "An hour of UTC, as YYYY-MM-DD-HH.",
        "time" => "A time, such as 2026-06-01T12:30:00Z; the hour of UTC that contains it counts.",
        _ => "Its name.",
    }
}

fn operation_name(operation: Endpoint) -> String {
    match operation {
        #[cfg(feature = "consumers")]
        Endpoint::Manage(what, JsonShape::Documented) => format!("{what:?}"),
        #[cfg(feature = "consumers")]
        Endpoint::Manage(what, JsonShape::Neutral) => format!("Consumer{what:?}"),
        other => format!("{other:?}"),
    }
}

fn parameter(name: &str, place: &str, required: bool, about: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": place, "required": required, "description": about, "schema": schema })
}

/// Text that may be a name or a subject.
fn text() -> Value {
    json!({ "type": "string", "pattern": WITHOUT_NUL })
}

fn content(about: &str, media_type: &str, schema: &Schema) -> Value {
    json!({ "description": about, "content": { media_type: { "schema": schema } } })
}

/// The description of an operation.
pub(crate) struct Description {
    summary: &'static str,
    query: &'static [QueryParameter],
    body: Option<Value>,
    answers: Vec<Answer>,
}

struct Answer {
    status: u16,
    about: &'static str,
    schema: Option<Value>,
}

impl Answer {
    fn described(self) -> (String, Value) {
        let described = match self.schema {
            Some(schema) => json!({
                "description": self.about,
                "content": { "application/json": { "schema": schema } },
            }),
            None => json!({ "description": self.about }),
        };
        (self.status.to_string(), described)
    }
}

/// A query parameter.
struct QueryParameter {
    name: &'static str,
    required: bool,
    about: &'static str,
    /// Its allowed values; empty means any text.
    choices: &'static [&'static str],
}

impl QueryParameter {
    fn described(&self) -> Value {
        let Self { name, required, about, choices } = self;
        let mut schema = if choices.is_empty() { text() } else { json!({ "enum": choices }) };
        if *name == SUBJECT.name {
            schema["minLength"] = json!(1);
        }
        parameter(name, "query", *required, about, &schema)
    }
}

const POLICY: QueryParameter =
    QueryParameter { name: "policy", required: true, about: "The policy.", choices: &[] };
const POLICY_OR_CONSUMERS: QueryParameter = QueryParameter {
    name: "policy",
    required: false,
    about: "The policy; left out: the limits of consumers, if the config has [consumers].",
    choices: &[],
};
const SUBJECT: QueryParameter = QueryParameter {
    name: "subject",
    required: false,
    about: "The subject; left out: the policy's one shared subject.",
    choices: &[],
};
const DENY: QueryParameter = QueryParameter {
    name: "deny",
    required: false,
    about: "The status of a denial: 429 if left out, 401 or 403 for nginx, with the real status and body in \
            x-tollway-status and x-tollway-body.",
    choices: &["429", "401", "403"],
};

impl Description {
    fn of(operation: Endpoint, schemas: &mut SchemaGenerator) -> Self {
        match operation {
            Endpoint::Take => take(schemas),
            Endpoint::Begin => Self::new("Whether a call may start now.")
                .asking(schema::<PermitBody<'_>>(schemas))
                .answering(200, "It may, now or after a delay.", schema::<BeginAnswer>(schemas))
                .answering(
                    429,
                    "The permit came too late, and a new take was denied.",
                    schema::<TakeAnswer<'_>>(schemas),
                ),
            Endpoint::Settle => Self::new("Settles a call with its actual cost.")
                .asking(schema::<SettleBody<'_>>(schemas))
                .answering(200, "What was corrected.", schema::<SettleAnswer>(schemas)),
            Endpoint::Return => Self::new("Returns the cost of a call that was not made.")
                .asking(schema::<PermitBody<'_>>(schemas))
                .answering(200, "What was corrected.", schema::<SettleAnswer>(schemas)),
            Endpoint::Done => Self::new("Ends a call and frees its slots.")
                .asking(schema::<PermitBody<'_>>(schemas))
                .answering(200, "The slots are free.", schema::<DoneAnswer>(schemas)),
            Endpoint::Renew => Self::new("Renews the slots of a running call.")
                .asking(schema::<PermitBody<'_>>(schemas))
                .answering(200, "Whether it still had its slots.", schema::<RenewAnswer>(schemas)),
            Endpoint::Observe => {
                Self::new("Reports how a vendor answered a call: it moves the rate, and a refusal holds all.")
                    .asking(schema::<ObserveBody<'_>>(schemas))
                    .answering(200, "What the answer was.", schema::<ObserveAnswer>(schemas))
            }
            Endpoint::Authorize => {
                let denied = schema::<TooManyRequests<'_>>(schemas);
                let answering = |all: Self, status| all.answering(status, "Denied.", denied.clone());
                let open = Self {
                    query: &[POLICY_OR_CONSUMERS, DENY],
                    ..Self::new("Allows or denies a request for a proxy.")
                };
                [429, 401, 403].into_iter().fold(open.empty(200, "Granted."), answering)
            }
            Endpoint::OpenApi => Self::new("This document.").empty(200, "The document."),
            Endpoint::Health => Self::new("Liveness.").answering(
                200,
                "The server is running.",
                schema::<HealthAnswer>(schemas),
            ),
            Endpoint::Ready => Self::new("Readiness.")
                .answering(200, "Ready.", schema::<HealthAnswer>(schemas))
                .answering(503, "Draining or stopping.", schema::<HealthAnswer>(schemas)),
            Endpoint::Metrics => {
                Self::new("Metrics for Prometheus.").empty(200, "The text format of Prometheus.")
            }
            Endpoint::Policies => Self::new("The policies in force.").answering(
                200,
                "All policies.",
                schema::<PoliciesAnswer>(schemas),
            ),
            Endpoint::Usage => Self { query: &[POLICY, SUBJECT], ..Self::new("The usage of a policy.") }
                .answering(200, "The usage of every limit.", schema::<UsageAnswer>(schemas)),
            Endpoint::Reset => Self::new("Resets the usage of a policy and a subject.")
                .asking(schema::<ResetBody<'_>>(schemas))
                .empty(204, "Reset."),
            Endpoint::SetLimit => Self::new("Sets a limit for all processes that share the store.")
                .asking(schema::<LimitBody<'_>>(schemas))
                .answering(200, "The limit in force.", schema::<LimitsAnswer>(schemas)),
            Endpoint::ClearLimit => Self::new("Restores the limit of the config file.").answering(
                200,
                "The limit in force.",
                schema::<LimitsAnswer>(schemas),
            ),
            Endpoint::RedisHealth => Self::new("Whether Redis answers, if it is the store.").answering(
                200,
                "The state, and with a read token the address.",
                schema::<RedisHealthAnswer>(schemas),
            ),
            #[cfg(feature = "consumers")]
            Endpoint::Manage(what, shape) => crate::consumers::describe(what, shape, schemas),
        }
    }

    pub(crate) fn new(summary: &'static str) -> Self {
        Self { summary, query: &[], body: None, answers: Vec::new() }
    }

    pub(crate) fn asking(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }

    pub(crate) fn answering(mut self, status: u16, about: &'static str, schema: Value) -> Self {
        self.answers.push(Answer { status, about, schema: Some(schema) });
        self
    }

    pub(crate) fn empty(mut self, status: u16, about: &'static str) -> Self {
        self.answers.push(Answer { status, about, schema: None });
        self
    }
}

/// One take, or a list of independent ones.
fn take(schemas: &mut SchemaGenerator) -> Description {
    let (question, answer) = (schema::<TakeBody<'_>>(schemas), schema::<TakeAnswer<'_>>(schemas));
    let entries = schema::<BatchEntry<'_>>(schemas);
    let questions = json!({ "type": "array", "items": &question, "maxItems": TAKES_PER_BATCH_MAX });
    let about = "Granted; for a list, the result of each.";
    Description::new("Takes a cost under one or more policies, or several independent takes.")
        .asking(json!({ "anyOf": [question, questions] }))
        .answering(200, about, json!({ "anyOf": [&answer, { "type": "array", "items": entries }] }))
        .answering(429, "Denied: nothing was taken.", answer)
}

pub(crate) fn schema<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    schemas.subschema_for::<T>().to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The golden file makes every change of the API show in a diff.
    #[cfg(feature = "consumers")]
    #[test]
    fn openapi_documents_match_the_golden_files() {
        for (kind, name) in
            [(ListenerKind::Decisions, "decisions"), (ListenerKind::Administration, "administration")]
        {
            let path = format!("{}/tests/golden/openapi_{name}.json", env!("CARGO_MANIFEST_DIR"));
            let made = format!("{:#}\n", document(kind));
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&path, &made).unwrap();
            }
            let kept = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(made, kept, "{path}: if the change is meant, run this with UPDATE_GOLDEN=1");
        }
    }

    #[test]
    fn openapi_has_every_route_and_no_dangling_reference() {
        for kind in [ListenerKind::Decisions, ListenerKind::Administration] {
            let document = document(kind);
            for route in routes(kind) {
                let described = &document["paths"][route.path][route.method.as_str().to_lowercase()];
                assert!(described["summary"].is_string(), "{} {}", route.method, route.path);
                assert_eq!(described.get("security").is_some(), route.access != Access::Open);
            }
            let text = document.to_string();
            for reference in text.split("\"$ref\":\"#").skip(1) {
                let path = reference.split('"').next().unwrap();
                assert!(document.pointer(path).is_some(), "{path}");
            }
        }
    }
}
