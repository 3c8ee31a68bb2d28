//! Reads `tools/list` results: mirrored parameters, annotations, and tools to exclude.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::{ParamHeaderError, ParamHeaders};
use crate::rpc::Raw;
use crate::rpc::members::collect_members;

/// A `tools/list` result, read by an HTTP client.
#[derive(Debug)]
pub(crate) struct ToolList {
    /// The result without the tools that cannot be called.
    pub(crate) result: Raw,
    pub(crate) tools: Vec<ListedTool>,
    pub(crate) excluded: Vec<ExcludedTool>,
}

/// A tool that can be called.
#[derive(Debug)]
pub(crate) struct ListedTool {
    pub(crate) name: Box<str>,
    pub(crate) headers: Option<ParamHeaders>,
    /// The server declares that the tool changes nothing.
    pub(crate) read_only: bool,
    /// The server declares that calling the tool twice has no more effect than calling it once.
    pub(crate) idempotent: bool,
}

/// A tool that cannot be called over HTTP, and why.
#[derive(Debug)]
pub(crate) struct ExcludedTool {
    pub(crate) name: String,
    pub(crate) reason: ParamHeaderError,
}

impl ToolList {
    /// Reads a result. Anything other than a list of tools stays unchanged, and the decoder rejects it.
    pub(crate) fn read(result: Raw) -> Self {
        let (mut tools, mut excluded) = (Vec::new(), Vec::new());
        let rewritten = pick_members(result.as_str(), ["tools"]).and_then(|[listed]| {
            let listed = listed?;
            let entries: Vec<&RawValue> = serde_json::from_str(listed).ok()?;
            let mut kept = Vec::with_capacity(entries.len());
            for entry in entries {
                match read_tool(entry.get()) {
                    Ok(tool) => {
                        tools.extend(tool);
                        kept.push(entry.get());
                    }
                    Err(tool) => excluded.push(tool),
                }
            }
            if excluded.is_empty() { None } else { rewrite(result.as_str(), listed, &kept) }
        });
        Self { result: rewritten.unwrap_or(result), tools, excluded }
    }
}

/// Writes the result with the `kept` tools in place of the `listed` ones.
fn rewrite(result: &str, listed: &str, kept: &[&str]) -> Option<Raw> {
    let start = (listed.as_ptr() as usize).checked_sub(result.as_ptr() as usize)?;
    let end = start.checked_add(listed.len())?;
    let mut text = String::with_capacity(result.len());
    text.push_str(result.get(..start)?);
    text.push('[');
    for (number, tool) in kept.iter().enumerate() {
        text.push_str(if number == 0 { "" } else { "," });
        text.push_str(tool);
    }
    text.push(']');
    text.push_str(result.get(end..)?);
    Some(Raw::from_scan(text.into_bytes().into()))
}

/// Reads an entry; `None` if it is no tool that a call could name.
fn read_tool(entry: &str) -> Result<Option<ListedTool>, ExcludedTool> {
    let Some([name, schema, annotations]) = pick_members(entry, ["name", "inputSchema", "annotations"])
    else {
        return Ok(None);
    };
    let name = name.and_then(|name| serde_json::from_str::<String>(name).ok());
    let headers = match schema.map(ParamHeaders::from_schema) {
        None => None,
        Some(Ok(headers)) => headers,
        //= C4.11 "Exclude a tool from tools/list results"
        Some(Err(reason)) => return Err(ExcludedTool { name: name.unwrap_or_default(), reason }),
    };
    let hints = annotations.and_then(|hints| pick_members(hints, ["readOnlyHint", "idempotentHint"]));
    let [read_only, idempotent] =
        hints.unwrap_or_default().map(|hint| hint.is_some_and(|hint| hint == "true"));
    Ok(name.map(|name| ListedTool { name: name.into(), headers, read_only, idempotent }))
}

