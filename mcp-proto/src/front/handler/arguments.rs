//! Arguments that handlers take.

/// The arguments of a tool that takes none. Arguments that a client sends are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct NoArguments {}

/// S8.5
#[cfg(feature = "schemars")]
impl schemars::JsonSchema for NoArguments {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> alloc::borrow::Cow<'static, str> {
        "NoArguments".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object", "additionalProperties": false })
    }
}
