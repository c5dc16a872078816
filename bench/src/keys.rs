//! The keys, and the order in which all contenders visit them.

use std::sync::Arc;

/// Visits before the order repeats: more than the processor's branch history and caches can learn.
pub(crate) const VISITS: usize = 1 << 20;

/// Keys and the order of visits, the same for every contender and created before the measurement.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) keys: Arc<[String]>,
    pub(crate) order: Arc<[u32]>,
}

impl Keys {
    /// `user:00000000` and so on, visited pass by pass, each pass shuffled again.
    pub(crate) fn new(count: u32, visits: usize) -> Self {
        let keys = (0..count).map(|number| format!("user:{number:08}")).collect();
        let mut random = 0x5eed;
        let mut order = Vec::with_capacity(visits + count as usize);
        while order.len() < visits {
            let mut pass: Vec<u32> = (0..count).collect();
            shuffle(&mut pass, &mut random);
            order.extend(pass);
        }
        order.truncate(visits);
        Self { keys, order: order.into() }
    }

    /// As in case names.
    pub(crate) fn label(&self) -> String {
        match self.keys.len() {
            1 => "1 key".to_owned(),
            thousands if thousands % 1_000 == 0 => format!("{}k keys", thousands / 1_000),
            count => format!("{count} keys"),
        }
    }
}

fn shuffle(pass: &mut [u32], random: &mut u64) {
    for index in (1..pass.len()).rev() {
        let other = next(random) % (index as u64 + 1);
        pass.swap(index, usize::try_from(other).expect("smaller than the index"));
    }
}

/// Splitmix64: every run has the same order.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_visits_every_key_once() {
        let keys = Keys::new(1_000, 5_000);
        let mut pass = keys.order[3_000..4_000].to_vec();
        assert!(!pass.is_sorted());
        pass.sort_unstable();
        assert!(pass.into_iter().eq(0..1_000));
    }
}
