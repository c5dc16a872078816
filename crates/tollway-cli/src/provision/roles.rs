//! What each role must be allowed, and nothing more, as policies of IAM.

use serde_json::{Value, json};
use tollway_aws::Connect;

use super::wanted::{Use, Wanted};

/// A task that takes.
const WORKER: &str = "worker";

/// An operator makes tables and changes limits.
const OPERATOR: &str = "operator";

/// The policies by role.
pub(super) fn policies(wanted: &[Wanted]) -> [(&'static str, Value); 2] {
    [(WORKER, document(wanted, for_worker)), (OPERATOR, document(wanted, for_operator))]
}

fn document(wanted: &[Wanted], actions: fn(&Wanted) -> Vec<&'static str>) -> Value {
    let statement =
        |wanted: &Wanted| json!({ "Effect": "Allow", "Action": actions(wanted), "Resource": arns(wanted) });
    let mut statements: Vec<Value> = Vec::new();
    for statement in wanted.iter().map(statement) {
        // Parameters that are read together are allowed together.
        if !statements.contains(&statement) {
            statements.push(statement);
        }
    }
    json!({ "Version": "2012-10-17", "Statement": statements })
}

fn for_worker(wanted: &Wanted) -> Vec<&'static str> {
    match wanted {
        Wanted::Table { layout: Some(_), .. } => vec!["dynamodb:GetItem", "dynamodb:UpdateItem"],
        Wanted::Table { layout: None, .. } => {
            vec!["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:ConditionCheckItem"]
        }
        Wanted::Parameter { use_: Use::Alone, .. } => vec!["ssm:GetParameter"],
        Wanted::Parameter { use_: Use::Below(_), .. } => vec!["ssm:GetParametersByPath"],
    }
}

/// A worker's actions, because operators read usage, and those of `tollway provision aws --apply`.
fn for_operator(wanted: &Wanted) -> Vec<&'static str> {
    let more: &[&str] = match wanted {
        Wanted::Table { .. } => &[
            "dynamodb:DescribeTable",
            "dynamodb:CreateTable",
            "dynamodb:DescribeTimeToLive",
            "dynamodb:UpdateTimeToLive",
        ],
        Wanted::Parameter { use_: Use::Alone, .. } => &["ssm:PutParameter"],
        Wanted::Parameter { use_: Use::Below(_), .. } => &["ssm:GetParameter", "ssm:PutParameter"],
    };
    let mut actions = for_worker(wanted);
    actions.extend(more);
    actions
}

fn arns(wanted: &Wanted) -> Vec<String> {
    match wanted {
        Wanted::Table { table, connect, .. } => {
            vec![arn("dynamodb", connect, &format!("table/{}", table.name))]
        }
        Wanted::Parameter { parameter, use_ } => {
            let connect = &parameter.address.connect;
            let of = |name: &str| arn("ssm", connect, &format!("parameter/{}", name.trim_start_matches('/')));
            match use_ {
                Use::Alone => vec![of(&parameter.address.name)],
                Use::Below(path) => vec![of(path), of(&format!("{}/*", path.trim_end_matches('/')))],
            }
        }
    }
}

/// The account is not known before a call with its credentials, which reach no other account anyway.
fn arn(service: &str, connect: &Connect, resource: &str) -> String {
    let region = connect.region.as_deref().unwrap_or("*");
    format!("arn:aws:{service}:{region}:*:{resource}")
}
