//! Typed access to the members of an entry.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::time::Duration;

use super::Template;
use super::application::References;
use super::error::ConfigErrorKind;
use super::value::{Table, Value};

/// The members of an entry. Taking one removes it; the members that remain at the end are ignored.
pub(super) struct Members {
    members: BTreeMap<String, Value>,
    references: References,
}

impl Members {
    /// The members of a table; an absent member and `null` are the same.
    pub(super) fn new(table: Table, references: References) -> Result<Self, ConfigErrorKind> {
        let mut members = BTreeMap::new();
        for (name, value) in table {
            if members.contains_key(&name) {
                return Err(ConfigErrorKind::DuplicateMember(name));
            }
            members.insert(name, value);
        }
        members.retain(|_, value| !matches!(value, Value::Null));
        Ok(Self { members, references })
    }

    /// The names of the members that were not taken.
    pub(super) fn into_rest(self) -> impl Iterator<Item = String> {
        self.members.into_keys()
    }

    pub(super) const fn references(&self) -> References {
        self.references
    }

    /// Whether there is a member of one of these names.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.members.contains_key(*name))
    }

    /// Adds a member, unless it is `null`.
    pub(super) fn put(&mut self, name: &str, value: Value) {
        if !matches!(value, Value::Null) {
            self.members.insert(name.into(), value);
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name)
    }

    /// Takes the member under whichever of these names it has.
    pub(super) fn take_named(
        &mut self,
        names: &[&'static str],
    ) -> Result<Option<(&'static str, Value)>, ConfigErrorKind> {
        let mut found = None;
        for name in names {
            if let Some(value) = self.take(name) {
                if let Some((first, _)) = found {
                    return Err(ConfigErrorKind::ConflictingMembers(first, name));
                }
                found = Some((*name, value));
            }
        }
        Ok(found)
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, ConfigErrorKind> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(wrong_type(name, "true or false")),
        }
    }

    pub(super) fn text(&mut self, names: &[&'static str]) -> Result<Option<String>, ConfigErrorKind> {
        self.take_named(names)?.map(|(name, value)| text(name, value)).transpose()
    }

    pub(super) fn texts(&mut self, names: &[&'static str]) -> Result<Option<Vec<String>>, ConfigErrorKind> {
        self.take_named(names)?.map(|(name, value)| texts(name, value)).transpose()
    }

    pub(super) fn table(&mut self, names: &[&'static str]) -> Result<Option<Table>, ConfigErrorKind> {
        match self.take_named(names)? {
            None => Ok(None),
            Some((_, Value::Table(table))) => Ok(Some(table)),
            Some((name, _)) => Err(wrong_type(name, "an object")),
        }
    }

    pub(super) fn template(&mut self, names: &[&'static str]) -> Result<Option<Template>, ConfigErrorKind> {
        let Some((name, value)) = self.take_named(names)? else { return Ok(None) };
        self.parse(name, &text(name, value)?).map(Some)
    }

    /// A list of texts with references.
    pub(super) fn templates(&mut self, name: &'static str) -> Result<Vec<Template>, ConfigErrorKind> {
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        let Value::List(items) = value else { return Err(wrong_type(name, "a list of texts")) };
        let parse = |(index, item): (usize, Value)| {
            let member = format!("{name}[{index}]");
            let text = scalar(item).ok_or_else(|| wrong_type(&member, "a text"))?;
            self.parse(&member, &text)
        };
        items.into_iter().enumerate().map(parse).collect()
    }

    /// An object of texts with references. Its names are in the given form, and differ in it.
    pub(super) fn template_map(
        &mut self,
        names: &[&'static str],
        form: impl Fn(&str) -> Result<String, &'static str>,
    ) -> Result<BTreeMap<String, Template>, ConfigErrorKind> {
        let mut map = BTreeMap::new();
        let Some((member, value)) = self.take_named(names)? else { return Ok(map) };
        let Value::Table(table) = value else { return Err(wrong_type(member, "an object of texts")) };
        for (name, value) in table {
            let place = format!("{member}.{name}");
            let key = form(&name)
                .map_err(|reason| ConfigErrorKind::InvalidValue { member: place.clone(), reason })?;
            if matches!(value, Value::Null) {
                continue;
            }
            let text = scalar(value).ok_or_else(|| wrong_type(&place, "a text"))?;
            let template = self.parse(&place, &text)?;
            if map.insert(key, template).is_some() {
                return Err(ConfigErrorKind::DuplicateMember(place));
            }
        }
        Ok(map)
    }

    fn parse(&self, member: &str, text: &str) -> Result<Template, ConfigErrorKind> {
        if text.contains('\0') {
            let reason = "a text must not have the character U+0000";
            return Err(ConfigErrorKind::InvalidValue { member: member.into(), reason });
        }
        Template::parse_as(text, self.references)
            .map_err(|reference| ConfigErrorKind::UnsupportedReference { member: member.into(), reference })
    }

    /// A duration, as a number of the unit.
    pub(super) fn duration(
        &mut self,
        name: &'static str,
        unit: Unit,
    ) -> Result<Option<Duration>, ConfigErrorKind> {
        self.take(name).map(|value| duration(name, &value, unit)).transpose()
    }
}

/// The unit of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Seconds,
}

pub(super) fn duration(member: &str, value: &Value, unit: Unit) -> Result<Duration, ConfigErrorKind> {
    let whole = |number: i64| {
        let number = u64::try_from(number).ok()?;
        Some(match unit {
            Unit::Milliseconds => Duration::from_millis(number),
            Unit::Seconds => Duration::from_secs(number),
        })
    };
    let duration = match (value, unit) {
        (Value::Integer(number), _) => whole(*number),
        (Value::Float(number), Unit::Milliseconds) => Duration::try_from_secs_f64(*number / 1000.0).ok(),
        (Value::Float(number), Unit::Seconds) => Duration::try_from_secs_f64(*number).ok(),
        _ => None,
    };
    duration.ok_or_else(|| {
        wrong_type(
            member,
            match unit {
                Unit::Milliseconds => "a number of milliseconds, 0 for no limit",
                Unit::Seconds => "a number of seconds, 0 for no limit",
            },
        )
    })
}

pub(super) fn text(member: &str, value: Value) -> Result<String, ConfigErrorKind> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err(wrong_type(member, "a text")),
    }
}

pub(super) fn texts(member: &str, value: Value) -> Result<Vec<String>, ConfigErrorKind> {
    let Value::List(items) = value else { return Err(wrong_type(member, "a list of texts")) };
    items.into_iter().map(|item| text(member, item)).collect()
}

/// A text, or a number or truth value as text: files write `"PORT": 8080`.
fn scalar(value: Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::List(_) | Value::Table(_) => None,
    }
}

pub(super) fn wrong_type(member: &str, expected: &'static str) -> ConfigErrorKind {
    ConfigErrorKind::WrongType { member: member.into(), expected }
}
