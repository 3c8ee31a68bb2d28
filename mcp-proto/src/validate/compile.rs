//! Compiled schemas, and the checks against them, whose work is counted while the validator runs.
//!
//! Only references make a small schema expensive: without them, the work is the size of the schema times the size of
//! the value. So a keyword of this module guards each reference, and spends the steps that the target schema can cost
//! for the current value. Once the budget is spent, every further reference fails, and the validator soon ends.

use core::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Keyword, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::rpc::json_value::JsonValue;
use crate::schema::Json;

use super::prepare::{
    self, Bound, Bounds, Contents, Dialect, GUARD, SchemaError, Size, Weight, prepare, wide,
};

/// The greatest size of one regular expression's program, and of the cache that it runs with, in bytes.
const PATTERN: usize = 128 * 1024;

/// How often the compiler may compile each reference of a schema, on average. It shares most compiled targets; this
/// limits the rest.
const COMPILED: u64 = 64;

/// The greatest cost of explaining a mismatch: the bytes of the value times its depth times the size of the schema, and
/// the bytes of the value times the references that are followed. While it searches for the reason, the validator
/// copies parts of the value for each alternative that they fail.
const EXPLAINED: usize = 4 * 1024 * 1024;

/// The greatest length of an explanation, in bytes.
const EXPLANATION: usize = 500;

/// A compiled schema, which checks values.
pub struct Schema {
    validator: Validator,
    dialect: Dialect,
    bounds: Bounds,
    /// The number of JSON values in the schema.
    values: usize,
    /// The weight of the schema without the targets of its references.
    weight: Weight,
    /// Whether the guards bound the work of explaining a mismatch.
    explainable: bool,
}

impl Schema {
    /// Compiles a schema. Never fetches a reference.
    ///
    /// # Errors
    /// If the schema cannot be used: see [`SchemaError`].
    pub fn compile(schema: &Json, bounds: &Bounds) -> Result<Self, SchemaError> {
        let (schema, dialect, contents) = prepare(schema.as_str(), bounds)?;
        let Contents { references, values, patterns, is_inexplicable, .. } = contents;
        let all = Weight { values: wide(values), patterns: wide(patterns) };
        let weigh = |reference: &String| {
            // An embedded resource has pointers of its own: such a reference may lead to any part of the schema.
            let steps = reference.starts_with('#').then(|| prepare::steps(reference)).flatten();
            let target = steps.and_then(|steps| prepare::follow(&schema, &steps));
            target.map_or(all, prepare::weight)
        };
        let weights: OrderedMap<String, Weight> =
            references.iter().map(|reference| (reference.clone(), weigh(reference))).collect();
        let compiled = wide(references.len()).saturating_add(1).saturating_mul(COMPILED);
        let options = jsonschema::options()
            .with_draft(dialect.draft())
            //= C1.25 "No automatic dereference of a network `$ref`/`$dynamicRef`"
            //= S1.13 "no network $ref"
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN).dfa_size_limit(PATTERN))
            .with_keyword(GUARD, move |_, value, _| guard(value, &weights));
        let (built, bound) = metered(compiled, u64::MAX, || {
            // A bug of the validator, on an unforeseen schema, must not end the program.
            catch_unwind(AssertUnwindSafe(|| options.build(&schema)))
        });
        bound.map_err(SchemaError::Bound)?;
        let validator = built.map_err(|_| SchemaError::Failed)?.map_err(|error| schema_error(&error))?;
        let weight = prepare::weight(&schema);
        Ok(Self { validator, dialect, bounds: *bounds, values, weight, explainable: !is_inexplicable })
    }

    /// Checks a value against the schema.
    ///
    /// # Errors
    /// If the value does not match, or the check exceeds the limits: see [`CheckError`].
    pub fn check(&self, instance: &Json) -> Result<(), CheckError> {
        if instance.as_str().len() > self.bounds.instance_bytes {
            return Err(CheckError::Bound(Bound::Bytes));
        }
        // The text is valid JSON: the parser can only refuse its depth.
        let JsonValue::<false>(value) = instance.decode().map_err(|_| CheckError::Bound(Bound::Depth))?;
        if self.metered(&value, u64::MAX, || self.validator.is_valid(&value))? {
            return Ok(());
        }
        Err(self.explain(&value, instance.as_str().len()).unwrap_or_else(|| CheckError::Mismatch {
            pointer: String::new(),
            reason: "value does not match the schema".to_owned(),
        }))
    }

    /// Explains why a value of `bytes` bytes does not match, unless the explanation costs too much.
    fn explain(&self, value: &Value, bytes: usize) -> Option<CheckError> {
        let cost = bytes.saturating_mul(depth(value)).saturating_mul(self.values);
        if !self.explainable || cost > EXPLAINED {
            return None;
        }
        let visits = wide(EXPLAINED.checked_div(bytes).unwrap_or(0));
        self.metered(value, visits, || {
            let error = self.validator.validate(value).err()?;
            let pointer = shortened(error.instance_path().to_string());
            let reason = match error.kind() {
                // The message would quote a schema with guards, which the author did not write.
                ValidationErrorKind::Not { .. } => "value matches a schema under `not`".to_owned(),
                _ => shortened(error.masked().to_string()),
            };
            Some(CheckError::Mismatch { pointer, reason })
        })
        .ok()
        .flatten()
    }

    fn metered<T>(&self, value: &Value, visits: u64, act: impl FnOnce() -> T) -> Result<T, CheckError> {
        let (result, bound) = metered(self.bounds.steps, visits, || {
            // As in `compile`.
            spend_on(value, self.weight).then(|| catch_unwind(AssertUnwindSafe(act)))
        });
        bound.map_err(CheckError::Bound)?;
        match result {
            Some(Ok(result)) => Ok(result),
            Some(Err(_)) | None => Err(CheckError::Failed),
        }
    }

    /// The schema's dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }
}

