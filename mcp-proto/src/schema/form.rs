//! Answers to forms: what stands in the fields at first, and whether what was filled in is what was asked for.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema>

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use core::fmt;

use super::elicitation::{
    ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitSchema, ElicitValue,
};
use super::format::is_format;
use super::map::Map;
use super::primitive::{
    MultiSelectItems, MultiSelectSchema, NumberKind, NumberSchema, PrimitiveSchema, StringFormat,
    StringSchema,
};
use super::revision::Revision;

impl ElicitSchema {
    /// What stands in the fields before anybody has filled them in. A default that its own field would refuse is none.
    ///
    /// Show it, and let the person change it: it is the server's choice, not theirs.
    ///
    /// ```
    /// use mcp_proto::schema::{BooleanSchema, ElicitSchema, ElicitValue, Map, PrimitiveSchema, StringSchema};
    ///
    /// let name = StringSchema { max_length: Some(40), ..StringSchema::new() };
    /// let news = BooleanSchema { default: Some(false), ..BooleanSchema::new() };
    /// let fields: [(&str, PrimitiveSchema); 2] = [("name", name.into()), ("news", news.into())];
    /// let form = ElicitSchema::new(Map::from(fields));
    ///
    /// let mut content = form.defaults();
    /// assert_eq!(content.get("news"), Some(&ElicitValue::Bool(false)));
    /// content.insert("name", "Ada");
    /// assert!(form.check(&content).is_ok());
    /// ```
    pub fn defaults(&self) -> Map<ElicitValue> {
        let mut defaults = Map::new();
        self.fill_in(&mut defaults);
        defaults
    }

    /// Puts the defaults into the fields that were left out: for who fills in forms without showing them, such as a
    /// program. A person may have left a field out on purpose.
    pub fn fill_in(&self, content: &mut Map<ElicitValue>) {
        let given: BTreeSet<String> = content.iter().map(|(name, _)| name.into()).collect();
        for (name, field) in self.properties.iter().filter(|(name, _)| !given.contains(*name)) {
            if let Some(value) = field.default_value() {
                content.push(String::from(name), value);
            }
        }
    }

    /// Checks what was filled in. Fields that the form does not have are let through, as JSON Schema has it.
    ///
    /// # Errors
    /// The first field that is not as the form has it.
    pub fn check(&self, content: &Map<ElicitValue>) -> Result<(), FormError> {
        let misfit = |field: &str, problem| FormError { field: field.into(), problem };
        // The server has chosen how many fields there are.
        let given: BTreeMap<&str, &ElicitValue> = content.iter().collect();
        for (name, field) in self.properties.iter() {
            if let Some(value) = given.get(name) {
                field.check(value).map_err(|problem| misfit(name, problem))?;
            }
        }
        match self.required.iter().flatten().find(|name| !given.contains_key(name.as_str())) {
            Some(missing) => Err(misfit(missing, FieldError::Missing)),
            None => Ok(()),
        }
    }
}

impl ElicitFormParams {
    /// Checks an answer to this form; a person who has not filled it in has answered as well as any.
    ///
    /// # Errors
    /// The first field that is not as the form has it.
    pub fn check(&self, answer: &ElicitResult) -> Result<(), FormError> {
        match (answer.action, &answer.content) {
            (ElicitAction::Accept, Some(content)) => self.requested_schema.check(content),
            (ElicitAction::Accept, None) => self.requested_schema.check(&Map::new()),
            (ElicitAction::Decline | ElicitAction::Cancel, _) => Ok(()),
        }
    }
}

impl ElicitParams {
    /// Takes the answer of a client at `revision`: as what was asked for, if it is that. Before 2025-11-25 people can
    /// choose one of several only; where any were asked for, that is a list of one.
    ///
    /// # Errors
    /// The first field that is not as the form has it.
    pub fn take_answer(
        &self,
        mut answer: ElicitResult,
        revision: Revision,
    ) -> Result<ElicitResult, FormError> {
        let Self::Form(form) = self else { return Ok(answer) };
        if revision < Revision::V2025_11_25
            && let Some(content) = &mut answer.content
        {
            let properties = form.requested_schema.properties.iter();
            let several = properties.filter(|(_, field)| matches!(field, PrimitiveSchema::MultiSelect(_)));
            let several: BTreeSet<&str> = several.map(|(name, _)| name).collect();
            for (name, value) in content.iter_mut() {
                if let ElicitValue::String(chosen) = value
                    && several.contains(name)
                {
                    *value = ElicitValue::Strings(vec![core::mem::take(chosen)]);
                }
            }
        }
        form.check(&answer)?;
        Ok(answer)
    }
}

impl PrimitiveSchema {
    /// What stands in the field at first, if that is something that the field would take.
    pub fn default_value(&self) -> Option<ElicitValue> {
        let default = match self {
            Self::String(field) => field.default.clone().map(ElicitValue::String),
            Self::Number(field) => field.default.clone().map(ElicitValue::Number),
            Self::Boolean(field) => field.default.map(ElicitValue::Bool),
            Self::Enum(field) => field.default.clone().map(ElicitValue::String),
            Self::TitledEnum(field) => field.default.clone().map(ElicitValue::String),
            Self::MultiSelect(field) => field.default.clone().map(ElicitValue::Strings),
            Self::Unknown(_) => None,
        };
        default.filter(|value| self.check(value).is_ok())
    }

