//! `provision aws`: lists and creates resources, and is idempotent; and commands that use the resources.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::io::Write;
use std::process::{Command, Stdio};

use crate::home::Home;
use crate::serve::serving::Serving;
use tollway_testkit::servers::{DynamoServer, Ministack, python_tool};

/// A config with a per-minute table and a parameter, on the test's own servers.
fn config(tables: &DynamoServer, parameters: &Ministack, name: &str) -> String {
    let (tables, parameters) = (tables.addr(), parameters.endpoint());
    format!(
        r#"
        [store]
        url = "dynamodb://test:test@?layout=minute&deadline=20s&region=eu-west-1&endpoint=http://{tables}"
        [policies.adobe]
        limits = ["200 requests / minute"]
        source = "ssm:{name}?region=eu-west-1&endpoint={parameters}&access=test:test"
        "#
    )
}

/// The states in a report.
fn states(report: &str) -> Vec<&str> {
    let line = |line: &'static str| report.lines().filter(move |said| said.contains(line));
    ["table ", "parameter "]
        .into_iter()
        .flat_map(line)
        .filter_map(|said| said.split_whitespace().next())
        .collect()
}

/// A4, A6: the plan creates nothing; `--apply` creates everything; a second one changes nothing.
#[test]
fn plan_changes_nothing_and_apply_is_idempotent() {
    let (tables, parameters) = (DynamoServer::start(), Ministack::shared());
    let home = Home::with_config(&config(&tables, parameters, "/provision/adobe-api-rpm"));
    for _ in 0..2 {
        let (exit, plan, said) = home.run(&["provision", "aws", "--plan"]);
        assert_eq!((exit, states(&plan)), (0, vec!["missing", "missing"]), "{plan}{said}");
        assert!(plan.contains("table adobe-api-rate-limit") && plan.contains("key minute_key (S)"), "{plan}");
        assert!(said.contains("nothing was created"), "{said}");
    }
    let (exit, report, said) = home.run(&["provision", "aws", "--apply"]);
    assert_eq!((exit, states(&report)), (0, vec!["created", "created"]), "{report}{said}");
    assert!(said.contains("creating table adobe-api-rate-limit"), "{said}");
    for arguments in [&["provision", "aws", "--apply"][..], &["provision", "aws"]] {
        let (exit, report, said) = home.run(arguments);
        assert_eq!((exit, states(&report)), (0, vec!["exists", "exists"]), "{report}{said}");
        assert!(report.contains("value 200"), "{report}");
    }
}

/// The least privileges of each role, as IAM policies.
#[test]
fn iam_policies_are_printed() {
    let (tables, parameters) = (DynamoServer::start(), Ministack::shared());
    let home = Home::with_config(&config(&tables, parameters, "/provision/roles"));
    let (exit, answer, _) = home.run(&["provision", "aws", "--json"]);
    assert_eq!(exit, 0);
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let worker = &answer["iam"]["worker"]["Statement"];
    assert_eq!(worker[0]["Action"], serde_json::json!(["dynamodb:GetItem", "dynamodb:UpdateItem"]));
    let table = "arn:aws:dynamodb:eu-west-1:*:table/adobe-api-rate-limit";
    assert_eq!(worker[0]["Resource"], serde_json::json!([table]));
    assert_eq!(worker[1]["Action"], serde_json::json!(["ssm:GetParameter"]));
    let parameter = "arn:aws:ssm:eu-west-1:*:parameter/provision/roles";
    assert_eq!(worker[1]["Resource"], serde_json::json!([parameter]));
    let operator = answer["iam"]["operator"].to_string();
    assert!(operator.contains("ssm:PutParameter") && !operator.contains("CreateTable"), "{operator}");
    let provisioner = answer["iam"]["provisioner"].to_string();
    assert!(
        provisioner.contains("dynamodb:CreateTable") && !provisioner.contains("GetItem"),
        "{provisioner}"
    );
    assert_eq!(answer["applied"], false);
    assert_eq!(answer["steps"][0]["state"], "missing");
}

