//! Least-privilege IAM policies for each role.

use serde_json::{Value, json};
use tollway_aws::Connect;

use super::resources::{ParameterUse, Resource, Spec, TableUse, Wanted};
use crate::provision::Role;

/// All roles, with their names.
pub(super) const ROLES: [(&str, Role); 3] =
    [("worker", Role::Worker), ("operator", Role::Operator), ("provisioner", Role::Provisioner)];

/// The policy of a role.
pub(super) fn policy(wanted: &Wanted, role: Role) -> Value {
    let mut statements: Vec<Value> = Vec::new();
    let mut add = |actions: Vec<&str>, resources: Vec<String>| {
        let statement = json!({ "Effect": "Allow", "Action": actions, "Resource": resources });
        // Parameters under one path share a statement.
        if !actions.is_empty() && !statements.contains(&statement) {
            statements.push(statement);
        }
    };
    for resource in &wanted.resources {
        add(actions(resource, role), arns(resource, role));
    }
    if role == Role::Provisioner && wanted.resources.iter().any(|other| matches!(other.spec, Spec::Alarm(_)))
    {
        // Lists, so it cannot be narrowed to one alarm.
        add(vec!["cloudwatch:DescribeAlarms"], vec!["*".to_owned()]);
    }
    if role != Role::Provisioner
        && let Some(namespace) = &wanted.namespace
    {
        statements.push(json!({
            "Effect": "Allow",
            "Action": ["cloudwatch:PutMetricData"],
            "Resource": ["*"],
            "Condition": { "StringEquals": { "cloudwatch:namespace": namespace } },
        }));
    }
    json!({ "Version": "2012-10-17", "Statement": statements })
}

fn actions(resource: &Resource, role: Role) -> Vec<&'static str> {
    match role {
        Role::Worker => for_worker(&resource.spec).to_vec(),
        Role::Operator => [for_worker(&resource.spec), more_for_operator(&resource.spec)].concat(),
        Role::Provisioner => for_provisioner(&resource.spec).to_vec(),
    }
}

fn for_worker(spec: &Spec) -> &'static [&'static str] {
    match spec {
        Spec::Table { use_: TableUse::Minutes, .. } => &["dynamodb:GetItem", "dynamodb:UpdateItem"],
        Spec::Table { use_: TableUse::Accounts, .. } => {
            &["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"]
        }
        Spec::Table { use_: TableUse::Ledger, .. } => &[
            "dynamodb:GetItem",
            "dynamodb:BatchGetItem",
            "dynamodb:Query",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
            "dynamodb:DeleteItem",
            "dynamodb:ConditionCheckItem",
        ],
        Spec::Parameter { use_: ParameterUse::Alone, .. } => &["ssm:GetParameter"],
        Spec::Parameter { use_: ParameterUse::Below(_), .. } => &["ssm:GetParametersByPath"],
        // Also of a queue of dead letters: SQS itself moves messages of good jobs there, and the worker gets them back.
        Spec::Queue(_) => &[
            "sqs:GetQueueUrl",
            "sqs:GetQueueAttributes",
            "sqs:SendMessage",
            "sqs:ReceiveMessage",
            "sqs:ChangeMessageVisibility",
            "sqs:DeleteMessage",
        ],
        Spec::Topic(_) => &["sns:Publish", "sns:GetTopicAttributes"],
        Spec::Alarm(_) | Spec::Dashboard(_) => &[],
    }
}

/// An operator also changes limits, works on dead letters, and asks `doctor`.
fn more_for_operator(spec: &Spec) -> &'static [&'static str] {
    match spec {
        Spec::Parameter { use_: ParameterUse::Alone, .. } => &["ssm:PutParameter"],
        Spec::Parameter { use_: ParameterUse::Below(_), .. } => &["ssm:GetParameter", "ssm:PutParameter"],
        Spec::Queue(queue) if queue.dead_letters.is_none() => {
            &["sqs:StartMessageMoveTask", "sqs:ListMessageMoveTasks", "sqs:CancelMessageMoveTask"]
        }
        // `tollway doctor` looks at tables.
        Spec::Table { .. } => &["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"],
        Spec::Queue(_) | Spec::Topic(_) | Spec::Alarm(_) | Spec::Dashboard(_) => &[],
    }
}

fn for_provisioner(spec: &Spec) -> &'static [&'static str] {
    match spec {
        Spec::Table { .. } => &[
            "dynamodb:DescribeTable",
            "dynamodb:CreateTable",
            "dynamodb:DescribeTimeToLive",
            "dynamodb:UpdateTimeToLive",
            "dynamodb:TagResource",
            "dynamodb:ListTagsOfResource",
            "dynamodb:DeleteTable",
        ],
        Spec::Parameter { .. } => &[
            "ssm:GetParameter",
            "ssm:PutParameter",
            "ssm:AddTagsToResource",
            "ssm:ListTagsForResource",
            "ssm:DeleteParameter",
        ],
        Spec::Queue(_) => &[
            "sqs:GetQueueUrl",
            "sqs:GetQueueAttributes",
            "sqs:CreateQueue",
            "sqs:SetQueueAttributes",
            "sqs:TagQueue",
            "sqs:ListQueueTags",
            "sqs:DeleteQueue",
        ],
        Spec::Topic(_) => &[
            "sns:GetTopicAttributes",
            "sns:CreateTopic",
            "sns:TagResource",
            "sns:ListTagsForResource",
            "sns:DeleteTopic",
        ],
        Spec::Alarm(_) => &[
            "cloudwatch:PutMetricAlarm",
            "cloudwatch:TagResource",
            "cloudwatch:ListTagsForResource",
            "cloudwatch:DeleteAlarms",
        ],
        Spec::Dashboard(_) => {
            &["cloudwatch:GetDashboard", "cloudwatch:PutDashboard", "cloudwatch:DeleteDashboards"]
        }
    }
}

fn arns(resource: &Resource, role: Role) -> Vec<String> {
    let connect = &resource.connect;
    match &resource.spec {
        Spec::Table { table, .. } => vec![arn("dynamodb", connect, &format!("table/{}", table.name))],
        Spec::Queue(queue) => vec![arn("sqs", connect, &queue.name)],
        Spec::Topic(topic) => vec![topic.arn.clone()],
        Spec::Alarm(alarm) => vec![arn("cloudwatch", connect, &format!("alarm:{}", alarm.name))],
        // Dashboards have no region.
        Spec::Dashboard(dashboard) => vec![format!("arn:aws:cloudwatch::*:dashboard/{}", dashboard.name)],
        Spec::Parameter { parameter, use_ } => {
            let of = |name: &str| arn("ssm", connect, &format!("parameter/{}", name.trim_start_matches('/')));
            match use_ {
                ParameterUse::Below(path) if role != Role::Provisioner => {
                    vec![of(path), of(&format!("{}/*", path.trim_end_matches('/')))]
                }
                _ => vec![of(&parameter.address.name)],
            }
        }
    }
}

/// The account id is unknown before a call; credentials reach no other account anyway.
fn arn(service: &str, connect: &Connect, resource: &str) -> String {
    let region = connect.region.as_deref().unwrap_or("*");
    format!("arn:aws:{service}:{region}:*:{resource}")
}
