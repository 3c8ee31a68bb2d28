//! `mcpio info` and `mcpio ping`.

use std::time::Instant;

use mcp_proto::peer::client::ServerInfo;
use mcp_proto::schema::{Discover, DiscoverParams, Era, ServerCapabilities};
use serde_json::{Map, Value, json};

use crate::connect::Connection;
use crate::error::CommandError;
use crate::show;
use crate::terminal::Screen;

pub(crate) fn info(connection: &Connection, screen: &mut Screen, json: bool) -> Result<(), CommandError> {
    let server = &connection.server;
    if json {
        return show::json(
            screen,
            &json!({
                "era": era(server),
                "revision": server.revision.as_str(),
                "server": server.implementation,
                "capabilities": server.capabilities,
                "instructions": server.instructions,
            }),
        );
    }
    Ok(show::facts(screen, &facts(server))?)
}

fn era(server: &ServerInfo) -> &'static str {
    match server.era {
        Era::Modern => "modern",
        Era::Legacy => "legacy",
    }
}

/// The server's description of itself, line by line.
pub(crate) fn facts(server: &ServerInfo) -> Vec<(&'static str, String)> {
    let name = match &server.implementation {
        Some(it) if it.display_name() != it.name => {
            format!("{} ({} {})", it.display_name(), it.name, it.version)
        }
        Some(it) => format!("{} {}", it.name, it.version),
        None => "unknown".to_owned(),
    };
    let mut facts = vec![
        ("server", name),
        ("protocol", format!("{}, {} era", server.revision.as_str(), era(server))),
        ("offers", server.capabilities.as_ref().map_or_else(|| "unknown".to_owned(), offers)),
    ];
    facts.extend(server.instructions.clone().map(|instructions| ("instructions", instructions)));
    facts
}

/// The capabilities, each with its settings.
fn offers(capabilities: &ServerCapabilities) -> String {
    let capabilities: Map<String, Value> = serde_json::to_value(capabilities)
        .ok()
        .and_then(|value| value.as_object().cloned())
        .unwrap_or_default();
    if capabilities.is_empty() {
        return "nothing".to_owned();
    }
    let described = capabilities.iter().map(|(name, settings)| {
        let on =
            settings.as_object().into_iter().flatten().filter(|(_, value)| **value != Value::Bool(false));
        let on: Vec<&str> = on.map(|(setting, _)| setting.as_str()).collect();
        if on.is_empty() { name.clone() } else { format!("{name} ({})", on.join(", ")) }
    });
    described.collect::<Vec<_>>().join(", ")
}

/// Measures the time of one request: `ping`, or `server/discover` in revisions without ping.
pub(crate) async fn ping(
    connection: &Connection,
    screen: &mut Screen,
    json: bool,
) -> Result<(), CommandError> {
    let start = Instant::now();
    let (method, result) = match connection.server.era {
        Era::Legacy => ("ping", serde_json::to_value(connection.client.ping().await?)?),
        Era::Modern => {
            let result = connection.client.request::<Discover>(DiscoverParams::new()).await?;
            ("server/discover", serde_json::to_value(result)?)
        }
    };
    let elapsed = start.elapsed();
    if json {
        return show::json(screen, &result);
    }
    screen.line(format!("{method} answered in {:.1} ms", elapsed.as_secs_f64() * 1000.0))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_listed_with_their_enabled_settings() {
        let json = r#"{"tools":{"listChanged":true},"resources":{"subscribe":false},"logging":{}}"#;
        let capabilities: ServerCapabilities = serde_json::from_str(json).unwrap();
        let text = offers(&capabilities);
        for part in ["tools (listChanged)", "resources", "logging"] {
            assert!(text.contains(part) && !text.contains("subscribe"), "{text}");
        }
        assert_eq!(offers(&ServerCapabilities::new()), "nothing");
    }
}