/// A table of accounts needs condition checks, and the parameters of several limits are read by their path.
#[test]
fn iam_policies_for_accounts_and_several_limits_are_printed() {
    let (tables, parameters) = (DynamoServer::start(), Ministack::shared());
    let text = config(&tables, parameters, "/provision/lines");
    let text = text.replace("@?layout=minute&", "@tollway?");
    let home = Home::with_config(&text.replace("/ minute\"]", "/ minute\", \"9k requests / day\"]"));
    let (exit, answer, said) = home.run(&["provision", "aws", "--json"]);
    assert_eq!(exit, 0, "{said}");
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let below = ["", "/*"].map(|end| format!("arn:aws:ssm:eu-west-1:*:parameter/provision/lines{end}"));
    let worker = serde_json::json!([
        {
            "Effect": "Allow",
            "Action": ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"],
            "Resource": ["arn:aws:dynamodb:eu-west-1:*:table/tollway"],
        },
        { "Effect": "Allow", "Action": ["ssm:GetParametersByPath"], "Resource": below },
    ]);
    assert_eq!(answer["iam"]["worker"]["Statement"], worker, "one statement for both parameters");
    let operator = &answer["iam"]["operator"]["Statement"][1];
    let actions = ["ssm:GetParametersByPath", "ssm:GetParameter", "ssm:PutParameter"];
    assert_eq!((&operator["Action"], &operator["Resource"]), (&actions.into(), &below.to_vec().into()));
    assert_eq!(answer["steps"].as_array().unwrap().len(), 3, "a table and two parameters");
}

/// A6: an existing table without TTL is reported, and gets TTL.
#[test]
fn apply_turns_on_ttl_of_an_existing_table() {
    let (tables, parameters) = (DynamoServer::start(), Ministack::shared());
    let table = serde_json::json!({ "TableName": "adobe-api-rate-limit" });
    let mut made = table.clone();
    made["BillingMode"] = "PAY_PER_REQUEST".into();
    made["KeySchema"] = serde_json::json!([{ "AttributeName": "minute_key", "KeyType": "HASH" }]);
    made["AttributeDefinitions"] =
        serde_json::json!([{ "AttributeName": "minute_key", "AttributeType": "S" }]);
    tables.ask("CreateTable", &made);
    let ttl = || tables.ask("DescribeTimeToLive", &table)["TimeToLiveDescription"].clone();
    let home = Home::with_config(&config(&tables, parameters, "/provision/mended"));
    let (exit, plan, said) = home.run(&["provision", "aws", "--plan"]);
    assert_eq!((exit, states(&plan)[0]), (0, "incomplete"), "{plan}{said}");
    assert!(plan.contains("TTL is off"), "{plan}");
    assert_ne!(ttl()["AttributeName"], "ttl", "a plan changes nothing");
    let (exit, report, said) = home.run(&["provision", "aws", "--apply"]);
    assert_eq!((exit, states(&report)[0]), (0, "created"), "{report}{said}");
    assert_eq!(ttl()["AttributeName"], "ttl");
    let (_, report, _) = home.run(&["provision", "aws", "--plan"]);
    assert_eq!(states(&report)[0], "exists", "{report}");
}

/// A table with another key is refused with advice, and nothing else is created.
#[test]
fn table_with_another_key_is_rejected() {
    let (tables, parameters) = (DynamoServer::start(), Ministack::shared());
    let text = config(&tables, parameters, "/provision/refused");
    let lines = Home::with_config(&text.replace("?layout=minute&", "adobe-api-rate-limit?"));
    assert_eq!(lines.run(&["provision", "aws", "--apply"]).0, 0);
    let other = text.replace("/provision/refused", "/provision/not-made");
    let home = Home::with_config(&other);
    for arguments in [&["provision", "aws"][..], &["provision", "aws", "--apply"]] {
        let (exit, report, said) = home.run(arguments);
        assert_eq!((exit, states(&report)), (69, vec!["refused", "missing"]), "{report}{said}");
        assert!(said.contains("has the key key (S), but needs minute_key (S)"), "{said}");
        assert!(said.contains("use another table"), "{said}");
    }
}

