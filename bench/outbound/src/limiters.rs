//! The controllers of the table.

use tollway_core::controller::{Aimd, AimdSettings, Auto, Controller, ONE_CALL, Pace, Report};
use tollway_core::{Span, Timestamp};
use tollway_vendor::{Figures, Run, Terms, run};

use crate::rivals::{Cubic, DocumentedAimd, Profile};

/// A controller to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limiter {
    Auto,
    DocumentedAimd,
    CorrectedAimd,
    Cubic,
    Profile,
}

impl Limiter {
    pub(crate) const ADAPTIVE: [Self; 4] =
        [Self::Auto, Self::DocumentedAimd, Self::CorrectedAimd, Self::Cubic];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::DocumentedAimd => "AIMD documented",
            Self::CorrectedAimd => "AIMD corrected",
            Self::Cubic => "AWS cubic",
            Self::Profile => "fixed limits",
        }
    }

    /// Runs workers under this controller.
    pub(crate) fn run(self, terms: &Terms, how: &mut Run) -> Figures {
        match self {
            Self::Auto => run(terms, how, || ours(Controller::Auto(Box::<Auto>::default()))),
            Self::CorrectedAimd => run(terms, how, || ours(Controller::Aimd(corrected()))),
            Self::DocumentedAimd => {
                how.client.report_every = Span::ZERO;
                run(terms, how, || {
                    let mut aimd = DocumentedAimd::new();
                    (aimd.pace(Timestamp::EPOCH), move |report: &Report<'_>| aimd.report(report))
                })
            }
            Self::Profile => run(terms, how, || {
                let mut profile = Profile::default();
                (profile.pace(Timestamp::EPOCH, 0), move |report: &Report<'_>| {
                    profile.pace(report.now, report.grants)
                })
            }),
            Self::Cubic => {
                how.client.report_every = Span::ZERO;
                how.client.sleeps_after_refusals = true;
                run(terms, how, || {
                    let mut cubic = Cubic::new();
                    (cubic.pace(), move |report: &Report<'_>| cubic.report(report))
                })
            }
        }
    }
}

fn ours(mut controller: Controller) -> (Pace, impl FnMut(&Report<'_>) -> Pace) {
    (controller.pace(Timestamp::EPOCH), move |report: &Report<'_>| controller.report(report))
}

/// The most calls that a client with a fixed pace gets accepted. It is told the best pace, obeys waits, and cannot see how
/// long a call will take.
pub(crate) fn best_pace(terms: &Terms, how: &Run) -> u64 {
    let slowest =
        terms.quotas.iter().flat_map(|quota| &quota.shapes).map(|(_, shape)| shape.rate()).max().unwrap_or(0);
    let at = |share: u64| {
        let rate = (slowest / 40 * share).max(1);
        let fixed = |hold| Pace { rate, burst: ONE_CALL, hold, cut: 0, cap: None };
        let figures = run(terms, how, || {
            (fixed(Span::ZERO), move |report: &Report<'_>| {
                fixed(report.refusal.map_or(Span::ZERO, |refusal| refusal.wait.unwrap_or(Span::from_secs(1))))
            })
        });
        figures.accepted()
    };
    (1..=44).map(at).max().unwrap_or(0)
}

/// The document's default settings: 2 a second at first, 0.1 to 50, steps of 0.1, halved at a refusal.
fn corrected() -> Aimd {
    let settings = AimdSettings {
        initial_rate: 2_000_000,
        min_rate: 100_000,
        max_rate: 50_000_000,
        increase_step: 100_000,
        decrease_factor: 500,
    };
    #[allow(clippy::expect_used)]
    Aimd::new(settings).expect("the settings are valid")
}
