//! Server requests that the user answers on the terminal: elicitation by form or by URL, and sampling.
//!
//! Questions go to standard error and answers come from standard input, so that results can still be piped.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, IsTerminal as _};
use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::consent::UrlConsent;
use mcp_proto::front::{ClientContext, ClientHandlers, HandlerError};
use mcp_proto::peer::client::ServerInfo;
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{
    ClientCapability, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams,
    ElicitResult, ElicitValue, EnumOption, Map, MultiSelectItems, MultiSelectSchema, Number, NumberKind,
    NumberSchema, PrimitiveSchema, Role, SamplingBlock, StringSchema,
};
use serde::Deserialize;

use crate::terminal::{BAD, DEFAULT_WIDTH, HEADING, NAME, QUIET, Screen, Text, styled};

/// Handlers that put the requests of a server to the user, one at a time. It is shown under this name, or else under the
/// name that it gives itself. Sampling is declared only on a terminal: the input of a program is not a model.
pub(crate) fn handlers(configured_name: Option<&str>) -> ClientHandlers {
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
            capabilities.declare_skills();
        });
    if !is_person_present() {
        return handlers;
    }
    handlers.sampling(move |params: CreateMessageParams, cx: ClientContext| {
        let asked = ask(asks_as.clone(), cx, move |person, server| sample(person, server, &params));
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
    dialog: impl FnOnce(&mut TerminalPrompt, &str) -> T + Send + 'static,
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
fn elicit(person: &mut TerminalPrompt, server: &str, params: &ElicitParams) -> Answered<ElicitResult> {
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
        _ => {
            person.print("This program cannot ask for it: it is declined.");
            Ok(ElicitResult::decline())
        }
    }
}

/// Asks until the user chooses one of these words, of which the first letter is enough. An empty line chooses the first,
/// unless the question is whether the user `agrees`.
pub(crate) fn choose(
    person: &mut TerminalPrompt,
    question: &str,
    words: &[&'static str],
    agrees: bool,
) -> Answered<&'static str> {
    loop {
        let typed = person.ask(question)?.to_lowercase();
        let is_chosen = |word: &&&str| **word == typed || word.get(..1) == Some(&*typed);
        match words.iter().find(is_chosen).or(words.first().filter(|_| typed.is_empty() && !agrees)) {
            Some(&"cancel") => return Err(NoAnswerError),
            Some(word) => return Ok(word),
            None => person.print("Please answer with one of these letters."),
        }
    }
}

fn wants_to_answer(person: &mut TerminalPrompt) -> Answered<bool> {
    let answer = choose(person, "Answer? [Y]es, [n]o, [c]ancel: ", &["yes", "no", "cancel"], false)?;
    Ok(answer == "yes")
}

/// Asks for a decision about an answer: `yes`, `edit` or `no`.
fn review_answer(person: &mut TerminalPrompt) -> Answered<&'static str> {
    let words = ["yes", "edit", "no", "cancel"];
    choose(person, "Send this? [Y]es, [e]dit, [n]o, [c]ancel: ", &words, false)
}

fn fill_in(person: &mut TerminalPrompt, form: &ElicitFormParams) -> Answered<ElicitResult> {
    let schema = &form.requested_schema;
    let required: BTreeSet<&str> = schema.required.iter().flatten().map(String::as_str).collect();
    let required = |name: &str| required.contains(name);
    if !wants_to_answer(person)? {
        return Ok(ElicitResult::decline());
    }
    let fields = schema.properties.iter().map(|(name, schema)| Field::new(name, schema, required(name)));
    let fields: Vec<_> = fields.collect();
    let mut values: Map<ElicitValue> = Map::new();
    loop {
        for field in &fields {
            match field.prompt(person, values.get(field.name))? {
                Some(value) => _ = values.insert(field.name, value),
                None => _ = values.remove(field.name),
            }
        }
        review(person, &fields, &values);
        //= C10.4 "allow decline and cancel at any time; user can review/change before sending"
        match review_answer(person)? {
            "yes" => return Ok(ElicitResult::accept(values)),
            "no" => return Ok(ElicitResult::decline()),
            _ => {}
        }
    }
}