/// A4: the environment names the table and the parameter if the config does not.
#[test]
fn table_and_parameter_names_come_from_the_environment() {
    let (tables, parameters) = (DynamoServer::start(), Ministack::shared());
    let home = Home::with_config(&config(&tables, parameters, ""));
    let named = |table: &str, parameter: &str| {
        let mut command = home.tollway(&["provision", "aws", "--json"]);
        command.env("RATE_LIMIT_TABLE", table).env("ADOBE_API_RPM_PARAM", parameter);
        let answer: serde_json::Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        [0, 1].map(|step| answer["steps"][step]["name"].as_str().unwrap().to_owned())
    };
    assert_eq!(named("", ""), ["adobe-api-rate-limit", "/pdf-processing/adobe-api-rpm"]);
    assert_eq!(named("other-table", "/other/rpm"), ["other-table", "/other/rpm"]);
}

#[test]
fn config_without_aws_resources_is_an_error() {
    let home = Home::with_config("policies.adobe.limits = ['200 / minute']");
    let (exit, _, said) = home.run(&["provision", "aws"]);
    assert_eq!(exit, 78);
    assert!(said.contains("the config needs no AWS resources") && said.contains("dynamodb://"), "{said}");
}

/// Overwrites the parameter with boto3, as the documented script does.
pub(crate) fn put(parameters: &Ministack, name: &str, value: &str) {
    let mut python = Command::new(python_tool("python3"))
        .arg("-")
        .env("AWS_ENDPOINT_URL", parameters.endpoint())
        .env("AWS_DEFAULT_REGION", "eu-west-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let script = format!(
        "import boto3\nboto3.client('ssm').put_parameter(Name={name:?}, Value={value:?}, Type='String', Overwrite=True)"
    );
    python.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(python.wait().unwrap().success());
}

/// A3: `limit get` and `usage` show the origin of the amount; a take uses it.
#[test]
fn commands_use_the_parameter_and_show_its_origin() {
    let (tables, parameters) = (DynamoServer::start(), Ministack::shared());
    let name = "/provision/followed";
    let home = Home::with_config(&config(&tables, parameters, name));
    assert_eq!(home.run(&["provision", "aws", "--apply"]).0, 0);
    put(parameters, name, "250");
    let (exit, limits, said) = home.run(&["limit", "get"]);
    assert_eq!(exit, 0, "{said}");
    assert!(
        limits.contains("250 requests / minute") && limits.contains("from ssm:/provision/followed, read at")
    );
    let one_line = limits.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains("the config has 200 requests / minute"), "{limits}");
    let (exit, answer, said) = home.run(&["take", "adobe", "-s", "autotag", "--json"]);
    assert_eq!(exit, 0, "{said}");
    assert!(answer.contains("\"amount\":250"), "{answer}");
    let (_, usage, _) = home.run(&["usage"]);
    assert!(usage.contains("requests_per_minute: 250 from ssm:/provision/followed"), "{usage}");
    let (_, usage, _) = home.run(&["usage", "--json"]);
    assert!(usage.contains("\"from\":\"ssm:/provision/followed\""), "{usage}");
}

/// A caller's mistake on a table of minutes is told from a store that fails, and takes nothing.
#[test]
fn mistakes_on_a_table_of_minutes_exit_2() {
    let tables = DynamoServer::start();
    let url = |layout: &str| {
        let addr = tables.addr();
        format!(
            "dynamodb://test:test@{layout}?layout={layout}&deadline=20s&region=eu-west-1&endpoint=http://{addr}"
        )
    };
    let home_of = |layout| {
        let policies = "[policies.adobe]\nlimits = [\"200 requests / minute\"]\n";
        let home = Home::with_config(&format!("[store]\nurl = \"{}\"\n{policies}", url(layout)));
        assert_eq!(home.run(&["provision", "aws", "--apply"]).0, 0);
        home
    };
    let [minute, api_minute] = ["minute", "api-minute"].map(home_of);
    let hour = ["x", "--limit", "5 / hour"];
    for (home, arguments, says) in [
        (&minute, &["take", "adobe", "--id", "a"][..], "remembers no ids"),
        (&minute, &["run", "-p", "adobe", "--id", "a", "--", "true"], "remembers no ids"),
        (&minute, &["take", "adobe", "--cost", "requests=201"], "can never be granted"),
        (&minute, &["run", "-p", "adobe", "--cost", "requests=201", "--", "true"], "can never be granted"),
        (&minute, &[&["take"], &hour[..]].concat(), "does not fit the layout minute"),
        (&minute, &[&["why"], &hour[..]].concat(), "does not fit the layout minute"),
        (&minute, &[&["usage"], &hour[..]].concat(), "does not fit the layout minute"),
        (&minute, &[&["reset"], &hour[..]].concat(), "does not fit the layout minute"),
        (&api_minute, &["take", "adobe"], "needs a subject"),
    ] {
        let (exit, _, beside) = home.run(arguments);
        assert!(exit == 2 && beside.contains(says), "{arguments:?}: {exit} {beside}");
    }
    assert!(tables.items("minute").is_empty() && tables.items("api-minute").is_empty());
    // A store that fails is still a store that fails.
    minute
        .write("tollway.toml", format!("[store]\nurl = \"{}\"\n", url("minute").replace("@minute", "@none")));
    assert_eq!(minute.run(&["take", "adobe", "--limit", "5 / minute"]).0, 69);
}

