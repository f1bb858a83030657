//! The completion of fish. That of clap_complete 4.6 offers no flags behind a command of the third level, such as
//! `api webhooks create`, and behind `api webhooks list` those of `api list`.

use std::collections::BTreeSet;

use clap::{Arg, Command, ValueHint, builder::StyledStr};

use super::NAME;

/// The function that each line of the script asks. Words that are no commands are values of flags and positions.
const FUNCTION: &str = r#"# True if the commands before the cursor are these.
function __fish_trade_thesis_at
    set -l found
    set -l is_value no
    set -l words (commandline -opc)
    for word in $words[2..-1]
        if test $is_value = yes
            set is_value no
        else if contains -- $word $__fish_trade_thesis_valued
            set is_value yes
        else if contains -- (string join ' ' -- $found $word) $__fish_trade_thesis_commands
            set -a found $word
        end
    end
    test "$found" = "$argv"
end
"#;

#[derive(Default)]
struct Script {
    /// All commands from the first level on, such as `api list`.
    commands: Vec<String>,
    /// The flags that a value follows.
    valued: BTreeSet<String>,
    lines: String,
}

/// The completion script of a command line.
pub(super) fn script(mut command: Command) -> String {
    command.build();
    let mut script = Script::default();
    script.add(&command, "");
    let commands: Vec<_> = script.commands.iter().map(|path| quoted(path)).collect();
    let valued: Vec<_> = script.valued.into_iter().collect();
    format!(
        "set -g __fish_trade_thesis_commands {}\nset -g __fish_trade_thesis_valued {}\n{FUNCTION}\n{}",
        commands.join(" "),
        valued.join(" "),
        script.lines
    )
}

impl Script {
    /// Adds a command with those below it. The path names it after the program.
    fn add(&mut self, command: &Command, path: &str) {
        let condition = quoted(format!("__fish_trade_thesis_at {path}").trim_end());
        let start = format!("complete -c {NAME} -n {condition}");
        if !command.get_positionals().any(is_path) {
            self.lines += &format!("{start} -f\n");
        }
        command.get_arguments().for_each(|arg| self.add_argument(arg, &start));
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let name = inner.get_name();
            self.lines += &format!("{start} -a {name}{}\n", description(inner.get_about()));
            // Behind `help` follow the same commands as without it.
            if name != "help" {
                let path = format!("{path} {name}").trim_start().to_owned();
                self.add(inner, &path);
                self.commands.push(path);
            }
        }
    }

    fn add_argument(&mut self, arg: &Arg, start: &str) {
        let values: Vec<_> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let values = if values.is_empty() { String::new() } else { format!(" -a {}", quoted(&values.join(" "))) };
        if arg.is_positional() {
            if !values.is_empty() {
                self.lines += &format!("{start}{values}\n");
            }
            return;
        }
        let long = arg.get_long().map_or_else(String::new, |long| format!(" -l {long}"));
        let short = arg.get_short().map_or_else(String::new, |short| format!(" -s {short}"));
        let mut kind = "";
        if arg.get_num_args().is_some_and(|count| count.min_values() > 0) {
            self.valued.extend(arg.get_long().map(|long| format!("--{long}")));
            self.valued.extend(arg.get_short().map(|short| format!("-{short}")));
            kind = if is_path(arg) { " -r -F" } else { " -x" };
        }
        if !arg.is_hide_set() {
            self.lines += &format!("{start}{short}{long}{kind}{values}{}\n", description(arg.get_help()));
        }
    }
}

fn is_path(arg: &Arg) -> bool {
    matches!(arg.get_value_hint(), ValueHint::AnyPath)
}

fn description(text: Option<&StyledStr>) -> String {
    text.map_or_else(String::new, |text| format!(" -d {}", quoted(&text.to_string().replace('\n', " "))))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}
