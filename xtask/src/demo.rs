//! The demo: from a bare checkout to a streamed answer of a real model through an installed plugin.

use crate::failure::Outcome;
use crate::workspace::Workspace;
use crate::{install, model, process};

/// Asked when no prompt is given.
pub(crate) const DEFAULT_PROMPT: &str = "Give me three tips for writing a good short story.";

/// Builds, installs, fetches the model, and runs one chat answer with its timings.
pub(crate) fn run(workspace: &Workspace, prompt: &str) -> Outcome<()> {
    process::run(workspace.cargo(&[
        "build",
        "--release",
        "--package",
        "cajeta",
        "--package",
        "cajeta-plugin-host",
        "--package",
        "cajeta-backend-cpu",
    ]))?;
    let cajeta = install::lay_out(workspace, &["cpu"])?;
    let (model, chat) = match model::smollm2(workspace) {
        Ok(path) => (path, true),
        Err(failure) => {
            let path = model::tiny(workspace)?;
            eprintln!("SmolLM2 could not be fetched ({failure}).");
            eprintln!("Falling back to {}, a tiny model that only continues stories.", path.display());
            (path, false)
        }
    };
    let mut answer = workspace.command(cajeta);
    answer.arg("run").arg(&model);
    if chat {
        answer.args(["-p", prompt, "--chat"]);
    } else {
        answer.args(["-p", "Once upon a time", "--raw"]);
    }
    answer.args(["-n", "200"]);
    process::run(answer)
}
