//! Typed access to the members of an entry.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::ConfigErrorKind;
use super::syntax::{Table, Value};
use super::template::{References, Template};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;

pub(super) type ReadResult<T> = Result<T, ConfigErrorKind>;

/// The members of an entry. Taking one removes it; the members that remain at the end are ignored.
pub(super) struct Members {
    members: OrderedMap<String, Value>,
    references: References,
}

impl Members {
    /// The members of a table; an absent member and `null` are the same.
    pub(super) fn new(table: Table, references: References) -> ReadResult<Self> {
        let mut members = OrderedMap::new();
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
    fn take_named(&mut self, names: &[&'static str]) -> ReadResult<Option<(&'static str, Value)>> {
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

    /// Takes the member under whichever of these names it has, and reads it.
    pub(super) fn read<T>(
        &mut self,
        names: &[&'static str],
        read: impl FnOnce(&str, Value) -> ReadResult<T>,
    ) -> ReadResult<Option<T>> {
        self.take_named(names)?.map(|(name, value)| read(name, value)).transpose()
    }

    /// Whether this member is true.
    pub(super) fn flag(&mut self, name: &'static str) -> ReadResult<bool> {
        Ok(self.read(&[name], flag)?.unwrap_or(false))
    }

    pub(super) fn template(&mut self, names: &[&'static str]) -> ReadResult<Option<Template>> {
        let Some((name, value)) = self.take_named(names)? else { return Ok(None) };
        self.parse(name, text(name, value).ok()).map(Some)
    }

    /// A list of texts with references.
    pub(super) fn templates(&mut self, name: &'static str) -> ReadResult<Vec<Template>> {
        let items = self.read(&[name], |name, value| list(name, value, "a list of texts"))?;
        let parse = |(index, item): (usize, Value)| self.parse(&format!("{name}[{index}]"), scalar(item));
        items.into_iter().flatten().enumerate().map(parse).collect()
    }

    /// An object of texts with references. Its names are in the given form, and differ in it.
    pub(super) fn template_map(
        &mut self,
        names: &[&'static str],
        form: impl Fn(&str, &str) -> ReadResult<String>,
    ) -> ReadResult<BTreeMap<String, Template>> {
        let mut map = BTreeMap::new();
        let Some((member, value)) = self.take_named(names)? else { return Ok(map) };
        let Value::Table(table) = value else { return Err(wrong_type(member, "an object of texts")) };
        for (name, value) in table {
            let place = format!("{member}.{name}");
            let key = form(&place, &name)?;
            if matches!(value, Value::Null) {
                continue;
            }
            if map.insert(key, self.parse(&place, scalar(value))?).is_some() {
                return Err(ConfigErrorKind::DuplicateMember(place));
            }
        }
        Ok(map)
    }

    fn parse(&self, member: &str, text: Option<String>) -> ReadResult<Template> {
        let text = text.ok_or_else(|| wrong_type(member, "a text"))?;
        if text.contains('\0') {
            return Err(invalid(member, "a text must not have the character U+0000"));
        }
        Template::parse_as(&text, self.references)
            .map_err(|reference| ConfigErrorKind::UnsupportedReference { member: member.into(), reference })
    }
}

/// The unit of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Seconds,
}

pub(super) fn duration(member: &str, value: &Value, unit: Unit) -> ReadResult<Duration> {
    let (divisor, expected) = match unit {
        Unit::Milliseconds => (1000.0, "a number of milliseconds, 0 for no limit"),
        Unit::Seconds => (1.0, "a number of seconds, 0 for no limit"),
    };
    let duration = match (value, unit) {
        (Value::Integer(number), Unit::Milliseconds) => {
            u64::try_from(*number).ok().map(Duration::from_millis)
        }
        (Value::Integer(number), Unit::Seconds) => u64::try_from(*number).ok().map(Duration::from_secs),
        (Value::Float(number), _) => Duration::try_from_secs_f64(*number / divisor).ok(),
        _ => None,
    };
    duration.ok_or_else(|| wrong_type(member, expected))
}

pub(super) fn count(member: &str, value: Value) -> ReadResult<u32> {
    let count = if let Value::Integer(count) = value { u32::try_from(count).ok() } else { None };
    count.ok_or_else(|| wrong_type(member, "a whole number"))
}

pub(super) fn flag(member: &str, value: Value) -> ReadResult<bool> {
    match value {
        Value::Bool(flag) => Ok(flag),
        _ => Err(wrong_type(member, "true or false")),
    }
}

pub(super) fn table(member: &str, value: Value) -> ReadResult<Table> {
    match value {
        Value::Table(table) => Ok(table),
        _ => Err(wrong_type(member, "an object")),
    }
}

pub(super) fn list(member: &str, value: Value, expected: &'static str) -> ReadResult<Vec<Value>> {
    match value {
        Value::List(items) => Ok(items),
        _ => Err(wrong_type(member, expected)),
    }
}

pub(super) fn text(member: &str, value: Value) -> ReadResult<String> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err(wrong_type(member, "a text")),
    }
}

pub(super) fn texts(member: &str, value: Value) -> ReadResult<Vec<String>> {
    list(member, value, "a list of texts")?.into_iter().map(|item| text(member, item)).collect()
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

pub(super) fn invalid(member: &str, reason: &'static str) -> ConfigErrorKind {
    ConfigErrorKind::InvalidValue { member: member.into(), reason }
}
