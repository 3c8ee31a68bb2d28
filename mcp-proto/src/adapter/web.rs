//! WebAssembly in JavaScript: a client in a web page, and a server on a worker platform.
//!
//! The target is `wasm32-unknown-unknown`. It has no clocks and no random numbers of its own: the feature `js` of this crate
//! takes the clocks of JavaScript, and an adapter takes its random numbers. Without `js`,
//! [`SystemClock`](super::SystemClock) does not exist there, so that a program which needs it does not compile.
//!
//! The programs below are whole in the repository's `tests/adapters/web`, where `tests/web` runs them in Node and in Chromium. A
//! page beside them, `page.html`, tries any server from a browser: its tools, a form for each, progress, and what goes
//! over the wire.
//!
//! # The manifest
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib"]
//!
//! [dependencies]
//! async-channel = { version = "2.5.0", default-features = false }
//! futures-lite = { version = "2.6.1", default-features = false, features = ["alloc"] }
//! getrandom = { version = "0.4.3", features = ["wasm_js"] }
//! js-sys = "0.3.107"
//! # Or "server" in place of "client".
//! mcp-proto = { version = "0.1.0", default-features = false, features = ["client", "http", "js"] }
//! serde = { version = "1.0.229", features = ["derive"] }
//! serde_json = "1.0.154"
//! wasm-bindgen = "0.2.130"
//! wasm-bindgen-futures = "0.4.80"
//! web-sys = { version = "0.3.107", features = [
//!     "AbortController", "AbortSignal", "Headers", "ReadableStream", "ReadableStreamDefaultReader", "Request",
//!     "RequestInit", "RequestRedirect", "Response", "ResponseInit", "TransformStream", "Url", "WritableStream",
//!     "WritableStreamDefaultWriter",
//! ] }
//!
//! [profile.release]
//! opt-level = "z"
//! lto = true
//! codegen-units = 1
//! panic = "abort"
//! strip = "debuginfo"
//! ```
//!
//! `wasm-bindgen --target web` of the same version then writes the JavaScript of the module. The feature `auth-jwt` compiles
//! C: it needs `clang`.
//!
//! # What both need
//!
//! A sleep. A timer of JavaScript is at most 2³¹ ms long, 24 days, and a longer one fires at once; a sleep that ends early
//! is followed by another, so that it may be cut.
//!
//! ```rust,ignore
//! /// Sleeps for this time, or less: a timer of JavaScript is at most 2³¹ ms long, and a longer one fires at once.
//! pub async fn sleep(time: Duration) {
//!     let milliseconds = i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
//!     let mut timer = None;
//!     let fired = Promise::new(&mut |fire, _| timer = Some(Timer(set_timeout(&fire, milliseconds))));
//!     let _ = JsFuture::from(fired).await;
//! }
//! ```
//!
//! # A client in a web page
//!
//! Each exchange is a `fetch`, whose signal aborts it. The machine follows redirects within an origin, but a browser keeps
//! their target from a page: the call fails, and the error
//! [is an opaque redirect](crate::peer::TransportError::is_opaque_redirect). Connect to the target instead.
//!
//! ```rust,ignore
//! /// Sends a request and reports its answer. A full queue of reports slows the server down.
//! async fn exchange(request: HttpRequest, signal: AbortSignal, reports: &Reports) -> Result<(), ExchangeEnd> {
//!     // The browser does not say whether the request has left it.
//!     let failed = |error: JsValue| ExchangeEnd::Failed { sent: SentState::MaybeSent, detail: text(&error) };
//!     let headers = Headers::new().map_err(failed)?;
//!     for (name, value) in &request.headers {
//!         headers.append(name, value).map_err(failed)?;
//!     }
//!     let init = RequestInit::new();
//!     init.set_method(request.verb.as_str());
//!     init.set_headers(&headers);
//!     init.set_redirect(RequestRedirect::Manual);
//!     init.set_signal(Some(&signal));
//!     if !request.body.is_empty() {
//!         init.set_body(&Uint8Array::from(&request.body[..]));
//!     }
//!     let answer: Response = JsFuture::from(fetch(&request.url, &init)).await.map_err(failed)?.unchecked_into();
//!     let fields = js_sys::try_iter(&answer.headers()).map_err(failed)?.into_iter().flatten().flatten();
//!     let field = |pair: JsValue| {
//!         let pair: Array = pair.unchecked_into();
//!         Some((pair.get(0).as_string()?, pair.get(1).as_string()?))
//!     };
//!     let head = Report::Head(answer.status(), fields.filter_map(field).collect());
//!     let _ = reports.send((request.exchange, head)).await;
//!     let Some(body) = answer.body() else { return Ok(()) };
//!     let parts = Parts::new(&body);
//!     let truncated = |error: JsValue| ExchangeEnd::Truncated(text(&error));
//!     while let Some(part) = parts.next().await.map_err(truncated)? {
//!         let _ = reports.send((request.exchange, Report::Body(part))).await;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! One loop drives the machine, as in every [adapter](super::guide) for a client over HTTP:
//!
//! ```rust,ignore
//! async fn drive(mut driver: ClientDriver<HttpClient>, clock: Arc<SystemClock>) {
//!     let (reports, inbox) = async_channel::bounded(16);
//!     let mut exchanges = BTreeMap::new();
//!     loop {
//!         let due = driver.next_timeout();
//!         let action =
//!             async { Event::Action(driver.next_output(due, |machine, _| machine.poll_action()).await) };
//!         let report = async {
//!             match inbox.recv().await {
//!                 Ok((id, report)) => Event::Report(id, report),
//!                 Err(_) => pending().await,
//!             }
//!         };
//!         let timeout = async {
//!             let Some(due) = due else { return pending().await };
//!             sleep(due.saturating_since(clock.now())).await;
//!             Event::Timeout
//!         };
//!         match or(action, or(report, timeout)).await {
//!             Event::Action(Some(Action::Open(request))) => {
//!                 let (id, reports) = (request.exchange, reports.clone());
//!                 let Ok(controller) = AbortController::new() else { break };
//!                 let signal = controller.signal();
//!                 exchanges.insert(id, controller);
//!                 spawn_local(async move {
//!                     let end =
//!                         exchange(request, signal, &reports).await.err().unwrap_or(ExchangeEnd::Complete);
//!                     let _ = reports.send((id, Report::End(end))).await;
//!                 });
//!             }
//!             Event::Action(Some(Action::Abort(id))) => drop(exchanges.remove(&id).map(|open| open.abort())),
//!             // Only if it is configured.
//!             Event::Action(Some(Action::AuthorizationRequired(_))) => {}
//!             Event::Action(None) if driver.closed().is_some() => break,
//!             Event::Action(None) | Event::Timeout => {}
//!             Event::Report(id, report) => driver.lock(|machine, now| match report {
//!                 Report::Head(status, headers) => machine.handle_head(now, id, status, &headers),
//!                 Report::Body(part) => machine.handle_body(now, id, part),
//!                 Report::End(end) => {
//!                     exchanges.remove(&id);
//!                     machine.handle_end(now, id, end);
//!                 }
//!             }),
//!         }
//!     }
//!     exchanges.into_values().for_each(|open| open.abort());
//!     driver.handle_link_down();
//! }
//! ```
//!
//! Callbacks of JavaScript are not `Send`, which [`on_progress`](crate::front::Request::on_progress) demands. A call that was
//! [started](crate::front::Request::start) is a stream of its progress:
//!
//! ```rust,ignore
//! let called = async {
//!     while let Some(progress) = call.progress().await {
//!         if let Some(follow) = &on_progress {
//!             follow.call1(&JsValue::NULL, &value(&progress)?)?;
//!         }
//!     }
//!     value(&(&mut call).await.map_err(error)?)
//! };
//! ```
//!
//! A server of another origin must name the page's: `HttpServerConfig::cors`, or `mcpio serve --cors ORIGIN`.
//!
//! # A server in a worker
//!
//! [`LocalHandlers`](crate::front::LocalHandlers) may keep values of JavaScript. The platform reads the answer's body at the
//! pace of the client, which `next_body` follows. It may cancel the body while a part is awaited: the exchange is then
//! dropped, and with it the handler.
//!
//! ```rust,ignore
//! /// Writes the body of an answer as fast as the client reads it. A client that goes cancels the stream, which drops the
//! /// exchange, and with it the handler.
//! async fn write<H: HandlerMode>(mut exchange: HttpExchange<H>, writer: WritableStreamDefaultWriter) {
//!     let gone = JsFuture::from(writer.closed());
//!     let body = async {
//!         while let Some(part) = exchange.next_body(sleep).await {
//!             if JsFuture::from(writer.write_with_chunk(&Uint8Array::from(&part[..]))).await.is_err() {
//!                 return;
//!             }
//!         }
//!         let _ = JsFuture::from(writer.close()).await;
//!     };
//!     or(body, async { drop(gone.await) }).await;
//! }
//! ```
//!
//! ```rust,ignore
//! /// Answers a request. A client that goes before the answer aborts the signal of its request, where the platform has one:
//! /// that drops the exchange, and with it the handler.
//! pub async fn answer<H: HandlerMode>(server: &HttpServer<H>, request: Request) -> Result<Response, JsValue> {
//!     let url = Url::new(&request.url())?;
//!     // `Request` has no header `Host` on most platforms: it is that of the URL.
//!     let mut headers = vec![("host".to_owned(), url.host())];
//!     for pair in js_sys::try_iter(&request.headers())?.into_iter().flatten().flatten() {
//!         let pair: Array = pair.unchecked_into();
//!         let field = pair.get(0).as_string().zip(pair.get(1).as_string());
//!         headers.extend(field.filter(|(name, _)| name != "host"));
//!     }
//!     let (method, path) = (request.method(), url.pathname());
//!     let head = RequestHead { method: &method, path: &path, fields: &headers, client: None };
//!     let mut exchange = server.exchange(&head, None);
//!     receive(&mut exchange, request.body()).await?;
//!     let signal = request.signal();
//!     let gone = async {
//!         aborted(&signal).await;
//!         None
//!     };
//!     let answer = async { Some(exchange.next_head(sleep).await) };
//!     let Some(head) = or(answer, gone).await else { return Err(signal.reason()) };
//!     if head.body == BodyKind::Empty {
//!         return response(&head, None);
//!     }
//!     let pipe = TransformStream::new()?;
//!     let answer = response(&head, Some(&pipe.readable()))?;
//!     spawn_local(write(exchange, pipe.writable().get_writer()?));
//!     Ok(answer)
//! }
//! ```
//!
//! Requests of 2026-07-28 need nothing that outlives them: any instance answers them. The sessions of older clients live in
//! one instance. On a platform that starts and ends instances as it likes, serve the modern
//! [era](crate::peer::server::ServerConfig::eras) alone, or route each session to its instance.
