//! Which items of a server's list enter the catalogue.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::entry::CatalogueItem;
use super::{CatalogueLimits, UpdateReport};
use crate::consent::SafeText;
use crate::host::tools::pin::{ItemKind, Pin};
use crate::host::tools::text::prefix_of;
use crate::schema::{Json, List};

/// How many rejected items a report names.
const NAMED: usize = 16;

/// How many bytes of the key of a rejected item a report keeps.
const KEY_BYTES: usize = 128;

/// An item that a server listed and the catalogue does not have. It displays as a line that is safe for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedItem {
    /// Name or URI of the item, at most 128 bytes of it; empty if the item is unreadable.
    pub item: String,
    /// Reason.
    pub reason: RejectionReason,
}

/// Why an item is not in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectionReason {
    /// Its name is longer than [`CatalogueLimits::name_bytes`].
    NameTooLong,
    /// Its definition is longer than [`CatalogueLimits::definition_bytes`].
    TooLarge,
    /// The items before it reach [`CatalogueLimits::items`] or [`CatalogueLimits::list_bytes`].
    ListTooLarge,
    /// An item before it has the same name or URI.
    Repeated,
    /// The definition is invalid, for this reason.
    Invalid(String),
}

impl fmt::Display for RejectedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", SafeText::line(&self.item))?;
        match &self.reason {
            RejectionReason::NameTooLong => f.write_str("the name is too long"),
            RejectionReason::TooLarge => f.write_str("the definition is too large"),
            RejectionReason::ListTooLarge => f.write_str("the list is too large"),
            RejectionReason::Repeated => f.write_str("an earlier item has the same name"),
            RejectionReason::Invalid(reason) => write!(f, "{}", SafeText::line(reason)),
        }
    }
}

impl UpdateReport {
    fn reject(&mut self, item: &str, reason: RejectionReason) {
        self.rejected_count = self.rejected_count.saturating_add(1);
        if self.rejected.len() < NAMED {
            self.rejected.push(RejectedItem { item: prefix_of(item, KEY_BYTES).into(), reason });
        }
    }
}

/// Returns the items within the limits, and their pins.
pub(super) fn admit<T: CatalogueItem>(
    list: List<T>,
    limits: &CatalogueLimits,
    report: &mut UpdateReport,
) -> (Vec<T>, BTreeMap<String, Pin>) {
    for invalid in list.invalid() {
        let reason = prefix_of(&invalid.reason, KEY_BYTES).into();
        report.reject("", RejectionReason::Invalid(reason));
    }
    let (mut items, mut pins, mut bytes) = (Vec::new(), BTreeMap::new(), 0_usize);
    for item in list {
        let reason = match Json::encode(&item) {
            Err(_) => RejectionReason::Invalid("it cannot be written as JSON".into()),
            Ok(definition) => {
                let length = definition.as_str().len();
                let is_named = matches!(T::KIND, ItemKind::Tool | ItemKind::Prompt);
                if is_named && item.key().len() > limits.name_bytes {
                    RejectionReason::NameTooLong
                } else if length > limits.definition_bytes {
                    RejectionReason::TooLarge
                } else if items.len() >= limits.items || bytes.saturating_add(length) > limits.list_bytes {
                    RejectionReason::ListTooLarge
                } else if pins.contains_key(item.key()) {
                    RejectionReason::Repeated
                } else {
                    bytes = bytes.saturating_add(length);
                    pins.insert(item.key().into(), Pin::of_definition(T::KIND, &definition));
                    items.push(item);
                    continue;
                }
            }
        };
        report.reject(item.key(), reason);
    }
    (items, pins)
}
