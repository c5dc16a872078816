//! The resources as a CloudFormation template.

use serde_json::{Map, Value, json};
use tollway_notify::cloudwatch::pascal_case;

use super::resources::{Resource, Spec, Wanted};

/// The template, which makes what `--apply` makes.
pub(super) fn template(wanted: &Wanted) -> Value {
    let mut resources = Map::new();
    for resource in &wanted.resources {
        if let Some((kind, properties)) = describe(resource, wanted) {
            resources
                .insert(logical_id(resource.kind(), resource.name()), entry(resource, kind, &properties));
        }
    }
    json!({
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Written by tollway provision aws --cloudformation",
        "Resources": resources,
    })
}

/// Type and properties; none of a topic, which usually serves others, too, and exists before the stack.
fn describe(resource: &Resource, wanted: &Wanted) -> Option<(&'static str, Value)> {
    Some(match &resource.spec {
        Spec::Table { table, .. } => ("AWS::DynamoDB::Table", table.properties()),
        Spec::Parameter { parameter, .. } => ("AWS::SSM::Parameter", parameter.properties()),
        Spec::Queue(queue) => ("AWS::SQS::Queue", queue.properties(|name| arn_of_queue(name, wanted))),
        Spec::Topic(_) => return None,
        Spec::Alarm(alarm) => ("AWS::CloudWatch::Alarm", alarm.properties()),
        Spec::Dashboard(dashboard) => ("AWS::CloudWatch::Dashboard", dashboard.properties()),
    })
}

fn entry(resource: &Resource, kind: &str, properties: &Value) -> Value {
    let mut described = json!({ "Type": kind, "Properties": properties });
    if matches!(resource.spec, Spec::Table { .. } | Spec::Queue(_)) {
        // Usage and jobs outlive a stack that is deleted by mistake.
        described["DeletionPolicy"] = "Retain".into();
        described["UpdateReplacePolicy"] = "Retain".into();
    }
    described
}

fn arn_of_queue(name: &str, wanted: &Wanted) -> Value {
    let is_ours = wanted.resources.iter().any(|other| other.kind() == "queue" && other.name() == name);
    match is_ours {
        true => json!({ "Fn::GetAtt": [logical_id("queue", name), "Arn"] }),
        false => {
            json!({ "Fn::Sub": format!("arn:${{AWS::Partition}}:sqs:${{AWS::Region}}:${{AWS::AccountId}}:{name}") })
        }
    }
}

/// `QueueAdobeAutotagQueue`. A hash of the exact name keeps `a-b` and `a_b` apart.
fn logical_id(kind: &str, name: &str) -> String {
    let hash = tollway::core::Fingerprint::new().text(kind).text(name).finish();
    format!("{}{}{:04X}", pascal_case(kind), pascal_case(name), hash & 0xFFFF)
}
