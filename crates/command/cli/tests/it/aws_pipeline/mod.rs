//! A pipeline as it runs on AWS: metrics in CloudWatch, alarms over SNS, provisioned resources, and Lambda.

mod alarms;
mod cloudwatch;
mod cloudwatch_server;
mod destroy;
mod documented_table;
mod errors;
mod iam;
mod lambda;
mod provision;

use crate::home::Home;

/// Does a job as its data says, and answers in the protocol of subprocess handlers.
const WORKER: &str = r#"
import json, os, sys, time
for line in sys.stdin:
    job = json.loads(line)["job"]
    data = job["data"]
    if data.get("fail"):
        answer = {"retry": job["id"], "error": "page 7 cannot be read"}
    elif data.get("dead"):
        answer = {"dead": job["id"], "error": "not a PDF"}
    elif data.get("busy") and not os.path.exists(data["busy"]):
        open(data["busy"], "w").close()
        answer = {"rate_limited": job["id"], "after": 0.01}
    elif data.get("slow"):
        time.sleep(600)
    elif job["stage"] == "extract":
        answer = {"done": job["id"]}
    else:
        answer = {"done": job["id"], "outputs": [{"data": data}] * data.get("outputs", 1)}
        if "used" in data:
            answer["cost"] = data["used"]
    print(json.dumps(answer), flush=True)
"#;

/// Two stages with their documented queues.
const PIPELINE: &str = r#"
[store]
url = "file:state"
[policies.adobe]
limits = ["RPM: 100k requests / minute"]
[pipelines.pdf]
engine = "sqlite:pdf.db"
[[pipelines.pdf.stages]]
name = "autotag"
queue = "adobe-autotag-queue"
dead_letter_queue = "adobe-autotag-dlq"
take = { adobe = { requests = 1 } }
handler = { command = ["python3", "worker.py"] }
tries = 1
[[pipelines.pdf.stages]]
name = "extract"
queue = "adobe-extract-queue"
dead_letter_queue = "adobe-extract-dlq"
take = { adobe = { requests = 1 } }
handler = { command = ["python3", "worker.py"] }
"#;

fn home(config: &str) -> Home {
    let home = Home::with_config(config);
    home.write("worker.py", WORKER);
    home
}

fn enqueue(home: &Home, keys: std::ops::RangeInclusive<u32>, rest: &str) {
    let lines: String = keys.map(|key| format!("{{\"key\": \"{key}\"{rest}}}\n")).collect();
    home.write("jobs.jsonl", lines);
    let (code, _, error) = home.run(&["pipeline", "enqueue", "jobs.jsonl"]);
    assert_eq!(code, 0, "{error}");
}

/// The variables of a process that has an AWS account at this endpoint.
fn account(endpoint: &str) -> [(&'static str, String); 4] {
    [
        ("AWS_ENDPOINT_URL", endpoint.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
    ]
}
