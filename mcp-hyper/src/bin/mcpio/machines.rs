//! The machines of a trace with secrets: `mcpio replay` runs them again.

use mcp_proto::trace_file::{MachineRecord, Trace};
use mcp_proto::transport::{ReplayError, replay};
use serde_json::json;

use crate::error::{CommandError, Result};
use crate::show;
use crate::terminal::{BAD, GOOD, Screen, Text, styled};

/// The most characters of a step that are shown.
const MOST_SHOWN: usize = 2000;

/// Runs the machines of a trace with secrets again.
pub(crate) fn run(trace: &Trace, screen: &mut Screen) -> Result {
    let report = match replay(trace) {
        Ok(report) => report,
        Err(ReplayError::Different(difference)) => {
            let (then, here) = (Some(&difference.recorded), difference.replayed.as_ref());
            let place = difference.record;
            if screen.is_json() {
                show::json(screen, &json!({ "record": place, "then": side(then), "here": side(here) }))?;
            } else {
                screen.line(styled(BAD, format_args!("record {place} differs")))?;
                screen.line(Text::block(&format!("then: {}\nhere: {}", side(then), side(here))))?;
            }
            return Err(CommandError::in_result("a machine did something else"));
        }
        Err(error) => return Err(CommandError::usage(error)),
    };
    let (machines, steps) = (report.machines, report.steps);
    if screen.is_json() {
        show::json(
            screen,
            &json!({ "machines": machines, "steps": steps, "unfinished": report.unfinished }),
        )?;
    } else {
        let them = if machines == 1 { "machine" } else { "machines" };
        screen.line(styled(GOOD, format_args!("{machines} {them} did the same again, in {steps} steps")))?;
    }
    match report.unfinished.first() {
        None => Ok(()),
        Some((connection, _, what)) => Err(CommandError::in_result(&format!(
            "connection {connection} was not run to its end: the trace does not have {what}"
        ))),
    }
}

/// What a machine did, on one side.
fn side(record: Option<&MachineRecord>) -> String {
    let Some(record) = record else { return "nothing".into() };
    let text = format!("{:?}", record.step);
    let shown: String = text.chars().take(MOST_SHOWN).collect();
    let rest = if shown.len() < text.len() { "…" } else { "" };
    let time = |nanos: Option<u64>| nanos.map_or("never".into(), |nanos| format!("{nanos} ns"));
    let now = record.now.map(|now| format!(", at {now} ns")).unwrap_or_default();
    format!("{shown}{rest}{now}, with the next timeout due before: {}", time(record.due))
}
