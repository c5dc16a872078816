//! The work: PDFs that go through two stages, a few of which fail until their data is corrected.

use serde::{Deserialize, Serialize};

/// The stages, in order. Each makes one call for a document.
pub(super) const STAGES: [&str; 2] = ["autotag", "extract"];

/// The most documents.
pub(super) const JOBS_MAX: u64 = 2_000;
/// Enough for the faulty ones to be apart.
pub(super) const JOBS_MIN: u64 = 10;

/// How many documents fail in the second stage.
pub(super) const FAULTY: u64 = 3;

/// How often a job is tried.
pub(super) const TRIES: u32 = 3;

const KNOWN_SIZE: &str = "A4";
const UNKNOWN_SIZE: &str = "Z9";

/// The data of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Document {
    pub(super) document: String,
    page_size: String,
}

impl Document {
    /// A document by its number, from 1 to `jobs`. The faulty ones come early, so that their tries are over before the end.
    pub(super) fn new(number: u64, jobs: u64) -> Self {
        let is_faulty = (1..=FAULTY).any(|nth| number == jobs * nth / 5);
        let page_size = if is_faulty { UNKNOWN_SIZE } else { KNOWN_SIZE };
        Self { document: name(number), page_size: page_size.to_owned() }
    }

    /// Why the second stage cannot handle it.
    pub(super) fn fault(&self) -> Option<String> {
        (self.page_size != KNOWN_SIZE).then(|| format!("unknown page size {:?}", self.page_size))
    }

    /// The same with corrected data.
    pub(super) fn corrected(self) -> Self {
        Self { page_size: KNOWN_SIZE.to_owned(), ..self }
    }
}

/// The name of a document, which is the key of its first job.
pub(super) fn name(number: u64) -> String {
    format!("doc-{number:04}")
}

/// The number of a document, from its name or from the key of one of its jobs.
pub(super) fn number(key: &str) -> Option<u64> {
    let name = key.split('>').next()?;
    name.strip_prefix("doc-")?.parse().ok().filter(|number| (1..=JOBS_MAX).contains(number))
}

/// The position of a stage.
pub(super) fn stage_index(stage: &str) -> Option<usize> {
    STAGES.iter().position(|known| *known == stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_documents_are_faulty_until_corrected() {
        for jobs in [JOBS_MIN, 60, 500, JOBS_MAX] {
            let faulty: Vec<Document> = (1..=jobs)
                .map(|number| Document::new(number, jobs))
                .filter(|document| document.fault().is_some())
                .collect();
            assert_eq!(faulty.len() as u64, FAULTY, "{jobs}");
            assert!(faulty.into_iter().all(|document| document.corrected().fault().is_none()));
        }
    }

    #[test]
    fn keys_of_both_stages_name_the_document() {
        assert_eq!(
            [number("doc-0042"), number("doc-0042>autotag.0"), number("doc-2000")],
            [Some(42), Some(42), Some(2_000)]
        );
        assert_eq!([number("doc-0000"), number("doc-2001"), number("x-1"), number("")], [None; 4]);
    }
}
