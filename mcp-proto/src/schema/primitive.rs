//! The fields of a form: the small part of JSON Schema that a form can be drawn from.

use alloc::string::String;
use alloc::vec::Vec;

use serde::de::{Deserializer, MapAccess};
use serde::ser::Serializer;

use super::json::{Json, Number};
use super::object::{Object as _, names, object};
use super::read::{Attempt, Fields, Read, read_shape};
use super::revision::Revision;
use super::write::{Projection, WriteAt, serde_impls};

object! {
    /// A line of text.
    pub struct StringSchema as "type" = "string" {
        required {}
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// What is to be filled in.
            description: Option<String> = "description";
            /// The fewest characters.
            min_length: Option<u64> = "minLength";
            /// The most characters.
            max_length: Option<u64> = "maxLength";
            /// What the text must be.
            format: Option<StringFormat> = "format";
            /// What stands there at first.
            default: Option<String> = "default" since V2025_11_25;
        }
    }
}

names! {
    /// What a text must be.
    pub enum StringFormat {
        /// An address of mail.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date, as in ISO 8601.
        Date = "date",
        /// A date and time, as in ISO 8601.
        DateTime = "date-time",
    }
}

object! {
    /// A number.
    pub struct NumberSchema {
        required {
            /// Whether it must be a whole number.
            kind: NumberKind = "type";
        }
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// What is to be filled in.
            description: Option<String> = "description";
            /// The least.
            minimum: Option<Number> = "minimum";
            /// The greatest.
            maximum: Option<Number> = "maximum";
            /// What stands there at first.
            default: Option<Number> = "default" since V2025_11_25;
        }
    }
}

names! {
    /// Whether a number must be whole.
    pub enum NumberKind {
        /// Any number.
        Number = "number",
        /// A whole number.
        Integer = "integer",
    }
}

object! {
    /// Yes or no.
    pub struct BooleanSchema as "type" = "boolean" {
        required {}
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// What is to be filled in.
            description: Option<String> = "description";
            /// What stands there at first.
            default: Option<bool> = "default";
        }
    }
}

object! {
    /// One of several texts.
    pub struct EnumSchema as "type" = "string" {
        required {
            /// The texts.
            values: Vec<String> = "enum";
        }
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// What is to be chosen.
            description: Option<String> = "description";
            /// What people are shown in place of the texts: the form of 2025-06-18. Since then there is
            /// [`TitledEnumSchema`].
            names: Option<Vec<String>> = "enumNames";
            /// What is chosen at first.
            default: Option<String> = "default" since V2025_11_25;
        }
    }
}

object! {
    /// One of several texts, each with what people are shown in its place. Written as an [`EnumSchema`] before
    /// 2025-11-25.
    pub struct TitledEnumSchema as "type" = "string" {
        required {
            /// The choices.
            options: Vec<EnumOption> = "oneOf";
        }
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// What is to be chosen.
            description: Option<String> = "description";
            /// What is chosen at first.
            default: Option<String> = "default";
        }
    }
}

object! {
    /// One choice.
    pub struct EnumOption {
        required {
            /// The text.
            value: String = "const";
            /// What people are shown.
            title: String = "title";
        }
        optional {}
    }
}

object! {
    /// Any of several texts (since 2025-11-25). Before that it is written as an [`EnumSchema`]: of several, people can
    /// choose one.
    pub struct MultiSelectSchema as "type" = "array" {
        required {
            /// The choices.
            items: MultiSelectItems = "items";
        }
        optional {
            /// The label of the field.
            title: Option<String> = "title";
            /// What is to be chosen.
            description: Option<String> = "description";
            /// The fewest choices.
            min_items: Option<u64> = "minItems";
            /// The most choices.
            max_items: Option<u64> = "maxItems";
            /// What is chosen at first.
            default: Option<Vec<String>> = "default";
        }
    }
}

/// The choices of a [`MultiSelectSchema`].
#[derive(Clone, Debug, PartialEq)]
pub enum MultiSelectItems {
    /// Texts.
    Untitled(UntitledItems),
    /// Texts with what people are shown in their places.
    Titled(TitledItems),
}

object! {
    /// Texts to choose from.
    pub struct UntitledItems as "type" = "string" {
        required {
            /// The texts.
            values: Vec<String> = "enum";
        }
        optional {}
    }
}

