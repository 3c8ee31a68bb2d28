//! Counts the work of a check while the validator is at it.
//!
//! All that makes a small schema expensive goes through its references: without them, the work is the size of the schema
//! times the size of the value. So each reference is guarded by a keyword of this module's own, which costs what the
//! schema behind the reference can cost for the value at hand; once too much is spent, every further reference fails,
//! and the validator is through with the rest at once.

use core::cell::Cell;

use jsonschema::{Keyword, ValidationError};
use serde_json::Value;

use super::Bound;

/// How much of the stack a check may take: a quarter of what a thread of the standard library has.
const STACK: usize = 512 * 1024;

#[derive(Clone, Copy, Default)]
struct Meter {
    left: u64,
    /// How many references may still be followed.
    visits: u64,
    /// Where the stack was at the start.
    base: usize,
    exceeded: Option<Bound>,
}

std::thread_local! {
    static METER: Cell<Meter> = const { Cell::new(Meter { left: 0, visits: 0, base: 0, exceeded: None }) };
}

/// What may be spent.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    pub(super) steps: u64,
    /// How many references may be followed.
    pub(super) visits: u64,
}

/// Runs `act` within a budget.
pub(super) fn metered<T>(budget: Budget, act: impl FnOnce() -> T) -> (T, Result<(), Bound>) {
    let Budget { steps, visits } = budget;
    let outer = METER.replace(Meter { left: steps, visits, base: stack(), exceeded: None });
    let result = act();
    let meter = METER.replace(outer);
    (result, meter.exceeded.map_or(Ok(()), Err))
}

/// Spends so many steps; `false` once there are too few, or too little of the stack is left.
pub(super) fn spend(steps: u64) -> bool {
    let mut meter = METER.get();
    if meter.exceeded.is_some() {
        return false;
    }
    match (meter.left.checked_sub(steps), meter.visits.checked_sub(1)) {
        (Some(left), Some(visits)) => (meter.left, meter.visits) = (left, visits),
        _ => meter.exceeded = Some(Bound::Steps),
    }
    if meter.base.abs_diff(stack()) > STACK {
        meter.exceeded = Some(Bound::Depth);
    }
    METER.set(meter);
    meter.exceeded.is_none()
}

/// About where the stack is.
#[inline(never)]
fn stack() -> usize {
    let here = 0_u8;
    core::ptr::from_ref(core::hint::black_box(&here)).addr()
}

/// How large a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Values in it, itself included.
    values: u64,
    /// Bytes of the texts in it.
    bytes: u64,
}

impl Size {
    /// Measures a value, but goes no further than `most`.
    pub(super) fn of(value: &Value, most: u64) -> Self {
        let mut size = Self::default();
        size.add(value, most);
        size
    }

    fn add(&mut self, value: &Value, most: u64) {
        self.values = self.values.saturating_add(1);
        match value {
            Value::String(text) => self.add_text(text),
            Value::Array(items) => {
                for item in items {
                    if self.values > most {
                        return;
                    }
                    self.add(item, most);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    if self.values > most {
                        return;
                    }
                    self.add_text(name);
                    self.add(field, most);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        self.bytes = self.bytes.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
    }
}

/// How large a schema is, up to its references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    /// Values in it, itself included.
    pub(super) values: u64,
    /// Regular expressions in it.
    pub(super) patterns: u64,
}

impl Weight {
    /// What nothing is light enough for.
    pub(super) const UNBEARABLE: Self = Self { values: u64::MAX, patterns: 0 };

    /// How many steps a value of this size may take: each part of it meets each part of the schema, and each regular
    /// expression reads its texts byte by byte.
    pub(super) fn steps(self, size: Size) -> u64 {
        let compared = size.values.saturating_add(size.bytes / 64).saturating_mul(self.values);
        compared.saturating_add(size.bytes.saturating_mul(self.patterns))
    }
}

/// Spends what a check of this value can cost.
pub(super) fn spend_on(value: &Value, weight: Weight) -> bool {
    spend(weight.steps(Size::of(value, METER.get().left)))
}

/// The keyword that stands before a reference.
pub(super) struct Guard(pub(super) Weight);

impl Keyword<'_> for Guard {
    fn validate(&self, instance: &Value) -> Result<(), ValidationError<'static>> {
        if self.is_valid(instance) { Ok(()) } else { Err(ValidationError::custom("too much work")) }
    }

    fn is_valid(&self, instance: &Value) -> bool {
        spend_on(instance, self.0)
    }
}
