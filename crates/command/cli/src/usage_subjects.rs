//! The subjects that `tollway usage` lists: those in the store, most used first, and those of policies that the config
//! does not have.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use tollway::core::bounds::ACCOUNTS_LISTED_MAX;
use tollway::core::is_invisible;
use tollway::{Limiter, Name, Policy, Subject};

use crate::context::Context;
use crate::failure::Failure;
use crate::humanize;
use crate::layout::{COLUMNS, INDENT, cut};
use crate::meters::Meter;
use crate::output::{FAINT, STRONG};

/// The longest subject in text; JSON has all of it.
const SUBJECT_CHARS_MAX: usize = 32;

/// The accounts in the store, by policy.
#[derive(Default)]
pub(crate) struct AccountsInUse {
    /// `None` if they are not listed.
    listed: Option<BTreeMap<Name, Vec<Subject>>>,
    saw_all: bool,
    /// How many to show of each list.
    at_most: usize,
}

/// The subjects of one policy, most used first.
pub(crate) struct SubjectsInUse {
    pub(crate) rows: Vec<SubjectRow>,
    /// How many there are, shown or not.
    pub(crate) in_use: usize,
}

/// One subject and its meters.
#[derive(Serialize)]
pub(crate) struct SubjectRow {
    subject: String,
    limits: Vec<Meter>,
}

/// Policies that have accounts in the store and are not in the config.
pub(crate) struct NotInConfig {
    pub(crate) policies: Vec<UnknownPolicy>,
    more: usize,
}

/// One of them. Its limits are unknown, and so is how much of them is used.
#[derive(Serialize)]
pub(crate) struct UnknownPolicy {
    policy: String,
    subjects: Vec<String>,
    subjects_in_use: usize,
}

impl AccountsInUse {
    /// For a command that asks for one subject.
    pub(crate) fn not_listed() -> Self {
        Self::default()
    }

    /// Reads the accounts of one policy or of all. A store that cannot list them is no failure: the rest is shown.
    pub(crate) fn list(limiter: &Limiter, policy: Option<&str>, at_most: usize, context: &Context) -> Self {
        let policy = policy.and_then(|policy| Name::new(policy).ok());
        if at_most == 0 {
            return Self::not_listed();
        }
        match limiter.accounts(policy.as_ref(), ACCOUNTS_LISTED_MAX).now() {
            Ok(Some(list)) => {
                let mut listed: BTreeMap<Name, Vec<Subject>> = BTreeMap::new();
                for key in list.keys {
                    listed.entry(key.policy).or_default().push(key.subject);
                }
                Self { listed: Some(listed), saw_all: list.is_complete, at_most }
            }
            Ok(None) => {
                context.output().note("this store cannot list subjects; name one with -s NAME");
                Self::not_listed()
            }
            Err(error) => {
                context.output().warning(format_args!("cannot list subjects: {error}"));
                Self::not_listed()
            }
        }
    }

    /// Whether nothing is used, as far as is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.as_ref().is_none_or(BTreeMap::is_empty)
    }

    /// Whether the list has every account of the store.
    pub(crate) fn saw_all(&self) -> bool {
        self.saw_all
    }

    /// The subjects of a policy that have used some of it. The one without a name is not among them.
    pub(crate) fn subjects_of(
        &self,
        limiter: &Limiter,
        policy: &Policy,
        context: &Context,
    ) -> Result<Option<SubjectsInUse>, Failure> {
        let Some(listed) = &self.listed else { return Ok(None) };
        let known = listed.get(policy.name()).into_iter().flatten();
        let subjects: Vec<Subject> = known.filter(|subject| **subject != Subject::SHARED).cloned().collect();
        let usages = limiter.usage_of_each(policy.name().as_str(), subjects.iter().cloned()).now()?;
        let row = |(subject, usage): (Subject, _)| SubjectRow {
            subject: subject.to_string(),
            limits: Meter::of_usage(policy, &usage, context.now()),
        };
        let rows = subjects.into_iter().zip(usages).map(row);
        let mut rows: Vec<SubjectRow> = rows.filter(|row| row.limits.iter().any(Meter::is_used)).collect();
        rows.sort_by(|one, other| (other.used(), &one.subject).cmp(&(one.used(), &other.subject)));
        let in_use = rows.len();
        rows.truncate(self.at_most);
        Ok(Some(SubjectsInUse { rows, in_use }))
    }

    /// The accounts of other policies than these; nothing if there are none or the store did not list them.
    pub(crate) fn not_in_config(&self, policies: &[Arc<Policy>]) -> Option<NotInConfig> {
        let known: HashSet<&Name> = policies.iter().map(|policy| policy.name()).collect();
        let unknown = self.listed.as_ref()?.iter().filter(|(name, _)| !known.contains(name));
        let mut policies: Vec<UnknownPolicy> = unknown
            .map(|(name, subjects)| {
                let mut names: Vec<String> = subjects.iter().map(ToString::to_string).collect();
                names.sort_unstable();
                names.truncate(self.at_most);
                UnknownPolicy { policy: name.to_string(), subjects: names, subjects_in_use: subjects.len() }
            })
            .collect();
        let more = policies.len().saturating_sub(self.at_most);
        policies.truncate(self.at_most);
        (!policies.is_empty()).then_some(NotInConfig { policies, more })
    }

    /// Says that not every account was seen.
    pub(crate) fn note_bound(&self, context: &Context) {
        if self.listed.is_some() && !self.saw_all {
            let most = humanize::count(ACCOUNTS_LISTED_MAX as u64);
            context.output().note(format_args!("the store has more accounts; {most} of them were looked at"));
        }
    }
}

