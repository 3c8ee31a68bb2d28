//! Values that only the user knows: `${input:x}` of a configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_proto::Secret;
use mcp_proto::host::config::{Config, InputSpec, Lookup, ServerEntry, ServerId};
use mcp_proto::host::consent::Approvals;

use crate::echo::EchoOff;
use crate::error::CommandError;
use crate::server_requests::{NoAnswerError, TerminalPrompt, is_person_present};
use crate::terminal::Screen;
use crate::text::{HEADING, NAME, QUIET, Text, styled};

/// The values that the user has typed, for this run only.
pub(super) type Inputs = BTreeMap<(ServerId, String), Secret>;

/// Asks for the inputs of all servers that may start. Without a terminal there are no questions, and an input has its
/// default or no value.
pub(super) async fn ask(config: &Config, approvals: &Approvals) -> Result<Inputs, CommandError> {
    let mut inputs = Inputs::new();
    if !is_person_present() {
        return Ok(inputs);
    }
    for entry in config.servers() {
        // A project's server that is not approved may not even ask.
        if !entry.spec().enabled || entry.permit(approvals).is_err() {
            continue;
        }
        for input in &entry.spec().inputs {
            if let Some(value) = ask_one(entry, input).await? {
                inputs.insert((entry.id(), input.id.clone()), value);
            }
        }
    }
    Ok(inputs)
}

/// The typed value of a lookup.
pub(super) fn find(inputs: &Inputs, entry: &ServerEntry, lookup: &Lookup) -> Option<Secret> {
    match lookup {
        Lookup::Input(id) => inputs.get(&(entry.id(), id.clone())).cloned(),
        _ => None,
    }
}

async fn ask_one(entry: &Arc<ServerEntry>, input: &Arc<InputSpec>) -> Result<Option<Secret>, CommandError> {
    // Restores the terminal also if a signal ends the question.
    let hidden = input.is_password.then(EchoOff::begin).transpose();
    let hidden = hidden.map_err(|error| {
        CommandError::Usage(format!("the terminal cannot hide what you type for \"{}\": {error}", input.id))
    })?;
    let (server, input) = (entry.name().to_owned(), input.clone());
    let answer = smol::unblock(move || question(&mut TerminalPrompt::from_terminal(), &server, &input)).await;
    if hidden.is_some() {
        // The line break that was typed was hidden too.
        Screen::messages().line("")?;
    }
    Ok(answer.ok().filter(|answer| !answer.is_empty()).map(Secret::new))
}

/// Asks until the answer is possible. An empty one takes the default.
fn question(
    person: &mut TerminalPrompt<impl std::io::BufRead>,
    server: &str,
    input: &InputSpec,
) -> Result<String, NoAnswerError> {
    person.print(styled(HEADING, server).and(" needs a value:"));
    if let Some(description) = &input.description {
        person.print_block("   ", description);
    }
    for (index, option) in input.options.iter().enumerate() {
        person.print(format!("  {}. {option}", index + 1));
    }
    let default = match &input.default {
        Some(_) if input.is_password => styled(QUIET, " [as configured]"),
        Some(default) => styled(QUIET, format_args!(" [{default}]")),
        None => Text::default(),
    };
    loop {
        let answer = person.ask(styled(NAME, &input.id).and(default.clone()).and(": "))?;
        if input.options.is_empty() || answer.is_empty() {
            return Ok(answer);
        }
        let by_number =
            answer.parse().ok().and_then(|number: usize| input.options.get(number.checked_sub(1)?));
        match by_number.or_else(|| input.options.iter().find(|option| **option == answer)) {
            Some(option) => return Ok(option.clone()),
            None => person.print("Please answer with one of the numbers."),
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::host::config::{ConfigFile, Source};

    use super::*;

    fn asked(input: &str, typed: &str) -> (Result<String, NoAnswerError>, String) {
        let text = format!(
            r#"{{ "servers": {{ "a\u001b[2J": {{ "command": "${{input:x}}" }} }}, "inputs": [{input}] }}"#
        );
        let file = ConfigFile::parse(Source::user("/home/ann/mcp.json"), text.as_bytes());
        let entry = &file.servers[0];
        let (screen, record) = Screen::recorded(Some(80));
        let mut person = TerminalPrompt::new(typed.as_bytes(), screen);
        let answer = question(&mut person, entry.name(), &entry.spec().inputs[0]);
        (answer, record.plain())
    }

    #[test]
    fn user_types_or_picks_a_value_and_the_question_names_the_server() {
        let (answer, shown) = asked(r#"{ "id": "x", "description": "The key\nof it" }"#, "secret\n");
        assert_eq!(answer.as_deref(), Ok("secret"));
        assert!(shown.contains("a\\u{1b}[2J needs a value:\n    The key\n    of it\nx: "), "{shown}");
        let pick = r#"{ "id": "x", "type": "pickString", "options": ["one", "two"], "default": "one" }"#;
        for (typed, expected) in [("2\n", "two"), ("one\n", "one"), ("three\n2\n", "two"), ("\n", "")] {
            assert_eq!(asked(pick, typed).0.as_deref(), Ok(expected), "{typed:?}");
        }
        assert_eq!(asked(pick, "").0, Err(NoAnswerError));
    }

    #[test]
    fn default_of_a_password_is_not_shown() {
        let (_, shown) = asked(r#"{ "id": "x", "password": true, "default": "hunter2" }"#, "\n");
        assert!(!shown.contains("hunter2") && shown.contains("[as configured]"), "{shown}");
    }
}
