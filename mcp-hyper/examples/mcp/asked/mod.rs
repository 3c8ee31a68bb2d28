//! What servers ask the person for, on the terminal: a form, or a visit to a page.
//!
//! Questions go to standard error and answers come from standard input, so that results can still be piped on.

mod field;
mod person;

use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::consent::UrlConsent;
use mcp_proto::front::{ClientContext, ClientHandlers, HandlerError};
use mcp_proto::peer::client::ServerInfo;
use mcp_proto::schema::{
    ClientCapability, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitValue, Map,
};

use crate::terminal::{BAD, HEADING, NAME, QUIET, harmless, styled};
use field::Field;
use person::{Gone, Person};

/// Asks the person whatever a server asks for, one thing at a time.
pub(crate) fn handlers() -> ClientHandlers {
    let turn = Arc::new(Mutex::new(()));
    ClientHandlers::new()
        .elicitation(move |params: ElicitParams, cx: ClientContext| {
            let turn = turn.clone();
            async move {
                let name = server_name(cx.server());
                // The person thinks for as long as they like; other work goes on.
                let asked = smol::unblock(move || {
                    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                    elicit(&mut Person::at_the_terminal(), &name, &params)
                });
                Ok::<_, HandlerError>(asked.await.unwrap_or_else(|Gone| ElicitResult::cancel()))
            }
        })
        .declare(|capabilities| {
            let declared = std::mem::take(capabilities);
            *capabilities = declared.with(ClientCapability::ElicitationUrl);
        })
}

fn server_name(server: Option<&ServerInfo>) -> String {
    let name =
        server.and_then(|server| server.implementation.as_ref()).map(|it| it.display_name().to_owned());
    harmless(&name.unwrap_or_else(|| "the server".to_owned()))
}

/// C10.4: whoever asks is named, and the person can say no, or nothing, at any time.
fn elicit(
    person: &mut Person<impl BufRead, impl Write>,
    server: &str,
    params: &ElicitParams,
) -> Result<ElicitResult, Gone> {
    let mut intro = format!("\n{} asks:\n{}\n", styled(HEADING, server), harmless(params.message()));
    match params {
        ElicitParams::Form(form) => {
            person.tell(&intro);
            fill_in(person, form)
        }
        ElicitParams::Url(page) => {
            let page = UrlConsent::of(page);
            match &page {
                Ok(page) => describe(&mut intro, page),
                Err(fault) => _ = writeln!(intro, "It names no page that can be shown: {fault}."),
            }
            person.tell(&intro);
            if page.is_ok() { visit(person) } else { Ok(ElicitResult::decline()) }
        }
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

fn choose(person: &mut Person<impl BufRead, impl Write>, question: Question) -> Result<Choice, Gone> {
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
            _ => person.tell("Please answer with one of these letters.\n"),
        }
    }
}

fn fill_in(
    person: &mut Person<impl BufRead, impl Write>,
    form: &ElicitFormParams,
) -> Result<ElicitResult, Gone> {
    let schema = &form.requested_schema;
    let required = |name: &str| schema.required.iter().flatten().any(|it| it == name);
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
        person.tell(&review(&fields, &values));
        match choose(person, Question::Send)? {
            Choice::Go => return Ok(ElicitResult::accept(values)),
            Choice::Again => {}
            Choice::Decline => return Ok(ElicitResult::decline()),
        }
    }
}

fn review(fields: &[Field<'_>], values: &Map<ElicitValue>) -> String {
    let mut text = String::from("\n");
    for field in fields {
        let name = field.name();
        let value = values.get(name).map_or_else(|| styled(QUIET, "nothing"), |value| field.show(value));
        let _ = writeln!(text, "  {}: {value}", styled(NAME, harmless(name)));
    }
    text
}

/// C10.6, C10.7: the whole URL, its host apart, and nothing fetched.
fn describe(intro: &mut String, page: &UrlConsent) {
    let _ = writeln!(intro, "\nIt wants you to visit this page:\n\n  {}\n", page.url());
    let _ = writeln!(intro, "The page is at {}.", styled(NAME, page.host()));
    for warning in page.warnings() {
        let _ = writeln!(intro, "{}", styled(BAD, format!("Warning: {warning}.")));
    }
}

fn visit(person: &mut Person<impl BufRead, impl Write>) -> Result<ElicitResult, Gone> {
    match choose(person, Question::Visit)? {
        Choice::Go | Choice::Again => Ok(ElicitResult::new(ElicitAction::Accept)),
        Choice::Decline => Ok(ElicitResult::decline()),
    }
}

#[cfg(test)]
mod tests;
