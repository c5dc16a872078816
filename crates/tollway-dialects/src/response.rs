//! A vendor's response, and the fields of it that tables name.

use std::borrow::Cow;

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use smallvec::SmallVec;

use crate::body::ResponseBody;
use crate::headers::joined;
use crate::times;

/// A response as a dialect reads it.
#[derive(Clone, Copy, Debug)]
pub struct VendorResponse<'r> {
    /// The status.
    pub status: StatusCode,
    /// The headers, with the vendor's own `Date`: dates in other headers are compared with it.
    pub headers: &'r HeaderMap,
    /// The body or its beginning; empty if it was not read. At most [`BODY_BYTES_MAX`](crate::BODY_BYTES_MAX) bytes are
    /// looked at, and of a success only if the vendor is known to refuse inside one.
    pub body: &'r [u8],
}

/// A field of a response: a header, or a path in its JSON body.
#[derive(Clone, Copy)]
pub(crate) enum ResponseField {
    Header(&'static str),
    Body(&'static str),
}

/// What a field must say.
#[derive(Clone, Copy)]
pub(crate) enum TextMatch {
    Present,
    /// There is no such field.
    Absent,
    Is(&'static str),
    /// In any case of letters.
    Contains(&'static str),
}

/// A response with its body and date parsed.
pub(crate) struct ParsedResponse<'r> {
    pub(crate) status: StatusCode,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) body: ResponseBody,
    pub(crate) sent: Option<Timestamp>,
}

impl<'r> ParsedResponse<'r> {
    pub(crate) fn of(response: &VendorResponse<'r>, body: ResponseBody) -> Self {
        let VendorResponse { status, headers, .. } = *response;
        Self { status, headers, body, sent: times::date_of(headers) }
    }

    /// What a field says: one text, or one for each element of an array.
    pub(crate) fn texts(&self, field: ResponseField) -> SmallVec<[Cow<'_, str>; 2]> {
        match field {
            ResponseField::Header(header) => joined(self.headers, header).into_iter().collect(),
            ResponseField::Body(path) => self.body.texts(path).collect(),
        }
    }
}

impl ResponseField {
    /// The member of the body that a path begins with.
    pub(crate) fn member(self) -> Option<&'static str> {
        match self {
            Self::Header(_) => None,
            Self::Body(path) => path.split('.').next(),
        }
    }
}

impl TextMatch {
    /// Whether one of the texts of a field fits.
    pub(crate) fn fits(self, texts: &[Cow<'_, str>]) -> bool {
        match self {
            Self::Absent => texts.is_empty(),
            _ => texts.iter().any(|text| self.fits_one(text)),
        }
    }

    fn fits_one(self, text: &str) -> bool {
        match self {
            Self::Present => true,
            Self::Absent => false,
            Self::Is(word) => text.trim() == word,
            Self::Contains(words) => find_words(text, words).is_some(),
        }
    }
}

/// Where the text behind some words begins, in any case of letters.
pub(crate) fn find_words(text: &str, words: &str) -> Option<usize> {
    let place =
        text.as_bytes().windows(words.len()).position(|part| part.eq_ignore_ascii_case(words.as_bytes()))?;
    Some(place + words.len())
}
