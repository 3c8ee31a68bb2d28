//! Fuzzing of traces.

use alloc::collections::BTreeSet;
use core::time::Duration;

use crate::UnixTime;
use crate::prelude::*;
use crate::trace_file::{Sender, Trace, TraceEvent, TraceHeader, TraceRecord, TraceReport, TracedFrame};

/// Reads the input as a trace, and its lines as the records of one and as messages of alternating sides.
///
/// Nothing panics. Each line is a record or is named as unread; each record is read as it was written, in one line; a report
/// names only what the trace has, and is the same for what was written again.
pub fn trace_file(data: &[u8]) {
    if let Ok(trace) = Trace::parse(data) {
        check(&trace, data.split(|byte| *byte == b'\n').count());
    }
    let lines = data.split(|byte| *byte == b'\n');
    let header = TraceHeader::new("fuzz", UnixTime::EPOCH, false);
    let file = [&header.to_line(), data].concat();
    check(&Trace::parse(&file).expect("it has a header"), lines.clone().count() + 1);
    let records = lines.zip(0_u32..).map(|(line, number)| record(number, line)).collect::<Vec<_>>();
    let count = records.len();
    check(&Trace { header, records, unread: Vec::new() }, count);
}

/// A message of a connection: on a stream, as a request over HTTP, or as a part of the response to it.
fn record(number: u32, line: &[u8]) -> TraceRecord {
    let (kind, line) = line.split_first().map_or((0, line), |(kind, line)| (*kind, line));
    // Every 8th is cut.
    let frame = TracedFrame::new(line, if kind % 8 == 7 { usize::MAX } else { 0 });
    let exchange = u64::from(kind / 32 % 4);
    let event = match (kind % 4, exchange) {
        (0, 0) => TraceEvent::Opened { server: "a".into(), transport: "stdio".into() },
        (_, 0) => {
            let from = if kind % 2 == 0 { Sender::Client } else { Sender::Server };
            TraceEvent::Message { from, exchange: None, frame }
        }
        (0, _) => TraceEvent::Ended { exchange, failure: None },
        (1, _) => TraceEvent::Message { from: Sender::Server, exchange: Some(exchange), frame },
        _ => {
            let (method, url) = ("POST".into(), "http://localhost/mcp".into());
            TraceEvent::Request { exchange, method, url, headers: Vec::new(), frame }
        }
    };
    TraceRecord::new(Duration::from_micros(number.into()), u64::from(kind / 16 % 2), event)
}

fn check(trace: &Trace, lines: usize) {
    assert!(trace.records.len() + trace.unread.len() <= lines, "a line is several records");
    let mut written = trace.header.to_line();
    for record in &trace.records {
        let line = record.to_line();
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1), "a record is no line");
        written.extend(line);
    }
    let again = Trace::parse(&written).expect("it was written by this crate");
    assert_eq!((&again.header, &again.records), (&trace.header, &trace.records), "it is read differently");
    assert!(again.unread.is_empty());
    let report = trace.report();
    check_report(trace, &report);
    assert_eq!(format!("{report:?}"), format!("{:?}", again.report()), "the report is another one");
}

fn check_report(trace: &Trace, report: &TraceReport) {
    let numbers: BTreeSet<_> = report.connections.iter().map(|it| it.number).collect();
    let times: BTreeSet<_> = trace.records.iter().map(TraceRecord::at).collect();
    let is_known = |connection| numbers.contains(&connection);
    assert!(trace.records.iter().all(|record| is_known(record.connection)));
    for request in &report.requests {
        assert!(is_known(request.connection), "a request of no connection");
        assert!(times.contains(&request.start), "a request at no time");
        assert!(request.on_behalf_of.is_none_or(|place| place < report.requests.len()));
    }
    for finding in &report.findings {
        assert!(is_known(finding.connection), "a finding of no connection");
        assert!(!finding.breach.row(finding.sender).is_empty() && !finding.breach.page().is_empty());
    }
}
