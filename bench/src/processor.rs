//! The processor time of a server: of a process and its children, or of each thread.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};

/// Of the process and its children, including ended ones.
pub(crate) fn time_of(pid: u32) -> Result<Duration> {
    let own = Stat::of(pid).context("the server's processor time")?;
    let children = std::fs::read_dir("/proc")?
        .filter_map(|entry| Stat::of(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .filter(|stat| stat.parent == pid);
    let ticks = own.ticks + own.ticks_of_ended + children.map(|child| child.ticks).sum::<u64>();
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Of the threads of a process that are still there, to the nanosecond: for short rounds at low rates.
pub(crate) fn precise_time_of(pid: u32) -> Result<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).context("the server's threads")?;
    let nanos = |path: &std::path::Path| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    let nanos: u64 = threads.filter_map(|entry| nanos(&entry.ok()?.path())).sum();
    Ok(Duration::from_nanos(nanos))
}

/// The work of each thread of a process, in ticks, by thread id.
pub(crate) fn threads_of(pid: u32) -> Result<HashMap<u32, u64>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).context("the server's threads")?;
    let time = |name: &str| Some((name.parse().ok()?, Stat::at(&format!("{pid}/task/{name}"))?.ticks));
    Ok(threads.filter_map(|entry| time(entry.ok()?.file_name().to_str()?)).collect())
}

/// Some fields of `/proc/PID/stat`.
struct Stat {
    parent: u32,
    /// Its own time, and that of its ended children.
    ticks: u64,
    ticks_of_ended: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::at(&pid.to_string())
    }

    fn at(place: &str) -> Option<Self> {
        Self::read(&std::fs::read_to_string(format!("/proc/{place}/stat")).ok()?)
    }

    /// After the name, which may hold spaces and ends with the last parenthesis: the state, then numbers.
    fn read(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.rsplit_once(") ")?.1.split(' ').collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            ticks: number(11)? + number(12)?,
            ticks_of_ended: number(13)? + number(14)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_parsed() {
        let line = "7 (a ) name) S 3 7 7 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0 99 1000 1\n";
        let stat = Stat::read(line).unwrap();
        assert_eq!((stat.parent, stat.ticks, stat.ticks_of_ended), (3, 33, 77));
        assert!(Stat::read("nothing").is_none());
    }
}
