//! Features of SDKs for the Model Context Protocol, side by side, as of November 2026.
//!
//! The columns of the others were read from their sources and issue trackers, not measured: `rmcp` 3.9, `rust-mcp-sdk`
//! 2.0, and the TypeScript SDK 2.4, Python SDK 2.3 and Go SDK 1.7. Later versions may differ. ✓ present, ◐ in part, ✗
//! not found, ? not looked into, – does not apply. A dot separates features that a row names in that order.
//!
//! # Protocol
//!
//! | | here | `rmcp` | `rust-mcp-sdk` | TypeScript | Python | Go |
//! |---|---|---|---|---|---|---|
//! | client · server | ✓ · ✓ | ✓ · ✓ | ? | ✓ · ✓ | ✓ · ✓ | ✓ · ✓ |
//! | revisions | 5 | 5 | ? | 5 | 5 | 5 |
//! | both eras, detected | ✓, remembered if the application wants | ✓, probe of 10 s | ? | an option, probe by a process of its own | ✓, same process | ✓ |
//! | JSON-RPC batches (2025-03-26) | ✓, received | ✗ | ? | ◐ | ◐ | ✓ |
//! | input rounds · sealed request states | ✓ · ✓ encrypted, rotation of keys, expiry, bound to principal and request | ✓ · ✓ rotation of keys | ? | ✓ · HMAC | ✓ · AES-GCM, rotation of keys | ✓ · ✗ |
//! | `subscriptions/listen` | ✓, lost streams opened again | ✓ | ? | ✓, not opened again | ✓ | ✓ |
//! | response cache by `ttlMs` | ✓, bounded in bytes, by login | ✓, not bounded in bytes | ? | ✓ | ✓ | ◐ |
//! | `x-mcp-header` · retry after `HeaderMismatch` | ✓ · ✓ | ✓ · ? | ? | ✓ · ✓ | ✓ · ✓ | ✓ · ✗ |
//! | tasks: extension · 2025-11-25 | ✓ · ✓ | ✓ · ✗ | ? | ✗ | ◐ | ✗ |
//! | skills: files verified by the client · of a folder, read at each request | ✓ · ✓ | ◐ a function · ✗ | ? | ✗ | ✗ | ✗ |
//! | lists to their end, with a guard against loops | ✓ | ✗ | ? | ✓ | ✗ | ✓ |
//! | results of tools checked by the client | an option | ✗ | ? | ✓ | ✓ | ✗ |
//!
//! # Transports
//!
//! | | here | `rmcp` | `rust-mcp-sdk` | TypeScript | Python | Go |
//! |---|---|---|---|---|---|---|
//! | standard streams, child processes | ✓, any runtime | ✓, Tokio | ? | ✓ | ✓ | ✓ |
//! | Streamable HTTP: client · server | ✓ · ✓, any runtime | ✓ reqwest · ✓ tower | ? | ✓ · ✓ | ✓ · ✓ | ✓ · ✓ |
//! | HTTP+SSE (2024-11-05) | client: detected; server: an option | ✗ | ? | ✓ | ✓ | ✓ |
//! | WebSocket | an option | ✗ | ? | ✗ in version 2 | ◐ | ✗ |
//! | lost session (404) opened again | ✓ | ✓ | ? | ✗ | ✗ | ✗ |
//! | whole connection made again | ✓, by `host` | ✗ | ? | ✗ | ✗ | ✗ |
//! | tree of child processes ended | ✓ | ◐ | ? | ✗ | ✓ | ✗ |
//! | end of the standard error in errors | ✓ | ✗ | ? | ✗ | ✗ | ✗ |
//!
//! # Calls
//!
//! | | here | `rmcp` | `rust-mcp-sdk` | TypeScript | Python | Go |
//! |---|---|---|---|---|---|---|
//! | default timeout | 30 s | none | ? | 60 s | none | of the context |
//! | timeout extended by progress | ✓ | an option | ? | an option | ? | ? |
//! | maximum whatever the progress | ✓, 10 min by default | an option | ? | ✓ | ? | ? |
//! | cancellation on the wire | ✓, also when dropped | ◐, also when dropped | ? | ✓ | ✓ | ✓ |
//!
//! # Authorization
//!
//! | | here | `rmcp` | `rust-mcp-sdk` | TypeScript | Python | Go |
//! |---|---|---|---|---|---|---|
//! | OAuth: RFC 9728, RFC 8414 or OIDC, PKCE, RFC 8707, RFC 9207, client id documents, registration, step-up | ✓ | ✓ | ? | ✓ | ✓ | ✓ |
//! | client credentials | ✓ | ✓ | ? | ✓ | ✓ | ✓ |
//! | `private_key_jwt` | ✓ | ✓ | ? | ✓ | ✓ | ✗ |
//! | access across applications, by an identity provider | ✓ | ✓ | ? | ✓ | ◐ | ✓ |
//! | DPoP | ✓ | ✗ | ? | ✓ | ✗ | ✗ |
//! | workload identity federation | ✓ | ✗ | ? | ✗ | ✗ | ✗ |
//!
//! # How they are built and tested
//!
//! | | here | `rmcp` | `rust-mcp-sdk` | TypeScript | Python | Go |
//! |---|---|---|---|---|---|---|
//! | core without `std` | ✓ | ✗ | ? | – | – | – |
//! | runs without Tokio | ✓ | ✗ | ? | – | – | – |
//! | fuzzing | ✓ | ✗ | ? | ✗ | ✗ | ◐ |
//! | property tests | ✓ | ✗ | ? | ✗ | ✗ | ◐ |
//! | simulated network and clock | ✓ | ✗ | ✗ | ✗ | ✗ | ◐ |
//! | official conformance suite as a whole | ✓, two exceptions in `tests/conformance.d` | ? | claimed, on a smaller suite | ? | ? | ? |
//!
//! # Sizes and speed
//!
//! Crates in the dependency tree on Linux, of normal dependencies: `rmcp` with its types alone has 50, as a client of
//! child processes 57, with Streamable HTTP 106, with TLS 119, with OAuth 138. [The index](super) counts those of this
//! project for each choice of features; `tests/dependencies` reproduces the counts.
//!
//! The README's section "How fast" has requests per second beside `rmcp` and beside the same exchange without the
//! protocol. `tests/peers/benchmark` reproduces them and writes `tests/peers/RESULTS.md`, which says how to run a
//! single row.
