//! Instructions and allocations per take, counted externally by valgrind.
//!
//! Counting allocations in this program would need a counting allocator, which would slow down libraries that allocate in
//! timed rounds. Two runs of a case differ only by a known number of takes.

use anyhow::{Context, Result, ensure};

use crate::contender::Contender;
use crate::keys::Keys;
use crate::report::{BenchReport, Better, Row};
use crate::rivals::{governor, leaky_bucket, limitador, throttlecrab, tollway};
use crate::valgrind;
use crate::work::{Time, Work};

/// Enough to need a map, few enough to create them all before the count.
const KEYS: u32 = 1_000;
const TAKES: u64 = 5_000;
/// A take of limitador costs tens of thousands of instructions.
const TAKES_OF_LIMITADOR: u64 = 500;
/// Room for the longer run of a case. Both runs create the same order, so that its creation cancels out.
const VISITS: usize = 8_192;

struct Case {
    work: Work,
    who: &'static str,
    takes: u64,
    contender: fn(Work, &Keys) -> Contender,
}

impl Case {
    const fn new(work: Work, who: &'static str, contender: fn(Work, &Keys) -> Contender) -> Self {
        Self { work, who, takes: TAKES, contender }
    }

    /// Whether it is counted in a quick run, too.
    fn is_quick(&self) -> bool {
        self.work == Work::OneLimit && ["tollway", "governor keyed", "limitador"].contains(&self.who)
    }

    /// Its name on the command line.
    fn name(&self) -> String {
        format!("{}/{}", self.work.label(), self.who)
    }
}

/// The first case of each work is ours; the others are compared with it.
fn cases() -> Vec<Case> {
    use Work::{Exhausted, NamedCost, NewSubject, OneLimit, SixLimits, TwoPolicies, WithId};
    let limitador =
        |work| Case { takes: TAKES_OF_LIMITADOR, ..Case::new(work, "limitador", limitador::contender) };
    let tollway = |work| Case::new(work, "tollway", |work, keys| tollway::contender(work, Time::Fixed, keys));
    let governor = |work, who| Case::new(work, who, |work, keys| governor::keyed(work, Time::Fixed, keys));
    let throttlecrab =
        |work| Case::new(work, "throttlecrab", |work, keys| throttlecrab::contender(work, Time::Fixed, keys));
    let mut cases = vec![
        tollway(OneLimit),
        Case::new(OneLimit, "governor direct", |work, keys| governor::direct(work, Time::Fixed, keys)),
        governor(OneLimit, "governor keyed"),
        Case::new(OneLimit, "leaky-bucket", leaky_bucket::contender),
        throttlecrab(OneLimit),
        limitador(OneLimit),
        tollway(SixLimits),
        governor(SixLimits, "six governors keyed"),
        limitador(SixLimits),
        tollway(Exhausted),
        governor(Exhausted, "governor keyed"),
        throttlecrab(Exhausted),
        limitador(Exhausted),
    ];
    for work in [NamedCost, WithId, TwoPolicies, NewSubject] {
        cases.push(Case::new(work, "tollway", |work, keys| tollway::slow_path(work, Time::Fixed, keys)));
        cases.push(Case::new(work, "tollway plain take", |_, keys| {
            tollway::contender(OneLimit, Time::Fixed, keys)
        }));
    }
    cases
}

/// What valgrind measures: a warm-up, then the takes.
pub(crate) fn count(name: &str, takes: usize) -> Result<()> {
    let case = cases().into_iter().find(|case| case.name() == name).context("there is no such case")?;
    let keys = Keys::new(KEYS, VISITS);
    let contender = (case.contender)(case.work, &keys).warm_up();
    let granted = contender.hire()(keys.order.get(..takes).context("too many takes")?);
    let wanted = if case.work.grants() { takes } else { 0 };
    ensure!(granted == wanted, "{granted} of {takes} takes were granted instead of {wanted}");
    Ok(())
}

/// Granted takes compared with two rivals if quick; else all.
pub(crate) fn measure(quick: bool, report: &mut BenchReport) -> Result<()> {
    if !valgrind::is_installed() {
        report.note("Instructions and allocations are left out: valgrind is not installed.".to_owned());
        return Ok(());
    }
    report.note(format!(
        "Instructions and allocations: counted by valgrind over {TAKES} takes ({TAKES_OF_LIMITADOR} of limitador), {KEYS} \
         keys, 1 thread. The clock stands still, except those of leaky-bucket and limitador."
    ));
    let mut ours = None;
    let mut allocations = Vec::new();
    for case in cases().into_iter().filter(|case| !quick || case.is_quick()) {
        eprintln!("count: {}", case.name());
        let counts = valgrind::count(&case.name(), case.takes)?;
        let Some((_, our)) = ours.filter(|(work, _)| *work == case.work) else {
            ours = Some((case.work, counts));
            continue;
        };
        let label = format!("{}, {}k keys", case.work.label(), KEYS / 1_000);
        let row = |unit, ours, theirs| Row::new(&label, case.who, unit, Better::Lower, ours, theirs);
        report.push(row("instructions", our.instructions, counts.instructions));
        allocations.push(row("allocations", our.allocations, counts.allocations));
    }
    allocations.into_iter().for_each(|row| report.push(row));
    Ok(())
}
