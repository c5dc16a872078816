//! What the config needs of AWS beside its store: queues, ledgers, parameters and the topic of incidents.

use tollway::StoreUrl;

use super::finding::{Finding, Findings};
use crate::context::WholeConfig;
use crate::provision::aws::survey::{Condition, Surveyed, survey};

/// Looks at them. False if the ledger of a pipeline cannot be used: its jobs need not be asked for.
pub(super) async fn look_at(config: &WholeConfig, store: Option<&StoreUrl>, findings: &mut Findings) -> bool {
    let surveyed = survey(config, store).await;
    let is_lost = |one: &Surveyed| {
        matches!(one.condition, Condition::Unknown(_))
            || one.is_ledger && matches!(one.condition, Condition::Missing | Condition::Unusable(_))
    };
    let has_ledger = !surveyed.iter().any(is_lost);
    for one in surveyed {
        findings.checked(one.name.clone());
        findings.findings.extend(finding(one));
    }
    has_ledger
}

fn finding(one: Surveyed) -> Option<Finding> {
    let Surveyed { name, condition, .. } = one;
    let apply = "run `tollway provision aws --apply`";
    Some(match condition {
        Condition::Ready => return None,
        Condition::Missing => Finding::problem(
            "aws-missing",
            format!("the {name} does not exist"),
            why_missing(&name),
            format!("{apply}, or correct its name, region or endpoint in the config"),
        ),
        Condition::Different(why) => Finding::note(
            "aws-different",
            format!("the {name} is not as the config has it: {why}"),
            "jobs may be delivered again too early, or become dead letters too soon",
            apply,
        ),
        Condition::Unusable(error) => {
            Finding::problem("aws-unusable", error.message, "nothing that needs it works", error.advice)
        }
        Condition::Unknown(error) => Finding::problem(
            "aws-unreachable",
            error.message,
            "what AWS does not show cannot be checked, and may not work either",
            error.advice,
        ),
    })
}

fn why_missing(name: &str) -> &'static str {
    match name.split(' ').next() {
        Some("topic") => "incidents and alarms are not sent",
        Some("parameter") => "the limit is what the config says, and changes of the parameter do nothing",
        _ => "no job begins, and none can be enqueued",
    }
}
