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
    /// looked at, of a success only if the dialect knows vendors that refuse inside one.
    pub body: &'r [u8],
}

/// A field of a response: a header, or a path in its body, JSON or XML.
#[derive(Clone, Copy)]
pub(crate) enum ResponseField {
    Header(&'static str),
    Body(&'static str),
}

/// What a field must say.
#[derive(Clone, Copy)]
pub(crate) enum TextMatch {
    Present,
    Is(&'static str),
    IsOneOf(&'static [&'static str]),
    Begins(&'static str),
    /// An error code as AWS writes it: `service#Code`, `Code:http://...`, or the code alone.
    IsAwsCode(&'static [&'static str]),
    /// In any case of letters. For sentences; words of their own have the rows above.
    Contains(&'static str),
}

/// A sign in a response: statuses, and what one field says, or two.
#[derive(Clone, Copy)]
pub(crate) struct ResponseSign {
    /// The statuses that it may have; none means all, also success.
    pub(crate) statuses: &'static [u16],
    pub(crate) field: ResponseField,
    pub(crate) text: TextMatch,
    /// What another field has to say too.
    pub(crate) and: Option<(ResponseField, TextMatch)>,
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

impl ResponseSign {
    pub(crate) const fn new(statuses: &'static [u16], field: ResponseField, text: TextMatch) -> Self {
        Self { statuses, field, text, and: None }
    }

    pub(crate) const fn and(self, field: ResponseField, text: TextMatch) -> Self {
        Self { and: Some((field, text)), ..self }
    }

    pub(crate) fn is_in(&self, parsed: &ParsedResponse<'_>) -> bool {
        let says = |field, text: TextMatch| text.fits(&parsed.texts(field));
        (self.statuses.is_empty() || self.statuses.contains(&parsed.status.as_u16()))
            && says(self.field, self.text)
            && self.and.is_none_or(|(field, text)| says(field, text))
    }

    /// Whether it may be in a success.
    pub(crate) fn fits_success(&self) -> bool {
        self.statuses.is_empty()
    }

    /// The members of the body that it looks at.
    pub(crate) fn members(&self) -> impl Iterator<Item = &'static str> {
        let and = self.and.and_then(|(field, _)| field.member());
        self.field.member().into_iter().chain(and)
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
        texts.iter().any(|text| self.fits_one(text))
    }

    fn fits_one(self, text: &str) -> bool {
        match self {
            Self::Present => true,
            Self::Is(word) => text.trim() == word,
            Self::IsOneOf(words) => words.contains(&text.trim()),
            Self::Begins(words) => text.trim_start().starts_with(words),
            Self::IsAwsCode(codes) => codes.contains(&aws_code(text)),
            Self::Contains(words) => find_words(text, words).is_some(),
        }
    }
}

/// `com.amazonaws.dynamodb.v20120810#ThrottlingException:http://internal.amazon.com/` without what is around the code.
fn aws_code(text: &str) -> &str {
    let text = text.split(':').next().unwrap_or_default();
    text.rsplit('#').next().unwrap_or_default().trim()
}

/// Where the text behind some words begins, in any case of letters.
pub(crate) fn find_words(text: &str, words: &str) -> Option<usize> {
    let place =
        text.as_bytes().windows(words.len()).position(|part| part.eq_ignore_ascii_case(words.as_bytes()))?;
    Some(place + words.len())
}
