//! The importer of OBP-API's properties.

use tollway_import::obp::{self, Password};
use tollway_import::{ImportError, SourceFile};

use crate::{fuzz, is_harmless};

/// C6: an import writes a valid config, and its notes are printable.
#[test]
fn properties() {
    fuzz("properties", |input| {
        match obp::import(SourceFile { name: "fuzz.props", bytes: input }, Password::Write) {
            Ok(imported) => {
                imported.notes.iter().for_each(|note| is_harmless(note));
                let enabled = imported.config.contains("\nenabled = true");
                format!("{} notes, {enabled}", imported.notes.len().min(6))
            }
            Err(ImportError::Wrong { problem, .. }) => {
                assert!(!problem.starts_with("these properties make no config"), "{problem}");
                is_harmless(&problem);
                tollway_fuzz::kind_of(&problem)
            }
            Err(error) => panic!("{error}"),
        }
    });
}
