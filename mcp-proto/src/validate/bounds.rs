//! Limits of schemas and of checks against them.

use core::fmt;

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

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "it is too long",
            Self::Depth => "it nests too deeply",
            Self::Values => "it has too many parts",
            Self::References => "it has too many references",
            Self::Patterns => "it has too many regular expressions",
            Self::Unevaluated => "it nests `unevaluated` keywords too deeply",
            Self::Steps => "the check takes too much work",
        })
    }
}