fn review(person: &mut TerminalPrompt, fields: &[Field<'_>], values: &Map<ElicitValue>) {
    person.print("");
    for field in fields {
        let value = match values.get(field.name) {
            Some(value) => Text::from(field.show(value)),
            None => styled(QUIET, "nothing"),
        };
        person.print(Text::from("  ").and(styled(NAME, field.name)).and(": ").and(value));
    }
}

/// Shows the whole URL and its host, and fetches nothing.
fn describe(person: &mut TerminalPrompt, page: &UrlConsent) {
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

fn visit(person: &mut TerminalPrompt) -> Answered<ElicitResult> {
    // Consent must be explicit: an empty line is not a yes.
    //= C10.6 "explicit consent"
    let question = "If you trust it, open it in your browser. Do you agree? [y]es, [n]o, [c]ancel: ";
    Ok(match choose(person, question, &["yes", "no", "cancel"], true)? {
        "yes" => ElicitResult::new(ElicitAction::Accept),
        _ => ElicitResult::decline(),
    })
}

/// A field of a form.
struct Field<'a> {
    name: &'a str,
    schema: &'a PrimitiveSchema,
    required: bool,
    /// The expected text, in words.
    kind: String,
    choices: Vec<FieldOption<'a>>,
    about: FieldDescription,
}

/// The members that all kinds of schemas have.
#[derive(Default, Deserialize)]
struct FieldDescription {
    title: Option<String>,
    description: Option<String>,
}

/// A choice: the value that is sent and the title that is shown.
struct FieldOption<'a> {
    value: &'a str,
    title: &'a str,
}

impl<'a> Field<'a> {
    fn new(name: &'a str, schema: &'a PrimitiveSchema, required: bool) -> Self {
        let option = |(value, title): (&'a String, &'a String)| FieldOption { value, title };
        let plain = |values: &'a [String]| values.iter().map(|it| option((it, it))).collect();
        let titled =
            |options: &'a [EnumOption]| options.iter().map(|it| option((&it.value, &it.title))).collect();
        let (kind, choices) = match schema {
            PrimitiveSchema::String(it) => (kind_of_text(it), Vec::new()),
            PrimitiveSchema::Number(it) => (kind_of_number(it), Vec::new()),
            PrimitiveSchema::Boolean(_) => ("yes or no".to_owned(), Vec::new()),
            PrimitiveSchema::Enum(it) => {
                let names = it.names.as_ref().filter(|names| names.len() == it.values.len());
                let named = names.map(|names| it.values.iter().zip(names).map(option).collect());
                ("one of these".to_owned(), named.unwrap_or_else(|| plain(&it.values)))
            }
            PrimitiveSchema::TitledEnum(it) => ("one of these".to_owned(), titled(&it.options)),
            PrimitiveSchema::MultiSelect(it) => (
                any_of(it),
                match &it.items {
                    MultiSelectItems::Untitled(items) => plain(&items.values),
                    MultiSelectItems::Titled(items) => titled(&items.options),
                    _ => Vec::new(),
                },
            ),
            _ => ("JSON".to_owned(), Vec::new()),
        };
        let about = match schema {
            PrimitiveSchema::Unknown(_) => FieldDescription::default(),
            known => serde_json::to_string(known)
                .and_then(|schema| serde_json::from_str(&schema))
                .unwrap_or_default(),
        };
        Self { name, schema, required, kind, choices, about }
    }

    /// Asks until the answer is valid; an empty line keeps the current value or takes the default.
    fn prompt(
        &self,
        person: &mut TerminalPrompt,
        current: Option<&ElicitValue>,
    ) -> Answered<Option<ElicitValue>> {
        let default = current.cloned().or_else(|| self.schema.default_value());
        self.describe(person);
        let shown = default.as_ref().map(|value| format!(" [{}]", self.show(value))).unwrap_or_default();
        let question = styled(NAME, self.name).and(shown).and(": ");
        loop {
            let typed = person.ask(question.clone())?;
            if typed.is_empty() {
                if default.is_some() || !self.required {
                    return Ok(default);
                }
                person.print("This is required.");
                continue;
            }
            match self.parse(&typed) {
                Ok(value) => return Ok(Some(value)),
                Err(problem) => person.print(problem),
            }
        }
    }

    fn describe(&self, person: &mut TerminalPrompt) {
        let words = [&self.about.title, &self.about.description].into_iter().flatten();
        let words = words.map(String::as_str).collect::<Vec<_>>().join(": ");
        let need = if self.required { "" } else { ", optional" };
        person.print("");
        person.print(Text::from(words).and(styled(QUIET, format_args!(" ({}{need})", self.kind))));
        for (number, choice) in self.choices.iter().enumerate() {
            person.print(format!("  {}. {}", number + 1, choice.title));
        }
    }

