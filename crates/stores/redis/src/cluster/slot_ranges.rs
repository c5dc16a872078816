//! What a node answers to `CLUSTER SLOTS`: which node has which slots.

use redis::Value;

use crate::cluster::slot::SLOTS;

/// A host and a port.
pub(crate) type Host = (String, u16);

/// Neighbouring slots of one primary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SlotRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) primary: Host,
    pub(crate) replicas: Vec<Host>,
}

/// The ranges in an answer; nothing if it is not one, or names no slot. A node that does not say its own host has that under
/// which it was asked.
pub(crate) fn read(answer: Value, asked: &str) -> Option<Vec<SlotRange>> {
    let Value::Array(ranges) = answer else { return None };
    let ranges: Vec<SlotRange> =
        ranges.into_iter().map(|range| read_range(range, asked)).collect::<Option<_>>()?;
    (!ranges.is_empty()).then_some(ranges)
}

fn read_range(range: Value, asked: &str) -> Option<SlotRange> {
    let Value::Array(fields) = range else { return None };
    let mut fields = fields.into_iter();
    let (first, last) = (slot(&fields.next()?)?, slot(&fields.next()?)?);
    let primary = read_host(&fields.next()?, asked)?;
    // A replica that cannot be read is one fewer to ask.
    let replicas = fields.filter_map(|replica| read_host(&replica, asked)).collect();
    (first <= last).then_some(SlotRange { first, last, primary, replicas })
}

fn slot(value: &Value) -> Option<u16> {
    let Value::Int(number) = value else { return None };
    u16::try_from(*number).ok().filter(|slot| *slot < SLOTS)
}

/// `[host, port, id, ...]`.
fn read_host(node: &Value, asked: &str) -> Option<Host> {
    let Value::Array(fields) = node else { return None };
    let [host, Value::Int(port), ..] = &**fields else { return None };
    let host = match host {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?,
        Value::SimpleString(text) => text,
        Value::Nil => "",
        _ => return None,
    };
    Some((known_host(host, asked), u16::try_from(*port).ok()?))
}

/// A node that does not know its host says nothing or `?`.
fn known_host(host: &str, asked: &str) -> String {
    if host.is_empty() || host == "?" { asked.to_owned() } else { host.to_owned() }
}

/// Where a `MOVED` or `ASK` sends a call: `3999 127.0.0.1:6381`. An empty host is that of the node that answered.
pub(crate) fn read_redirect(detail: &str, asked: &str) -> Option<(u16, Host)> {
    let (slot, place) = detail.trim().split_once(' ')?;
    let (host, port) = place.rsplit_once(':')?;
    let slot = slot.parse().ok().filter(|slot| *slot < SLOTS)?;
    Some((slot, (known_host(host, asked), port.parse().ok()?)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn node(host: &str, port: i64) -> Value {
        Value::Array(vec![Value::BulkString(host.into()), Value::Int(port), Value::BulkString("id".into())])
    }

    fn range(first: i64, last: i64, nodes: &[Value]) -> Value {
        let mut fields = vec![Value::Int(first), Value::Int(last)];
        fields.extend(nodes.iter().cloned());
        Value::Array(fields)
    }

    #[test]
    fn ranges_are_read() {
        let answer = Value::Array(vec![
            range(0, 8_191, &[node("10.0.0.1", 7_000), node("10.0.0.2", 7_001)]),
            range(8_192, 16_383, &[node("", 7_002)]),
        ]);
        let ranges = read(answer, "seed").unwrap();
        assert_eq!(ranges[0].primary, ("10.0.0.1".to_owned(), 7_000));
        assert_eq!(ranges[0].replicas, [("10.0.0.2".to_owned(), 7_001)]);
        assert_eq!((ranges[1].first, ranges[1].last), (8_192, 16_383));
        assert_eq!(ranges[1].primary, ("seed".to_owned(), 7_002));
    }

    #[test]
    fn what_is_no_answer_names_no_slots() {
        for answer in [
            Value::Nil,
            Value::Array(Vec::new()),
            Value::Array(vec![range(0, 16_384, &[node("h", 1)])]),
            Value::Array(vec![range(2, 1, &[node("h", 1)])]),
            Value::Array(vec![range(0, 1, &[])]),
            Value::Array(vec![range(0, 1, &[node("h", 70_000)])]),
        ] {
            assert_eq!(read(answer, "seed"), None);
        }
    }

    #[test]
    fn redirects_are_read() {
        let host = |host: &str, port| Some((3_999, (host.to_owned(), port)));
        assert_eq!(read_redirect("3999 127.0.0.1:6381", "seed"), host("127.0.0.1", 6_381));
        assert_eq!(read_redirect("3999 ::1:6381", "seed"), host("::1", 6_381));
        assert_eq!(read_redirect("3999 :6381", "seed"), host("seed", 6_381));
        for detail in ["", "3999", "16384 h:1", "3999 h", "3999 h:70000"] {
            assert_eq!(read_redirect(detail, "seed"), None, "{detail}");
        }
    }
}
