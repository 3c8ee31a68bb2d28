//! Server requests that the user answers on the terminal: elicitation by form or by URL, and sampling.
//!
//! Questions go to standard error and answers come from standard input, so that results can still be piped.

mod field;
mod sampling;
mod terminal_prompt;

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal as _};
use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::consent::UrlConsent;
use mcp_proto::front::{ClientContext, ClientHandlers, HandlerError};
use mcp_proto::peer::client::ServerInfo;
use mcp_proto::schema::{
    ClientCapability, CreateMessageParams, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult,
    ElicitValue, Map,
};

use crate::terminal::Screen;
use crate::text::{BAD, HEADING, NAME, QUIET, Text, styled};
use field::Field;
pub(crate) use terminal_prompt::{NoAnswerError, TerminalPrompt};

/// Handlers that put the server's requests to the user, one at a time.
pub(crate) fn handlers() -> ClientHandlers {
    handlers_of(None)
}

/// Handlers of a server that is shown under this name, or else under the name that it gives itself. Sampling is declared
/// only on a terminal: the input of a program is not a model.
pub(crate) fn handlers_of(configured_name: Option<&str>) -> ClientHandlers {
    let name: Option<Arc<str>> = configured_name.map(Arc::from);
    let asks_as = name.clone();
    let handlers = ClientHandlers::new()
        .elicitation(move |params: ElicitParams, cx: ClientContext| {
            let asked = ask(name.clone(), cx, move |person, server| elicit(person, server, &params));
            async move {
                Ok::<_, HandlerError>(asked.await.unwrap_or_else(|NoAnswerError| ElicitResult::cancel()))
            }
        })
        .declare(|capabilities| {
            let declared = std::mem::take(capabilities);
            *capabilities = declared.with(ClientCapability::ElicitationUrl);
        });
    if !is_person_present() {
        return handlers;
    }
    handlers.sampling(move |params: CreateMessageParams, cx: ClientContext| {
        let asked = ask(asks_as.clone(), cx, move |person, server| sampling::sample(person, server, &params));
        async move { asked.await.map_err(HandlerError::from) }
    })
}

/// Whether a user can be asked: standard input and standard error are a terminal.
pub(crate) fn is_person_present() -> bool {
    io::stdin().is_terminal() && Screen::messages().is_terminal()
}

/// Locked while a dialog runs.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a dialog with the user on a thread, without a time limit, while other work continues.
fn ask<T: Send + 'static>(
    configured_name: Option<Arc<str>>,
    cx: ClientContext,
    dialog: impl FnOnce(&mut TerminalPrompt<io::BufReader<io::Stdin>>, &str) -> T + Send + 'static,
) -> impl Future<Output = T> + Send + 'static {
    let server = configured_name.map_or_else(|| server_name(cx.server()), |name| (*name).to_owned());
    smol::unblock(move || {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        dialog(&mut TerminalPrompt::from_terminal(), &server)
    })
}

fn server_name(server: Option<&ServerInfo>) -> String {
    let name =
        server.and_then(|server| server.implementation.as_ref()).map(|it| it.display_name().to_owned());
    name.unwrap_or_else(|| "the server".to_owned())
}

/// Names the server that asks; the user can decline or cancel at any time.
fn elicit(
    person: &mut TerminalPrompt<impl BufRead>,
    server: &str,
    params: &ElicitParams,
) -> Result<ElicitResult, NoAnswerError> {
    person.print("");
    //= C10.4 "Show which server asks"
    person.print(styled(HEADING, server).and(" asks:"));
    person.print_block("   ", params.message());
    match params {
        ElicitParams::Form(form) => fill_in(person, form),
        ElicitParams::Url(page) => match UrlConsent::from_params(page) {
            Ok(page) => {
                describe(person, &page);
                visit(person)
            }
            Err(error) => {
                person.print(format!("The page cannot be shown safely: {error}."));
                Ok(ElicitResult::decline())
            }
        },
    }
}

