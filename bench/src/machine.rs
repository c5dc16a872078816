//! The machine, and the versions of the rivals.

/// This crate's own manifest and that of the queues: they pin every rival to one version, so the report cannot name another.
const MANIFESTS: [&str; 2] = [include_str!("../Cargo.toml"), include_str!("../queues/Cargo.toml")];

/// `2 cores, AMD EPYC`.
pub(crate) fn description() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
    format!("{cores} cores, {}", model.unwrap_or("unknown processor"))
}

/// Other load in cores: the first figure of the load average. Read it before the run, which adds to it.
pub(crate) fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// `governor 0.10.4, leaky-bucket 1.1.2, ...`.
pub(crate) fn versions(rivals: &[&str]) -> String {
    let manifests =
        MANIFESTS.map(|manifest| toml::from_str::<toml::Table>(manifest).expect("cargo has read it too"));
    let version = |name: &str| {
        let mut found = manifests.iter().filter_map(|manifest| manifest["dependencies"].get(name));
        let dependency = found.next().expect("every rival is in a manifest");
        let version = dependency.get("version").unwrap_or(dependency).as_str().unwrap_or_default();
        format!("{name} {}", version.trim_start_matches('='))
    };
    rivals.iter().copied().map(version).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_rival_has_one_version() {
        let versions = super::versions(&["governor", "limitador", "apalis-sqlite"]);
        assert!(versions.starts_with("governor 0."));
        assert!(versions.contains("limitador 0."));
        assert!(versions.contains("apalis-sqlite 1."));
    }
}
