//! Form fields: the subset of JSON Schema that elicitation forms use.

use alloc::string::String;
use alloc::vec::Vec;

use super::json::{Json, Number};
use super::object::{Object as _, from_variants, names, object};
use super::read::{Fields, Fit, Read, ReadResult, UnexpectedJson};
use super::revision::Revision;
use super::write::{Projection, WriteAt, serde_impls};
use crate::rpc::json_reader::NotJson;

object! {
    /// A text field.
    pub struct StringSchema as "type" = "string" {
        required {}
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// Description of the field.
            description: Option<String> = "description";
            /// Minimum number of characters.
            min_length: Option<u64> = "minLength";
            /// Maximum number of characters.
            max_length: Option<u64> = "maxLength";
            /// Format of the text.
            format: Option<StringFormat> = "format";
            /// Default value.
            default: Option<String> = "default" since V2025_11_25;
        }
    }
}

names! {
    /// Format of a text field.
    pub enum StringFormat {
        /// An email address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date (ISO 8601).
        Date = "date",
        /// A date and time (ISO 8601).
        DateTime = "date-time",
    }
}

object! {
    /// A number field.
    pub struct NumberSchema {
        required {
            /// Whether the number must be an integer.
            kind: NumberKind = "type";
        }
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// Description of the field.
            description: Option<String> = "description";
            /// Smallest allowed number.
            minimum: Option<Number> = "minimum";
            /// Largest allowed number.
            maximum: Option<Number> = "maximum";
            /// Default value.
            default: Option<Number> = "default" since V2025_11_25;
        }
    }
}

names! {
    /// Type of a number field.
    pub enum NumberKind {
        /// Any number.
        Number = "number",
        /// An integer.
        Integer = "integer",
    }
}

object! {
    /// A boolean field.
    pub struct BooleanSchema as "type" = "boolean" {
        required {}
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// Description of the field.
            description: Option<String> = "description";
            /// Default value.
            default: Option<bool> = "default";
        }
    }
}

object! {
    /// A single-select field.
    pub struct EnumSchema as "type" = "string" {
        required {
            /// The options.
            values: Vec<String> = "enum";
        }
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// Description of the field.
            description: Option<String> = "description";
            /// Titles of the options, as in 2025-06-18. Later revisions use [`TitledEnumSchema`].
            names: Option<Vec<String>> = "enumNames";
            /// Default value.
            default: Option<String> = "default" since V2025_11_25;
        }
    }
}

object! {
    /// A single-select field whose options have titles. Before 2025-11-25 it is written as an [`EnumSchema`].
    pub struct TitledEnumSchema as "type" = "string" {
        required {
            /// The options.
            options: Vec<EnumOption> = "oneOf";
        }
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// Description of the field.
            description: Option<String> = "description";
            /// Default value.
            default: Option<String> = "default";
        }
    }
}

object! {
    /// An option with a title.
    pub struct EnumOption {
        required {
            /// The value of the option.
            value: String = "const";
            /// Title to display.
            title: String = "title";
        }
        optional {}
    }
}

object! {
    /// A multi-select field (since 2025-11-25).
    ///
    /// Before that it is written as an [`EnumSchema`], of which users can choose one option.
    pub struct MultiSelectSchema as "type" = "array" {
        required {
            /// The options.
            items: MultiSelectItems = "items";
        }
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// Description of the field.
            description: Option<String> = "description";
            /// Minimum number of chosen options.
            min_items: Option<u64> = "minItems";
            /// Maximum number of chosen options.
            max_items: Option<u64> = "maxItems";
            /// Default value.
            default: Option<Vec<String>> = "default";
        }
    }
}

/// The options of a [`MultiSelectSchema`].
#[derive(Clone, Debug, PartialEq)]
pub enum MultiSelectItems {
    /// Options without titles.
    Untitled(UntitledItems),
    /// Options with titles.
    Titled(TitledItems),
}

object! {
    /// Options without titles.
    pub struct UntitledItems as "type" = "string" {
        required {
            /// The options.
            values: Vec<String> = "enum";
        }
        optional {}
    }
}

object! {
    /// Options with titles.
    pub struct TitledItems {
        required {
            /// The options.
            options: Vec<EnumOption> = "anyOf";
        }
        optional {}
    }
}

from_variants!(MultiSelectItems { Untitled(UntitledItems), Titled(TitledItems) });

impl Read for MultiSelectItems {
    const EXPECTED: &'static str = "an object";

