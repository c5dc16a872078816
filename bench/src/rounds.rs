//! Alternating rounds: ours, theirs, ours, theirs.
//!
//! With a single thread the best round counts, because noise only adds time. With several the median counts: their best
//! round is one without contention by chance.

use std::sync::Barrier;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::contender::{Contender, Worker};
use crate::stopwatch::Stopwatch;

/// Takes before the first round, which also determine the size of a round.
const TRIAL_TAKES: usize = 2_000;

/// The size of a measurement.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: u32,
    pub(crate) round: Duration,
}

/// Nanoseconds per take in one thread.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
}

/// The cost of each. Every take must get the expected decision: a wrong one would make a wrong figure.
pub(crate) fn duel(contenders: [&Contender; 2], threads: usize, effort: Effort) -> Result<[Cost; 2]> {
    let mut teams = contenders.map(|contender| Team::new(contender, threads, effort.round));
    let mut costs = [const { Vec::new() }; 2];
    for _ in 0..effort.rounds {
        for (team, costs) in teams.iter_mut().zip(&mut costs) {
            costs.push(team.round()?);
        }
    }
    Ok(costs.map(|costs| if threads == 1 { at_rank(&costs, 0) } else { at_rank(&costs, costs.len() / 2) }))
}

struct Team<'c> {
    contender: &'c Contender,
    members: Vec<Member>,
    takes: usize,
}

/// A thread's worker, and its position in the order.
struct Member {
    worker: Worker,
    at: usize,
}

impl<'c> Team<'c> {
    fn new(contender: &'c Contender, threads: usize, round: Duration) -> Self {
        let order = &contender.keys.order;
        // Spread over the order: two threads should collide by chance, not key after key.
        let member = |number| Member { worker: contender.hire(), at: number * order.len() / threads };
        let members: Vec<Member> = (0..threads).map(member).collect();
        let mut team = Self { contender, members, takes: TRIAL_TAKES };
        team.run();
        let (cost, _) = team.run();
        let takes = round.as_nanos() as f64 / cost.cpu.max(1.0);
        team.takes = (takes as usize).clamp(TRIAL_TAKES, order.len() / 2);
        team
    }

    fn round(&mut self) -> Result<Cost> {
        let (cost, grants) = self.run();
        let takes = self.takes * self.members.len();
        let (name, wanted) = (self.contender.name, if self.contender.work.grants() { takes } else { 0 });
        ensure!(grants == wanted, "{name} granted {grants} of {takes} takes instead of {wanted}");
        Ok(cost)
    }

    fn run(&mut self) -> (Cost, usize) {
        let (order, takes) = (&self.contender.keys.order, self.takes);
        let results = if let [only] = self.members.as_mut_slice() {
            vec![only.run(order, takes)]
        } else {
            let together = Barrier::new(self.members.len());
            std::thread::scope(|scope| {
                let run = |member| {
                    scope.spawn(|| {
                        let member: &mut Member = member;
                        together.wait();
                        member.run(order, takes)
                    })
                };
                let threads: Vec<_> = self.members.iter_mut().map(run).collect();
                threads.into_iter().map(|thread| thread.join().expect("a worker panicked")).collect()
            })
        };
        mean(&results)
    }
}

impl Member {
    fn run(&mut self, order: &[u32], takes: usize) -> (Cost, usize) {
        if self.at + takes > order.len() {
            self.at = 0;
        }
        let visits = &order[self.at..self.at + takes];
        self.at += takes;
        let stopwatch = Stopwatch::of_thread();
        let grants = (self.worker)(visits);
        let elapsed = stopwatch.elapsed();
        let per_take = |time: Duration| time.as_nanos() as f64 / takes as f64;
        (Cost { cpu: per_take(elapsed.cpu), wall: per_take(elapsed.wall) }, grants)
    }
}

/// The cost at this rank of the sorted rounds.
fn at_rank(costs: &[Cost], rank: usize) -> Cost {
    let of = |figure: fn(&Cost) -> f64| {
        let mut figures: Vec<f64> = costs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[rank]
    };
    Cost { cpu: of(|cost| cost.cpu), wall: of(|cost| cost.wall) }
}

fn mean(results: &[(Cost, usize)]) -> (Cost, usize) {
    let of = |figure: fn(&Cost) -> f64| {
        results.iter().map(|(cost, _)| figure(cost)).sum::<f64>() / results.len() as f64
    };
    (Cost { cpu: of(|cost| cost.cpu), wall: of(|cost| cost.wall) }, results.iter().map(|(_, n)| n).sum())
}

/// The median, which ignores a round disturbed by other load.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
