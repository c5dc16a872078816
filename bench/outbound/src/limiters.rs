//! The controllers of the table.

use tollway_core::controller::{Aimd, AimdSettings, Auto, Controller, Pace, Report};
use tollway_core::{Span, Timestamp};
use tollway_vendor::{Figures, Run, Terms, run};

use crate::rivals::{Cubic, DocumentedAimd};

/// A controller to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limiter {
    Auto,
    DocumentedAimd,
    CorrectedAimd,
    Cubic,
}

impl Limiter {
    pub(crate) const ALL: [Self; 4] = [Self::Auto, Self::DocumentedAimd, Self::CorrectedAimd, Self::Cubic];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::DocumentedAimd => "AIMD documented",
            Self::CorrectedAimd => "AIMD corrected",
            Self::Cubic => "AWS cubic",
        }
    }

    /// Runs workers under this controller.
    pub(crate) fn run(self, terms: &Terms, how: &mut Run) -> Figures {
        match self {
            Self::Auto => run(terms, how, || ours(Controller::Auto(Auto::default()))),
            Self::CorrectedAimd => run(terms, how, || ours(Controller::Aimd(corrected()))),
            Self::DocumentedAimd => {
                how.client.report_every = Span::ZERO;
                run(terms, how, || {
                    let mut aimd = DocumentedAimd::new();
                    (aimd.pace(Timestamp::EPOCH), move |report: &Report<'_>| aimd.report(report))
                })
            }
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
    let trace = std::env::var_os("TRACE").is_some();
    (controller.pace(Timestamp::EPOCH), move |report: &Report<'_>| {
        let pace = controller.report(report);
        if trace && (report.refusal.is_some() || report.accepted_cut >= pace.cut) {
            eprintln!("{:8.2} {:?} acc {} {:?}", report.now.as_micros() as f64 / 1e6, report.refusal.map(|r| (r.cut, r.wait, r.named)), report.accepted, controller);
        }
        pace
    })
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
