//! Machines that run again.

#[cfg(feature = "http")]
mod http_server;

use super::*;
use crate::UnixTime;
use crate::peer::HeldPiece;
use crate::peer::client::{self, CacheContext};
use crate::peer::server::{Answer, Event};
use crate::peer::{LostReason, RequestOptions};
use crate::schema::{
    CacheHint, CallTool, CallToolParams, CallToolResult, Extension, Implementation, Meta, RootsListChanged,
    ServerCapability,
};
use crate::trace_file::{TraceHeader, TraceRecord, TracedFrame};

fn info() -> Implementation {
    Implementation::new("test", "1")
}

/// The trace of what machines with this recorder do.
fn traced(act: impl FnOnce(MachineRecorder)) -> Trace {
    let file = Arc::new(Mutex::new(TraceHeader::new("test", UnixTime::EPOCH, false).to_line()));
    let sink = file.clone();
    act(MachineRecorder::new(move |record| {
        let record = TraceRecord::new(Default::default(), 7, TraceEvent::Machine(record));
        sink.lock().unwrap().extend(record.to_line());
    }));
    let file = file.lock().unwrap();
    Trace::parse(&file).unwrap()
}

/// The trace of a client that is given every command.
fn recorded_client() -> Trace {
    traced(|recorder| {
        let mut config = ClientConfig::new(info());
        config.recorder = Some(recorder);
        config.extensions.push(Extension::new("com.example/a").unwrap());
        let mut client = StreamClient::new(config);
        let mut now = Instant::ORIGIN;
        let mut params = CallToolParams::new("t");
        params.meta.insert("com.example/k", 1);
        let options = RequestOptions::default().meta(Meta::new());
        let first = client.at(now).request::<CallTool>(&params, options.clone()).unwrap();
        client.at(now).set_cache_context(CacheContext::new("a"));
        assert!(client.poll_link().is_some());
        client.handle_open(now);
        let mut out = Vec::new();
        assert!(client.poll_transmit(&mut out));
        now = now + core::time::Duration::from_millis(3);
        for chunk in [
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"supportedVersions\":",
            "[\"2026-07-28\"],\"capabilities\":{\"tools\":{}}}}\n\u{1}no\n",
        ] {
            client.handle_input(now, Bytes::from_static(chunk.as_bytes()));
        }
        while client.poll_event().is_some() {}
        assert!(client.poll_transmit(&mut out));
        client.handle_written(now);
        client.at(now).cancel(first, Some("enough"));
        _ = client.at(now).notify::<RootsListChanged>(&Default::default());
        client.handle_timeout(client.poll_timeout().unwrap());
        client.at(now).abort(LostReason::Failed("x".into()));
        while client.poll_event().is_some() {}
        client.handle_eof(now, "over");
    })
}

#[test]
fn client_does_the_same_again() {
    let trace = recorded_client();
    let report = replay_machines(&trace).unwrap();
    assert_eq!((report.machines, report.steps), (1, trace.records.len()));
    assert!(report.steps > 20);
}

/// What layers hold back and change comes back as they left it.
#[test]
fn layers_leave_the_same_again() {
    let trace = traced(|recorder| {
        let now = Instant::ORIGIN;
        let mut config = ClientConfig::new(info());
        config.recorder = Some(recorder.clone());
        let mut client = StreamClient::new(config.clone());
        client.hold();
        assert!(client.poll_link().is_some());
        client.handle_open(now);
        client.handle_input(now, Bytes::from_static(b"\xff\n{}\n"));
        client.handle_eof(now, "over");
        while let Some(mut piece) = client.poll_held() {
            if let HeldPiece::Block(block) = &mut piece {
                block.extend(b"{}\n");
            }
            client.release(now, piece);
            _ = client.poll_transmit(&mut Vec::new());
        }
        client.stop_holding();
        while client.poll_event().is_some() {}
        #[cfg(feature = "http")]
        {
            let mut client = HttpClient::new(HttpClientConfig::new(config, "http://localhost"), now).unwrap();
            client.hold();
            let events = b"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"\"}}\n\n";
            for _ in 0..20 {
                while let Some(piece) = client.poll_held() {
                    client.release(now, piece);
                }
                if let Some(crate::transport::http::client::Action::Open(request)) = client.poll_action() {
                    let id = request.exchange;
                    client.handle_head(now, id, 200, &[("Content-Type", "text/event-stream")]);
                    client.handle_body(now, id, Bytes::from_static(events));
                    client.handle_end(now, id, crate::transport::http::ExchangeEnd::Complete);
                }
            }
        }
    });
    let report = replay_machines(&trace).unwrap();
    assert_eq!(report.steps, trace.records.len());
    assert!(report.steps > 40 && report.unfinished.is_empty(), "{report:?}");
}

/// Any other step at any place is the first difference.
#[test]
fn first_difference_is_shown_from_both_sides() {
    let original = recorded_client();
    for index in 1..original.records.len() {
        let mut trace = original.clone();
        let TraceEvent::Machine(step) = &mut trace.records[index].event else { panic!() };
        match &mut step.step {
            MachineStep::Event(text) | MachineStep::Link(text) | MachineStep::Returned(text) => {
                text.push('x');
            }
            MachineStep::Transmit(sent) => *sent = Some(TracedFrame::whole(b"x")),
            // The timeout before it was another one.
            _ => step.due = Some(1),
        }
        let recorded = step.clone();
        let Err(MachineReplayError::Different(difference)) = replay_machines(&trace) else {
            panic!("{recorded:?}")
        };
        assert_eq!((difference.record, &difference.recorded), (index, &recorded));
        assert_ne!(difference.replayed, Some(recorded));
    }
    let mut trace = original;
    let count = trace.records.len();
    trace.records.push(trace.records[count - 2].clone());
    let error = replay_machines(&trace).unwrap_err();
    let MachineReplayError::Different(difference) = &error else { panic!("{error}") };
    assert_eq!(difference.replayed, None);
}

