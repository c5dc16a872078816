//! One case, ours compared with one rival.

use serde::Serialize;

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// A target.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wanted {
    /// Ours / theirs: at most this, or at least this where higher is better.
    Ratio(f64),
    /// Ours at most this, or at least this, whatever theirs is.
    Ours(f64),
}

pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) rival: String,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) ours: f64,
    pub(crate) theirs: f64,
    pub(crate) wanted: Option<Wanted>,
    /// How ours grows over the rows of which this is one, in one word.
    pub(crate) curve: Option<&'static str>,
}

impl Row {
    pub(crate) fn new(
        case: &str,
        rival: &str,
        unit: &'static str,
        better: Better,
        ours: f64,
        theirs: f64,
    ) -> Self {
        let (case, rival, ours, theirs) = (case.to_owned(), rival.to_owned(), rounded(ours), rounded(theirs));
        Self { case, rival, unit, better, ours, theirs, wanted: None, curve: None }
    }

    pub(crate) fn wanted(self, wanted: Option<Wanted>) -> Self {
        Self { wanted, ..self }
    }

    pub(crate) fn curve(self, curve: &'static str) -> Self {
        Self { curve: Some(curve), ..self }
    }

    /// Ours / theirs, if theirs is not zero.
    pub(crate) fn ratio(&self) -> Option<f64> {
        (self.theirs != 0.0).then(|| self.ours / self.theirs)
    }

    /// The target as text; `None` without a target or a ratio.
    fn wish(&self) -> Option<String> {
        let sign = if self.better == Better::Lower { "<=" } else { ">=" };
        match self.wanted? {
            Wanted::Ratio(wanted) => self.ratio().map(|_| format!("{sign} {wanted:?}")),
            Wanted::Ours(wanted) => Some(format!("ours {sign} {wanted:?}")),
        }
    }

    /// Whether it meets its target.
    pub(crate) fn met(&self) -> Option<bool> {
        let (figure, wanted) = match self.wanted? {
            Wanted::Ratio(wanted) => (self.ratio()?, wanted),
            Wanted::Ours(wanted) => (self.ours, wanted),
        };
        Some(if self.better == Better::Lower { figure <= wanted } else { figure >= wanted })
    }

    /// For people: the target, and whether it is met.
    pub(crate) fn verdict(&self) -> String {
        let Some((wish, met)) = self.wish().zip(self.met()) else { return String::new() };
        format!("{wish} {}", if met { "met" } else { "MISSED" })
    }

    /// For people: the ratio, or a dash without one.
    pub(crate) fn ratio_text(&self) -> String {
        self.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
    }

    /// For programs.
    pub(crate) fn in_group<'a>(&'a self, group: &'a str) -> impl Serialize + 'a {
        RowOfGroup {
            group,
            case: &self.case,
            rival: &self.rival,
            unit: self.unit,
            better: self.better,
            ours: self.ours,
            theirs: self.theirs,
            ratio: self.ratio().map(rounded),
            wanted: self.wish(),
            met: self.met(),
            curve: self.curve,
        }
    }
}

#[derive(Serialize)]
struct RowOfGroup<'a> {
    group: &'a str,
    case: &'a str,
    rival: &'a str,
    unit: &'a str,
    better: Better,
    ours: f64,
    theirs: f64,
    /// Null if theirs is zero.
    ratio: Option<f64>,
    /// The target, if any: `<= 0.2` for the ratio, `ours <= 1.0` for our figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    curve: Option<&'static str>,
}

/// Avoids minus zero, to which the difference of two counts can round.
fn rounded(figure: f64) -> f64 {
    (figure * 1_000.0).round() / 1_000.0 + 0.0
}

/// For people: three digits or so.
pub(crate) fn figure(figure: f64) -> String {
    if figure.fract() == 0.0 || figure >= 999.95 {
        grouped(figure)
    } else if figure >= 10.0 {
        format!("{figure:.1}")
    } else {
        format!("{figure:.2}")
    }
}

/// `12,345`.
fn grouped(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let texts = [0.0, 1.234, 45.67, 999.96, 1_234.5, 1_234_567.0].map(figure);
        assert_eq!(texts, ["0", "1.23", "45.7", "1,000", "1,234", "1,234,567"]);
    }

    #[test]
    fn json_has_the_ratio_and_the_target_if_any() {
        let row = Row::new("try", "rival", "ns CPU", Better::Lower, 1.0, 4.0);
        let json = |row: &Row| serde_json::to_string(&row.in_group("engine")).unwrap();
        let plain = r#"{"group":"engine","case":"try","rival":"rival","unit":"ns CPU","better":"lower","ours":1.0,"theirs":4.0,"ratio":0.25}"#;
        assert_eq!(json(&row), plain);
        let row = row.wanted(Some(Wanted::Ratio(0.2)));
        let wish = r#","wanted":"<= 0.2","met":false}"#;
        assert_eq!(json(&row), plain.replace('}', wish));
        assert_eq!(row.verdict(), "<= 0.2 MISSED");
    }

    #[test]
    fn without_a_rivals_figure_there_is_no_ratio() {
        let row = Row::new("try", "rival", "grants", Better::Higher, 1.0, 0.0);
        assert_eq!(row.ratio_text(), "-");
        assert_eq!(row.wanted(Some(Wanted::Ratio(2.0))).met(), None);
    }

    #[test]
    fn each_kind_of_target_is_checked() {
        let row = |better, ours, theirs, wanted| {
            Row::new("try", "rival", "decisions/s", better, ours, theirs).wanted(Some(wanted)).verdict()
        };
        assert_eq!(row(Better::Higher, 6.0, 2.0, Wanted::Ratio(3.0)), ">= 3.0 met");
        assert_eq!(row(Better::Higher, 5.0, 2.0, Wanted::Ratio(3.0)), ">= 3.0 MISSED");
        assert_eq!(row(Better::Lower, 0.05, 0.0, Wanted::Ours(0.05)), "ours <= 0.05 met");
        assert_eq!(row(Better::Lower, 0.06, 0.0, Wanted::Ours(0.05)), "ours <= 0.05 MISSED");
    }
}