object! {
    /// Texts to choose from, each with what people are shown in its place.
    pub struct TitledItems {
        required {
            /// The choices.
            options: Vec<EnumOption> = "anyOf";
        }
        optional {}
    }
}

impl From<UntitledItems> for MultiSelectItems {
    fn from(items: UntitledItems) -> Self {
        Self::Untitled(items)
    }
}

impl From<TitledItems> for MultiSelectItems {
    fn from(items: TitledItems) -> Self {
        Self::Titled(items)
    }
}

impl Read for MultiSelectItems {
    const EXPECTED: &'static str = "an object";

    fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<Attempt<Self>, A::Error> {
        let mut fields = Fields::new(map);
        match fields.decide(|name| (name == "anyOf").then_some(()))? {
            Some(()) => Ok(TitledItems::read_fields(fields)?.map(Self::Titled)),
            None => Ok(UntitledItems::read_fields(fields)?.map(Self::Untitled)),
        }
    }
}

impl WriteAt for MultiSelectItems {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Untitled(items) => items.write(view, serializer),
            Self::Titled(items) => items.write(view, serializer),
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
    /// A line of text.
    String(StringSchema),
    /// A number.
    Number(NumberSchema),
    /// Yes or no.
    Boolean(BooleanSchema),
    /// One of several texts.
    Enum(EnumSchema),
    /// One of several texts with titles.
    TitledEnum(TitledEnumSchema),
    /// Any of several texts.
    MultiSelect(MultiSelectSchema),
    /// Something unknown here: written as it came.
    Unknown(Json),
}

macro_rules! from {
    ($($variant:ident($type:ty))*) => { $(
        impl From<$type> for PrimitiveSchema {
            fn from(schema: $type) -> Self {
                Self::$variant(schema)
            }
        }
    )* };
}

from! {
    String(StringSchema) Number(NumberSchema) Boolean(BooleanSchema)
    Enum(EnumSchema) TitledEnum(TitledEnumSchema) MultiSelect(MultiSelectSchema)
}

names! {
    /// The types that a field can have.
    pub(crate) enum Kind {
        String = "string",
        Number = "number",
        Integer = "integer",
        Boolean = "boolean",
        Array = "array",
    }
}

impl Read for PrimitiveSchema {
    const EXPECTED: &'static str = "an object";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attempt<Self>, D::Error> {
        let read = read_shape(deserializer)?;
        Ok(Ok(read.unwrap_or_else(|odd| Self::Unknown(odd.json))))
    }

    fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<Attempt<Self>, A::Error> {
        let mut fields = Fields::new(map);
        // The shape is known once all names are; forms are small.
        let (mut values, mut options) = (false, false);
        fields.decide::<()>(|name| {
            values |= name == "enum";
            options |= name == "oneOf";
            None
        })?;
        let kind = match fields.held("type") {
            Some(kind) => kind?,
            None => return fields.into_odd("`type` is missing").map(Err),
        };
        match kind {
            Ok(Kind::String) if options => Ok(TitledEnumSchema::read_fields(fields)?.map(Self::TitledEnum)),
            Ok(Kind::String) if values => Ok(EnumSchema::read_fields(fields)?.map(Self::Enum)),
            Ok(Kind::String) => Ok(StringSchema::read_fields(fields)?.map(Self::String)),
            Ok(Kind::Number | Kind::Integer) => Ok(NumberSchema::read_fields(fields)?.map(Self::Number)),
            Ok(Kind::Boolean) => Ok(BooleanSchema::read_fields(fields)?.map(Self::Boolean)),
            Ok(Kind::Array) => Ok(MultiSelectSchema::read_fields(fields)?.map(Self::MultiSelect)),
            Err(odd) => fields.into_odd(odd.reason).map(Err),
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
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        let choices = view.since(Revision::V2025_11_25);
        match self {
            Self::String(schema) => schema.write(view, serializer),
            Self::Number(schema) => schema.write(view, serializer),
            Self::Boolean(schema) => schema.write(view, serializer),
            Self::Enum(schema) => schema.write(view, serializer),
            Self::TitledEnum(schema) if choices => schema.write(view, serializer),
            Self::TitledEnum(schema) => schema.without_titles().write(view, serializer),
            Self::MultiSelect(schema) if choices => schema.write(view, serializer),
            Self::MultiSelect(schema) => schema.single().write(view, serializer),
            Self::Unknown(json) => json.write(view, serializer),
        }
    }
}

serde_impls!(PrimitiveSchema);
