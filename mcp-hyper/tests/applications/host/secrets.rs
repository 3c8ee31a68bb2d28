//! Traces show no secret, in whichever channel and spelling it passes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::{fs, iter};

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use base64::{alphabet, engine};
use mcp_hyper::WireEvent;
use mcp_hyper::host::{TraceFile, WireObserver};
use mcp_hyper::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use mcp_hyper::http::{Method, StatusCode};
use mcp_hyper::mcp_proto::redact::Redactor;
use mcp_hyper::mcp_proto::trace_file::{Trace, TraceEvent, TracedFrame};
use mcp_hyper::mcp_proto::transport::http::{ExchangeEnd, ExchangeId, SentState};
use mcp_smol::WireDirection;
use serde_json::{Value, json};

use super::testbed::*;
use crate::common::server::{bounded, until};

/// The spellings of a secret in which a peer may repeat it, each fit for the inside of a JSON string.
fn spellings(secret: &str) -> Vec<String> {
    let json_string = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let percent = |is_plain: fn(&u8) -> bool| {
        secret.bytes().fold(String::new(), |mut text, byte| {
            let _ = if is_plain(&byte) {
                write!(text, "{}", char::from(byte))
            } else {
                write!(text, "%{byte:02x}")
            };
            text
        })
    };
    let nested = json!({ "text": secret, "token": [secret] }).to_string();
    let encoded = [
        json_string(secret),
        secret.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
        json_string(&nested),
        json_string(&Value::from(nested).to_string()),
        percent(u8::is_ascii_alphanumeric),
        percent(|_| false).to_uppercase(),
    ];
    let in_base64 = ["", "a:", "me:"].iter().flat_map(|before| {
        let text = format!("{before}{secret}{before}");
        [BASE64_STANDARD.encode(&text), BASE64_URL_SAFE_NO_PAD.encode(text)]
    });
    encoded.into_iter().chain(in_base64).collect()
}

/// Decodes each escape of a text, one after the other.
fn unescaped(text: &[u8], percent: bool) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = |from: usize, to: usize| {
            let digits = str::from_utf8(rest.get(from..to)?).ok()?;
            u32::from_str_radix(digits, 16).ok()
        };
        let (bytes, length) = match (first, after.first()) {
            (b'%', _) if percent && digits(1, 3).is_some() => (vec![digits(1, 3).unwrap() as u8], 3),
            (b'\\', Some(b'u')) if !percent && digits(2, 6).and_then(char::from_u32).is_some() => {
                (char::from_u32(digits(2, 6).unwrap()).unwrap().to_string().into_bytes(), 6)
            }
            (b'\\', Some(b'n')) if !percent => (vec![b'\n'], 2),
            (b'\\', Some(other)) if !percent => (vec![*other], 2),
            _ => (vec![*first], 1),
        };
        decoded.extend(bytes);
        rest = &rest[length..];
    }
    decoded
}

/// What the runs of Base64 in a text say, from each of the places where a group may begin.
fn base64_in(text: &[u8]) -> Vec<Vec<u8>> {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let engine: GeneralPurpose = engine::GeneralPurpose::new(&alphabet::STANDARD, config);
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    let runs = text.split(|byte| !is_base64(byte)).filter(|run| run.len() >= 8);
    let standard = |run: &[u8]| -> Vec<u8> {
        run.iter()
            .map(|byte| match byte {
                b'-' => b'+',
                b'_' => b'/',
                other => *other,
            })
            .collect()
    };
    let decoded = runs.flat_map(|run| {
        let run = standard(run);
        (0..4).map(move |start| run[start..].to_vec()).collect::<Vec<_>>()
    });
    decoded
        .filter_map(|run| engine.decode(&run[..run.len() - usize::from(run.len() % 4 == 1)]).ok())
        .collect()
}