impl SubjectRow {
    /// How much is used of the limit that is used most, then of all limits together.
    fn used(&self) -> (u64, u64) {
        let used = || self.limits.iter().map(Meter::thousandths_used);
        (used().max().unwrap_or(0), used().fold(0, u64::saturating_add))
    }

    /// The limit that is used most, as text, within this width.
    fn text(&self, width: usize, context: &Context) -> String {
        let most = self.limits.iter().max_by_key(|meter| (meter.thousandths_used(), meter.is_used()));
        let Some(meter) = most else { return String::new() };
        let percent = match meter.thousandths_used() / 10 {
            0 => " <1%".to_owned(),
            percent => format!("{percent:>3}%"),
        };
        let named = match self.limits.len() {
            1 => format!("{percent}{INDENT}{}", meter.used_text()),
            _ => format!("{percent}{INDENT}{} ({})", meter.used_text(), meter.name()),
        };
        let reset = format!("{INDENT}{}", meter.reset_text(context.now(), false));
        if named.len() + reset.len() <= width { format!("{named}{FAINT}{reset}{FAINT:#}") } else { named }
    }
}

impl SubjectsInUse {
    /// Prints one line for each.
    pub(crate) fn show(&self, context: &Context) -> Result<(), Failure> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let output = context.output();
        let names: Vec<String> = self.rows.iter().map(|row| subject_text(&row.subject)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let shown = match self.in_use - self.rows.len() {
            0 => humanize::counted(self.in_use as u64, "subjects"),
            _ => format!("{} of {} subjects", self.rows.len(), humanize::count(self.in_use as u64)),
        };
        output.line(format_args!("{INDENT}{FAINT}{shown} with use, most used first{FAINT:#}"))?;
        let left = COLUMNS.saturating_sub(width + 3 * INDENT.len());
        for (name, row) in names.iter().zip(&self.rows) {
            output.line(format_args!("{INDENT}{INDENT}{name:width$}{INDENT}{}", row.text(left, context)))?;
        }
        Ok(())
    }
}

impl NotInConfig {
    /// Prints the policies and their subjects, and how to see their usage.
    pub(crate) fn show(&self, context: &Context) -> Result<(), Failure> {
        let output = context.output();
        let why = "limits given with --limit or by a request, or removed since";
        output.line(format_args!("{STRONG}not in the config{STRONG:#} {FAINT}({why}){FAINT:#}"))?;
        for unknown in &self.policies {
            output.line(format_args!("{INDENT}{}", unknown.policy))?;
            for subject in &unknown.subjects {
                output.line(format_args!("{INDENT}{INDENT}{}", subject_text(subject)))?;
            }
            and_more(unknown.subjects_in_use - unknown.subjects.len(), "subjects", context)?;
        }
        and_more(self.more, "policies", context)?;
        if let Some(first) = self.policies.first() {
            let example = format!("tollway usage {} --limit \"200 / minute\"", first.policy);
            output.line(format_args!(
                "{INDENT}{FAINT}to see what is used, give the limit: {example}{FAINT:#}"
            ))?;
        }
        Ok(())
    }
}

fn and_more(count: usize, what: &str, context: &Context) -> Result<(), Failure> {
    match count {
        0 => Ok(()),
        _ => context.output().line(format_args!("{INDENT}{INDENT}{FAINT}and {count} more {what}{FAINT:#}")),
    }
}

/// A subject as text on one line: clients choose it, so it may be long or contain control codes.
fn subject_text(subject: &str) -> String {
    if subject.is_empty() {
        return "(no subject)".to_owned();
    }
    let escaped = |sign: char| match is_invisible(sign) {
        true => sign.escape_default().collect::<String>(),
        false => sign.to_string(),
    };
    cut(&subject.chars().map(escaped).collect::<String>(), SUBJECT_CHARS_MAX)
}
