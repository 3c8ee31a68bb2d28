//! Pins: hashes of approved definitions, by which a host notices that a server changed one.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::prefix_of;
use crate::consent::SafeText;
use crate::host::digest::Digest;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::schema::Json;

/// How many bytes of a name the line about a change shows.
const SHOWN_BYTES: usize = 128;

/// A kind of item that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ItemKind {
    /// A tool, identified by its name.
    Tool,
    /// A prompt, identified by its name.
    Prompt,
    /// A resource, identified by its URI. It is not pinned: resources come and go.
    Resource,
    /// A template of resources, identified by its URI template.
    ResourceTemplate,
    /// The instructions of the server: one item without a name.
    Instructions,
}

impl ItemKind {
    /// The members that a pin covers, in the order in which they are hashed.
    fn members(self) -> &'static [Member] {
        use Member::{
            Annotations, Arguments, Description, InputSchema, Meta, MimeType, Name, OutputSchema, Text, Title,
        };
        match self {
            Self::Tool => &[Title, Description, InputSchema, OutputSchema, Annotations, Meta],
            Self::Prompt => &[Title, Description, Arguments, Meta],
            Self::Resource => &[],
            Self::ResourceTemplate => &[Name, Title, Description, MimeType, Annotations, Meta],
            Self::Instructions => &[Text],
        }
    }

    /// Whether items of this kind are pinned.
    pub(super) fn is_pinned(self) -> bool {
        !self.members().is_empty()
    }
}

display_text! { ItemKind:
    Tool => "tool";
    Prompt => "prompt";
    Resource => "resource";
    ResourceTemplate => "resource template";
    Instructions => "instructions";
}

/// A member of a definition that a pin covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Member {
    /// The name of a resource template.
    Name,
    /// The title.
    Title,
    /// The description.
    Description,
    /// The schema of a tool's arguments.
    InputSchema,
    /// The schema of a tool's structured result.
    OutputSchema,
    /// The arguments of a prompt.
    Arguments,
    /// The media type.
    MimeType,
    /// The annotations, such as the declared behaviour of a tool.
    Annotations,
    /// The metadata.
    #[serde(rename = "_meta")]
    Meta,
    /// The text of the instructions.
    Text,
}

impl Member {
    /// The name of the member on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Title => "title",
            Self::Description => "description",
            Self::InputSchema => "inputSchema",
            Self::OutputSchema => "outputSchema",
            Self::Arguments => "arguments",
            Self::MimeType => "mimeType",
            Self::Annotations => "annotations",
            Self::Meta => "_meta",
            Self::Text => "text",
        }
    }
}

/// The hash of one definition, and short hashes of its members to tell which one changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    digest: Digest,
    /// 64 bits each: they only explain a change that the digest shows.
    members: OrderedMap<Member, u64>,
}

impl Pin {
    /// Pins a definition: an object as JSON. White space and the order of members do not matter.
    pub(super) fn of_definition(kind: ItemKind, definition: &Json) -> Self {
        let members: OrderedMap<String, Json> = definition.decode().unwrap_or_default();
        let digests = kind.members().iter().filter_map(|member| {
            members.get(member.as_str()).map(|json| (*member, Digest::of_json(json.as_str())))
        });
        Self::of_members(&digests.collect::<Vec<_>>())
    }

    /// Pins the instructions of a server.
    pub(super) fn of_instructions(text: &str) -> Self {
        Self::of_members(&[(Member::Text, Digest::of_parts(&[text.as_bytes()]))])
    }

    fn of_members(digests: &[(Member, Digest)]) -> Self {
        let parts = digests.iter();
        let parts = parts.flat_map(|(member, digest)| [member.as_str().as_bytes(), digest.as_bytes()]);
        let members = digests.iter().map(|(member, digest)| (*member, digest.prefix())).collect();
        Self { digest: Digest::of_parts(&parts.collect::<Vec<_>>()), members }
    }

    /// The members that differ.
    fn differences(&self, other: &Self) -> Vec<Member> {
        let members = self.members.keys().chain(other.members.keys());
        let different = members.filter(|member| self.members.get(member) != other.members.get(member));
        different.copied().collect::<OrderedSet<_>>().into_iter().collect()
    }
}

/// The pins of one server: of the definitions that the user approved, or of the present ones.
///
/// A kind that was never listed has no pins, which differs from an empty list. Pins are stored as JSON by `serde`.
///
/// ```
/// use mcp_proto::host::tools::Pins;
///
/// let pins: Pins = serde_json::from_str("{}")?;
/// assert!(pins.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins(OrderedMap<ItemKind, OrderedMap<String, Pin>>);

impl Pins {
    /// Whether no kind was ever listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces the pins of one kind.
    pub(super) fn set(&mut self, kind: ItemKind, pins: OrderedMap<String, Pin>) {
        self.0.insert(kind, pins);
    }

    /// Takes over the kinds that have no pins yet: the first definitions count as approved with their server.
    pub(super) fn adopt_new_kinds(&mut self, current: &Self) {
        for (kind, pins) in &current.0 {
            self.0.entry(*kind).or_insert_with(|| pins.clone());
        }
    }

