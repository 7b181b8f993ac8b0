//! How much memory there is.

/// Bytes of memory that programs can still have, where the system says so; 4 GB where it does not.
pub fn available_memory() -> u64 {
    const UNKNOWN: u64 = 4 << 30;
    let system = std::fs::read_to_string("/proc/meminfo").ok();
    let system = system.as_deref().and_then(available).unwrap_or(UNKNOWN);
    // A container may have less.
    let limit = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let used = limit("/sys/fs/cgroup/memory.current").unwrap_or(0);
    let left = limit("/sys/fs/cgroup/memory.max").map(|most| most.saturating_sub(used));
    left.map_or(system, |left| left.min(system))
}

/// What Linux says is available.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_system_is_read() {
        let meminfo = "MemTotal:  8 kB\nMemAvailable:   4 kB\n";
        assert_eq!(super::available(meminfo), Some(4096));
        assert_eq!(super::available("MemAvailable: x"), None);
        assert!(super::available_memory() > 0);
    }
}
