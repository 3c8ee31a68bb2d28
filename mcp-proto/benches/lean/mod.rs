//! The same call with serde_json alone, in the wire format of 2025-11-25: envelopes with `&RawValue`, typed parameters,
//! and no protocol. It is the limit of a round trip in memory.

use std::hint::black_box;

use serde::{Deserialize, Serialize};

use crate::pair::MESSAGE;
use crate::raw_envelope::Envelope;

#[derive(Default)]
pub(crate) struct Lean {
    id: i64,
    up: Vec<u8>,
    down: Vec<u8>,
}

#[derive(Serialize)]
struct Request<'a> {
    jsonrpc: &'a str,
    id: i64,
    method: &'a str,
    params: Call<Echo>,
}

#[derive(Serialize, Deserialize)]
struct Call<A> {
    name: String,
    arguments: A,
}

#[derive(Serialize, Deserialize)]
struct Echo {
    message: String,
}

#[derive(Serialize)]
struct Response<'a> {
    jsonrpc: &'a str,
    id: i64,
    result: CallResult,
}

#[derive(Serialize, Deserialize)]
struct CallResult {
    content: Vec<Content>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    r#type: String,
    text: String,
}

impl Lean {
    pub(crate) fn round_trip(&mut self) {
        self.id += 1;
        let params = Call { name: "echo".into(), arguments: Echo { message: MESSAGE.into() } };
        let request = Request { jsonrpc: "2.0", id: self.id, method: "tools/call", params };
        self.up.clear();
        serde_json::to_writer(&mut self.up, &request).unwrap();

        let envelope: Envelope<'_> = serde_json::from_slice(&self.up).unwrap();
        assert_eq!(envelope.method, Some("tools/call"));
        let call: Call<Echo> = serde_json::from_str(envelope.params.unwrap().get()).unwrap();
        assert_eq!(call.name, "echo");
        let content = vec![Content { r#type: "text".into(), text: call.arguments.message }];
        let response = Response { jsonrpc: "2.0", id: envelope.id.unwrap(), result: CallResult { content } };
        self.down.clear();
        serde_json::to_writer(&mut self.down, &response).unwrap();

        let envelope: Envelope<'_> = serde_json::from_slice(&self.down).unwrap();
        assert_eq!(envelope.id, Some(self.id));
        let result: CallResult = serde_json::from_str(envelope.result.unwrap().get()).unwrap();
        black_box(result);
    }
}
