//! The kernels of a step by what they compute: how often, how long, how much they move.

use std::fmt;
use std::time::Duration;

use cajeta::engine::LaunchTime;
use cajeta::lower::any_layer;
use cajeta_abi::Row;
use serde::Serialize;

use super::table::Table;

/// The launches of one list, those that differ by their layer only taken together; longest first.
#[derive(Serialize)]
pub(crate) struct Launches {
    /// Of one step, by the median of each launch.
    total_us: f64,
    /// By row and by what it computes.
    groups: Vec<Group>,
    /// By row alone.
    rows: Vec<Group>,
}

#[derive(Serialize, Clone)]
struct Group {
    row: String,
    computes: String,
    launches: u64,
    total_us: f64,
    share: f64,
    bytes: u64,
    bytes_per_second: f64,
}

impl Launches {
    /// Groups timed launches; `rows` are the backend's.
    pub(crate) fn new(rows: &[Row], timed: &[LaunchTime]) -> Launches {
        let total_us = timed.iter().map(median_us).sum::<f64>();
        let fine = |launch: &LaunchTime| any_layer(&launch.cost.what);
        let coarse = |_: &LaunchTime| String::new();
        Launches {
            total_us,
            groups: grouped(rows, timed, total_us, &fine),
            rows: grouped(rows, timed, total_us, &coarse),
        }
    }
}

fn grouped(
    rows: &[Row],
    timed: &[LaunchTime],
    total_us: f64,
    computes: &dyn Fn(&LaunchTime) -> String,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for launch in timed {
        let row = rows.get(launch.cost.row).map_or_else(|| "?".to_owned(), |row| row.name.to_string());
        let computes = computes(launch);
        let known = groups.iter().position(|group| group.row == row && group.computes == computes);
        let index = known.unwrap_or_else(|| {
            groups.push(Group {
                row,
                computes,
                launches: 0,
                total_us: 0.0,
                share: 0.0,
                bytes: 0,
                bytes_per_second: 0.0,
            });
            groups.len() - 1
        });
        let group = &mut groups[index];
        group.launches += 1;
        group.total_us += median_us(launch);
        group.bytes = group.bytes.saturating_add(launch.cost.bytes());
    }
    for group in &mut groups {
        group.share = group.total_us / total_us.max(1e-9);
        group.bytes_per_second = group.bytes as f64 / (group.total_us.max(1e-9) * 1e-6);
    }
    groups.sort_by(|a, b| b.total_us.total_cmp(&a.total_us));
    groups
}

fn median_us(launch: &LaunchTime) -> f64 {
    let mut times: Vec<Duration> = launch.times.clone();
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

impl fmt::Display for Launches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["  times", "us each", "us", "share", "MB", "GB/s", "row", "computes"]);
        for group in &self.groups {
            let Group { row, computes, launches, total_us, share, bytes, bytes_per_second } = group;
            table.row([
                format!("  {launches}"),
                format!("{:.2}", total_us / *launches as f64),
                format!("{total_us:.1}"),
                format!("{:.1} %", 100.0 * share),
                format!("{:.2}", *bytes as f64 / 1e6),
                format!("{:.0}", bytes_per_second / 1e9),
                row.clone(),
                computes.clone(),
            ]);
        }
        write!(f, "{table}  {:.1} us in {} kernels", self.total_us, self.launches())
    }
}

impl Launches {
    fn launches(&self) -> u64 {
        self.groups.iter().map(|group| group.launches).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta::engine::LaunchCost;

    fn launch(what: &str, micros: &[u64]) -> LaunchTime {
        let cost = LaunchCost { row: 0, what: what.into(), weights: 1000, cache: 0, activations: 24 };
        LaunchTime { cost, times: micros.iter().map(|&us| Duration::from_micros(us)).collect() }
    }

    #[test]
    fn layers_fold_and_medians_add_up() {
        let timed = [
            launch("matmul blk.0.q", &[10, 30, 11]),
            launch("matmul blk.1.q", &[5]),
            launch("matmul blk.0.k", &[20]),
        ];
        let launches = Launches::new(&[], &timed);
        assert_eq!((launches.groups.len(), launches.rows.len(), launches.launches()), (2, 1, 3));
        assert_eq!(launches.groups[0].computes, "matmul blk.*.k");
        assert_eq!((launches.groups[1].launches, launches.groups[1].bytes), (2, 2048));
        assert!((launches.groups[1].total_us - 16.0).abs() < 1e-9 && (launches.total_us - 36.0).abs() < 1e-9);
        assert!((launches.rows[0].share - 1.0).abs() < 1e-9);
        assert!(launches.to_string().contains("36.0 us in 3 kernels"), "{launches}");
    }
}
