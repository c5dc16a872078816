//! Compose, Kubernetes and systemd: read, and compared with what they must say; their configs are read by the command.

use std::process::Command;

use serde_json::Value;

use super::{file, read};
use crate::home::Home;

fn documents(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(path)).unwrap_or_else(|error| panic!("deploy/{path}: {error}"))
}

/// The config as `tollway policy check` reads it; its tokens are there.
fn check_config(config: &str) {
    let home = Home::new();
    let mut config = config.to_owned();
    for folder in ["/etc/tollway/tokens", "/run/secrets", "/run/credentials/tollway.service"] {
        config = config.replace(folder, home.path().to_str().unwrap());
    }
    for name in ["read", "write", "decisions"] {
        home.write(name, "0123456789abcdef0123456789abcdef");
    }
    home.write("tollway.toml", &config);
    let output = home.tollway(&["policy", "check"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("error"), "{said}\n{config}");
}

/// The config of a file, as TOML.
fn config(text: &str) -> toml::Table {
    text.parse().unwrap()
}

fn port(config: &toml::Table, listener: &str) -> u64 {
    let address = config["server"][listener].as_str().unwrap();
    address.rsplit(':').next().unwrap().parse().unwrap()
}

/// Every container runs without root, writes nowhere but in its volumes, and has limits.
fn check_pod(pod: &Value) {
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{pod}");
    assert!(pod["securityContext"]["runAsUser"].as_u64().unwrap() > 0, "{pod}");
    assert_eq!(pod["automountServiceAccountToken"], false, "{pod}");
    let containers = ["initContainers", "containers"].map(|key| pod[key].as_array().into_iter().flatten());
    for container in containers.into_iter().flatten() {
        let security = &container["securityContext"];
        assert_eq!(security["allowPrivilegeEscalation"], false, "{container}");
        assert_eq!(security["readOnlyRootFilesystem"], true, "{container}");
        assert_eq!(security["capabilities"]["drop"][0], "ALL", "{container}");
        for kind in ["requests", "limits"] {
            let resources = &container["resources"][kind];
            assert!(resources["cpu"].is_string() && resources["memory"].is_string(), "{container}");
        }
        let mounted = container["volumeMounts"].as_array().into_iter().flatten();
        for mount in mounted {
            let volumes = pod["volumes"].as_array().into_iter().flatten();
            let known = volumes.into_iter().any(|volume| volume["name"] == mount["name"]);
            assert!(known || mount["name"] == "data", "no volume for {mount}");
        }
    }
}

/// The container of Tollway answers probes on the port of its config's administration, and ends within the grace period.
fn check_tollway(pod: &Value, config: &toml::Table) {
    let containers = ["initContainers", "containers"].map(|key| pod[key].as_array().into_iter().flatten());
    let tollway = containers.into_iter().flatten().find(|container| container["name"] == "tollway").unwrap();
    let named = |port: &Value| {
        let ports = tollway["ports"].as_array().unwrap();
        ports.iter().find(|known| known["name"] == *port).unwrap()["containerPort"].as_u64().unwrap()
    };
    for (probe, path) in
        [("startupProbe", "/ready"), ("readinessProbe", "/ready"), ("livenessProbe", "/health")]
    {
        let request = &tollway[probe]["httpGet"];
        assert_eq!(request["path"], path, "{tollway}");
        assert_eq!(named(&request["port"]), port(config, "admin"), "{tollway}");
    }
    // The kubelet asks from outside the pod.
    assert!(config["server"]["admin"].as_str().unwrap().starts_with("0.0.0.0:"), "{config:?}");
    let seconds =
        |key: &str| config["server"][key].as_str().unwrap().trim_end_matches('s').parse::<u64>().unwrap();
    let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace > seconds("drain") + seconds("grace"), "{grace}");
}