debug_fields! { Schema { dialect } }

type GuardResult = Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'static>>;

fn guard(reference: &Value, weights: &OrderedMap<String, Weight>) -> GuardResult {
    if !spend(1) {
        return Err(ValidationError::custom("too much work"));
    }
    let weight = reference.as_str().and_then(|reference| weights.get(reference)).copied();
    // An unknown reference stands only in a schema that uses the keyword itself: its guard refuses every value.
    Ok(Box::new(Guard(weight.unwrap_or(Weight::UNBEARABLE))))
}

fn schema_error(error: &ValidationError<'_>) -> SchemaError {
    use jsonschema::ReferencingError as Error;

    if let ValidationErrorKind::Referencing(error) = error.kind() {
        let reference = match error {
            Error::Unretrievable { uri, .. } => uri.clone(),
            Error::PointerToNowhere { pointer } => format!("#{pointer}"),
            Error::NoSuchAnchor { anchor } => format!("#{anchor}"),
            error => error.to_string(),
        };
        return SchemaError::Reference { reference: shortened(reference) };
    }
    SchemaError::Invalid {
        pointer: shortened(error.instance_path().to_string()),
        reason: shortened(error.masked_with("this").to_string()),
    }
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => None,
    };
    inner.unwrap_or(0).saturating_add(1)
}

/// Limits a text whose length the peer chose to [`EXPLANATION`] bytes.
fn shortened(mut text: String) -> String {
    if text.len() > EXPLANATION {
        let end = (0..=EXPLANATION).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

// --- Counted work ---

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

/// Runs `act` within a budget: of steps, and of references that may be followed.
fn metered<T>(steps: u64, visits: u64, act: impl FnOnce() -> T) -> (T, Result<(), Bound>) {
    let outer = METER.replace(Meter { left: steps, visits, base: stack(), exceeded: None });
    let result = act();
    let meter = METER.replace(outer);
    (result, meter.exceeded.map_or(Ok(()), Err))
}

/// Spends `steps` steps and one visit. Returns `false` once the budget or the stack is exceeded.
fn spend(steps: u64) -> bool {
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

/// Spends the steps that a check of this value can cost.
fn spend_on(value: &Value, weight: Weight) -> bool {
    spend(weight.steps(Size::of(value, METER.get().left)))
}

/// The keyword that guards a reference to a schema of this weight.
struct Guard(Weight);

impl Keyword<'_> for Guard {
    fn validate(&self, instance: &Value) -> Result<(), ValidationError<'static>> {
        if self.is_valid(instance) { Ok(()) } else { Err(ValidationError::custom("too much work")) }
    }

    fn is_valid(&self, instance: &Value) -> bool {
        spend_on(instance, self.0)
    }
}

/// Why a value fails its check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckError {
    /// The value does not match the schema.
    Mismatch {
        /// The part of the value that does not match, as a JSON Pointer; empty for the whole value.
        pointer: String,
        /// Why that part does not match. It does not quote the value.
        reason: String,
    },
    /// The check exceeds a limit.
    Bound(Bound),
    /// The validator panicked on the value.
    Failed,
}

error_text! { CheckError:
    Mismatch { pointer, reason } if pointer.is_empty() => "{reason}";
    Mismatch { pointer, reason } => "{pointer}: {reason}";
    Bound(bound) => "the value cannot be checked: {bound}";
    Failed => "the value cannot be checked: the validator failed on it";
}
