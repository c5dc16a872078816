//! The message of the last stage, and where the files of a PDF are. AutoTag's and Extract's messages are the documented ones of
//! `tollway_pipeline::documents`.

use serde::{Deserialize, Serialize};

/// A PDF whose chunks are all extracted.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct FinishMessage {
    pub(crate) bucket: String,
    pub(crate) original_file_key: String,
    pub(crate) job_id: String,
}

/// Where the files of one PDF are.
pub(crate) struct Keys<'a> {
    folder: &'a str,
}

impl<'a> Keys<'a> {
    /// The keys of the PDF with this original, `uploads/job-123/original.pdf`.
    pub(crate) fn of_original(key: &'a str) -> Result<Self, String> {
        let folder = key.rsplit_once('/').map(|(folder, _)| folder);
        Ok(Self { folder: folder.ok_or_else(|| format!("{key} is in no folder of its own"))? })
    }

    /// The keys of the PDF with this chunk, and the chunk's name without `.pdf`.
    pub(crate) fn of_chunk(key: &'a str) -> Result<(Self, &'a str), String> {
        let parts = key.rsplit_once("/chunks/").and_then(|(folder, name)| {
            let name = name.strip_suffix(".pdf")?;
            (!name.contains('/')).then_some((folder, name))
        });
        let (folder, name) = parts.ok_or_else(|| format!("{key} is not FOLDER/chunks/NAME.pdf"))?;
        Ok((Self { folder }, name))
    }

    pub(crate) fn chunks(&self) -> String {
        format!("{}/chunks", self.folder)
    }

    pub(crate) fn chunk(&self, name: &str) -> String {
        format!("{}/chunks/{name}.pdf", self.folder)
    }

    pub(crate) fn autotagged(&self, name: &str) -> String {
        format!("{}/output_autotag/COMPLIANT_{name}.pdf", self.folder)
    }

    pub(crate) fn extracted(&self, name: &str) -> String {
        format!("{}/output_extract/{name}.json", self.folder)
    }

    /// What the final upload consists of.
    pub(crate) fn result(&self) -> String {
        format!("{}/result.json", self.folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P1: the keys of the documented messages.
    #[test]
    fn keys_are_the_documented_ones() {
        let (keys, name) = Keys::of_chunk("uploads/job-123/chunks/chunk_001.pdf").unwrap();
        assert_eq!(keys.autotagged(name), "uploads/job-123/output_autotag/COMPLIANT_chunk_001.pdf");
        let keys = Keys::of_original("uploads/job-123/original.pdf").unwrap();
        assert_eq!(keys.chunk(name), "uploads/job-123/chunks/chunk_001.pdf");
    }

    #[test]
    fn keys_that_are_no_chunks_are_refused() {
        for key in
            ["chunk_001.pdf", "uploads/job-1/chunks/", "uploads/job-1/chunks/a/b.pdf", "a/chunks/b.txt"]
        {
            assert!(Keys::of_chunk(key).is_err(), "{key}");
        }
    }
}
