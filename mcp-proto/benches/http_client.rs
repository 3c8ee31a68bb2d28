//! Cost of one `tools/call` on the client's side, from the command to its outcome.
//!
//! It compares a stream with HTTP, with the answer as JSON and as events, and measures the memory of a request in
//! flight.
//!
//! `cargo bench -p mcp-proto --features http --bench http_client`

mod measure;

use mcp_proto::peer::RequestOptions;
use mcp_proto::peer::client::{ClientConfig, EraPolicy, Event, LinkAction};
use mcp_proto::schema::{CallTool, CallToolParams, Implementation};
use mcp_proto::transport::StreamClient;
use mcp_proto::transport::http::client::{Action, HttpClient, HttpClientConfig, HttpRequest, ListenPolicy};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};
use mcp_proto::{Bytes, Instant};
use measure::{heap_growth, measure};

const NOW: Instant = Instant::ORIGIN;
const DISCOVERED: &str = r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;
const INITIALIZED: &str = r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}"#;
const RESULT: &str =
    r#""result":{"resultType":"complete","content":[{"type":"text","text":"It is sunny in the harbour."}]}"#;
const IN_FLIGHT: u64 = 10_000;
/// The number of requests in flight of each row that shows how the cost of one grows: at most twofold.
const SCALE: [usize; 3] = [1, 1_000, 100_000];

fn main() {
    let mut stream = Stream::ready();
    let mut json = Http::ready(EraPolicy::ModernOnly);
    let mut events = Http::ready(EraPolicy::ModernOnly);
    let mut legacy = Http::ready(EraPolicy::LegacyOnly);
    let mut rows: [(&str, &mut dyn FnMut()); 4] = [
        ("stream, modern", &mut || stream.round_trip()),
        ("http, modern, JSON", &mut || json.round_trip("application/json", "", "")),
        ("http, modern, SSE", &mut || events.round_trip("text/event-stream", "data: ", "\n\n")),
        ("http, legacy, JSON", &mut || legacy.round_trip("application/json", "", "")),
    ];
    let names = rows.each_ref().map(|(name, _)| *name);
    let costs = measure(rows.each_mut().map(|(_, run)| &mut **run));
    println!("{:20} {:>8} {:>12} {:>12}", "one call", "ns", "allocations", "× of stream");
    for (name, cost) in names.into_iter().zip(costs) {
        let ratio = cost.nanoseconds / costs[0].nanoseconds;
        println!("{name:20} {:>8.0} {:>12} {ratio:>12.2}", cost.nanoseconds, cost.allocations);
    }
    let mut http = Http::ready(EraPolicy::ModernOnly);
    let (bytes, ()) = heap_growth(|| (0..IN_FLIGHT).for_each(|_| drop(http.ask())));
    println!("a request in flight over HTTP holds {} bytes", bytes / IN_FLIGHT);
    let [mut one, mut thousand, mut many] = SCALE.map(|in_flight| {
        let mut http = Http::ready(EraPolicy::ModernOnly);
        // `round_trip` sends the last one.
        (1..in_flight).for_each(|_| drop(http.ask()));
        http
    });
    let costs = measure([
        &mut || one.round_trip("application/json", "", ""),
        &mut || thousand.round_trip("application/json", "", ""),
        &mut || many.round_trip("application/json", "", ""),
    ]);
    println!("{:20} {:>8} {:>12} {:>12}", "in flight", "ns", "allocations", "× of one");
    for (in_flight, cost) in SCALE.into_iter().zip(costs) {
        let ratio = cost.nanoseconds / costs[0].nanoseconds;
        println!("{in_flight:<20} {:>8.0} {:>12} {ratio:>12.2}", cost.nanoseconds, cost.allocations);
    }
}

fn config(mode: EraPolicy) -> ClientConfig {
    let mut config = ClientConfig::new(Implementation::new("bench", "1.0"));
    config.era_policy = mode;
    config.limits.exchanges = usize::MAX;
    config.limits.requests_out = usize::MAX;
    config
}

fn params() -> CallToolParams {
    let mut params = CallToolParams::new("weather");
    params.arguments = Some(serde_json::json!({"place": "the harbour"}).into());
    params
}

struct Stream {
    client: StreamClient,
    out: Vec<u8>,
    id: u64,
    params: CallToolParams,
}

impl Stream {
    fn ready() -> Self {
        let mut client = StreamClient::new(config(EraPolicy::ModernOnly));
        assert_eq!(client.poll_link(), Some(LinkAction::Open));
        client.handle_open(NOW);
        let mut stream = Self { client, out: Vec::new(), id: 0, params: params() };
        stream.answer(DISCOVERED);
        stream
    }

    fn answer(&mut self, outcome: &str) {
        self.id += 1;
        self.out.clear();
        assert!(self.client.poll_transmit(&mut self.out));
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{outcome}}}\n", self.id);
        self.client.handle_input(NOW, Bytes::from(line));
        while self.client.poll_event().is_some() {}
    }

    fn round_trip(&mut self) {
        self.client
            .at(NOW)
            .request::<CallTool>(&self.params, RequestOptions::default())
            .expect("it is ready");
        self.answer(RESULT);
    }
}

struct Http {
    client: HttpClient,
    id: u64,
    params: CallToolParams,
}

impl Http {
    fn ready(mode: EraPolicy) -> Self {
        let mut config = HttpClientConfig::new(config(mode), "http://localhost/mcp");
        config.listen = ListenPolicy::Never;
        let client = HttpClient::new(config, NOW).expect("the URL is valid");
        let mut http = Self { client, id: 0, params: params() };
        let exchange = http.opened().exchange;
        http.id += 1;
        let outcome = if mode == EraPolicy::LegacyOnly { INITIALIZED } else { DISCOVERED };
        http.answer(exchange, outcome, "application/json", "", "");
        if mode == EraPolicy::LegacyOnly {
            let exchange = http.opened().exchange;
            http.client.handle_head(NOW, exchange, 202, &[("content-length", "0")]);
            http.client.handle_end(NOW, exchange, ExchangeEnd::Complete);
        }
        http
    }

    fn opened(&mut self) -> HttpRequest {
        loop {
            match self.client.poll_action().expect("the client sends a request") {
                Action::Open(request) => return request,
                Action::Abort(_) | Action::AuthorizationRequired(_) => {}
            }
        }
    }

    fn answer(&mut self, exchange: ExchangeId, outcome: &str, kind: &str, before: &str, after: &str) {
        self.client.handle_head(NOW, exchange, 200, &[("content-type", kind)]);
        let body = format!("{before}{{\"jsonrpc\":\"2.0\",\"id\":{},{outcome}}}{after}", self.id);
        self.client.handle_body(NOW, exchange, Bytes::from(body));
        self.client.handle_end(NOW, exchange, ExchangeEnd::Complete);
        while let Some(event) = self.client.poll_event() {
            assert!(!matches!(event, Event::Closed(_)));
        }
    }

    fn ask(&mut self) -> HttpRequest {
        self.client
            .at(NOW)
            .request::<CallTool>(&self.params, RequestOptions::default())
            .expect("it is ready");
        self.id += 1;
        self.opened()
    }

    fn round_trip(&mut self, kind: &str, before: &str, after: &str) {
        let exchange = self.ask().exchange;
        self.answer(exchange, RESULT, kind, before, after);
    }
}
