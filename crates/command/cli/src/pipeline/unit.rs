//! `pipeline unit`: a systemd unit for this pipeline.

use tollway::Span;
use tollway::core::read_span;

use super::session::Which;
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// systemd ends a process this long after it should have ended by itself.
const STOP_MARGIN: Span = Span::from_secs(15);

/// Print a systemd unit that keeps the pipeline running
///
/// It starts `tollway pipeline run --stay` with this config, restarts it after a crash, reloads it with `systemctl reload`
/// and lets running jobs finish when it is stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tollway pipeline unit | sudo tee /etc/systemd/system/tollway-pdf.service
  sudo systemctl daemon-reload && sudo systemctl enable --now tollway-pdf
  journalctl -u tollway-pdf -f")]
pub(crate) struct Arguments {
    /// The user that it runs as [default: the one who asks]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// How long running jobs may take when it is stopped
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = read_span)]
    grace: Span,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let (config, _) = which.config(context)?;
    let cannot = |error: std::io::Error| Failure::new(Exit::FAILED, format!("cannot find a path: {error}"));
    let program = std::env::current_exe().map_err(cannot)?;
    let file = context.config_path()?.canonicalize().map_err(cannot)?;
    let folder = file.parent().unwrap_or(&file).to_owned();
    let user =
        arguments.user.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| "root".to_owned());
    let grace = arguments.grace.as_micros() / 1_000_000;
    let stop = arguments.grace.plus(STOP_MARGIN).as_micros() / 1_000_000;
    let path = |path: &std::path::Path| quoted(&path.display().to_string());
    // 65: dead letters, and 78: a wrong config; a restart would not help.
    let unit = format!(
        "[Unit]
Description=Tollway pipeline {name}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={program} --config {file} pipeline --pipeline {name} run --stay --grace {grace}s
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={folder}
User={user}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2 65 78
TimeoutStopSec={stop}
KillMode=mixed

[Install]
WantedBy=multi-user.target",
        name = config.name,
        program = path(&program),
        file = path(&file),
        folder = folder.display(),
    );
    context.output().line(unit)?;
    Ok(Exit::DONE)
}

/// A word of a command line in a unit: `%` and quotes have a meaning there.
fn quoted(text: &str) -> String {
    let escaped = text.replace('%', "%%").replace('\\', "\\\\").replace('"', "\\\"");
    if escaped.contains([' ', '\t', '"']) { format!("\"{escaped}\"") } else { escaped }
}
