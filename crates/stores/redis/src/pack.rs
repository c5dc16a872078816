//! MessagePack, as much of it as the script's side speaks: numbers, booleans, texts, lists and maps.
//!
//! Not the crate `rmp`: it writes 128 as `cc 80` and a text of 32 bytes as `d9 20`, where the scripts have always been sent
//! `cd 00 80` and `da 00 20`; to keep those, each form would be chosen here as before. A take costs 4 % more instructions to
//! write with it, and reading has neither a value nor a bound of depth, so that most of this file would stay.

/// The deepest nesting of an answer that is read: a decision within an outcome within the list of them.
const DEPTH_MAX: usize = 8;

/// Something being packed.
#[derive(Default)]
pub(crate) struct Packer(Vec<u8>);

impl Packer {
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn number(&mut self, number: u64) {
        match number {
            0..0x80 => self.0.push(number as u8),
            0x80..0x1_0000 => self.tagged(0xcd, &(number as u16).to_be_bytes()),
            0x1_0000..0x1_0000_0000 => self.tagged(0xce, &(number as u32).to_be_bytes()),
            _ => self.tagged(0xcf, &number.to_be_bytes()),
        }
    }

    pub(crate) fn boolean(&mut self, value: bool) {
        self.0.push(if value { 0xc3 } else { 0xc2 });
    }

    /// Any bytes: the script's texts are bytes.
    pub(crate) fn text(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        match text.len() {
            length @ 0..32 => self.0.push(0xa0 | length as u8),
            length @ 32..0x1_0000 => self.tagged(0xda, &(length as u16).to_be_bytes()),
            length => self.tagged(0xdb, &(length as u32).to_be_bytes()),
        }
        self.0.extend_from_slice(text);
    }

    pub(crate) fn list<T>(&mut self, values: &[T], mut pack: impl FnMut(&mut Self, &T)) {
        match values.len() {
            length @ 0..16 => self.0.push(0x90 | length as u8),
            length => self.tagged(0xdc, &(length as u16).to_be_bytes()),
        }
        values.iter().for_each(|value| pack(self, value));
    }

    pub(crate) fn pair(&mut self, one: impl FnOnce(&mut Self), other: impl FnOnce(&mut Self)) {
        self.0.push(0x92);
        one(self);
        other(self);
    }

    /// A map of what `fill` puts into it: at most 15 fields, which nothing here comes near.
    pub(crate) fn map(&mut self, fill: impl FnOnce(&mut Fields<'_>)) {
        let head = self.0.len();
        self.0.push(0x80);
        let mut fields = Fields { packer: self, count: 0 };
        fill(&mut fields);
        let count = fields.count;
        if let Some(head) = self.0.get_mut(head) {
            *head |= count;
        }
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.0.extend_from_slice(bytes);
    }
}

/// The fields of a map being packed.
pub(crate) struct Fields<'p> {
    packer: &'p mut Packer,
    count: u8,
}

impl Fields<'_> {
    pub(crate) fn number(&mut self, name: &str, number: u64) {
        self.named(name).number(number);
    }

    pub(crate) fn boolean(&mut self, name: &str, value: bool) {
        self.named(name).boolean(value);
    }

    pub(crate) fn text(&mut self, name: &str, text: impl AsRef<[u8]>) {
        self.named(name).text(text);
    }

    pub(crate) fn list<T>(&mut self, name: &str, values: &[T], pack: impl FnMut(&mut Packer, &T)) {
        self.named(name).list(values, pack);
    }

    pub(crate) fn map(&mut self, name: &str, fill: impl FnOnce(&mut Fields<'_>)) {
        self.named(name).map(fill);
    }

    fn named(&mut self, name: &str) -> &mut Packer {
        self.count = self.count.saturating_add(1);
        self.packer.text(name);
        self.packer
    }
}

/// Something that was unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Packed {
    Nothing,
    Boolean(bool),
    Number(u64),
    Text(Vec<u8>),
    List(Vec<Packed>),
}

impl Packed {
    /// Reads one value that takes up all the bytes; nothing if they are not that.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let value = read(&mut rest, DEPTH_MAX)?;
        rest.is_empty().then_some(value)
    }

    pub(crate) fn number(&self) -> Option<u64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        if let Self::Boolean(value) = self { Some(*value) } else { None }
    }

    pub(crate) fn text(&self) -> Option<&[u8]> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn list(&self) -> Option<&[Packed]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }
}

fn read(rest: &mut &[u8], depth: usize) -> Option<Packed> {
    let tag = rest.split_off_first()?;
    Some(match *tag {
        number @ 0..0x80 => Packed::Number(number.into()),
        0xc0 => Packed::Nothing,
        0xc2 | 0xc3 => Packed::Boolean(*tag == 0xc3),
        0xcc..=0xcf => Packed::Number(big_endian(rest, 1 << (tag - 0xcc))?),
        // Signed, but never negative.
        0xd0..=0xd3 => Packed::Number(big_endian(rest, 1 << (tag - 0xd0))?),
        0xa0..0xc0 => text(rest, (tag & 0x1f).into())?,
        0xd9..=0xdb => {
            let length = big_endian(rest, 1 << (tag - 0xd9))?;
            text(rest, length)?
        }
        0x90..0xa0 => list(rest, (tag & 0x0f).into(), depth)?,
        // A table without anything in it.
        0x80 => Packed::List(Vec::new()),
        0xdc => {
            let length = big_endian(rest, 2)?;
            list(rest, length, depth)?
        }
        _ => return None,
    })
}

fn big_endian(rest: &mut &[u8], bytes: usize) -> Option<u64> {
    let bytes = rest.split_off(..bytes)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn text(rest: &mut &[u8], length: u64) -> Option<Packed> {
    Some(Packed::Text(rest.split_off(..usize::try_from(length).ok()?)?.to_vec()))
}

fn list(rest: &mut &[u8], length: u64, depth: usize) -> Option<Packed> {
    let depth = depth.checked_sub(1)?;
    let values: Option<Vec<Packed>> = (0..length).map(|_| read(rest, depth)).collect();
    values.map(Packed::List)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_values_round_trip(numbers in proptest::collection::vec(any::<u64>(), 0..40), text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut packer = Packer::default();
            packer.list(&[(&numbers, &text)], |packer, (numbers, text)| {
                packer.list(&[0, 1], |packer, half| match half {
                    0 => packer.list(numbers, |packer, number| packer.number(*number)),
                    _ => packer.text(text),
                });
            });
            let numbers = Packed::List(numbers.into_iter().map(Packed::Number).collect());
            let expected = Packed::List(vec![Packed::List(vec![numbers, Packed::Text(text)])]);
            prop_assert_eq!(Packed::read(&packer.finish()), Some(expected));
        }

        #[test]
        fn garbage_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Packed::read(&bytes);
        }
    }
}
