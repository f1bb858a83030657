mod grammar;
mod refused;
mod values;

use clap::FromArgMatches as _;

use super::Settings;
use crate::command::{Invocation, command, explain};

fn parse(arguments: &[&str]) -> Result<Invocation, String> {
    let mut command = command();
    let arguments = std::iter::once(&"trade-thesis").chain(arguments);
    let parsed = command.try_get_matches_from_mut(arguments).and_then(|matches| Invocation::from_arg_matches(&matches));
    parsed.map_err(|error| explain(&error, &command))
}

fn settings(arguments: &[&str]) -> Settings {
    parse(arguments).unwrap().settings
}
