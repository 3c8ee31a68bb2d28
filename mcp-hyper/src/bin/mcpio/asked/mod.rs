//! What servers ask the person for, on the terminal: a form, a visit to a page, or a model's answer.
//!
//! Questions go to standard error and answers come from standard input, so that results can still be piped on.

mod field;
mod person;
mod sampling;

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
use person::{Gone, Person};

/// Asks the person whatever a server asks for, one thing at a time. Sampling is declared only if there is a terminal:
/// a program's input is no model.
pub(crate) fn handlers() -> ClientHandlers {
    let turn = Arc::new(Mutex::new(()));
    let turns = turn.clone();
    let handlers = ClientHandlers::new()
        .elicitation(move |params: ElicitParams, cx: ClientContext| {
            let asked = ask(turns.clone(), cx, move |person, server| elicit(person, server, &params));
            async move { Ok::<_, HandlerError>(asked.await.unwrap_or_else(|Gone| ElicitResult::cancel())) }
        })
        .declare(|capabilities| {
            let declared = std::mem::take(capabilities);
            *capabilities = declared.with(ClientCapability::ElicitationUrl);
        });
    if !(io::stdin().is_terminal() && Screen::messages().is_terminal()) {
        return handlers;
    }
    handlers.sampling(move |params: CreateMessageParams, cx: ClientContext| {
        let asked = ask(turn.clone(), cx, move |person, server| sampling::sample(person, server, &params));
        async move { asked.await.map_err(HandlerError::from) }
    })
}

/// Runs a dialog with the person while other work goes on: they think for as long as they like.
fn ask<T: Send + 'static>(
    turn: Arc<Mutex<()>>,
    cx: ClientContext,
    dialog: impl FnOnce(&mut Person<io::BufReader<io::Stdin>>, &str) -> T + Send + 'static,
) -> impl Future<Output = T> + Send + 'static {
    let server = server_name(cx.server());
    smol::unblock(move || {
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        dialog(&mut Person::at_the_terminal(), &server)
    })
}

fn server_name(server: Option<&ServerInfo>) -> String {
    let name =
        server.and_then(|server| server.implementation.as_ref()).map(|it| it.display_name().to_owned());
    name.unwrap_or_else(|| "the server".to_owned())
}

/// C10.4: whoever asks is named, and the person can say no, or nothing, at any time.
fn elicit(
    person: &mut Person<impl BufRead>,
    server: &str,
    params: &ElicitParams,
) -> Result<ElicitResult, Gone> {
    person.tell("");
    person.tell(styled(HEADING, server).and(" asks:"));
    person.quote("   ", params.message());
    match params {
        ElicitParams::Form(form) => fill_in(person, form),
        ElicitParams::Url(page) => match UrlConsent::of(page) {
            Ok(page) => {
                describe(person, &page);
                visit(person)
            }
            Err(fault) => {
                person.tell(format!("It names no page that can be shown: {fault}."));
                Ok(ElicitResult::decline())
            }
        },
    }
}

/// What the person is to decide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Answer,
    Send,
    Visit,
}

/// What they decided.
enum Choice {
    Go,
    Again,
    Decline,
}

fn choose(person: &mut Person<impl BufRead>, question: Question) -> Result<Choice, Gone> {
    let text = match question {
        Question::Answer => "Answer? [Y]es, [n]o, [c]ancel: ",
        Question::Send => "Send this? [Y]es, [e]dit, [n]o, [c]ancel: ",
        // Consent is given, not slipped into.
        Question::Visit => "If you trust it, open it in your browser. Do you agree? [y]es, [n]o, [c]ancel: ",
    };
    loop {
        match person.ask(text)?.to_lowercase().as_str() {
            "y" | "yes" => return Ok(Choice::Go),
            "" if question != Question::Visit => return Ok(Choice::Go),
            "n" | "no" => return Ok(Choice::Decline),
            "c" | "cancel" => return Err(Gone),
            "e" | "edit" if question == Question::Send => return Ok(Choice::Again),
            _ => person.tell("Please answer with one of these letters."),
        }
    }
}

fn fill_in(person: &mut Person<impl BufRead>, form: &ElicitFormParams) -> Result<ElicitResult, Gone> {
    let schema = &form.requested_schema;
    let required: BTreeSet<&str> = schema.required.iter().flatten().map(String::as_str).collect();
    let required = |name: &str| required.contains(name);
    if let Choice::Decline = choose(person, Question::Answer)? {
        return Ok(ElicitResult::decline());
    }
    let fields = schema.properties.iter().map(|(name, schema)| Field::new(name, schema, required(name)));
    let fields: Vec<_> = fields.collect();
    let mut values: Map<ElicitValue> = Map::new();
    loop {
        for field in &fields {
            let name = field.name();
            match field.ask(person, values.get(name))? {
                Some(value) => {
                    values.insert(name, value);
                }
                None => {
                    values.remove(name);
                }
            }
        }
        review(person, &fields, &values);
        match choose(person, Question::Send)? {
            Choice::Go => return Ok(ElicitResult::accept(values)),
            Choice::Again => {}
            Choice::Decline => return Ok(ElicitResult::decline()),
        }
    }
}

fn review(person: &mut Person<impl BufRead>, fields: &[Field<'_>], values: &Map<ElicitValue>) {
    person.tell("");
    for field in fields {
        let name = field.name();
        let value = match values.get(name) {
            Some(value) => Text::from(field.show(value)),
            None => styled(QUIET, "nothing"),
        };
        person.tell(Text::from("  ").and(styled(NAME, name)).and(": ").and(value));
    }
}

/// C10.6, C10.7: the whole URL, its host apart, and nothing fetched.
fn describe(person: &mut Person<impl BufRead>, page: &UrlConsent) {
    person.tell("");
    person.tell("It wants you to visit this page:");
    person.tell("");
    person.tell(format!("  {}", page.url()));
    person.tell("");
    person.tell(Text::from("The page is at ").and(styled(NAME, page.host())).and("."));
    for warning in page.warnings() {
        person.tell(styled(BAD, format_args!("Warning: {warning}.")));
    }
}

fn visit(person: &mut Person<impl BufRead>) -> Result<ElicitResult, Gone> {
    match choose(person, Question::Visit)? {
        Choice::Go | Choice::Again => Ok(ElicitResult::new(ElicitAction::Accept)),
        Choice::Decline => Ok(ElicitResult::decline()),
    }
}

#[cfg(test)]
mod tests;
