//! `completion` and `man`: the completion scripts and manual pages, generated from the declaration of the command line.

mod fish;

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    string::FromUtf8Error,
};

use clap::{Args, ValueEnum};
use clap_complete::Shell as Generator;

use crate::{Failure, terminal::say};

const NAME: &str = "trade-thesis";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Print the completion of a shell.
#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the manual pages.
#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// Folder for the pages, such as ~/.local/share/man/man1; it is created if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints the completion script of this command line.
pub(crate) fn complete(completion: &Completion, command: clap::Command) -> Result<(), Failure> {
    let script = match completion.shell {
        // clap_complete 4.6 writes the hyphen of the program's name in two ways, so commands of the second level would
        // complete nothing.
        Shell::Bash => {
            generated(Generator::Bash, command)?.replace("trade__subcmd__thesis__subcmd__", "trade__thesis__subcmd__")
        }
        Shell::Zsh => generated(Generator::Zsh, command)?,
        Shell::Fish => fish::script(command),
    };
    Ok(io::stdout().write_all(script.as_bytes())?)
}

fn generated(shell: Generator, mut command: clap::Command) -> Result<String, FromUtf8Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, NAME, &mut script);
    String::from_utf8(script)
}

/// Writes a manual page for each command.
pub(crate) fn write_manual(manual: &Manual, command: clap::Command) -> Result<(), Failure> {
    let folder = manual.folder.display();
    let unwritable = |error: io::Error| format!("{folder}: {error}");
    fs::create_dir_all(&manual.folder).map_err(unwritable)?;
    clap_mangen::generate_to(command, &manual.folder).map_err(unwritable)?;
    Ok(say(&folder.to_string())?)
}
