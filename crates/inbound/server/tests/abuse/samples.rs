//! Samples of the server's memory and file descriptors, and their growth.

use std::fmt;

/// Memory and file descriptors over time.
#[derive(Default)]
pub(crate) struct Samples {
    memory: Vec<usize>,
    descriptors: Vec<usize>,
}

/// The median of each third of the time.
pub(crate) struct Thirds([usize; 3]);

impl Samples {
    pub(crate) fn add(&mut self, memory: usize, descriptors: usize) {
        self.memory.push(memory);
        self.descriptors.push(descriptors);
    }

    pub(crate) fn memory(&self) -> Thirds {
        Thirds::of(&self.memory)
    }

    pub(crate) fn descriptors(&self) -> Thirds {
        Thirds::of(&self.descriptors)
    }
}

impl Thirds {
    fn of(samples: &[usize]) -> Self {
        let third = samples.len() / 3;
        assert!(third > 0, "too few samples");
        let median = |part: &[usize]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part[part.len() / 2]
        };
        Self([&samples[..third], &samples[third..2 * third], &samples[2 * third..]].map(median))
    }

    /// The last third divided by the middle one. The first is the warm-up.
    pub(crate) fn growth(&self) -> f64 {
        let [_, middle, last] = self.0;
        last as f64 / middle as f64
    }
}

impl fmt::Display for Thirds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, middle, last] = self.0;
        write!(f, "{first}, {middle}, {last} (medians of the thirds); last by middle {:.3}", self.growth())
    }
}

#[test]
fn growth_ignores_the_warm_up() {
    let thirds = |samples: &[usize]| Thirds::of(samples).growth();
    assert_eq!(thirds(&[1, 2, 3, 9, 9, 9, 9, 9, 9]), 1.0);
    assert_eq!(thirds(&[9, 9, 9, 10, 10, 10, 12, 12, 12]), 1.2);
    assert_eq!(thirds(&[9, 9, 9, 10, 10, 10, 10, 10, 500]), 1.0);
}