#[test]
fn kubernetes_manifests_hold_what_the_page_says() {
    for path in ["kubernetes/sidecar.yaml", "kubernetes/shared.yaml"] {
        let documents = documents(path);
        let of_kind = |kind: &str| documents.iter().filter(|one| one["kind"] == kind).collect::<Vec<_>>();
        let map = of_kind("ConfigMap")[0];
        let text = map["data"]["tollway.toml"].as_str().unwrap();
        check_config(text);
        let deployment = of_kind("Deployment")[0];
        let pod = &deployment["spec"]["template"]["spec"];
        check_pod(pod);
        check_tollway(pod, &config(text));
        of_kind("StatefulSet").iter().for_each(|set| check_pod(&set["spec"]["template"]["spec"]));
        let volumes = pod["volumes"].as_array().unwrap();
        assert!(volumes.iter().any(|volume| volume["configMap"]["name"] == map["metadata"]["name"]), "{pod}");
        // What selects pods selects those of this file.
        for document in &documents {
            assert!(
                document["apiVersion"].is_string() && document["metadata"]["name"].is_string(),
                "{document}"
            );
            let spec = &document["spec"];
            if document["kind"] == "Deployment" || document["kind"] == "StatefulSet" {
                assert_eq!(
                    spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"],
                    "{document}"
                );
            }
        }
        for service in of_kind("Service") {
            let selected = documents.iter().map(|other| &other["spec"]["template"]["metadata"]["labels"]);
            assert!(selected.into_iter().any(|labels| *labels == service["spec"]["selector"]), "{service}");
        }
    }
}

#[test]
fn compose_file_holds_what_the_page_says() {
    let compose = &documents("compose/compose.yaml")[0];
    let text = read("compose/tollway.toml");
    check_config(&text);
    let services = compose["services"].as_object().unwrap();
    for (name, service) in services {
        let user = service["user"].as_str().unwrap();
        assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "{name}: {user}");
        assert_eq!(service["cap_drop"][0], "ALL", "{name}");
        assert!(service["healthcheck"]["test"].is_array(), "{name}");
        let limits = &service["deploy"]["resources"]["limits"];
        assert!(limits["cpus"].is_string() && limits["memory"].is_string(), "{name}");
        for published in service["ports"].as_array().into_iter().flatten() {
            assert!(published.as_str().unwrap().starts_with("127.0.0.1:"), "{name}: {published}");
        }
        for mounted in service["volumes"].as_array().into_iter().flatten() {
            let from = mounted.as_str().unwrap().split(':').next().unwrap();
            let exists = match from.strip_prefix('.') {
                Some(_) => file("compose").join(from).exists(),
                None => compose["volumes"].get(from).is_some(),
            };
            assert!(exists, "{name}: {from}");
        }
    }
    let (tollway, config) = (&services["tollway"], config(&text));
    for listener in ["listen", "admin"] {
        let port = port(&config, listener);
        let published = format!("127.0.0.1:{port}:{port}");
        assert!(tollway["ports"].as_array().unwrap().iter().any(|known| *known == published), "{published}");
    }
    assert!(config["store"]["url"].as_str().unwrap().starts_with("redis://redis:"), "the service's name");
    assert!(read("prometheus/prometheus.yml").contains(&format!("tollway:{}", port(&config, "admin"))));
}

/// The health check of the Compose file is a program of the shell: it tells a server that is ready from none.
#[test]
fn the_health_check_of_the_compose_file_finds_a_server() {
    let compose = &documents("compose/compose.yaml")[0];
    let test = compose["services"]["tollway"]["healthcheck"]["test"].as_array().unwrap();
    let [kind, program, arguments @ ..] = &test[..] else { panic!("{test:?}") };
    assert_eq!(kind, "CMD");
    let home = Home::new();
    home.write(
        "tollway.toml",
        "policies.api.limits = ['9 / hour']\n[server]\nlisten = '127.0.0.1:0'\nadmin = '127.0.0.1:0'",
    );
    let serving = crate::serve::serving::Serving::start_with(&home, &[], &[]);
    let address = serving.address("administration");
    let at = |address: &str| {
        let port = address.rsplit(':').next().unwrap();
        let arguments =
            arguments.iter().map(|text| text.as_str().unwrap().replace("/9090", &format!("/{port}")));
        Command::new(program.as_str().unwrap()).args(arguments).output().unwrap().status.success()
    };
    assert!(at(&address));
    drop(serving.stop());
    assert!(!at(&address));
}

/// `systemd-analyze` finds no fault, but for the command's path, where nothing is installed here.
#[test]
fn the_unit_is_valid_and_its_config_is_read() {
    check_config(&read("systemd/tollway.toml"));
    let unit = read("systemd/tollway.service");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollway.service");
    std::fs::write(&path, unit.replace("/usr/local/bin/tollway", env!("CARGO_BIN_EXE_tollway"))).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg(&path).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.trim().is_empty(), "{said}");
        }
        // Debian without systemd, such as a container: the keys that matter are there.
        Err(_) => {
            let keys = ["DynamicUser=yes", "MemoryMax=", "ProtectSystem=strict", "ExecStart=/"];
            assert!(keys.iter().all(|key| unit.contains(key)), "{unit}");
        }
    }
}
