//! Limits of schemas and checks, dialects, and errors.

use jsonschema::Draft;

use crate::prelude::*;

/// Limits of schemas and checks. A schema or value over a limit is refused, never accepted unchecked.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/index#composition-keyword-resource-use>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The longest schema, in bytes of its text.
    ///
    /// Default 256 KiB: the largest schemas of real tools are a tenth of that.
    pub schema_bytes: usize,

    /// How deep arrays and objects may nest in a schema.
    ///
    /// Default 64: a schema uses two levels for each level of the value that it describes.
    pub schema_depth: usize,

    /// How many JSON values a schema may consist of: subschemas and all values of their keywords.
    ///
    /// Default 20,000.
    pub values: usize,

    /// How many references a schema may have.
    ///
    /// Default 1,000. With `unevaluatedProperties` or `unevaluatedItems` it is a quarter of that, because the
    /// references are followed once more for these.
    pub references: usize,

    /// How many regular expressions a schema may have. The program of each is bounded to 128 KiB.
    ///
    /// Default 64: 8 MiB at most for one schema.
    pub patterns: usize,

    /// The longest value that is checked, in bytes of its text.
    ///
    /// Default 8 MiB.
    pub instance_bytes: usize,

    /// How many steps one check may take: about one for each comparison of a part of the schema with a part of the
    /// value, and one for each byte that a regular expression reads.
    ///
    /// Default 50 million: about a second, many times the work of checking real results.
    pub steps: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        const KIB: usize = 1024;
        Self {
            schema_bytes: 256 * KIB,
            schema_depth: 64,
            values: 20_000,
            references: 1000,
            patterns: 64,
            instance_bytes: 8 * KIB * KIB,
            steps: 50_000_000,
        }
    }
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bound {
    /// The length of the schema's or the value's text.
    Bytes,
    /// The depth of nesting, or of references that lead into one another.
    Depth,
    /// The number of values in the schema.
    Values,
    /// The number of references in the schema.
    References,
    /// The number of regular expressions in the schema.
    Patterns,
    /// The depth to which schemas with `unevaluatedProperties` or `unevaluatedItems` are nested.
    Unevaluated,
    /// The work of a check.
    Steps,
}

display_text! { Bound:
    Bytes => "it is too long";
    Depth => "it nests too deeply";
    Values => "it has too many parts";
    References => "it has too many references";
    Patterns => "it has too many regular expressions";
    Unevaluated => "it nests `unevaluated` keywords too deeply";
    Steps => "the check takes too much work";
}

/// A dialect of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// Draft 4.
    Draft4,
    /// Draft 6.
    Draft6,
    /// Draft 7.
    Draft7,
    /// 2019-09.
    Draft2019_09,
    /// 2020-12: the default of a schema without `$schema`.
    Draft2020_12,
}

/// The validator's name of each dialect.
const DRAFTS: [(Dialect, Draft); 5] = [
    (Dialect::Draft4, Draft::Draft4),
    (Dialect::Draft6, Draft::Draft6),
    (Dialect::Draft7, Draft::Draft7),
    (Dialect::Draft2019_09, Draft::Draft201909),
    (Dialect::Draft2020_12, Draft::Draft202012),
];

impl Dialect {
    /// The dialect that `$schema` names.
    pub fn from_uri(uri: &str) -> Option<Self> {
        let named = Draft::from_schema_uri(uri);
        DRAFTS.into_iter().find(|(_, draft)| *draft == named).map(|(dialect, _)| dialect)
    }

    pub(super) fn draft(self) -> Draft {
        DRAFTS
            .into_iter()
            .find(|(dialect, _)| *dialect == self)
            .map_or(Draft::Draft202012, |(_, draft)| draft)
    }

    /// Whether it has `if`, `then` and `else`.
    pub(super) const fn has_conditions(self) -> bool {
        !matches!(self, Self::Draft4 | Self::Draft6)
    }

    /// Whether the dialect ignores the keywords beside a `$ref`.
    pub(super) const fn ignores_beside_references(self) -> bool {
        matches!(self, Self::Draft4 | Self::Draft6 | Self::Draft7)
    }
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The schema's dialect is not supported: see [the list](super#dialects).
    Dialect {
        /// The value of `$schema`.
        uri: String,
    },
    /// The schema refers to an outside schema, which is never fetched, or to a missing target.
    Reference {
        /// The reference, as far as it is known.
        reference: String,
    },
    /// The schema is not valid in its dialect, or has a regular expression that is not supported.
    Invalid {
        /// The invalid part of the schema, as a JSON Pointer; empty for the whole schema.
        pointer: String,
        /// Why that part is not valid.
        reason: String,
    },
    /// The schema exceeds a limit.
    Bound(Bound),
    /// The validator panicked on the schema.
    Failed,
}

error_text! { SchemaError:
    Dialect { uri } => "the dialect {uri:?} of JSON Schema is not supported";
    Reference { reference } => "the schema refers to {reference:?}, which is not part of it";
    Invalid { pointer, reason } if pointer.is_empty() => "the schema is not valid: {reason}";
    Invalid { pointer, reason } => "the schema is not valid at {pointer}: {reason}";
    Bound(bound) => "the schema exceeds a limit: {bound}";
    Failed => "the validator failed on the schema";
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
