use super::*;
use crate::UnixTime;
use crate::trace_file::TraceHeader;

/// The report on messages of a connection on standard streams, one each microsecond.
fn report(messages: &[(Sender, &str)]) -> TraceReport {
    let opened = TraceEvent::Opened { server: "demo".into(), transport: "stdio".into() };
    let messages = messages.iter().map(|(from, text)| TraceEvent::Message {
        from: *from,
        exchange: None,
        frame: TracedFrame::new(*text, text.len()),
    });
    trace([opened].into_iter().chain(messages)).report()
}

fn trace(events: impl IntoIterator<Item = TraceEvent>) -> Trace {
    let record = |(event, at)| TraceRecord::new(Duration::from_micros(at), 1, event);
    let header = TraceHeader::new("test", UnixTime::EPOCH, true);
    Trace { header, records: events.into_iter().zip(0..).map(record).collect(), unread: Vec::new() }
}

const C: Sender = Sender::Client;
const S: Sender = Sender::Server;
const INITIALIZE: (Sender, &str) =
    (C, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#);
const INITIALIZED: (Sender, &str) =
    (S, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#);

#[test]
fn each_request_has_its_outcome() {
    let report = report(&[
        INITIALIZE,
        INITIALIZED,
        (C, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{}}}"#),
        (C, r#"{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"demo://a"}}"#),
        (S, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
        (S, r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32002,"message":"no such resource"}}"#),
        (S, r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#),
        (C, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
        (C, r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#),
        (C, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#),
        (C, r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#),
    ]);
    let refused = RequestOutcome::Refused { code: -32002, message: "no such resource".into() };
    let outcomes: Vec<_> =
        report.requests.iter().map(|it| (it.sender, &*it.method, it.outcome.clone())).collect();
    let expected = [
        (C, "initialize", RequestOutcome::Answered),
        (C, "tools/call", RequestOutcome::ToolFailed),
        (C, "resources/read", refused),
        (S, "ping", RequestOutcome::Answered),
        (C, "ping", RequestOutcome::Cancelled),
        (C, "ping", RequestOutcome::Unanswered),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(report.requests[1].name.as_deref(), Some("add"));
    assert_eq!(report.requests[1].duration(), Some(Duration::from_micros(4)));
    assert_eq!((report.requests[1].record, report.requests[1].end_record), (3, Some(7)));
    assert_eq!(report.connections[0].revision, Revision::parse("2025-11-25"));
    assert_eq!(report.findings, []);
}

#[test]
fn each_breach_is_found_with_its_sender() {
    let call =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":7}}}"#;
    let progress = |value: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":7,\"progress\":{value}}}}}"
        )
    };
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
    let modern = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let (half, one) = (progress("0.5"), progress("1"));
    type Case<'a> = (&'a [(Sender, &'a str)], &'a [(Sender, Breach)]);
    let cases: [Case<'_>; 9] = [
        (&[(S, "Server is ready")], &[(S, Breach::NotAMessage)]),
        (&[(C, ping), (C, ping)], &[(C, Breach::IdReused)]),
        (&[INITIALIZE, INITIALIZED, (C, ping), (S, answer), (C, ping)], &[(C, Breach::IdReused)]),
        (&[(C, modern), (S, answer), (C, modern)], &[]),
        (&[(S, answer)], &[(S, Breach::AnswerToNothing)]),
        (&[(C, modern), (S, ping)], &[(S, Breach::WrongDirection)]),
        (&[(C, call)], &[(C, Breach::BeforeHandshake)]),
        (
            &[INITIALIZE, INITIALIZED, (C, call), (S, &half), (S, &half), (S, &one), (S, answer)],
            &[(S, Breach::ProgressNotRising)],
        ),
        (
            &[INITIALIZE, INITIALIZED, (S, &half), (C, call), (S, answer), (S, &half)],
            &[(S, Breach::ProgressOfNothing), (S, Breach::ProgressOfNothing)],
        ),
    ];
    for (messages, expected) in cases {
        let found: Vec<_> = report(messages).findings.iter().map(|it| (it.sender, it.breach)).collect();
        assert_eq!(found, expected, "{messages:?}");
    }
}

#[test]
fn exchanges_that_carry_no_messages_are_passed_over() {
    let message = |exchange, text: &str| TraceEvent::Message {
        from: S,
        exchange: Some(exchange),
        frame: TracedFrame::new(text, text.len()),
    };
    let request = |exchange, text: &str| TraceEvent::Request {
        exchange,
        method: "POST".into(),
        url: "http://localhost/mcp".into(),
        headers: Vec::new(),
        frame: TracedFrame::new(text, text.len()),
    };
    let report = trace([
        request(1, "grant_type=refresh_token"),
        message(1, r#"{"access_token":"[redacted]"}"#),
        request(2, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
        message(2, ": comment"),
        message(2, r#"data: {"jsonrpc":"2.0","id":1,"result":{}}"#),
        message(2, ""),
    ])
    .report();
    assert_eq!(report.findings, []);
    assert_eq!(report.requests[0].outcome, RequestOutcome::Answered);
}

#[test]
fn request_over_http_is_answered_once_and_in_its_exchange() {
    let request = |exchange| {
        TraceEvent::Request {
        exchange,
        method: "POST".into(),
        url: "http://localhost/mcp".into(),
        headers: Vec::new(),
        frame: TracedFrame::new(
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            0,
        ),
    }
    };
    let answer = |exchange, kind: &str| TraceEvent::Message {
        from: S,
        exchange: Some(exchange),
        frame: TracedFrame::new(
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"{kind}"}}}}"#).as_bytes(),
            0,
        ),
    };
    let opened = TraceEvent::Opened { server: "demo".into(), transport: "http".into() };
    let (asked, complete) = ("input_required", "complete");
    let events = [opened, request(1), request(2), answer(1, asked), answer(2, complete), answer(1, complete)];
    let report = trace(events).report();
    let outcomes: Vec<_> = report.requests.iter().map(|it| &it.outcome).collect();
    assert_eq!(outcomes, [&RequestOutcome::InputRequired, &RequestOutcome::Answered]);
    let breaches: Vec<_> = report.findings.iter().map(|it| (it.sender, it.breach)).collect();
    assert_eq!(breaches, [(S, Breach::AnswerToNothing)]);
}

#[test]
fn message_that_is_cut_still_ends_its_request() {
    let cut = |from, text: &str| TraceEvent::Message {
        from,
        exchange: None,
        frame: TracedFrame::new(text, 100_000),
    };
    let report = trace([
        cut(C, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"a":"aaaa"#),
        cut(S, r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"aaaa"#),
    ])
    .report();
    assert_eq!(report.requests[0].outcome, RequestOutcome::Answered);
    assert_eq!(report.findings, []);
}

#[test]
fn what_a_trace_lacks_is_no_breach() {
    let message = |text: &str| TraceEvent::Message {
        from: S,
        exchange: None,
        frame: TracedFrame::new(text, text.len()),
    };
    let answer = message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let progress = message(
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#,
    );
    let opened = TraceEvent::Opened { server: "demo".into(), transport: "stdio".into() };
    for missing in [TraceEvent::Lost { records: 1 }, TraceEvent::Unknown] {
        let is_lost = missing != TraceEvent::Unknown;
        let events = [opened.clone(), missing, progress.clone(), answer.clone()];
        assert_eq!(trace(events).report().findings.is_empty(), is_lost);
    }
    assert_eq!(trace([progress, answer]).report().findings, []);
}

#[test]
fn members_of_other_types_hide_no_others() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"name":{"a":1},"uri":5,"_meta":{"progressToken":7}}}"#;
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#;
    let report = report(&[INITIALIZE, INITIALIZED, (C, call), (S, progress)]);
    assert_eq!(report.findings, []);
    assert_eq!((report.requests[1].progress, &report.requests[1].name), (1, &None));
}

#[test]
fn messages_have_their_contents_and_the_request_they_belong_to() {
    let call = |id: u8| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"a","_meta":{{"progressToken":{id}}}}}}}"#
        )
    };
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
    let refusal = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no"}}"#;
    let (first, second) = (call(1), call(2));
    let report = report(&[
        INITIALIZE,
        INITIALIZED,
        (C, &first),
        (C, &second),
        (S, progress),
        (S, log),
        (S, ask),
        (S, refusal),
    ]);
    let belong: Vec<_> = report.notifications.iter().map(|it| (&*it.method, it.on_behalf_of)).collect();
    assert_eq!(belong, [("notifications/progress", Some(1)), ("notifications/message", Some(2))]);
    assert_eq!(report.requests[3].on_behalf_of, Some(2));
    assert!(report.requests[1].params.as_ref().is_some_and(|it| it.as_str().contains("progressToken")));
    assert!(
        report.requests[1].answer.is_none() && report.requests[0].answer.as_ref().is_some_and(Result::is_ok)
    );
    assert!(matches!(&report.requests[2].answer, Some(Err(error)) if error.code == -32602));
}