/// Reads the raw values of the named members of an object; of a repeated member, the last. `None` if it is no object.
fn pick_members<'a, const COUNT: usize>(
    text: &'a str,
    names: [&'static str; COUNT],
) -> Option<[Option<&'a str>; COUNT]> {
    let mut found = [None; COUNT];
    collect_members(text, &names, &mut found).ok()?;
    Some(found)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    const MARKED: &str = r#"{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#;
    const INVALID: &str = r#"{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#;

    fn read(result: &str) -> ToolList {
        ToolList::read(Raw::new(result).expect("valid JSON"))
    }

    /// C4.11, C4.12.
    #[test]
    fn reader_excludes_and_names_a_tool_with_an_invalid_mark() {
        let list = read(
            &r#" {"ttlMs" : 1, "tools" : [ {"name":"bad","inputSchema":INVALID} , {"name":"good","inputSchema":MARKED},
                {"name":"worse","inputSchema":INVALID}, {"x":[1, 2],"name":"plain"}] , "nextCursor":"c"}"#
                .replace("INVALID", INVALID)
                .replace("MARKED", MARKED),
        );
        let kept = r#" {"ttlMs" : 1, "tools" : [{"name":"good","inputSchema":MARKED},{"x":[1, 2],"name":"plain"}] , "nextCursor":"c"}"#;
        assert_eq!(list.result.as_str(), kept.replace("MARKED", MARKED));
        let excluded: Vec<_> = list.excluded.iter().map(|tool| &*tool.name).collect();
        assert_eq!(excluded, ["bad", "worse"]);
        assert!(list.excluded[0].reason.to_string().contains("properties.a"));
        let kept: Vec<_> = list.tools.iter().map(|tool| (&*tool.name, tool.headers.is_some())).collect();
        assert_eq!(kept, [("good", true), ("plain", false)]);
        assert!(list.result.validate().is_ok());
    }

    #[test]
    fn list_of_invalid_tools_is_empty() {
        let list = read(&r#"{"tools":[{"name":"bad","inputSchema":INVALID}]}"#.replace("INVALID", INVALID));
        assert_eq!(list.result.as_str(), r#"{"tools":[]}"#);
    }

    #[test]
    fn reader_does_not_copy_a_list_without_invalid_tools() {
        let result = Raw::new(r#"{"tools":[{"name":"a","inputSchema":{}}]}"#).expect("valid JSON");
        let list = ToolList::read(result.clone());
        assert_eq!(list.result.as_bytes().as_ptr(), result.as_bytes().as_ptr());
    }

    #[test]
    fn hints_of_a_tool_count_only_if_they_are_true() {
        let list = read(
            r#"{"tools":[{"name":"a","annotations":{"readOnlyHint":true}},
                {"name":"b","annotations":{"idempotentHint":true,"readOnlyHint":"true"}},
                {"name":"c","annotations":{"idempotentHint":1,"readOnlyHint":false}},
                {"name":"d","annotations":[true,true]},{"name":"e"}]}"#,
        );
        let hints: Vec<_> = list.tools.iter().map(|tool| (tool.read_only, tool.idempotent)).collect();
        assert_eq!(hints, [(true, false), (false, true), (false, false), (false, false), (false, false)]);
    }

    #[test]
    fn reader_does_not_change_other_results() {
        for odd in [
            "{}",
            "[]",
            "null",
            r#"{"tools":{}}"#,
            r#"{"tools":null}"#,
            r#"{"tools":[1,null,"x",[]]}"#,
            r#"{"tools":[{"name":1},{}]}"#,
        ] {
            let list = read(odd);
            assert_eq!(list.result.as_str(), odd);
            assert!(list.tools.is_empty() && list.excluded.is_empty());
        }
    }

    #[test]
    fn reader_takes_the_last_of_duplicate_members() {
        let list = read(
            &r#"{"tools":[{"name":"x"}],"tools":[{"name":"a","name":"b","inputSchema":INVALID,"inputSchema":{}}]}"#
                .replace("INVALID", INVALID),
        );
        assert_eq!(list.tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["b"]);
        assert!(list.excluded.is_empty());
    }
}
