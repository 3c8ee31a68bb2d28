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
    ElicitResult, ElicitValue, EnumSchema, Map, MultiSelectItems, MultiSelectSchema, Number, NumberKind,
    NumberSchema, PrimitiveSchema, Role, SamplingBlock, StringSchema,
};

use crate::terminal::{DEFAULT_WIDTH, Screen};
use crate::text::{BAD, HEADING, NAME, QUIET, Text, styled};

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

/// A field with its schema.
pub(super) struct Field<'a> {
    name: &'a str,
    schema: &'a PrimitiveSchema,
    required: bool,
}

/// A choice: the value that is sent and the title that is shown.
struct FieldOption<'a> {
    value: &'a str,
    title: &'a str,
}

impl<'a> Field<'a> {
    pub(super) fn new(name: &'a str, schema: &'a PrimitiveSchema, required: bool) -> Self {
        Self { name, schema, required }
    }

    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// Asks until the answer is valid; an empty line keeps the current value or takes the default.
    pub(super) fn prompt(
        &self,
        person: &mut TerminalPrompt<impl BufRead>,
        current: Option<&ElicitValue>,
    ) -> Result<Option<ElicitValue>, NoAnswerError> {
        let default = current.cloned().or_else(|| self.default());
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

    fn describe(&self, person: &mut TerminalPrompt<impl BufRead>) {
        let (title, description, kind) = match self.schema {
            PrimitiveSchema::String(it) => (&it.title, &it.description, kind_of_text(it)),
            PrimitiveSchema::Number(it) => (&it.title, &it.description, kind_of_number(it)),
            PrimitiveSchema::Boolean(it) => (&it.title, &it.description, "yes or no".to_owned()),
            PrimitiveSchema::Enum(it) => (&it.title, &it.description, "one of these".to_owned()),
            PrimitiveSchema::TitledEnum(it) => (&it.title, &it.description, "one of these".to_owned()),
            PrimitiveSchema::MultiSelect(it) => (&it.title, &it.description, any_of(it)),
            PrimitiveSchema::Unknown(_) => (&None, &None, "JSON".to_owned()),
        };
        let words = [title, description].into_iter().flatten().map(String::as_str);
        let words = words.collect::<Vec<_>>().join(": ");
        let need = if self.required { "" } else { ", optional" };
        person.print("");
        person.print(Text::from(words).and(styled(QUIET, format_args!(" ({kind}{need})"))));
        for (number, choice) in self.choices().iter().enumerate() {
            person.print(format!("  {}. {}", number + 1, choice.title));
        }
    }

    fn default(&self) -> Option<ElicitValue> {
        match self.schema {
            PrimitiveSchema::String(it) => it.default.clone().map(ElicitValue::String),
            PrimitiveSchema::Number(it) => it.default.clone().map(ElicitValue::Number),
            PrimitiveSchema::Boolean(it) => it.default.map(ElicitValue::Bool),
            PrimitiveSchema::Enum(it) => it.default.clone().map(ElicitValue::String),
            PrimitiveSchema::TitledEnum(it) => it.default.clone().map(ElicitValue::String),
            PrimitiveSchema::MultiSelect(it) => it.default.clone().map(ElicitValue::Strings),
            PrimitiveSchema::Unknown(_) => None,
        }
    }

    fn choices(&self) -> Vec<FieldOption<'a>> {
        let plain =
            |values: &'a [String]| values.iter().map(|it| FieldOption { value: it, title: it }).collect();
        match self.schema {
            PrimitiveSchema::Enum(EnumSchema { values, names: Some(names), .. })
                if names.len() == values.len() =>
            {
                values.iter().zip(names).map(|(value, title)| FieldOption { value, title }).collect()
            }
            PrimitiveSchema::Enum(it) => plain(&it.values),
            PrimitiveSchema::TitledEnum(it) => {
                it.options.iter().map(|it| FieldOption { value: &it.value, title: &it.title }).collect()
            }
            PrimitiveSchema::MultiSelect(MultiSelectSchema { items, .. }) => match items {
                MultiSelectItems::Untitled(items) => plain(&items.values),
                MultiSelectItems::Titled(items) => items
                    .options
                    .iter()
                    .map(|it| FieldOption { value: &it.value, title: &it.title })
                    .collect(),
            },
            _ => Vec::new(),
        }
    }

    /// A value as shown to the user: choices by their titles.
    pub(super) fn show(&self, value: &ElicitValue) -> String {
        // The server chooses both how many values there are and how many choices.
        let titles: BTreeMap<&str, &str> =
            self.choices().iter().rev().map(|choice| (choice.value, choice.title)).collect();
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
        match self.schema {
            PrimitiveSchema::String(schema) => text(schema, typed),
            PrimitiveSchema::Number(schema) => number(schema, typed),
            PrimitiveSchema::Boolean(_) => match typed.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(ElicitValue::Bool(true)),
                "n" | "no" | "false" => Ok(ElicitValue::Bool(false)),
                _ => Err("Please answer yes or no.".to_owned()),
            },
            PrimitiveSchema::Enum(_) | PrimitiveSchema::TitledEnum(_) => {
                parse_choice(&self.choices(), typed).map(|value| ElicitValue::String(value.to_owned()))
            }
            PrimitiveSchema::MultiSelect(schema) => {
                let choices = self.choices();
                let mut values: Vec<String> = Vec::new();
                for part in typed.split(',').map(str::trim).filter(|part| !part.is_empty()) {
                    let value = parse_choice(&choices, part)?;
                    if !values.iter().any(|it| it == value) {
                        values.push(value.to_owned());
                    }
                }
                let count = values.len() as u64;
                if schema.min_items.is_some_and(|least| count < least)
                    || schema.max_items.is_some_and(|most| count > most)
                {
                    return Err(format!("Please choose {}.", any_of(schema)));
                }
                Ok(ElicitValue::Strings(values))
            }
            PrimitiveSchema::Unknown(_) => {
                serde_json::from_str(typed).map_err(|error| format!("This is not valid JSON: {error}."))
            }
        }
    }
}

