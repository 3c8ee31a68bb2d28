//! Counts the work of a check while the validator runs.
//!
//! Only references make a small schema expensive: without them, the work is the size of the schema times the size of
//! the value. So a keyword of this module guards each reference, and spends the steps that the target schema can cost
//! for the current value. Once the budget is spent, every further reference fails, and the validator soon ends.

use core::cell::Cell;

use jsonschema::{Keyword, ValidationError};
use serde_json::Value;

use super::Bound;

/// How much of the stack a check may use, in bytes: a quarter of the stack of a standard library thread.
const STACK: usize = 512 * 1024;

#[derive(Clone, Copy, Default)]
struct Meter {
    /// The steps left.
    left: u64,
    /// How many references may still be followed.
    visits: u64,
    /// The address of the stack at the start.
    base: usize,
    exceeded: Option<Bound>,
}

std::thread_local! {
    static METER: Cell<Meter> = const { Cell::new(Meter { left: 0, visits: 0, base: 0, exceeded: None }) };
}

/// The work that a check may spend.
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

/// Spends `steps` steps and one visit. Returns `false` once the budget or the stack is exceeded.
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

/// The approximate address of the top of the stack.
#[inline(never)]
fn stack() -> usize {
    let here = 0_u8;
    core::ptr::from_ref(core::hint::black_box(&here)).addr()
}

/// The size of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// The number of values in it, itself included.
    values: u64,
    /// The bytes of all strings in it.
    bytes: u64,
}

impl Size {
    /// Measures a value, and stops after `most` values.
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

/// The size of a schema, without the targets of its references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    /// The number of values in it, itself included.
    pub(super) values: u64,
    /// The number of regular expressions in it.
    pub(super) patterns: u64,
}

impl Weight {
    /// A weight that exceeds every budget.
    pub(super) const UNBEARABLE: Self = Self { values: u64::MAX, patterns: 0 };

    /// The most steps that a value of this size can cost: each part of the value is compared with each part of the
    /// schema, and each regular expression reads the value's strings byte by byte.
    pub(super) fn steps(self, size: Size) -> u64 {
        let compared = size.values.saturating_add(size.bytes / 64).saturating_mul(self.values);
        compared.saturating_add(size.bytes.saturating_mul(self.patterns))
    }
}

/// Spends the steps that a check of this value can cost.
pub(super) fn spend_on(value: &Value, weight: Weight) -> bool {
    spend(weight.steps(Size::of(value, METER.get().left)))
}

/// The keyword that guards a reference to a schema of this weight.
pub(super) struct Guard(pub(super) Weight);

impl Keyword<'_> for Guard {
    fn validate(&self, instance: &Value) -> Result<(), ValidationError<'static>> {
        if self.is_valid(instance) { Ok(()) } else { Err(ValidationError::custom("too much work")) }
    }

    fn is_valid(&self, instance: &Value) -> bool {
        spend_on(instance, self.0)
    }
}