/// The user's decision to ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Answer,
    Send,
    Visit,
}

/// The user's decision.
enum Decision {
    Accept,
    Edit,
    Decline,
}

fn choose(person: &mut TerminalPrompt<impl BufRead>, question: Question) -> Result<Decision, NoAnswerError> {
    let text = match question {
        Question::Answer => "Answer? [Y]es, [n]o, [c]ancel: ",
        Question::Send => "Send this? [Y]es, [e]dit, [n]o, [c]ancel: ",
        // Consent must be explicit: an empty line is not a yes.
        //= C10.6 "explicit consent"
        Question::Visit => "If you trust it, open it in your browser. Do you agree? [y]es, [n]o, [c]ancel: ",
    };
    loop {
        match person.ask(text)?.to_lowercase().as_str() {
            "y" | "yes" => return Ok(Decision::Accept),
            "" if question != Question::Visit => return Ok(Decision::Accept),
            "n" | "no" => return Ok(Decision::Decline),
            "c" | "cancel" => return Err(NoAnswerError),
            "e" | "edit" if question == Question::Send => return Ok(Decision::Edit),
            _ => person.print("Please answer with one of these letters."),
        }
    }
}

fn fill_in(
    person: &mut TerminalPrompt<impl BufRead>,
    form: &ElicitFormParams,
) -> Result<ElicitResult, NoAnswerError> {
    let schema = &form.requested_schema;
    let required: BTreeSet<&str> = schema.required.iter().flatten().map(String::as_str).collect();
    let required = |name: &str| required.contains(name);
    if let Decision::Decline = choose(person, Question::Answer)? {
        return Ok(ElicitResult::decline());
    }
    let fields = schema.properties.iter().map(|(name, schema)| Field::new(name, schema, required(name)));
    let fields: Vec<_> = fields.collect();
    let mut values: Map<ElicitValue> = Map::new();
    loop {
        for field in &fields {
            let name = field.name();
            match field.prompt(person, values.get(name))? {
                Some(value) => {
                    values.insert(name, value);
                }
                None => {
                    values.remove(name);
                }
            }
        }
        review(person, &fields, &values);
        //= C10.4 "allow decline and cancel at any time; user can review/change before sending"
        match choose(person, Question::Send)? {
            Decision::Accept => return Ok(ElicitResult::accept(values)),
            Decision::Edit => {}
            Decision::Decline => return Ok(ElicitResult::decline()),
        }
    }
}

fn review(person: &mut TerminalPrompt<impl BufRead>, fields: &[Field<'_>], values: &Map<ElicitValue>) {
    person.print("");
    for field in fields {
        let name = field.name();
        let value = match values.get(name) {
            Some(value) => Text::from(field.show(value)),
            None => styled(QUIET, "nothing"),
        };
        person.print(Text::from("  ").and(styled(NAME, name)).and(": ").and(value));
    }
}

/// Shows the whole URL and its host, and fetches nothing.
fn describe(person: &mut TerminalPrompt<impl BufRead>, page: &UrlConsent) {
    person.print("");
    person.print("It wants you to visit this page:");
    person.print("");
    //= C10.6 "whole URL shown"
    person.print(format!("  {}", page.url()));
    person.print("");
    //= C10.7 "highlight the domain"
    person.print(Text::from("The page is at ").and(styled(NAME, page.host())).and("."));
    for warning in page.warnings() {
        person.print(styled(BAD, format_args!("Warning: {warning}.")));
    }
}

fn visit(person: &mut TerminalPrompt<impl BufRead>) -> Result<ElicitResult, NoAnswerError> {
    match choose(person, Question::Visit)? {
        Decision::Accept | Decision::Edit => Ok(ElicitResult::new(ElicitAction::Accept)),
        Decision::Decline => Ok(ElicitResult::decline()),
    }
}

#[cfg(test)]
mod tests;