    fn from_object(fields: Fields<'_, '_>) -> Result<Fit<Self>, NotJson> {
        match fields.look(|name| (name == "anyOf").then_some(()))? {
            Some(()) => Ok(TitledItems::read_fields(fields)?.map(Self::Titled)),
            None => Ok(UntitledItems::read_fields(fields)?.map(Self::Untitled)),
        }
    }
}

impl WriteAt for MultiSelectItems {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        match self {
            Self::Untitled(items) => items.write(view, out),
            Self::Titled(items) => items.write(view, out),
        }
    }
}

serde_impls!(MultiSelectItems);

/// A field of a form.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema>
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum PrimitiveSchema {
    /// A text field.
    String(StringSchema),
    /// A number field.
    Number(NumberSchema),
    /// A boolean field.
    Boolean(BooleanSchema),
    /// A single-select field.
    Enum(EnumSchema),
    /// A single-select field with titles.
    TitledEnum(TitledEnumSchema),
    /// A multi-select field.
    MultiSelect(MultiSelectSchema),
    /// A field of unknown kind, written back verbatim.
    Unknown(Json),
}

from_variants!(PrimitiveSchema {
    String(StringSchema),
    Number(NumberSchema),
    Boolean(BooleanSchema),
    Enum(EnumSchema),
    TitledEnum(TitledEnumSchema),
    MultiSelect(MultiSelectSchema),
});

names! {
    /// The `type` of a field.
    pub(crate) enum FieldType {
        String = "string",
        Number = "number",
        Integer = "integer",
        Boolean = "boolean",
        Array = "array",
    }
}

impl Read for PrimitiveSchema {
    const EXPECTED: &'static str = "an object";

    fn or_keep(unexpected: UnexpectedJson) -> ReadResult<Self> {
        Ok(Self::Unknown(unexpected.json))
    }

    fn from_object(fields: Fields<'_, '_>) -> Result<Fit<Self>, NotJson> {
        // The names of all fields determine the kind.
        let (mut values, mut options) = (false, false);
        fields.look::<()>(|name| {
            values |= name == "enum";
            options |= name == "oneOf";
            None
        })?;
        let Some(kind) = fields.look_at("type")? else { return Ok(Err("`type` is missing".into())) };
        match kind {
            Ok(FieldType::String) if options => {
                Ok(TitledEnumSchema::read_fields(fields)?.map(Self::TitledEnum))
            }
            Ok(FieldType::String) if values => Ok(EnumSchema::read_fields(fields)?.map(Self::Enum)),
            Ok(FieldType::String) => Ok(StringSchema::read_fields(fields)?.map(Self::String)),
            Ok(FieldType::Number | FieldType::Integer) => {
                Ok(NumberSchema::read_fields(fields)?.map(Self::Number))
            }
            Ok(FieldType::Boolean) => Ok(BooleanSchema::read_fields(fields)?.map(Self::Boolean)),
            Ok(FieldType::Array) => Ok(MultiSelectSchema::read_fields(fields)?.map(Self::MultiSelect)),
            Err(UnexpectedJson { reason, .. }) => Ok(Err(reason)),
        }
    }
}

fn untitled(options: &[EnumOption]) -> EnumSchema {
    let values: Vec<String> = options.iter().map(|option| option.value.clone()).collect();
    let names = options.iter().map(|option| option.title.clone()).collect();
    EnumSchema { names: Some(names), ..EnumSchema::new(values) }
}

impl TitledEnumSchema {
    fn without_titles(&self) -> EnumSchema {
        EnumSchema {
            title: self.title.clone(),
            description: self.description.clone(),
            ..untitled(&self.options)
        }
    }
}

impl MultiSelectSchema {
    fn single(&self) -> EnumSchema {
        let schema = match &self.items {
            MultiSelectItems::Untitled(items) => EnumSchema::new(items.values.clone()),
            MultiSelectItems::Titled(items) => untitled(&items.options),
        };
        EnumSchema { title: self.title.clone(), description: self.description.clone(), ..schema }
    }
}

impl WriteAt for PrimitiveSchema {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        let choices = view.since(Revision::V2025_11_25);
        match self {
            Self::String(schema) => schema.write(view, out),
            Self::Number(schema) => schema.write(view, out),
            Self::Boolean(schema) => schema.write(view, out),
            Self::Enum(schema) => schema.write(view, out),
            Self::TitledEnum(schema) if choices => schema.write(view, out),
            Self::TitledEnum(schema) => schema.without_titles().write(view, out),
            Self::MultiSelect(schema) if choices => schema.write(view, out),
            Self::MultiSelect(schema) => schema.single().write(view, out),
            Self::Unknown(json) => json.write(view, out),
        }
    }
}

serde_impls!(PrimitiveSchema);
