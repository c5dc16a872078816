//! The part of CloudWatch that keeps alarms and dashboards, which no emulator has: it keeps what it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ciborium::Value;
use tollway_testkit::servers::{CapturedAnswer, CapturedRequest, CapturingServer};

/// What it keeps, as it was sent.
#[derive(Clone, Default)]
pub(super) struct CloudWatch {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    alarms: BTreeMap<String, Value>,
    dashboards: BTreeMap<String, String>,
    /// Calls of this action fail.
    failing: Option<&'static str>,
}

/// The field of an alarm's ARN.
const ARN: &str = "AlarmArn";

fn arn_of(alarm: &str) -> String {
    format!("arn:aws:cloudwatch:us-east-1:000000000000:alarm:{alarm}")
}

impl Kept {
    /// As AWS does: an alarm that is replaced keeps its tags.
    fn put_alarm(&mut self, name: &str, body: Value) {
        let Value::Map(mut fields) = body else { panic!("an alarm is a map") };
        if let Some(old) = self.alarms.get(name) {
            fields.retain(|(key, _)| key.as_text() != Some("Tags"));
            fields.push(("Tags".into(), field(old, "Tags").clone()));
        }
        fields.push((ARN.into(), arn_of(name).into()));
        self.alarms.insert(name.to_owned(), Value::Map(fields));
    }
}

impl CloudWatch {
    pub(super) fn start(&self) -> CapturingServer {
        let cloudwatch = self.clone();
        CapturingServer::start(move |request| cloudwatch.answer(request))
    }

    /// Keeps an alarm and a dashboard that another tool has made under these names.
    pub(super) fn keep(&self, alarm: &str, dashboard: &str) {
        let mut kept = self.kept.lock().unwrap();
        let fields = vec![("AlarmName".into(), alarm.into()), (ARN.into(), arn_of(alarm).into())];
        kept.alarms.insert(alarm.to_owned(), Value::Map(fields));
        kept.dashboards.insert(dashboard.to_owned(), r#"{"widgets":[]}"#.to_owned());
    }

    pub(super) fn fail(&self, action: Option<&'static str>) {
        self.kept.lock().unwrap().failing = action;
    }

    pub(super) fn alarms(&self) -> BTreeMap<String, Value> {
        self.kept.lock().unwrap().alarms.clone()
    }

    pub(super) fn dashboards(&self) -> BTreeMap<String, String> {
        self.kept.lock().unwrap().dashboards.clone()
    }

    fn answer(&self, request: &CapturedRequest) -> CapturedAnswer {
        let mut kept = self.kept.lock().unwrap();
        let action = request.target.rsplit('/').next().unwrap();
        if kept.failing == Some(action) {
            return error("500 Internal", "InternalServiceFault");
        }
        let body: Value = ciborium::from_reader(&request.body[..]).unwrap();
        match action {
            "DescribeAlarms" => {
                let names = texts(field(&body, "AlarmNames"));
                let found = names.iter().filter_map(|name| kept.alarms.get(name).cloned()).collect();
                success(vec![("MetricAlarms", Value::Array(found))])
            }
            "PutMetricAlarm" => {
                let name = text(field(&body, "AlarmName"));
                kept.put_alarm(&name, body);
                success(vec![])
            }
            "ListTagsForResource" => {
                let asked = text(field(&body, "ResourceARN"));
                let alarm = kept.alarms.values().find(|alarm| text(field(alarm, ARN)) == asked);
                let tags = alarm.and_then(|alarm| field(alarm, "Tags").as_array()).cloned();
                success(vec![("Tags", Value::Array(tags.unwrap_or_default()))])
            }
            "DeleteAlarms" => {
                texts(field(&body, "AlarmNames")).iter().for_each(|name| drop(kept.alarms.remove(name)));
                success(vec![])
            }
            "GetDashboard" => match kept.dashboards.get(&text(field(&body, "DashboardName"))) {
                Some(found) => success(vec![("DashboardBody", found.as_str().into())]),
                None => error("404 Not Found", "com.amazonaws.cloudwatch#DashboardNotFoundError"),
            },
            "PutDashboard" => {
                kept.dashboards
                    .insert(text(field(&body, "DashboardName")), text(field(&body, "DashboardBody")));
                success(vec![])
            }
            "DeleteDashboards" => {
                let names = texts(field(&body, "DashboardNames"));
                names.iter().for_each(|name| drop(kept.dashboards.remove(name)));
                success(vec![])
            }
            // Kept with every request, for those who look.
            "PutMetricData" => success(vec![]),
            other => panic!("{other} is not expected"),
        }
    }
}

pub(super) fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    let fields = value.as_map().unwrap().iter();
    fields.clone().find(|(key, _)| key.as_text() == Some(name)).map_or(&Value::Null, |(_, value)| value)
}

pub(super) fn text(value: &Value) -> String {
    value.as_text().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(text).collect()
}

fn success(fields: Vec<(&str, Value)>) -> CapturedAnswer {
    answer("200 OK", fields)
}

fn error(status: &str, kind: &str) -> CapturedAnswer {
    answer(status, vec![("__type", kind.into())])
}

fn answer(status: &str, fields: Vec<(&str, Value)>) -> CapturedAnswer {
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let mut body = Vec::new();
    ciborium::into_writer(&Value::Map(fields), &mut body).unwrap();
    CapturedAnswer::new(
        &format!("{status}\r\nContent-Type: application/cbor\r\nsmithy-protocol: rpc-v2-cbor"),
        body,
    )
}
