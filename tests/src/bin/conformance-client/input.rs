//! Answers to the server's requests without a user or a model: forms are filled in with their defaults.

use mcp_proto::front::ClientHandlers;
use mcp_proto::schema::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ElicitValue,
    ListRootsResult, MultiSelectItems, NumberKind, PrimitiveSchema, Role, Root,
};

pub(crate) fn handlers() -> ClientHandlers {
    ClientHandlers::new()
        .elicitation(async |params, _| elicitation(&params))
        .sampling(async |params, _| sampling(&params))
        .roots(async |_, _| roots())
        .declare(ClientCapabilities::declare_skills)
}

fn elicitation(params: &ElicitParams) -> ElicitResult {
    let ElicitParams::Form(form) = params else { return ElicitResult::decline() };
    let fields = &form.requested_schema.properties;
    let filled = fields.iter().filter_map(|(name, field)| Some((name, value(field)?)));
    ElicitResult::accept(filled.collect::<mcp_proto::schema::Map<_>>())
}

/// The default of a field, or else the simplest valid value.
fn value(field: &PrimitiveSchema) -> Option<ElicitValue> {
    let plainest = || {
        Some(match field {
            PrimitiveSchema::String(_) => "text".into(),
            PrimitiveSchema::Number(field) if field.kind == NumberKind::Integer => 1_i64.into(),
            PrimitiveSchema::Number(_) => 1.5.into(),
            PrimitiveSchema::Boolean(_) => true.into(),
            PrimitiveSchema::Enum(field) => field.values.first()?.as_str().into(),
            PrimitiveSchema::TitledEnum(field) => field.options.first()?.value.as_str().into(),
            PrimitiveSchema::MultiSelect(field) => ElicitValue::Strings(match &field.items {
                MultiSelectItems::Untitled(items) => items.values.clone(),
                MultiSelectItems::Titled(items) => {
                    items.options.iter().map(|option| option.value.clone()).collect()
                }
                _ => return None,
            }),
            _ => return None,
        })
    };
    field.default_value().or_else(plainest)
}

fn sampling(params: &CreateMessageParams) -> CreateMessageResult {
    let answer = format!("There were {} messages.", params.messages.len());
    let mut result = CreateMessageResult::new(Role::Assistant, answer.as_str(), "no-model");
    result.stop_reason = Some("endTurn".to_owned());
    result
}

fn roots() -> ListRootsResult {
    ListRootsResult::new([Root::new("file:///home/conformance")])
}