    /// A value as shown to the user: choices by their titles.
    fn show(&self, value: &ElicitValue) -> String {
        // The server chooses both how many values there are and how many choices.
        let titles: BTreeMap<&str, &str> =
            self.choices.iter().rev().map(|choice| (choice.value, choice.title)).collect();
        let title = |value: &str| titles.get(value).map_or(value, |title| *title).to_owned();
        match value {
            ElicitValue::String(text) => title(text),
            ElicitValue::Number(number) => number.to_string(),
            ElicitValue::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
            ElicitValue::Strings(texts) => {
                texts.iter().map(|text| title(text)).collect::<Vec<_>>().join(", ")
            }
            ElicitValue::Unknown(json) => json.as_str().to_owned(),
        }
    }

    /// Converts typed text to a value of the schema.
    fn parse(&self, typed: &str) -> Result<ElicitValue, String> {
        let wanted = || format!("Please type {}.", self.kind);
        let value = match self.schema {
            PrimitiveSchema::String(_) => ElicitValue::String(typed.to_owned()),
            PrimitiveSchema::Number(schema) => {
                let whole = typed.parse::<i64>().map(Number::from).ok();
                let finite = || typed.parse::<f64>().ok().filter(|it| it.is_finite()).map(Number::from);
                let is_whole = schema.kind == NumberKind::Integer;
                ElicitValue::Number(if is_whole { whole } else { whole.or_else(finite) }.ok_or_else(wanted)?)
            }
            PrimitiveSchema::Boolean(_) => match typed.to_lowercase().as_str() {
                "y" | "yes" | "true" => ElicitValue::Bool(true),
                "n" | "no" | "false" => ElicitValue::Bool(false),
                _ => return Err("Please answer yes or no.".to_owned()),
            },
            PrimitiveSchema::Enum(_) | PrimitiveSchema::TitledEnum(_) => {
                ElicitValue::String(self.parse_choice(typed)?.to_owned())
            }
            PrimitiveSchema::MultiSelect(_) => {
                let mut values: Vec<String> = Vec::new();
                for part in typed.split(',').map(str::trim).filter(|part| !part.is_empty()) {
                    let value = self.parse_choice(part)?;
                    if !values.iter().any(|it| it == value) {
                        values.push(value.to_owned());
                    }
                }
                ElicitValue::Strings(values)
            }
            _ => serde_json::from_str(typed).map_err(|error| format!("This is not valid JSON: {error}."))?,
        };
        self.schema.check(&value).map_err(|_| wanted())?;
        Ok(value)
    }

    /// Finds the typed choice: by its number, its title or its value.
    fn parse_choice(&self, typed: &str) -> Result<&'a str, String> {
        let is_same = |text: &str| text.eq_ignore_ascii_case(typed);
        let loose = || self.choices.iter().find(|it| is_same(it.title) || is_same(it.value));
        let by_number = || self.choices.get(typed.parse::<usize>().ok()?.checked_sub(1)?);
        let exact = self.choices.iter().find(|it| it.value == typed);
        let chosen = exact.or_else(loose).or_else(by_number);
        chosen.map(|it| it.value).ok_or_else(|| format!("{typed:?} is none of the choices."))
    }
}

/// A range of counts in words, unless it has no bounds.
fn range(least: Option<u64>, most: Option<u64>) -> Option<String> {
    Some(match (least.filter(|least| *least > 0), most) {
        (None, None) => return None,
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (Some(least), Some(most)) => format!("{least} to {most}"),
    })
}

fn kind_of_text(schema: &StringSchema) -> String {
    let what = schema.format.map_or("text", |format| format.as_str());
    let length = range(schema.min_length, schema.max_length);
    length.map_or(what.to_owned(), |length| format!("{what} of {length} characters"))
}

fn kind_of_number(schema: &NumberSchema) -> String {
    let what = if schema.kind == NumberKind::Integer { "a whole number" } else { "a number" };
    match (&schema.minimum, &schema.maximum) {
        (None, None) => what.to_owned(),
        (Some(least), None) => format!("{what} from {least}"),
        (None, Some(most)) => format!("{what} up to {most}"),
        (Some(least), Some(most)) => format!("{what} from {least} to {most}"),
    }
}

fn any_of(schema: &MultiSelectSchema) -> String {
    let count = range(schema.min_items, schema.max_items).unwrap_or("any".to_owned());
    format!("{count} of these, with commas between")
}

/// The name of the model in the result.
const MODEL: &str = "a person at a terminal";

/// The line that ends an answer of several lines.
const END: &str = ".";

