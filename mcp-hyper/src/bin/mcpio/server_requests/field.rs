//! One field of a form: its question and the check of its answer.

use std::collections::BTreeMap;
use std::io::BufRead;

use mcp_proto::schema::{
    ElicitValue, EnumSchema, MultiSelectItems, MultiSelectSchema, Number, NumberKind, NumberSchema,
    PrimitiveSchema, StringSchema,
};

use super::terminal_prompt::{NoAnswerError, TerminalPrompt};
use crate::text::{NAME, QUIET, Text, styled};

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

fn kind_of_text(schema: &StringSchema) -> String {
    let what = schema.format.map_or("text", |format| format.as_str());
    match (schema.min_length, schema.max_length) {
        (None | Some(0), None) => what.to_owned(),
        (least, None) => format!("{what} of at least {} characters", least.unwrap_or(0)),
        (None | Some(0), Some(most)) => format!("{what} of at most {most} characters"),
        (Some(least), Some(most)) => format!("{what} of {least} to {most} characters"),
    }
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
    match (schema.min_items, schema.max_items) {
        (None | Some(0), None) => "any of these, with commas between".to_owned(),
        (least, None) => format!("at least {} of these, with commas between", least.unwrap_or(0)),
        (None | Some(0), Some(most)) => format!("at most {most} of these, with commas between"),
        (Some(least), Some(most)) => format!("{least} to {most} of these, with commas between"),
    }
}
