//! The async front: clients, servers and routers, on a simulated clock.
#![cfg(all(
    feature = "std",
    feature = "client",
    feature = "server",
    feature = "http",
    feature = "seal",
    feature = "testing"
))]

#[path = "../common/mod.rs"]
mod common;

mod backpressure;
mod cancellation;
mod capabilities;
mod client;
mod client_layers;
mod client_rules;
#[cfg(feature = "skills")]
mod client_skills;
mod combined;
mod connection;
mod contracts;
mod custom;
mod declared;
mod extension_sets;
mod extensions;
mod forms;
mod handlers;
mod http_broadcasts;
mod http_budget;
mod http_channel;
mod http_closing;
mod http_cors;
mod http_idle;
mod http_known_meta;
mod http_modern;
mod http_parts;
mod http_relay;
mod http_sessions;
mod http_stateless;
mod http_threads;
mod layer_limits;
mod layer_messages;
mod layer_messages_http;
mod layer_rules;
mod layers;
mod lenient;
mod live_router;
mod next_output;
mod outputs;
mod pair;
mod proxy;
mod queues;
mod quotas;
mod rates;
mod recorded;
mod request_context;
mod router_check;
mod router_context;
mod router_resources;
mod router_state;
mod router_tools;
mod rules;
mod server_requests;
mod server_rules;
#[cfg(feature = "skills")]
mod server_skills;
#[cfg(feature = "tracing")]
mod spans;
mod spawned;
mod subscription_access;
mod task_input;
mod task_stores;
mod tasks;
mod tasks_http;
mod threads;
mod time_limits;
mod transport_checks;
#[cfg(feature = "schema-validate")]
mod validation;
mod watch;