/// Whether a text has the secret, plain or in any spelling of spellings.
fn reveals(text: &[u8], secret: &[u8], depth: usize) -> bool {
    if text.windows(secret.len()).any(|part| part == secret) {
        return true;
    }
    let Some(depth) = depth.checked_sub(1) else { return false };
    let decoded =
        [unescaped(text, false), unescaped(text, true)].into_iter().filter(|decoded| decoded != text);
    decoded.chain(base64_in(text)).any(|decoded| reveals(&decoded, secret, depth))
}

/// A line without the time and the connection, by which like ones differ, and with a dot in the place of many.
fn without_time(line: &[u8]) -> Vec<u8> {
    let start = line.windows(7).position(|part| part == b"\"event\"").unwrap_or(0);
    let parts = line[start..].chunk_by(|one, next| [*one, *next] == *b"..");
    parts.map(|part| part[0]).collect()
}

/// The lines of a trace that show the secret.
fn revealing(trace: &[u8], secret: &str) -> Vec<String> {
    let lines: BTreeSet<_> = trace.split(|byte| *byte == b'\n').map(without_time).collect();
    let lines = lines.into_iter().filter(|line| reveals(line, secret.as_bytes(), 4));
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
}

/// Keeps all that a trace writes.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The texts in which a spelling passes over a stream, in each channel of messages and outside of them.
fn frames(spelling: &str) -> Vec<String> {
    let long = ".".repeat(66_000);
    let mut frames = vec![
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a","arguments":{{"text":"a {spelling} b"}}}}}}"#
        ),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{spelling}"}}],"structuredContent":{{"{spelling}":["{spelling}"]}}}}}}"#
        ),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32603,"message":"no {spelling}","data":{{"why":"{spelling}"}}}}}}"#
        ),
        format!(r#"[{{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":"{spelling}"}}}}]"#),
        format!(r#"{{"jsonrpc":"2.0","id":"{spelling}","method":"{spelling}"}}"#),
        format!("Server is ready: {spelling}"),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{spelling}""#),
        format!(r#"{{"jsonrpc":"2.0" "text":"{spelling}"}} trailing {spelling}"#),
        format!("\u{feff}{{'text': '{spelling}'}}"),
        // Above 64 KiB: in the beginning, behind it, and not JSON.
        format!(r#"{{"a":"{spelling}","text":"{long}","{spelling}":"{spelling}"}}"#),
        format!(r#"{{"text":"{long}","b":"{spelling}"}} {spelling}"#),
        format!("{spelling} {long}"),
    ];
    // The end of what is kept of malformed JSON lies within the secret.
    for at in (65_536 - spelling.len().min(40)..65_536).step_by(13) {
        let before = r#"{"text":""#;
        frames.push(format!("{before}{}{spelling} {long}", ".".repeat(at - before.len())));
    }
    frames
}

fn header(name: &str, value: &str) -> (HeaderName, HeaderValue) {
    (name.parse().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
}

/// Passes a spelling through each channel of HTTP.
fn pass_over_http(observer: &mut WireObserver, spelling: &str, piece: usize) {
    let is_in_url = spelling.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte));
    let in_url = if is_in_url { spelling } else { "none" };
    let url = format!("http://localhost/{in_url}/mcp?q={in_url}&page=2#{in_url}");
    let own = [header("x-own", spelling), header("authorization", &format!("Bearer {spelling}"))];
    let own = HeaderMap::from_iter(own.into_iter().chain([header("mcp-param-text", spelling)]));
    let theirs = HeaderMap::from_iter([header("x-theirs", spelling), header("location", &url)]);
    for (number, (media_type, body)) in iter::zip(1.., bodies(spelling)) {
        let exchange = ExchangeId::new(number);
        let method = &Method::POST;
        observer.handle_event(WireEvent::Request {
            exchange,
            method,
            url: &url,
            headers: &own,
            body: body.as_bytes(),
        });
        let mut headers = theirs.clone();
        headers.insert(CONTENT_TYPE, media_type.parse().unwrap());
        observer.handle_event(WireEvent::Head { exchange, status: StatusCode::OK, headers: &headers });
        let piece = if body.len() > 10_000 { 4099 } else { piece };
        for bytes in body.as_bytes().chunks(piece) {
            observer.handle_event(WireEvent::Body { exchange, bytes });
        }
        let detail = format!("no answer from {url}: {spelling}");
        let end = match number % 3 {
            0 => ExchangeEnd::Truncated(detail),
            1 => ExchangeEnd::Failed { sent: SentState::MaybeSent, detail },
            _ => ExchangeEnd::Unreachable(detail),
        };
        observer.handle_event(WireEvent::End { exchange, end: &end });
    }
    #[cfg(feature = "websocket")]
    for frame in frames(spelling) {
        observer.handle_event(WireEvent::MessageSent(frame.as_bytes()));
        observer.handle_event(WireEvent::MessageReceived(frame.as_bytes()));
    }
}

fn bodies(spelling: &str) -> Vec<(&'static str, String)> {
    let messages = frames(spelling);
    let events = messages
        .iter()
        .map(|message| format!("event: {spelling}\nid: {spelling}\ndata: {message}\n\n: {spelling}\n"));
    let events = events.collect::<String>()
        + &format!("retry: {spelling}\nevent: endpoint\ndata: /m?x={spelling}\n\n");
    let html = format!("<html>\n<a href=\"/?x={spelling}\">{spelling}</a>\n</html>");
    let form = format!("grant_type=x&y={spelling}&z=1");
    let whole = messages.into_iter().map(|message| ("application/json", message));
    whole.chain([("text/event-stream", events), ("text/html", html), ("text/plain", form)]).collect()
}

/// F104: what the configuration names as secret is in no trace, whichever way it takes.
#[test]
fn known_secrets_are_in_no_trace_in_any_channel_and_spelling() {
    let folder = Folder::new();
    for secret in ["hunter2-0123", "tr\"ücky /+sec\\ret"] {
        let kept = SharedBuffer::default();
        let all = TraceFile::to_sink(kept.clone(), "test").unwrap();
        let path = folder.path().join("a.trace");
        let rotated = TraceFile::with_max_bytes(&path, "test", 2_000_000).unwrap();
        for (spelling, piece) in iter::zip(spellings(secret), [1, 7, 1000].into_iter().cycle()) {
            let redactor = Redactor::new().known(secret);
            for trace in [&all, &rotated] {
                let connection = trace.connection(&format!("server {spelling}"), "stdio", redactor.clone());
                let mut observer = connection.observer();
                for frame in frames(&spelling) {
                    // Long ones take long: one direction is enough for them.
                    let (piece, directions) = if frame.len() > 1000 { (4099, 1) } else { (piece, 2) };
                    for direction in
                        [WireDirection::Sent, WireDirection::Received].into_iter().take(directions)
                    {
                        let line = format!("{frame}\n");
                        line.as_bytes()
                            .chunks(piece)
                            .for_each(|chunk| observer.handle_bytes(direction, chunk));
                    }
                    connection.record_stderr(frame.as_bytes());
                    connection.record_stderr(b"\n");
                }
                pass_over_http(&mut observer, &spelling, piece);
                connection.close(format!("error: {spelling}"));
            }
        }
        for trace in [all, rotated] {
            trace.flush().unwrap();
        }
        let kept = kept.0.lock().unwrap();
        let trace = Trace::parse(&kept).unwrap();
        assert!(trace.records.len() > 1000 && trace.unread.is_empty());
        for file in
            [kept.clone(), fs::read(&path).unwrap(), fs::read(path.with_extension("trace.1")).unwrap()]
        {
            let shown = revealing(&file, secret);
            let shortened = shown.iter().map(|line| line.chars().take(600).collect::<String>());
            assert!(shown.is_empty(), "{} lines: {:#?}", shown.len(), shortened.take(5).collect::<Vec<_>>());
        }
    }
}

/// The check finds what it looks for.
#[test]
fn each_spelling_of_a_secret_would_be_found() {
    for secret in ["hunter2-0123", "tr\"ücky /+sec\\ret"] {
        for spelling in spellings(secret) {
            let frame = TracedFrame::new(format!("{{\"a\":\"{spelling}\"}}"), 0);
            let record = mcp_hyper::mcp_proto::trace_file::TraceRecord::new(
                Default::default(),
                1,
                TraceEvent::Stderr { frame },
            );
            assert_eq!(revealing(&record.to_line(), secret).len(), 1, "{spelling}");
        }
    }
}

/// A session has one pseudonym in each channel of a trace, and each trace others.
#[test]
fn session_has_one_pseudonym_in_a_trace() {
    let session = "1868a90c-5e3f-4d21-9b1f-a1b2c3d4e5f6";
    let pseudonyms = [(), ()].map(|()| {
        let kept = SharedBuffer::default();
        let trace = TraceFile::to_sink(kept.clone(), "test").unwrap();
        let connection = trace.connection("web", "http", Redactor::new());
        let mut observer = connection.observer();
        let mut own =
            HeaderMap::from_iter([header("mcp-session-id", session), header("last-event-id", session)]);
        own.values_mut().for_each(|value| value.set_sensitive(true));
        let task = [header("mcp-method", "tasks/get"), header("mcp-name", session)];
        own.extend(task.map(|(name, value)| (Some(name), value)));
        let events = HeaderMap::from_iter([header("content-type", "text/event-stream")]);
        let (exchange, method) = (ExchangeId::new(1), &Method::POST);
        let url = format!("http://localhost/mcp?sessionId={session}");
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": { "taskId": session } })
                .to_string();
        observer.handle_event(WireEvent::Request {
            exchange,
            method,
            url: &url,
            headers: &own,
            body: body.as_bytes(),
        });
        observer.handle_event(WireEvent::Head { exchange, status: StatusCode::OK, headers: &events });
        let text = format!("id: {session}\ndata: {{\"error\":\"no {session}\"}}\n\n");
        observer.handle_event(WireEvent::Body { exchange, bytes: text.as_bytes() });
        connection.record_stderr(format!("session {session} ended\n").as_bytes());
        drop(observer);
        connection.close(format!("lost {session}"));
        trace.flush().unwrap();
        let written = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(!written.contains(session), "{written}");
        let start = written.find("[id:").unwrap();
        let pseudonym = written[start..start + 21].to_owned();
        // Of the header, its repetition, the name and the URL of a request; the body; the id, the data; and two texts.
        assert_eq!(written.matches(&pseudonym).count(), 9, "{written}");
        assert_eq!(written.matches("[id:").count(), 9, "{written}");
        pseudonym
    });
    assert_ne!(pseudonyms[0], pseudonyms[1]);
}

/// F104: a host knows what its configuration names: variables, arguments, headers, URLs and typed passwords.
#[test]
fn host_traces_each_server_without_its_configured_secrets() {
    bounded(async {
        let folder = Folder::new();
        let path = folder.path().join("host.trace");
        let script =
            r#"echo "ready $API_KEY $2 ${3#*=}" >&2; echo "not a message: $API_KEY $2 ${3#*=}"; exit 3"#;
        let args = json!(["-c", script, "sh", "--token", "secret-option", "--password=secret-word"]);
        let server = json!({ "command": "sh", "args": args, "env": { "API_KEY": "secret-variable" } });
        let web = json!({ "url": "http://me:secret-user@127.0.0.1:9/mcp?key=secret-query", "headers": { "X-Api-Key": "secret-header" } });
        let trace = TraceFile::create(&path, "test").unwrap();
        let (host, _driver) =
            start(options(config(json!({ "one": server, "web": web }))).trace(trace.clone()));
        until("standard error is traced", || {
            trace.flush().unwrap();
            fs::read_to_string(&path).unwrap().contains("ready [redacted]")
        })
        .await;
        until("the URL is tried", || {
            trace.flush().unwrap();
            fs::read_to_string(&path).unwrap().contains("\"ended\"")
        })
        .await;
        host.close().await;
        trace.flush().unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert!(!written.contains("secret-"), "{written}");
        assert!(written.contains("not a message: [redacted] [redacted] [redacted]"), "{written}");
    });
}
