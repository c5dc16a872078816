//! How a figure grows with a size, in one word.

use crate::report::{Better, Row};

/// As in the notes of a report.
pub(super) const LEGEND: &str = "`flat`: at most the fourth root of the size; `linear`: at most as the size; `worse`: more than that between \
     two sizes.";

/// A figure may grow so much more than the size between two sizes before the curve is called worse.
const TOLERANCE: f64 = 1.3;

/// A figure at several sizes, the smallest first.
pub(super) struct Growth {
    /// What grows, as in `subjects`.
    of: &'static str,
    /// What is measured, as in `take`.
    what: &'static str,
    unit: &'static str,
    rival: &'static str,
    points: Vec<Point>,
}

struct Point {
    size: u32,
    ours: f64,
    /// 0 without a rival.
    theirs: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Curve {
    Flat,
    Linear,
    Worse,
}

impl Growth {
    pub(super) fn new(of: &'static str, what: &'static str, unit: &'static str, rival: &'static str) -> Self {
        Self { of, what, unit, rival, points: Vec::new() }
    }

    /// The figures at the next size; theirs is 0 without a rival.
    pub(super) fn at(&mut self, size: u32, ours: f64, theirs: f64) {
        self.points.push(Point { size, ours, theirs });
    }

    pub(super) fn into_rows(self) -> Vec<Row> {
        let figures: Vec<(f64, f64)> =
            self.points.iter().map(|point| (f64::from(point.size), point.ours)).collect();
        let curve = curve(&figures).word();
        let row = |point: &Point| {
            let case = format!("{}, {}: {}", self.what, self.of, with_separators(point.size));
            Row::new(&case, self.rival, self.unit, Better::Lower, point.ours, point.theirs).curve(curve)
        };
        self.points.iter().map(row).collect()
    }
}

impl Curve {
    fn word(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Linear => "linear",
            Self::Worse => "worse",
        }
    }
}

/// The curve through these sizes and figures.
fn curve(points: &[(f64, f64)]) -> Curve {
    let grows = |from: &(f64, f64), to: &(f64, f64)| (to.0 / from.0, to.1 / from.1);
    let steeper = |pair: &[(f64, f64)]| {
        let (size, figure) = grows(&pair[0], &pair[1]);
        figure > size * TOLERANCE
    };
    let Some((first, last)) = points.first().zip(points.last()) else { return Curve::Flat };
    let (size, figure) = grows(first, last);
    match points.windows(2).any(steeper) {
        true => Curve::Worse,
        false if figure <= size.powf(0.25) => Curve::Flat,
        false => Curve::Linear,
    }
}

fn with_separators(size: u32) -> String {
    let digits = size.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).expect("digits are text"))
        .collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_the_right_word() {
        assert_eq!(curve(&[(1.0, 25.0), (1e4, 40.0), (1e7, 300.0)]), Curve::Flat);
        assert_eq!(curve(&[(1.0, 25.0), (3.0, 50.0), (6.0, 100.0), (12.0, 200.0)]), Curve::Linear);
        assert_eq!(curve(&[(1.0, 25.0), (6.0, 50.0), (7.0, 250.0)]), Curve::Worse, "a jump");
        assert_eq!(curve(&[(1.0, 1.0), (10.0, 100.0)]), Curve::Worse);
        assert_eq!(curve(&[]), Curve::Flat);
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!([1, 1_000, 10_000_000].map(with_separators), ["1", "1,000", "10,000,000"]);
    }
}
