//! `esper completions`: what a shell needs to complete the program's commands and options.

use clap::Command;
use clap_complete::Shell;

use crate::output::{Failure, Output};

#[derive(clap::Args)]
#[command(
    after_help = "Example:  esper completions bash > ~/.local/share/bash-completion/completions/esper"
)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(
    arguments: &Arguments,
    mut program: Command,
    output: &Output,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "esper", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    output.result(&script, || script.clone())
}