/// The first step of the trace after a change.
fn changed(change: impl FnOnce(&mut MachineOrigin)) -> Result<MachineReplayReport, MachineReplayError> {
    let mut trace = recorded_client();
    let TraceEvent::Machine(step) = &mut trace.records[0].event else { panic!() };
    let MachineStep::Created(origin) = &mut step.step else { panic!() };
    change(origin);
    replay_machines(&trace)
}

#[test]
fn what_cannot_run_here_is_a_typed_error() {
    assert!(matches!(changed(|origin| origin.version.push('1')), Err(MachineReplayError::Version { .. })));
    assert!(matches!(changed(|origin| origin.features.clear()), Err(MachineReplayError::Version { .. })));
    let error = changed(|origin| {
        origin.version = "0.0.1".into();
        origin.features = ["std", "http"].map(String::from).into();
    });
    let shown = error.unwrap_err().to_string();
    let expected = "the trace is of version 0.0.1 with std, http; this program has version ";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(matches!(changed(|origin| origin.kind.push('1')), Err(MachineReplayError::Kind { .. })));
    assert!(matches!(changed(|origin| origin.config.clear()), Err(MachineReplayError::Unreadable { .. })));
    let mut trace = recorded_client();
    trace.records.remove(0);
    assert_eq!(replay_machines(&trace), Err(MachineReplayError::NoOrigin { connection: 7 }));
    trace.records.clear();
    assert_eq!(replay_machines(&trace), Err(MachineReplayError::NoMachines { redacted: false }));
    trace.records.push(TraceRecord::new(Default::default(), 0, TraceEvent::Lost { records: 3 }));
    assert_eq!(replay_machines(&trace), Err(MachineReplayError::Lost { records: 3 }));
    let trace = traced(|recorder| {
        let mut config = ServerConfig::new(info());
        config.cache_by_method.insert("com.example/own", CacheHint::default());
        config.recorder = Some(recorder);
        StreamServer::new(config);
    });
    let what = "lifetimes for methods of its own".into();
    assert_eq!(replay_machines(&trace), Err(MachineReplayError::Missing { what }));
}

/// Contract 13, for both sides of a channel.
#[test]
fn channel_machines_do_the_same_again() {
    let trace = traced(|recorder| {
        let now = Instant::ORIGIN;
        let (mut client, mut server) = (ClientConfig::new(info()), ServerConfig::new(info()));
        (client.recorder, server.recorder) = (Some(recorder.clone()), Some(recorder));
        server.capabilities = server.capabilities.with(ServerCapability::Tools);
        let (mut client, mut server) = (ChannelClient::new(client), ChannelServer::new(server));
        assert!(client.poll_link().is_some());
        client.handle_open(now);
        client.at(now).request::<CallTool>(&CallToolParams::new("t"), RequestOptions::default()).unwrap();
        let mut outcomes = 0;
        for _ in 0..4 {
            while let Some(message) = client.poll_transmit() {
                server.handle_message(now, &message);
            }
            while let Some(event) = server.poll_event() {
                if let Event::Request { id, .. } = event {
                    server.at(now).respond(id, Answer::Result(&CallToolResult::text("done")));
                }
            }
            while let Some(message) = server.poll_transmit() {
                client.handle_message(now, &message);
            }
            while let Some(event) = client.poll_event() {
                outcomes += usize::from(matches!(event, client::Event::Outcome { .. }));
            }
        }
        assert_eq!(outcomes, 1);
        client.handle_message(now, &Bytes::from_static(b"\xff"));
        client.handle_eof(now, "over");
        server.handle_eof(now, "over");
        while server.poll_event().is_some() {}
    });
    let report = replay_machines(&trace).unwrap();
    assert_eq!((report.machines, report.steps, report.unfinished.len()), (2, trace.records.len(), 0));
    assert!(assert_outputs_are_compared(&trace) >= 4);
}

/// Checks that any other output is the first difference. Returns the number of outputs.
fn assert_outputs_are_compared(original: &Trace) -> usize {
    let mut outputs = 0;
    for index in 0..original.records.len() {
        let mut trace = original.clone();
        let TraceEvent::Machine(step) = &mut trace.records[index].event else { panic!() };
        match &mut step.step {
            MachineStep::Transmit(frame @ Some(_)) => *frame = None,
            MachineStep::Event(text) | MachineStep::Returned(text) => text.push('x'),
            MachineStep::Head { status, .. } => *status += 1,
            MachineStep::WholeBody { body, .. } => *body = TracedFrame::whole(b"x"),
            MachineStep::Body { piece, .. } => *piece = TracedFrame::whole(b"x"),
            MachineStep::Denied { question } => *question += 1,
            _ => continue,
        }
        outputs += 1;
        let error = replay_machines(&trace).unwrap_err();
        let MachineReplayError::Different(difference) = &error else { panic!("{error}") };
        assert!(difference.record <= index, "{difference}");
    }
    outputs
}