/// Finds the typed choice: by its number, its title or its value.
fn parse_choice<'a>(choices: &[FieldOption<'a>], typed: &str) -> Result<&'a str, String> {
    let by_number = typed.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
    let exact = choices.iter().find(|it| it.value == typed);
    let loose = || {
        choices.iter().find(|it| it.title.eq_ignore_ascii_case(typed) || it.value.eq_ignore_ascii_case(typed))
    };
    let chosen = exact.or_else(loose).or(by_number);
    chosen.map(|it| it.value).ok_or_else(|| format!("{typed:?} is none of the choices."))
}

fn text(schema: &StringSchema, typed: &str) -> Result<ElicitValue, String> {
    let length = typed.chars().count() as u64;
    if schema.min_length.is_some_and(|least| length < least)
        || schema.max_length.is_some_and(|most| length > most)
    {
        return Err(format!("Please type {}.", kind_of_text(schema)));
    }
    Ok(ElicitValue::String(typed.to_owned()))
}

fn number(schema: &NumberSchema, typed: &str) -> Result<ElicitValue, String> {
    let wanted = || format!("Please type {}.", kind_of_number(schema));
    let number = match schema.kind {
        NumberKind::Integer => Number::from(typed.parse::<i64>().map_err(|_| wanted())?),
        _ => match typed.parse::<i64>() {
            Ok(whole) => Number::from(whole),
            Err(_) => Number::from(typed.parse::<f64>().ok().filter(|it| it.is_finite()).ok_or_else(wanted)?),
        },
    };
    let value = number.as_f64();
    let low = schema.minimum.as_ref().is_some_and(|least| value < least.as_f64());
    let high = schema.maximum.as_ref().is_some_and(|most| value > most.as_f64());
    if low || high { Err(wanted()) } else { Ok(ElicitValue::Number(number)) }
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
pub(super) fn sample(
    person: &mut TerminalPrompt<impl BufRead>,
    server: &str,
    params: &CreateMessageParams,
) -> Result<CreateMessageResult, ErrorObject> {
    answer(person, server, params)
        .map(|answer| CreateMessageResult::new(Role::Assistant, answer.as_str(), MODEL.to_owned()))
        .map_err(|NoAnswerError| ErrorObject::new(code::USER_REJECTED, "User rejected sampling request"))
}

fn answer(
    person: &mut TerminalPrompt<impl BufRead>,
    server: &str,
    params: &CreateMessageParams,
) -> Result<String, NoAnswerError> {
    show(person, server, params);
    if let Decision::Decline = choose(person, Question::Answer)? {
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
        match choose(person, Question::Send)? {
            Decision::Accept => return Ok(lines.join("\n")),
            Decision::Edit => {}
            Decision::Decline => return Err(NoAnswerError),
        }
    }
}

fn show(person: &mut TerminalPrompt<impl BufRead>, server: &str, params: &CreateMessageParams) {
    person.print("");
    person.print(styled(HEADING, server).and(" asks for a model's answer to this conversation:"));
    if let Some(prompt) = &params.system_prompt {
        person.print_block(styled(NAME, "system:"), prompt);
    }
    for message in params.messages.iter() {
        let role = match message.role {
            Role::User => "user:",
            Role::Assistant => "assistant:",
        };
        for block in message.content.blocks() {
            person.print_block(styled(NAME, role), &described(block));
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
    }
}

/// The input has ended, or the user cancelled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoAnswerError;

/// Asks the user questions, line by line.
pub(crate) struct TerminalPrompt<R> {
    answers: R,
    questions: Screen,
}

impl TerminalPrompt<io::BufReader<io::Stdin>> {
    pub(crate) fn from_terminal() -> Self {
        // Reads one byte at a time, so that unread input is left for the next question.
        Self { answers: io::BufReader::with_capacity(1, io::stdin()), questions: Screen::messages() }
    }
}

impl<R: BufRead> TerminalPrompt<R> {
    #[cfg(test)]
    pub(crate) fn new(answers: R, questions: Screen) -> Self {
        Self { answers, questions }
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
    pub(crate) fn ask(&mut self, question: impl Into<Text>) -> Result<String, NoAnswerError> {
        let _ = self.questions.prompt(question);
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) | Err(_) => Err(NoAnswerError),
            Ok(_) => Ok(line.trim().to_owned()),
        }
    }
}