/// A5: `take`, `run` and `serve` write the documented lines, and no warning of settings, which this layout does not have.
#[test]
fn run_take_and_serve_write_the_documented_log_lines() {
    let (tables, parameters) = (DynamoServer::start(), Ministack::shared());
    let text = config(&tables, parameters, "/provision/logged");
    let source = text.lines().find(|line| line.contains("source =")).unwrap();
    let text = text.replace(source, "").replace("200 requests", "3 requests");
    let home = Home::with_config(&format!("{text}\n[server]\nlisten = \"127.0.0.1:0\"\n"));
    assert_eq!(home.run(&["provision", "aws", "--apply"]).0, 0);
    let taken = |said: &str| said.matches("Rate limit token acquired for autotag: ").count();
    let (mut waited, mut calls) = (String::new(), 0);
    // A minute may end between two takes.
    while waited.is_empty() {
        let (exit, _, said) = home.run(&["take", "adobe", "-s", "autotag", "--max-wait", "1s"]);
        assert!(!said.contains("WARN"), "{said}");
        match exit {
            0 => assert_eq!(taken(&said), 1, "{said}"),
            _ => waited = said,
        }
        calls += 1;
        assert!(calls < 20, "no minute has more than three");
    }
    assert!(waited.contains("Rate limit reached (3/min), waiting for next minute window..."), "{waited}");
    assert!(waited.contains(" seconds for next minute window..."), "{waited}");
    home.run(&["reset", "adobe"]);
    let (_, _, said) = home.run(&["run", "--policy", "adobe", "-s", "autotag", "--", "true"]);
    assert_eq!((taken(&said), said.contains("WARN")), (1, false), "{said}");
    let (_, _, said) = home.run(&["take", "adobe", "-s", "autotag", "--quiet"]);
    assert_eq!(said, "");
    let serving = Serving::start(&home, &[]);
    let answer = serving.ask("decisions", "POST /v1/take", "", TAKE);
    let (_, log) = serving.stop();
    assert!(taken(&log) == 1 && !log.contains("WARN"), "{log}\n{answer}");
    assert!(log.contains("`permits` in [server.tokens]"), "{log}");
}

const TAKE: &str = r#"{"policy": "adobe", "subject": "autotag", "wait_ms": 60000}"#;

/// The table has no place for the signing secret, so the config names it.
#[test]
fn servers_of_a_table_of_minutes_accept_each_others_permits() {
    let (tables, parameters) = (DynamoServer::start(), Ministack::shared());
    let text = config(&tables, parameters, "/provision/permits");
    let source = text.lines().find(|line| line.contains("source =")).unwrap();
    let text = text.replace(source, "");
    let home = Home::with_config(&format!(
        "{text}\n[server]\nlisten = \"127.0.0.1:0\"\n[server.tokens]\npermits = \"file:permits\"\n"
    ));
    home.write("permits", "0123456789abcdef-of-all-servers");
    assert_eq!(home.run(&["provision", "aws", "--apply"]).0, 0);
    let (one, other) = (Serving::start(&home, &[]), Serving::start(&home, &[]));
    let taken = one.ask("decisions", "POST /v1/take", "", TAKE);
    let body: serde_json::Value = serde_json::from_str(taken.split("\r\n\r\n").last().unwrap()).unwrap();
    let permit = serde_json::json!({ "permit": body["permit"] }).to_string();
    let returned = other.ask("decisions", "POST /v1/return", "", &permit);
    assert!(returned.starts_with("HTTP/1.1 200"), "{returned}");
}