    /// Checks what was filled in. Of a field of an unknown kind nothing is known, so anything passes.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self, value: &ElicitValue) -> Result<(), FieldError> {
        match (self, value) {
            (Self::Unknown(_), _) | (Self::Boolean(_), ElicitValue::Bool(_)) => Ok(()),
            (Self::Boolean(_), _) => Err(FieldError::Type("yes or no")),
            (Self::String(field), ElicitValue::String(text)) => check_text(field, text),
            (Self::Number(field), ElicitValue::Number(number)) => check_number(field, number.as_f64()),
            (Self::Number(NumberSchema { kind: NumberKind::Integer, .. }), _) => {
                Err(FieldError::Type("a whole number"))
            }
            (Self::Number(_), _) => Err(FieldError::Type("a number")),
            (Self::Enum(field), ElicitValue::String(chosen)) => chosen_from(field.values.contains(chosen)),
            (Self::TitledEnum(field), ElicitValue::String(chosen)) => {
                chosen_from(field.options.iter().any(|option| option.value == *chosen))
            }
            (Self::String(_) | Self::Enum(_) | Self::TitledEnum(_), _) => Err(FieldError::Type("a text")),
            (Self::MultiSelect(field), ElicitValue::Strings(chosen)) => check_choices(field, chosen),
            (Self::MultiSelect(_), _) => Err(FieldError::Type("a list of texts")),
        }
    }
}

fn check_text(field: &StringSchema, text: &str) -> Result<(), FieldError> {
    let characters = wide(text.chars().count());
    if field.min_length.is_some_and(|least| characters < least) {
        return Err(FieldError::TooShort);
    }
    if field.max_length.is_some_and(|most| characters > most) {
        return Err(FieldError::TooLong);
    }
    match field.format {
        Some(format) if !is_format(format, text) => Err(FieldError::Format(format)),
        _ => Ok(()),
    }
}

/// The published schemas say `integer` where they mean any number: 95.5 is one.
fn check_number(field: &NumberSchema, number: f64) -> Result<(), FieldError> {
    if field.kind == NumberKind::Integer && number % 1.0 != 0.0 {
        return Err(FieldError::Type("a whole number"));
    }
    if field.minimum.as_ref().is_some_and(|least| number < least.as_f64()) {
        return Err(FieldError::TooSmall);
    }
    if field.maximum.as_ref().is_some_and(|most| number > most.as_f64()) {
        return Err(FieldError::TooLarge);
    }
    Ok(())
}

fn check_choices(field: &MultiSelectSchema, chosen: &[String]) -> Result<(), FieldError> {
    let count = wide(chosen.len());
    if field.min_items.is_some_and(|least| count < least) {
        return Err(FieldError::TooFew);
    }
    if field.max_items.is_some_and(|most| count > most) {
        return Err(FieldError::TooMany);
    }
    // The values are the server's choice, and what is chosen may be as well: as its default.
    let offered: BTreeSet<&str> = match &field.items {
        MultiSelectItems::Untitled(items) => items.values.iter().map(String::as_str).collect(),
        MultiSelectItems::Titled(items) => items.options.iter().map(|option| option.value.as_str()).collect(),
    };
    chosen_from(chosen.iter().all(|chosen| offered.contains(chosen.as_str())))
}

fn chosen_from(among: bool) -> Result<(), FieldError> {
    if among { Ok(()) } else { Err(FieldError::Choice) }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// A field that is not filled in as its form has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormError {
    /// The name of the field.
    pub field: String,
    /// What is wrong with it.
    pub problem: FieldError,
}

/// What is wrong with what stands in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldError {
    /// Nothing does, and something must.
    Missing,
    /// It is something else than this.
    Type(&'static str),
    /// It has too few characters.
    TooShort,
    /// It has too many characters.
    TooLong,
    /// It is not of this format.
    Format(StringFormat),
    /// It is less than the least.
    TooSmall,
    /// It is more than the most.
    TooLarge,
    /// It is none of those to choose from.
    Choice,
    /// Too few are chosen.
    TooFew,
    /// Too many are chosen.
    TooMany,
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the field {:?} {}", self.field, self.problem)
    }
}

impl core::error::Error for FormError {}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Type(expected) => write!(f, "is not {expected}"),
            Self::TooShort => f.write_str("is too short"),
            Self::TooLong => f.write_str("is too long"),
            Self::Format(format) => write!(f, "is not of the format {format}"),
            Self::TooSmall => f.write_str("is too small"),
            Self::TooLarge => f.write_str("is too large"),
            Self::Choice => f.write_str("is none of those to choose from"),
            Self::TooFew => f.write_str("has too few choices"),
            Self::TooMany => f.write_str("has too many choices"),
        }
    }
}
