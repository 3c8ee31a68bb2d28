//! Form fields: the subset of JSON Schema that elicitation forms use.

use super::Number;
use super::object::{names, object, read_variant, union};
use super::read::expected;
use crate::prelude::*;

object! {
    /// A text field.
    pub field StringSchema as "type" = "string" {
        optional {
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
    pub field NumberSchema {
        required {
            /// Whether the number must be an integer.
            kind: NumberKind = "type";
        }
        optional {
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
    pub field BooleanSchema as "type" = "boolean" {
        optional {
            /// Default value.
            default: Option<bool> = "default";
        }
    }

    /// A single-select field.
    pub field EnumSchema as "type" = "string" {
        required {
            /// The options.
            values: Vec<String> = "enum";
        }
        optional {
            /// Titles of the options, as in 2025-06-18. Later revisions use [`TitledEnumSchema`].
            names: Option<Vec<String>> = "enumNames";
            /// Default value.
            default: Option<String> = "default" since V2025_11_25;
        }
    }

    /// A single-select field whose options have titles. Before 2025-11-25 it is written as an [`EnumSchema`].
    pub field TitledEnumSchema as "type" = "string" {
        required {
            /// The options.
            options: Vec<EnumOption> = "oneOf";
        }
        optional {
            /// Default value.
            default: Option<String> = "default";
        }
    }

    /// An option with a title.
    pub struct EnumOption {
        required {
            /// The value of the option.
            value: String = "const";
            /// Title to display.
            title: String = "title";
        }
    }

    /// A multi-select field (since 2025-11-25).
    ///
    /// Before that it is written as an [`EnumSchema`], of which users can choose one option.
    pub field MultiSelectSchema as "type" = "array" {
        required {
            /// The options.
            items: MultiSelectItems = "items";
        }
        optional {
            /// Minimum number of chosen options.
            min_items: Option<u64> = "minItems";
            /// Maximum number of chosen options.
            max_items: Option<u64> = "maxItems";
            /// Default value.
            default: Option<Vec<String>> = "default";
        }
    }
}

union! {
    /// The options of a [`MultiSelectSchema`].
    pub enum MultiSelectItems {
        /// Options without titles.
        Untitled(UntitledItems),
        /// Options with titles.
        Titled(TitledItems),
    } read |fields| match fields.look(|name| (name == "anyOf").then_some(()))? {
        Some(()) => read_variant(fields, Self::Titled),
        None => read_variant(fields, Self::Untitled),
    }
}

object! {
    /// Options without titles.
    pub struct UntitledItems as "type" = "string" {
        required {
            /// The options.
            values: Vec<String> = "enum";
        }
    }

    /// Options with titles.
    pub struct TitledItems {
        required {
            /// The options.
            options: Vec<EnumOption> = "anyOf";
        }
    }
}

union! {
    /// A field of a form.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema>
    #[allow(clippy::large_enum_variant)]
    pub enum PrimitiveSchema or Unknown {
        /// A text field.
        String(StringSchema),
        /// A number field.
        Number(NumberSchema),
        /// A boolean field.
        Boolean(BooleanSchema),
        /// A single-select field.
        Enum(EnumSchema),
        /// A single-select field with titles.
        TitledEnum(TitledEnumSchema) since V2025_11_25,
        /// A multi-select field.
        MultiSelect(MultiSelectSchema) since V2025_11_25,
    } read |fields| {
        // The names of all fields determine the kind.
        let (mut values, mut options) = (false, false);
        fields.look::<()>(|name| {
            values |= name == "enum";
            options |= name == "oneOf";
            None
        })?;
        match fields.look_at("type")? {
            Some(Ok(FieldType::String)) if options => read_variant(fields, Self::TitledEnum),
            Some(Ok(FieldType::String)) if values => read_variant(fields, Self::Enum),
            Some(Ok(FieldType::String)) => read_variant(fields, Self::String),
            Some(Ok(FieldType::Number | FieldType::Integer)) => read_variant(fields, Self::Number),
            Some(Ok(FieldType::Boolean)) => read_variant(fields, Self::Boolean),
            Some(Ok(FieldType::Array)) => read_variant(fields, Self::MultiSelect),
            Some(Err(_)) | None => Ok(expected(Self::EXPECTED)),
        }
    }
}

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

fn untitled(options: &[EnumOption]) -> EnumSchema {
    let values: Vec<String> = options.iter().map(|option| option.value.clone()).collect();
    let names = options.iter().map(|option| option.title.clone()).collect();
    EnumSchema { names: Some(names), ..EnumSchema::new(values) }
}

impl TitledEnumSchema {
    fn stand_in(&self) -> EnumSchema {
        EnumSchema {
            title: self.title.clone(),
            description: self.description.clone(),
            ..untitled(&self.options)
        }
    }
}

impl MultiSelectSchema {
    fn stand_in(&self) -> EnumSchema {
        let schema = match &self.items {
            MultiSelectItems::Untitled(items) => EnumSchema::new(items.values.clone()),
            MultiSelectItems::Titled(items) => untitled(&items.options),
        };
        EnumSchema { title: self.title.clone(), description: self.description.clone(), ..schema }
    }
}
