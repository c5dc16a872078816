//! The elements of an XML body, as the same tree that JSON gives: vendors tell the same errors in both.

use serde_json::{Map, Value};

/// Reading ends at a deeper element. AWS tells its code four deep.
const DEPTH_MAX: usize = 8;

/// The most elements that are kept; an error has about ten.
const ELEMENTS_MAX: usize = 256;

/// Reads a document, or the part of it before a cut. Attributes, comments and prefixes of names are dropped. Of several
/// elements with one name, the first counts.
pub(crate) fn parse(text: &str) -> Map<String, Value> {
    let mut open = vec![Element::default()];
    let mut rest = text;
    let mut elements = 0;
    while let Some(start) = rest.find('<') {
        let (before, tag) = rest.split_at(start);
        if let Some(element) = open.last_mut() {
            element.text.push_str(before);
        }
        let Some(behind) = read_tag(tag, &mut open) else { break };
        elements += 1;
        if elements > ELEMENTS_MAX || open.len() > DEPTH_MAX {
            break;
        }
        rest = behind;
    }
    while open.len() > 1 {
        close(&mut open);
    }
    open.pop().map(|root| root.members).unwrap_or_default()
}

#[derive(Default)]
struct Element {
    name: String,
    text: String,
    members: Map<String, Value>,
}

/// Reads what begins with `<`, and returns the rest. `None` at the end of what makes sense.
fn read_tag<'t>(tag: &'t str, open: &mut Vec<Element>) -> Option<&'t str> {
    if let Some(text) = tag.strip_prefix("<![CDATA[") {
        let (text, behind) = text.split_once("]]>")?;
        open.last_mut()?.text.push_str(text);
        return Some(behind);
    }
    if let Some(comment) = tag.strip_prefix("<!--") {
        return comment.split_once("-->").map(|(_, behind)| behind);
    }
    let (inside, behind) = tag.strip_prefix('<')?.split_once('>')?;
    if inside.starts_with(['?', '!']) {
        return Some(behind);
    }
    if inside.starts_with('/') {
        close(open);
        return Some(behind);
    }
    let name = inside.split(|sign: char| sign.is_whitespace() || sign == '/').next()?;
    let name = name.rsplit(':').next()?.to_owned();
    open.push(Element { name, ..Element::default() });
    if inside.ends_with('/') {
        close(open);
    }
    Some(behind)
}

/// An element with elements is an object, another one its text.
fn close(open: &mut Vec<Element>) {
    if open.len() < 2 {
        return;
    }
    let (Some(element), Some(parent)) = (open.pop(), open.last_mut()) else { return };
    let value = match element.members.is_empty() {
        true => Value::String(unescape(element.text.trim())),
        false => Value::Object(element.members),
    };
    parent.members.entry(element.name).or_insert(value);
}

/// The five entities that XML has by itself.
fn unescape(text: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    entities.into_iter().fold(text.to_owned(), |text, (entity, sign)| text.replace(entity, sign))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_members_and_the_first_of_a_name_counts() {
        let text = "<?xml version=\"1.0\"?>\n<!-- <Error/> --><e:ErrorResponse xmlns:e=\"x\"><Error a='1'>\
                    <Code>Throttling</Code><Message><![CDATA[<Code>no</Code>]]> &amp;lt;</Message><Code>b</Code>\
                    </Error><Empty/></e:ErrorResponse>";
        let error = json!({"Code": "Throttling", "Message": "<Code>no</Code> &lt;"});
        assert_eq!(Value::Object(parse(text)), json!({"ErrorResponse": {"Error": error, "Empty": ""}}));
    }

    #[test]
    fn what_was_read_before_a_cut_or_nonsense_is_kept() {
        let error = json!({"Error": {"Code": "SlowDown"}});
        for text in ["<Error><Code>SlowDown</Code><Mess", "<Error><Code>SlowDown</Code></Error></Error><"] {
            assert_eq!(Value::Object(parse(text)), error, "{text}");
        }
        for nonsense in ["", "<", "<>", "</", "</a>", "<!", "<!--", "<![CDATA[", "a < b", "<a:>", "<//>"] {
            let _ = parse(nonsense);
        }
        assert!(parse(&"<a>".repeat(10_000)).len() <= 1);
    }
}