#[test]
fn slow_requests_take_far_longer_than_the_usual_ones() {
    let pings: [_; 7] =
        core::array::from_fn(|id| alloc::format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
    let mut report = report(&pings.each_ref().map(|ping| (C, &**ping)));
    let mut slow = |times: [u64; 7]| {
        for (request, time) in report.requests.iter_mut().zip(times) {
            request.end = Some(request.start + Duration::from_millis(time));
        }
        let slow = report.slow_requests();
        slow.iter().map(|it| it.duration().unwrap().as_millis()).collect::<Vec<_>>()
    };
    assert_eq!(slow([3, 900, 2, 150, 5, 4, 1200]), [1200, 900]);
    assert_eq!(slow([300, 900, 200, 150, 500, 400, 1200]), [], "half of them take as long");
    assert_eq!(TraceReport::default().slow_requests().len(), 0);
}

/// Another instance of the server has begun it, or it is older than the trace.
#[test]
fn session_may_begin_outside_of_the_trace() {
    let request = |headers: &[(&str, &str)]| TraceEvent::Request {
        exchange: 1,
        method: "POST".into(),
        url: "http://localhost/mcp".into(),
        headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        frame: TracedFrame::whole(br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
    };
    let opened = || TraceEvent::Opened { server: "demo".into(), transport: "http".into() };
    let session = [("mcp-session-id", "[id:1]"), ("mcp-protocol-version", "2025-06-18")];
    let report = trace([opened(), request(&session)]).report();
    assert_eq!(report.findings, []);
    assert_eq!(report.connections[0].revision, Revision::parse("2025-06-18"));
    assert_eq!(trace([opened(), request(&[])]).report().findings[0].breach, Breach::BeforeHandshake);
}
