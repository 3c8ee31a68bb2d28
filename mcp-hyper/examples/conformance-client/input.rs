//! What this client answers when it is asked. There is no person and no model: forms are filled in with their defaults.

use mcp_proto::front::ClientHandlers;
use mcp_proto::schema::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ElicitValue, ListRootsResult,
    MultiSelectItems, NumberKind, PrimitiveSchema, Role, Root,
};

pub(crate) fn handlers() -> ClientHandlers {
    ClientHandlers::new()
        .elicitation(async |params, _| elicitation(&params))
        .sampling(async |params, _| sampling(&params))
        .roots(async |_, _| roots())
}

fn elicitation(params: &ElicitParams) -> ElicitResult {
    let ElicitParams::Form(form) = params else { return ElicitResult::decline() };
    let fields = &form.requested_schema.properties;
    let filled = fields.iter().filter_map(|(name, field)| Some((name, value(field)?)));
    ElicitResult::accept(filled.collect::<mcp_proto::schema::Map<_>>())
}

/// The default of a field, or else the plainest value it can have.
fn value(field: &PrimitiveSchema) -> Option<ElicitValue> {
    Some(match field {
        PrimitiveSchema::String(field) => field.default.as_deref().unwrap_or("text").into(),
        PrimitiveSchema::Number(field) => match (&field.default, &field.kind) {
            (Some(number), _) => ElicitValue::Number(number.clone()),
            (None, NumberKind::Integer) => 1_i64.into(),
            (None, _) => 1.5.into(),
        },
        PrimitiveSchema::Boolean(field) => field.default.unwrap_or(true).into(),
        PrimitiveSchema::Enum(field) => {
            ElicitValue::String(field.default.as_ref().or(field.values.first())?.clone())
        }
        PrimitiveSchema::TitledEnum(field) => {
            let first = field.options.first().map(|option| &option.value);
            ElicitValue::String(field.default.as_ref().or(first)?.clone())
        }
        PrimitiveSchema::MultiSelect(field) => ElicitValue::Strings(match (&field.default, &field.items) {
            (Some(default), _) => default.clone(),
            (None, MultiSelectItems::Untitled(items)) => items.values.clone(),
            (None, MultiSelectItems::Titled(items)) => {
                items.options.iter().map(|option| option.value.clone()).collect()
            }
        }),
        PrimitiveSchema::Unknown(_) => return None,
    })
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
