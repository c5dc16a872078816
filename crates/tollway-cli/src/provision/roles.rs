//! Least-privilege IAM policies for each role.

use serde_json::{Value, json};
use tollway_aws::Connect;

use super::resources::{Resource, Use};

/// A process that takes.
const WORKER: &str = "worker";

/// An operator creates tables and changes limits.
const OPERATOR: &str = "operator";

/// The policies by role.
pub(super) fn policies(wanted: &[Resource]) -> [(&'static str, Value); 2] {
    [(WORKER, document(wanted, for_worker)), (OPERATOR, document(wanted, for_operator))]
}

fn document(wanted: &[Resource], actions: fn(&Resource) -> Vec<&'static str>) -> Value {
    let statement =
        |wanted: &Resource| json!({ "Effect": "Allow", "Action": actions(wanted), "Resource": arns(wanted) });
    let mut statements: Vec<Value> = Vec::new();
    for statement in wanted.iter().map(statement) {
        // Parameters under one path share a statement.
        if !statements.contains(&statement) {
            statements.push(statement);
        }
    }
    json!({ "Version": "2012-10-17", "Statement": statements })
}

fn for_worker(wanted: &Resource) -> Vec<&'static str> {
    match wanted {
        Resource::Table { layout: Some(_), .. } => vec!["dynamodb:GetItem", "dynamodb:UpdateItem"],
        Resource::Table { layout: None, .. } => {
            vec!["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:ConditionCheckItem"]
        }
        Resource::Parameter { use_: Use::Alone, .. } => vec!["ssm:GetParameter"],
        Resource::Parameter { use_: Use::Below(_), .. } => vec!["ssm:GetParametersByPath"],
    }
}

/// A worker's actions, because operators read usage, and those of `tollway provision aws --apply`.
fn for_operator(wanted: &Resource) -> Vec<&'static str> {
    let more: &[&str] = match wanted {
        Resource::Table { .. } => &[
            "dynamodb:DescribeTable",
            "dynamodb:CreateTable",
            "dynamodb:DescribeTimeToLive",
            "dynamodb:UpdateTimeToLive",
        ],
        Resource::Parameter { use_: Use::Alone, .. } => &["ssm:PutParameter"],
        Resource::Parameter { use_: Use::Below(_), .. } => &["ssm:GetParameter", "ssm:PutParameter"],
    };
    let mut actions = for_worker(wanted);
    actions.extend(more);
    actions
}

fn arns(wanted: &Resource) -> Vec<String> {
    match wanted {
        Resource::Table { table, connect, .. } => {
            vec![arn("dynamodb", connect, &format!("table/{}", table.name))]
        }
        Resource::Parameter { parameter, use_ } => {
            let connect = &parameter.address.connect;
            let of = |name: &str| arn("ssm", connect, &format!("parameter/{}", name.trim_start_matches('/')));
            match use_ {
                Use::Alone => vec![of(&parameter.address.name)],
                Use::Below(path) => vec![of(path), of(&format!("{}/*", path.trim_end_matches('/')))],
            }
        }
    }
}

/// The account id is unknown before a call; credentials reach no other account anyway.
fn arn(service: &str, connect: &Connect, resource: &str) -> String {
    let region = connect.region.as_deref().unwrap_or("*");
    format!("arn:aws:{service}:{region}:*:{resource}")
}
