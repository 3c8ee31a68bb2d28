//! The lines of servers in configuration files.

use alloc::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::entry::SERVER_TABLES;
use super::syntax::normal;
use crate::prelude::*;
use crate::rpc::json_reader::{NotJson, Reader};

/// The line on which the name of each server stands, from 1.
pub(super) type ServerLines = BTreeMap<String, usize>;

/// Finds the servers of the document to which these names of members lead, in JSON that was read.
pub(super) fn of_json(json: &str, path: &[&str]) -> ServerLines {
    let mut names = Vec::new();
    // A text that is not valid has an error already.
    let _ = read_document(&mut Reader::new(json), path, &mut names);
    lines(json, names)
}

/// Finds the servers in TOML that was read.
pub(super) fn of_toml(text: &str) -> ServerLines {
    let Ok(document) = DeTable::parse(text) else { return ServerLines::new() };
    let tables =
        document.get_ref().iter().filter_map(|(name, table)| match (&**name.get_ref(), table.get_ref()) {
            ("mcp", DeValue::Table(settings)) => settings.get("servers").map(|table| table.get_ref()),
            (name, table) => SERVER_TABLES.contains(&name).then_some(table),
        });
    let servers = tables.flat_map(|table| match table {
        DeValue::Table(servers) => servers.keys().collect(),
        _ => Vec::new(),
    });
    lines(text, servers.map(|name| (name.get_ref().to_string(), name.span().start)).collect())
}

/// The names of servers, and where they stand.
type Names = Vec<(String, usize)>;

/// Counts the lines before each name; the first of a repeated name counts.
fn lines(text: &str, mut names: Names) -> ServerLines {
    names.sort_by_key(|(_, at)| *at);
    let (mut line, mut counted) = (1_usize, 0);
    let mut lines = ServerLines::new();
    for (name, at) in names {
        let between = text.as_bytes().get(counted..at).unwrap_or_default();
        line = line.saturating_add(memchr::memchr_iter(b'\n', between).count());
        counted = at;
        lines.entry(name).or_insert(line);
    }
    lines
}

fn read_document(reader: &mut Reader<'_>, path: &[&str], names: &mut Names) -> Result<(), NotJson> {
    each_member(reader, |reader, name, _| match (path.split_first(), name) {
        (Some((step, rest)), name) if normal(name) == **step => read_document(reader, rest, names),
        (None, "mcp") => each_member(reader, |reader, name, _| match name {
            "servers" => read_servers(reader, names),
            _ => reader.skip().map(drop),
        }),
        (None, table) if SERVER_TABLES.contains(&table) => read_servers(reader, names),
        _ => reader.skip().map(drop),
    })
}

fn read_servers(reader: &mut Reader<'_>, names: &mut Names) -> Result<(), NotJson> {
    each_member(reader, |reader, name, at| {
        names.push((name.into(), at));
        reader.skip().map(drop)
    })
}

/// Calls `read` at the value of each member, with its name and the name's offset. Skips a value that is no object.
fn each_member<'a>(
    reader: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>, &str, usize) -> Result<(), NotJson>,
) -> Result<(), NotJson> {
    if reader.first_byte()? != b'{' {
        return reader.skip().map(drop);
    }
    reader.enter(b'{')?;
    let (mut is_first, mut before) = (true, reader.at());
    while let Some(name) = reader.name(&mut is_first)? {
        let quote = reader.since(before).find('"').unwrap_or_default();
        read(reader, &name, before.saturating_add(quote))?;
        before = reader.at();
    }
    Ok(())
}
