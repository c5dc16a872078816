//! Mutates inputs: bits, bytes, words and whole pieces are changed, removed, doubled or copied from another input.

use std::ops::Range;

use tollway_testkit::Random;

/// The longest input. Doubling reaches the bounds of the parsers; a longer input only takes longer.
const INPUT_BYTES_MAX: usize = 8_192;

/// The most changes of one input: few, so that most of it stays valid.
const CHANGES_MAX: u64 = 6;

/// The most words to insert: enough for every key and name of a format.
const WORDS_MAX: usize = 2_000;

/// Numbers at the edges of integer types.
const EXTREMES: [&str; 16] = [
    "0",
    "-1",
    "00",
    "1e9",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "4294967296",
    "9007199254740992",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
];

/// Text that parsers often get wrong.
const ODDITIES: [&[u8]; 12] = [
    b"\0",
    b"\r\n",
    b"\n\n",
    b"\x1b[31m",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    "\u{feff}".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{0130}".as_bytes(),
    "\u{1f600}".as_bytes(),
    b"%00",
];

/// The words of a format, from the hand-written inputs.
pub(crate) struct Words(Vec<Vec<u8>>);

impl Words {
    pub(crate) fn of(inputs: &[Vec<u8>]) -> Self {
        let same_word = |one: &u8, next: &u8| {
            let in_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
            in_word(*one) && in_word(*next)
        };
        let mut words: Vec<Vec<u8>> =
            inputs.iter().flat_map(|input| input.chunk_by(same_word).map(<[u8]>::to_vec)).collect();
        words.sort();
        words.dedup();
        words.truncate(WORDS_MAX);
        Self(words)
    }

    fn pick(&self, random: &mut Random) -> &[u8] {
        match random.below(4) {
            0 => random.pick(&EXTREMES).as_bytes(),
            1 => random.pick::<&[u8]>(&ODDITIES),
            _ if self.0.is_empty() => &[],
            _ => random.pick::<Vec<u8>>(&self.0),
        }
    }
}

/// Mutates `one`, possibly with a piece of `other`.
pub(crate) fn mangle(one: &[u8], other: &[u8], words: &Words, random: &mut Random) -> Vec<u8> {
    let mut input = one.to_vec();
    for _ in 0..random.between(1, CHANGES_MAX) {
        change(&mut input, other, words, random);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn change(input: &mut Vec<u8>, other: &[u8], words: &Words, random: &mut Random) {
    let piece = piece(input, random);
    match random.below(9) {
        0 => flip_bit(input, random),
        1 => put(input, piece.start..piece.start, &[random.bits().to_le_bytes()[0]]),
        2 => put(input, piece, &[]),
        3 => put(input, piece, words.pick(random)),
        4 => put(input, piece.start..piece.start, words.pick(random)),
        5 => put(input, digits_from(input, piece.start), random.pick(&EXTREMES).as_bytes()),
        6 => {
            let doubled = input.get(piece.clone()).unwrap_or_default().repeat(random.between(1, 40) as usize);
            put(input, piece.start..piece.start, &doubled);
        }
        7 => {
            let taken = self::piece(other, random);
            put(input, piece, other.get(taken).unwrap_or_default());
        }
        _ => input.truncate(piece.end),
    }
}

/// A piece of an input; short ones are more likely.
fn piece(input: &[u8], random: &mut Random) -> Range<usize> {
    let begin = random.index(input.len() + 1);
    let longest = *random.pick(&[1, 4, 16, 64, 1_024]);
    let length = random.between(0, longest) as usize;
    begin..input.len().min(begin + length)
}

/// The next number, or nothing at the place where none follows.
fn digits_from(input: &[u8], begin: usize) -> Range<usize> {
    let rest = input.get(begin..).unwrap_or_default();
    let Some(first) = rest.iter().position(u8::is_ascii_digit) else { return begin..begin };
    let length = rest.iter().skip(first).take_while(|byte| byte.is_ascii_digit()).count();
    begin + first..begin + first + length
}

fn flip_bit(input: &mut [u8], random: &mut Random) {
    if !input.is_empty() {
        let place = random.index(input.len());
        input[place] ^= 1 << random.below(8);
    }
}

fn put(input: &mut Vec<u8>, place: Range<usize>, bytes: &[u8]) {
    input.splice(place, bytes.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_the_same_mutations_within_the_bound() {
        let inputs = [b"limits = [\"200 requests / minute\"]".to_vec(), vec![7; INPUT_BYTES_MAX], Vec::new()];
        let words = Words::of(&inputs);
        let mangled = |seed| -> Vec<Vec<u8>> {
            let mut random = Random::new(seed);
            (0..500)
                .map(|round| mangle(&inputs[round % 3], &inputs[(round + 1) % 3], &words, &mut random))
                .collect()
        };
        assert_eq!(mangled(7), mangled(7));
        assert_ne!(mangled(7), mangled(8));
        assert!(mangled(7).iter().all(|input| input.len() <= INPUT_BYTES_MAX));
    }
}
