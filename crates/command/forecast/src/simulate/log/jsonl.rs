//! JSON lines: one object each. Only the wanted fields are looked at; nothing else takes memory.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Reason, Value};

/// Puts the wanted fields of the object in `line` into `values`, in the order of their names.
pub(super) fn read<'l>(line: &'l str, wanted: &[String], values: &mut [Value<'l>]) -> Result<(), Reason> {
    let mut reader = serde_json::Deserializer::from_str(line);
    let fields = Wanted { names: wanted, values };
    fields.deserialize(&mut reader).and_then(|()| reader.end()).map_err(|error| {
        // There is only one line, so its number is useless.
        let text =
            error.to_string().replace(" at line 1 column 0", "").replace(" at line 1 column", " at column");
        format!("not a JSON object: {text}").into()
    })
}

/// The names of all fields of the object in `line`, if it is one.
pub(super) fn names(line: &str) -> Option<Vec<String>> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    Some(object.into_iter().map(|(name, _)| name).collect())
}

struct Wanted<'w, 'v, 'l> {
    names: &'w [String],
    values: &'v mut [Value<'l>],
}

impl<'l> DeserializeSeed<'l> for Wanted<'_, '_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'l> Visitor<'l> for Wanted<'_, '_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(known) = map.next_key_seed(KeyIn(self.names))? {
            if known == NOT_WANTED {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: Value<'l> = map.next_value_seed(AnyValue)?;
            // One field can be wanted twice: as the subject and as a cost.
            for (name, place) in self.names.iter().zip(&mut *self.values) {
                if *name == self.names[known] {
                    place.clone_from(&value);
                }
            }
        }
        Ok(())
    }
}

/// In place of an index: this field is not wanted.
const NOT_WANTED: usize = usize::MAX;

/// Which of these names a key is.
struct KeyIn<'w>(&'w [String]);

impl<'l> DeserializeSeed<'l> for KeyIn<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyIn<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<usize, E> {
        Ok(self.0.iter().position(|name| name == key).unwrap_or(NOT_WANTED))
    }
}

/// A field's value, borrowed from the line where it can be.
struct AnyValue;

impl<'l> DeserializeSeed<'l> for AnyValue {
    type Value = Value<'l>;

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<Value<'l>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'l> Visitor<'l> for AnyValue {
    type Value = Value<'l>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'l str) -> Result<Value<'l>, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'l>, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value<'l>, E> {
        Ok(Value::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value<'l>, E> {
        Ok(Value::Fraction(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value<'l>, E> {
        Ok(Value::Fraction(number))
    }

    fn visit_unit<E>(self) -> Result<Value<'l>, E> {
        Ok(Value::Missing)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value<'l>, E> {
        Ok(Value::Other)
    }

    fn visit_seq<A: SeqAccess<'l>>(self, mut list: A) -> Result<Value<'l>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<Value<'l>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }
}
