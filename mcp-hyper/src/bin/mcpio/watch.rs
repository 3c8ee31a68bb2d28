//! `mcpio watch`: prints changes on a server as they happen.

use mcp_proto::front::WatchUpdate;
use mcp_proto::peer::client::{Change, ChangeEvidence, WatchFilter};
use serde_json::{Value, json};

use crate::connect::Connection;
use crate::error::CommandError;
use crate::terminal::Screen;
use crate::text::{GOOD, QUIET, Text, styled};

/// Prints changes until the server ends the watch, or after the given number of changes.
pub(crate) async fn watch(
    connection: &Connection,
    uris: &[String],
    most: Option<u64>,
    screen: &mut Screen,
    json: bool,
) -> Result<(), CommandError> {
    let lists = WatchFilter::new().tools().prompts().resources();
    let interest = uris.iter().fold(lists, WatchFilter::resource);
    let mut watch = connection.client.watch().filter(interest).open()?;
    let mut count = 0;
    while most.is_none_or(|most| count < most) {
        let Some(update) = watch.next().await else {
            return match watch.outcome() {
                Some(Err(error)) => Err(error.into()),
                _ => Ok(()),
            };
        };
        count += u64::from(matches!(update, WatchUpdate::Changed { .. }));
        if json {
            screen.line(Text::json(&as_json(&update).to_string()))?;
        } else {
            screen.line(in_words(&update))?;
        }
    }
    Ok(())
}

/// The lists and resources in a filter.
fn parts(interest: &WatchFilter) -> Vec<String> {
    let lists = [
        (interest.has_tools(), "tools"),
        (interest.has_prompts(), "prompts"),
        (interest.has_resources(), "resources"),
    ];
    let lists = lists.into_iter().filter(|(wanted, _)| *wanted).map(|(_, list)| list.to_owned());
    lists.chain(interest.resource_uris().map(str::to_owned)).collect()
}

fn subject(change: &Change) -> String {
    match change {
        Change::Tools => "tools".to_owned(),
        Change::Prompts => "prompts".to_owned(),
        Change::Resources => "resources".to_owned(),
        Change::Resource(uri) => uri.clone(),
        Change::Task { id, .. } => format!("task {id}"),
        _ => "other".to_owned(),
    }
}

fn in_words(update: &WatchUpdate) -> Text {
    match update {
        WatchUpdate::Active { missing } if missing.is_empty() => styled(QUIET, "watching"),
        WatchUpdate::Active { missing } => {
            let missing = parts(missing).join(", ");
            styled(QUIET, format_args!("watching; the server does not notify of {missing}"))
        }
        WatchUpdate::Interrupted => styled(QUIET, "the watch was interrupted; starting it again"),
        WatchUpdate::Changed { change, evidence: ChangeEvidence::Notified } => {
            styled(GOOD, "changed:").and(" ").and(subject(change))
        }
        WatchUpdate::Changed { change, evidence: ChangeEvidence::MaybeMissed } => {
            styled(QUIET, "may have changed:").and(" ").and(subject(change))
        }
        WatchUpdate::Missed { count } => Text::from(format!("{count} changes were missed")),
        _ => styled(QUIET, "other"),
    }
}

fn as_json(update: &WatchUpdate) -> Value {
    match update {
        WatchUpdate::Active { missing } => json!({ "update": "on", "missing": parts(missing) }),
        WatchUpdate::Interrupted => json!({ "update": "interrupted" }),
        WatchUpdate::Changed { change, evidence: why } => {
            json!({ "update": "changed", "what": subject(change), "told": *why == ChangeEvidence::Notified })
        }
        WatchUpdate::Missed { count } => json!({ "update": "missed", "count": count }),
        _ => json!({ "update": "other" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_printed_as_text_and_as_json() {
        let missing = WatchFilter::new().prompts().resource("demo://logo");
        let on = WatchUpdate::Active { missing };
        assert!(in_words(&on).plain().contains("does not notify of prompts, demo://logo"));
        assert_eq!(as_json(&on), json!({ "update": "on", "missing": ["prompts", "demo://logo"] }));
        let change = Change::Resource("demo://\x1b[2Jlogo".to_owned());
        let changed = WatchUpdate::Changed { change, evidence: ChangeEvidence::Notified };
        assert!(in_words(&changed).plain().ends_with("demo://\\u{1b}[2Jlogo"));
        assert_eq!(as_json(&changed)["told"], true);
    }
}
