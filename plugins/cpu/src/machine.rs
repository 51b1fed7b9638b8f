//! What the operating system says of this machine: cores, caches, memory, load.

use std::fs::read_to_string;

use cajeta_plugin_api::abi::MemInfo;

use crate::settings;

/// Threads the backend runs: `CAJETA_CPU_THREADS`, else the cores this process
/// may use (its affinity and the processor quota of its control group).
pub(crate) fn threads() -> usize {
    // A value that means nothing was refused when the backend was probed.
    let asked = settings::threads().ok().flatten();
    // The standard library reads both the affinity and the quota.
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Marketing name of the processor; its architecture when the system has none.
pub(crate) fn processor_name() -> String {
    read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Nominal clock in kilohertz, if the system says.
pub(crate) fn clock_khz() -> Option<u64> {
    let cpu0 = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
    if let Some(khz) = read_to_string(cpu0).ok().and_then(|text| text.trim().parse().ok()) {
        return Some(khz);
    }
    let text = read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    let mhz: f64 = line.split_once(':')?.1.trim().parse().ok()?;
    Some((mhz * 1000.0) as u64)
}

/// Bytes of the last-level cache, if the system says.
pub(crate) fn last_cache_bytes() -> Option<u64> {
    (0..8)
        .filter_map(|index| {
            let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
            let text = read_to_string(format!("{folder}/size")).ok()?;
            let text = text.trim();
            let (digits, unit) =
                text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
            let factor = match unit {
                "K" => 1 << 10,
                "M" => 1 << 20,
                _ => 1,
            };
            digits.parse::<u64>().ok()?.checked_mul(factor)
        })
        .max()
}

/// Memory now: the machine's, within the limits of the process's control group.
pub(crate) fn memory() -> MemInfo {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
    };
    // A system without /proc answers no limit rather than no memory.
    let mut total = field("MemTotal:").unwrap_or(u64::MAX / 2);
    let mut free = field("MemAvailable:").unwrap_or(total);
    if let Some((limit, used)) = control_group() {
        total = total.min(limit);
        free = free.min(limit.saturating_sub(used));
    }
    MemInfo { total, free, largest_alloc: free }
}

/// Limit and use of the control group, version 2 or 1.
fn control_group() -> Option<(u64, u64)> {
    let number = |path: &str| -> Option<u64> { read_to_string(path).ok()?.trim().parse().ok() };
    let own = read_to_string("/proc/self/cgroup").ok()?;
    let v2 = own.lines().find_map(|line| line.strip_prefix("0::"));
    let mut folders = vec!["/sys/fs/cgroup".to_owned()];
    if let Some(path) = v2 {
        folders.push(format!("/sys/fs/cgroup{path}"));
    }
    let v2 = folders.iter().filter_map(|folder| {
        Some((number(&format!("{folder}/memory.max"))?, number(&format!("{folder}/memory.current"))?))
    });
    let v1 = "/sys/fs/cgroup/memory/memory";
    let v1 = number(&format!("{v1}.limit_in_bytes")).zip(number(&format!("{v1}.usage_in_bytes")));
    v2.chain(v1).min_by_key(|(limit, used)| limit.saturating_sub(*used))
}

/// Percent of the machine's cores that runnable tasks of other processes hold
/// now, from the load average's running count; `None` when the system does not say.
pub(crate) fn foreign_load_percent() -> Option<u64> {
    let text = read_to_string("/proc/loadavg").ok()?;
    let running: u64 = text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()?;
    let cores = std::thread::available_parallelism().ok()?.get() as u64;
    // This thread is one of the running ones.
    Some((running.saturating_sub(1) * 100 / cores).min(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_plausible() {
        assert!(threads() >= 1);
        assert!(!processor_name().is_empty());
        let memory = memory();
        assert!(memory.free <= memory.total && memory.free > 1 << 20);
        assert!(last_cache_bytes().is_none_or(|bytes| bytes >= 1 << 14));
    }
}