/// Shows the conversation; the user types an answer, reviews it and sends it, or declines.
fn sample(
    person: &mut TerminalPrompt,
    server: &str,
    params: &CreateMessageParams,
) -> Result<CreateMessageResult, ErrorObject> {
    answer(person, server, params)
        .map(|answer| CreateMessageResult::new(Role::Assistant, answer.as_str(), MODEL.to_owned()))
        .map_err(|NoAnswerError| ErrorObject::new(code::USER_REJECTED, "User rejected sampling request"))
}

fn answer(person: &mut TerminalPrompt, server: &str, params: &CreateMessageParams) -> Answered<String> {
    show(person, server, params);
    if !wants_to_answer(person)? {
        return Err(NoAnswerError);
    }
    loop {
        person
            .print(styled(QUIET, format_args!("Type the model's answer. A line with only {END:?} ends it.")));
        let mut lines = Vec::new();
        loop {
            match person.ask(styled(NAME, "answer").and(": "))? {
                line if line == END => break,
                line => lines.push(line),
            }
        }
        match review_answer(person)? {
            "yes" => return Ok(lines.join("\n")),
            "no" => return Err(NoAnswerError),
            _ => {}
        }
    }
}

fn show(person: &mut TerminalPrompt, server: &str, params: &CreateMessageParams) {
    person.print("");
    person.print(styled(HEADING, server).and(" asks for a model's answer to this conversation:"));
    if let Some(prompt) = &params.system_prompt {
        person.print_block(styled(NAME, "system:"), prompt);
    }
    for message in params.messages.iter() {
        for block in message.content.blocks() {
            person.print_block(styled(NAME, format_args!("{}:", message.role)), &described(block));
        }
    }
    let tools = params.tools.iter().flat_map(|tools| tools.iter()).map(|tool| tool.name.as_str());
    let tools = tools.collect::<Vec<_>>().join(", ");
    if !tools.is_empty() {
        person.print(styled(QUIET, format_args!("The model may call {tools}; a person cannot.")));
    }
    person.print(Text::from(format!("It takes at most {} tokens.", params.max_tokens)));
}

fn described(block: &SamplingBlock) -> String {
    match block {
        SamplingBlock::Text(text) => text.text.clone(),
        SamplingBlock::Image(image) => format!("[an image, {}]", image.mime_type),
        SamplingBlock::Audio(audio) => format!("[audio, {}]", audio.mime_type),
        SamplingBlock::ToolUse(call) => format!("[calls {} with {}]", call.name, call.input.as_str()),
        SamplingBlock::ToolResult(result) => format!("[the result of call {}]", result.tool_use_id),
        SamplingBlock::Unknown(json) => json.as_str().to_owned(),
        _ => "[content of another kind]".to_owned(),
    }
}

/// What the user answered, if they did.
pub(crate) type Answered<T> = Result<T, NoAnswerError>;

/// The input has ended, or the user cancelled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoAnswerError;

/// Asks the user questions, line by line.
pub(crate) struct TerminalPrompt {
    answers: Box<dyn BufRead>,
    questions: Screen,
    is_person: bool,
}

impl TerminalPrompt {
    pub(crate) fn from_terminal() -> Self {
        // Reads one byte at a time, so that unread input is left for the next question.
        let answers = Box::new(io::BufReader::with_capacity(1, io::stdin()));
        Self { answers, questions: Screen::messages(), is_person: is_person_present() }
    }

    #[cfg(test)]
    pub(crate) fn new(answers: &str, questions: Screen) -> Self {
        Self { answers: Box::new(io::Cursor::new(answers.to_owned())), questions, is_person: true }
    }

    /// A program types the answers, and not a person on a terminal.
    #[cfg(test)]
    pub(crate) fn of_program(self) -> Self {
        Self { is_person: false, ..self }
    }

    /// Whether a person reads the questions, and not another program.
    pub(crate) fn is_person(&self) -> bool {
        self.is_person
    }

    /// Prints a line, or the lines of a block. Write errors show when the user is asked.
    pub(crate) fn print(&mut self, text: impl Into<Text>) {
        let _ = self.questions.line(text);
    }

    /// The width of the terminal, or the usual one.
    pub(crate) fn columns(&self) -> usize {
        self.questions.columns().unwrap_or(DEFAULT_WIDTH)
    }

    /// Prints a block from another party, indented under a label.
    pub(crate) fn print_block(&mut self, label: impl Into<Text>, block: &str) {
        let _ = self.questions.labelled(label, Text::block(block));
    }

    /// Asks a question and reads a line, trimmed.
    pub(crate) fn ask(&mut self, question: impl Into<Text>) -> Answered<String> {
        let _ = self.questions.prompt(question);
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) | Err(_) => Err(NoAnswerError),
            Ok(_) => Ok(line.trim().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
