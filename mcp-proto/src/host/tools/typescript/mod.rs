//! Tools as TypeScript declarations, for models that write code against them.

mod schema_types;

use core::fmt::Write as _;

use self::schema_types::{ANY_OBJECT, Document, Position, Schema, TypeNames, bare, comment, member_name};
use super::named_items::Entry;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::schema::Tool;

config! {
    /// Limits of [`TypeScriptDeclarations`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TypeScriptLimits {
        /// How many bytes all declarations have. Tools beyond them are left out, first those of servers with more than
        /// an equal share. Default 256 KiB.
        pub bytes: usize = 256 * 1024,
        /// How many bytes the types of one tool have. A tool with larger ones is declared with `unknown` ones. Default
        /// 32 KiB.
        pub tool_bytes: usize = 32 * 1024,
        /// How many bytes of a description are shown. Default 2 KiB.
        pub description_bytes: usize = 2 * 1024,
        /// How many types are nested in each other; a deeper one is `unknown`. At most 64. Default 24.
        pub depth: usize = 24,
    }
}

/// Tools as TypeScript declarations, for a model that writes code instead of single calls.
///
/// The constant `tools` has a function for each tool, by its name for a model. Its argument has the type of the tool's
/// input schema; its promise has that of the output schema, `unknown` without one. The application that runs the code
/// provides the functions, and calls the tools by those names.
///
/// A type is wider than its schema where TypeScript cannot express it: lengths, patterns and conditions are missing, and a
/// reference that leaves the schema is `unknown`. The server checks the arguments in any case. The same tools and limits
/// give the same text, whatever the order in which servers connected.
///
/// Servers write descriptions, names of members and constants. They cannot leave their comments and strings, nor write
/// lines of their own: descriptions are [quoted](super::QuotedText), and lines of the host have no `> `. Even so, run a model's
/// code in a sandbox. Time and size are linear in the definitions.
///
/// ```
/// use mcp_proto::host::tools::{Catalogue, ServerSettings, TypeScriptDeclarations, TypeScriptLimits};
/// use mcp_proto::schema::Tool;
/// use serde_json::json;
///
/// let mut catalogue = Catalogue::default();
/// catalogue.add_server("github", ServerSettings::default());
/// let schema = json!({
///     "type": "object",
///     "properties": {
///         "title": { "type": "string", "description": "A short summary" },
///         "label": { "enum": ["bug", null] },
///     },
///     "required": ["title"],
/// });
/// catalogue.update("github", vec![Tool::new("create_issue", "Creates an issue", schema)]);
///
/// let declared = TypeScriptDeclarations::of_tools(catalogue.tools(), &TypeScriptLimits::default());
/// assert!(declared.text.contains("  mcp__github__create_issue(input: {\n"));
/// assert!(declared.text.contains("    /** > A short summary */\n    title: string;\n"));
/// assert!(declared.text.contains("    label?: \"bug\" | null;\n"));
/// assert!(declared.text.contains("  }): Promise<unknown>;\n"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeScriptDeclarations {
    /// The declarations: a module of TypeScript 4.1 or newer.
    pub text: String,
    /// Names of the tools that exceed [`TypeScriptLimits::bytes`] and are left out. The text says how many they are.
    pub left_out: Vec<String>,
}

const HEADER: &str =
    "// Tools of MCP servers. The servers wrote what follows `>` in comments.\ndeclare const tools: {\n";
const FOOTER: &str = "};\n";

/// Room for the note on tools that are left out.
const NOTE_BYTES: usize = 80;

impl TypeScriptDeclarations {
    /// Declares these tools, such as all [of a catalogue](super::Catalogue::tools) or those that a conversation
    /// [selects](super::Selection::tools). Tools that exist for a [page](crate::schema::apps) alone are skipped.
    pub fn of_tools<'a>(tools: impl IntoIterator<Item = Entry<'a, Tool>>, limits: &TypeScriptLimits) -> Self {
        let mut names = TypeNames::default();
        let around = [HEADER.len(), FOOTER.len(), NOTE_BYTES].iter().sum();
        let room = limits.bytes.saturating_sub(around);
        let tools = tools.into_iter().filter(|tool| tool.item.is_for_model());
        let tools: Vec<_> = tools.map(|tool| (tool, declare(tool, limits, &mut names))).collect();
        let shown = shown_within(&tools, room);
        let (mut functions, mut types, mut left_out) = (String::from(HEADER), String::new(), Vec::new());
        for (index, (tool, declared)) in tools.iter().enumerate() {
            if shown.contains(&index) {
                functions.push_str(&declared.function);
                types.push_str(&declared.types);
            } else {
                left_out.push(tool.name.to_owned());
            }
        }
        let mut text = [functions.as_str(), FOOTER, &types].concat();
        if !left_out.is_empty() {
            // A string takes any text.
            let _ = writeln!(text, "// {} tools are left out for want of room.", left_out.len());
        }
        Self { text, left_out }
    }
}

/// The function of a tool, and the types that it refers to.
struct Declared {
    function: String,
    types: String,
}

/// The indices of the tools that are shown: those within an equal share of their server, then others while there is room,
/// so that no server crowds out the others.
fn shown_within(tools: &[(Entry<'_, Tool>, Declared)], mut room: usize) -> OrderedSet<usize> {
    let mut used: OrderedMap<&str, usize> = tools.iter().map(|(tool, _)| (tool.server, 0)).collect();
    let share = room.checked_div(used.len()).unwrap_or(room);
    let mut shown = OrderedSet::new();
    for is_shared in [true, false] {
        for (index, (tool, declared)) in tools.iter().enumerate() {
            let bytes = declared.function.len().saturating_add(declared.types.len());
            let used = used.entry(tool.server).or_default();
            let with_tool = used.saturating_add(bytes);
            if (!is_shared || with_tool <= share)
                && let Some(rest) = room.checked_sub(bytes)
                && shown.insert(index)
            {
                (room, *used) = (rest, with_tool);
            }
        }
    }
    shown
}

fn declare(tool: Entry<'_, Tool>, limits: &TypeScriptLimits, names: &mut TypeNames) -> Declared {
    let mut room = limits.tool_bytes;
    let definition = tool.definition();
    let input = Schema::read(&definition.input_schema);
    let output = tool.item.output_schema.as_ref().map(Schema::read);
    let mut types = String::new();
    let mut declare = |schema: &Schema, what| {
        let mut document = Document::new(schema, tool.name, what, limits, &mut room, names);
        let own = document.type_of(&schema.0, Position::new(limits, true).indented());
        document.declare_queued();
        types.push_str(&document.declared);
        own
    };
    let own = declare(&input, "input");
    let result = output.map_or_else(|| "unknown".into(), |schema| declare(&schema, "output"));
    let bytes = [own.len(), result.len(), types.len()].into_iter().fold(0, usize::saturating_add);
    let is_whole = room > 0 && bytes <= limits.tool_bytes;
    let note = if is_whole { "" } else { "The schemas are too large to be declared." };
    let mut function = comment(definition.description, note, 1, limits);
    let (own, result) = if is_whole { (bare(&own), bare(&result)) } else { (ANY_OBJECT, "unknown") };
    if !is_whole {
        types.clear();
    }
    // A string takes any text.
    let _ = writeln!(function, "  {}(input: {own}): Promise<{result}>;", member_name(tool.name));
    Declared { function, types }
}