    /// How `current` differs from these pins. Kinds that one of them lacks are left out.
    pub fn changes_to(&self, current: &Self) -> Vec<PinChange> {
        let mut changes = Vec::new();
        for (kind, pins) in &self.0 {
            let Some(current) = current.0.get(kind) else { continue };
            let mut add = |item: &String, change, pin| {
                changes.push(PinChange { kind: *kind, item: item.clone(), change, pin });
            };
            for (item, pin) in current {
                let change = match pins.get(item) {
                    Some(approved) if approved.digest == pin.digest => continue,
                    Some(approved) => Change::Changed(approved.differences(pin)),
                    None => Change::Added,
                };
                add(item, change, Some(pin.clone()));
            }
            let removed = pins.keys().filter(|item| !current.contains_key(*item));
            removed.for_each(|item| add(item, Change::Removed, None));
        }
        changes
    }

    /// Takes over one change.
    pub(super) fn approve(&mut self, change: &PinChange) {
        let pins = self.0.entry(change.kind).or_default();
        match &change.pin {
            Some(pin) => pins.insert(change.item.clone(), pin.clone()),
            None => pins.remove(&change.item),
        };
    }
}

/// A definition that differs from the approved one.
///
/// It displays as a line that is safe for a terminal:
///
/// ```text
/// tool `send_mail` changed: description, inputSchema
/// ```
///
/// It carries the hash of the new definition. Approving it approves that definition only, not a later one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinChange {
    /// The kind of the item.
    pub kind: ItemKind,
    /// Name or URI template of the item, as the server wrote it; empty for the instructions.
    pub item: String,
    /// What changed.
    pub change: Change,
    /// The new definition; `None` if it was removed.
    pin: Option<Pin>,
}

/// How a definition differs from the approved one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// The server did not have the item.
    Added,
    /// The server has the item no more.
    Removed,
    /// These members differ.
    Changed(Vec<Member>),
}

impl fmt::Display for PinChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.kind != ItemKind::Instructions {
            let shown = prefix_of(&self.item, SHOWN_BYTES);
            let cut = if shown.len() < self.item.len() { "…" } else { "" };
            write!(f, " `{}{cut}`", SafeText::line(shown))?;
        }
        match &self.change {
            Change::Added => f.write_str(" added"),
            Change::Removed => f.write_str(" removed"),
            Change::Changed(members) => {
                f.write_str(" changed")?;
                for (index, member) in members.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { ": " } else { ", " }, member.as_str())?;
                }
                Ok(())
            }
        }
    }
}

/// What happens to definitions that changed after they were approved.
///
/// The first list of each kind counts as approved with its server. Added definitions are changes too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PinPolicy {
    /// They are hidden until they are approved. For servers that a project's files name.
    Block,
    /// They are shown, and the change is reported once. For servers that the user configured.
    #[default]
    Report,
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;
    use alloc::vec;

    use super::*;

    fn pins(definition: &str) -> Pins {
        let mut pins = Pins::default();
        let pin = Pin::of_definition(ItemKind::Tool, &Json::new(definition).unwrap());
        pins.set(ItemKind::Tool, [("t".into(), pin)].into_iter().collect());
        pins
    }

    #[test]
    fn pins_tell_which_member_changed() {
        let before = pins(r#"{"name":"t","description":"a","inputSchema":{"a":1,"b":2},"_meta":{"x":1}}"#);
        let same =
            pins(r#"{"_meta":{"x":1},"inputSchema":{"b":2, "a":1},"description":"a","icons":[],"name":"t"}"#);
        assert_eq!(before.changes_to(&same), []);
        let after = pins(r#"{"name":"t","description":"b","inputSchema":{"a":1,"b":2},"title":"T"}"#);
        let changes = before.changes_to(&after);
        let members = vec![Member::Title, Member::Description, Member::Meta];
        assert_eq!(changes[0].change, Change::Changed(members));
        assert_eq!(changes[0].to_string(), "tool `t` changed: title, description, _meta");
    }

    #[test]
    fn pins_tell_added_and_removed_items_of_known_kinds_only() {
        let some = pins("{}");
        let mut none = Pins::default();
        assert_eq!(none.changes_to(&some), []);
        none.set(ItemKind::Tool, OrderedMap::new());
        let added = none.changes_to(&some);
        assert_eq!(added[0].change, Change::Added);
        assert_eq!(some.changes_to(&none)[0].change, Change::Removed);
        none.approve(&added[0]);
        assert_eq!(none, some);
    }

    #[test]
    fn pins_are_read_as_they_were_stored() {
        let pins = pins(r#"{"description":"a","_meta":{}}"#);
        let stored = serde_json::to_string(&pins).unwrap();
        assert!(stored.contains("\"_meta\":") && stored.starts_with("{\"tool\":{\"t\":{"), "{stored}");
        assert_eq!(serde_json::from_str::<Pins>(&stored).unwrap(), pins);
    }

    #[test]
    fn changes_are_safe_to_display() {
        let mut current = Pins::default();
        current
            .set(ItemKind::Tool, [("a\u{1b}[2J\nb".into(), Pin::of_instructions(""))].into_iter().collect());
        let mut approved = Pins::default();
        approved.set(ItemKind::Tool, OrderedMap::new());
        assert_eq!(approved.changes_to(&current)[0].to_string(), "tool `a\\u{1b}[2J\\nb` added");
        current.set(ItemKind::Tool, [("é".repeat(1000), Pin::of_instructions(""))].into_iter().collect());
        let line = approved.changes_to(&current)[0].to_string();
        assert_eq!(line, alloc::format!("tool `{}…` added", "é".repeat(64)));
    }
}
