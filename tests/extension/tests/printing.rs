//! The extension against itself, and against peers that do not know it: by a byte stream and by HTTP, in both eras.

use std::sync::{Arc, Mutex};

use mcp_proto::front::{Client, ClientHandlers, Error, HandlerError, Router, RouterError};
use mcp_proto::rpc::code;
use mcp_proto::schema::{Extension, ExtensionError, ExtensionMethod, Resource, ServerCapability};
use mcp_proto::testing::{self, RouterPair};
use mcp_test_extension::client::{PrintError, print};
use mcp_test_extension::server::Printers;
use mcp_test_extension::{IDENTIFIER, Job, PRINT, PaperLow, Progress, client, extension, server};
use serde_json::json;

/// A printer that has few sheets, and prints one job at a time.
struct Hall;

impl Printers for Hall {
    fn print(&self, job: &Job) -> Result<(Progress, u32), HandlerError> {
        match (&*job.printer, &*job.uri) {
            ("hall", "note:///today") => Ok((Progress::Printed { pages: 2 }, 12)),
            ("hall", _) => Ok((Progress::Queued { position: 3 }, 12)),
            (printer, _) => Err(HandlerError::new(format!("there is no printer {printer:?}"))),
        }
    }
}

/// A server of notes.
fn notes() -> Router {
    Router::new("notes", "1.0.0").resource(Resource::new("note:///today", "today"), async |_, _| "Buy milk")
}

fn printing() -> Router {
    notes().merge(server::router(Hall).unwrap())
}

fn job(uri: &str) -> Job {
    Job { printer: "hall".into(), uri: uri.into() }
}

type PaperReports = Arc<Mutex<Vec<PaperLow>>>;

fn handlers(heard: &PaperReports) -> ClientHandlers {
    let heard = heard.clone();
    client::install(ClientHandlers::new(), move |low| heard.lock().unwrap().push(low)).unwrap()
}

/// The pairs of a router and these handlers over both transports in one era.
fn pairs(router: &Router, handlers: impl Fn() -> ClientHandlers, modern: bool) -> Vec<RouterPair> {
    let pair = || testing::pair(router.clone()).handlers(handlers());
    let both = vec![pair(), pair().http()];
    if modern { both } else { both.into_iter().map(RouterPair::legacy).collect() }
}

async fn print_by_tool(client: Client) -> Result<String, Error> {
    let printed = client.call_tool("print", job("note:///today")).await?;
    Ok(printed.text_content())
}

/// C2.9, C1.8
#[test]
fn both_sides_know_the_extension() {
    let heard = PaperReports::default();
    for mut pair in pairs(&printing(), || handlers(&heard), true) {
        let printed = pair.run(async |client| print(&client, &job("note:///today")).await);
        assert_eq!(printed.unwrap(), Progress::Printed { pages: 2 });
        let queued = pair.run(async |client| print(&client, &job("note:///long")).await);
        assert_eq!(queued.unwrap(), Progress::Queued { position: 3 });
        let nowhere = Job { printer: "attic".into(), uri: "note:///today".into() };
        let failed = pair.run(async |client| print(&client, &nowhere).await);
        assert!(matches!(failed, Err(PrintError::Failed(Error::Peer(_)))), "{failed:?}");
        assert_eq!(pair.run(print_by_tool).unwrap(), "printed 2 pages");
        let low = PaperLow { printer: "hall".into(), sheets: 12 };
        assert_eq!(std::mem::take(&mut *heard.lock().unwrap()), vec![low; 3]);
    }
}

/// C2.9: older revisions have no messages of extensions, and the core protocol remains.
#[test]
fn older_revisions_have_the_tool_alone() {
    let heard = PaperReports::default();
    for mut pair in pairs(&printing(), || handlers(&heard), false) {
        let refused = pair.run(async |client| print(&client, &job("note:///today")).await);
        assert!(matches!(refused, Err(PrintError::Unsupported)), "{refused:?}");
        assert_eq!(pair.run(print_by_tool).unwrap(), "printed 2 pages");
        assert!(heard.lock().unwrap().is_empty());
    }
}

/// C2.9
#[test]
fn server_serves_clients_that_do_not_know_the_extension() {
    for modern in [true, false] {
        for mut pair in pairs(&printing(), ClientHandlers::new, modern) {
            // A client without the package can send the method by its name, over HTTP without its header.
            let refused = pair.run(async |client| client.request_custom(PRINT, job("note:///today")).await);
            let codes: &[i64] = match modern {
                true => &[code::MISSING_REQUIRED_CLIENT_CAPABILITY, code::HEADER_MISMATCH],
                false => &[code::METHOD_NOT_FOUND],
            };
            assert!(
                matches!(&refused, Err(Error::Peer(error)) if codes.contains(&error.code)),
                "{refused:?}"
            );
            assert_eq!(pair.run(print_by_tool).unwrap(), "printed 2 pages");
            assert!(!pair.transcript().contains("paperLow"));
        }
    }
}

/// C2.9
#[test]
fn client_sends_nothing_to_servers_that_do_not_know_the_extension() {
    // One declares the identifier, but not what the extension needs of a server.
    let hollow = Router::new("hollow", "1.0.0").extension(IDENTIFIER, json!({}));
    for router in [notes(), hollow] {
        for modern in [true, false] {
            for mut pair in pairs(&router, || handlers(&PaperReports::default()), modern) {
                let refused = pair.run(async |client| print(&client, &job("note:///today")).await);
                assert!(matches!(refused, Err(PrintError::Unsupported)), "{refused:?}");
                assert!(!pair.transcript().contains(&format!("\"{PRINT}\"")));
            }
        }
    }
}

#[test]
fn server_without_resources_does_not_start() {
    let router = Router::new("bare", "1.0.0").merge(server::router(Hall).unwrap());
    let needed = ServerCapability::Resources.into();
    let error = ExtensionError::Missing { identifier: IDENTIFIER.into(), needed };
    assert_eq!(router.check(), Err(RouterError::Extensions { error }));
}

/// Two packages that define one name cannot be installed together, on either side.
#[test]
fn packages_that_define_one_name_exclude_each_other() {
    let other = || Extension::new("org.example/plotting").unwrap().with_method(ExtensionMethod::new(PRINT));
    let redefined = ExtensionError::Redefined {
        identifier: "org.example/plotting".into(),
        name: PRINT.into(),
        owner: Some(IDENTIFIER.into()),
    };
    let router = printing().with_extension(other());
    assert_eq!(router.check(), Err(RouterError::Extensions { error: redefined.clone() }));
    for mut pair in pairs(&notes(), || handlers(&PaperReports::default()).with_extension(other()), true) {
        let refused = pair.run(async |client| client.read_resource("note:///today").await).unwrap_err();
        assert_eq!(refused.to_string(), redefined.to_string());
        assert!(pair.transcript().is_empty(), "nothing was sent");
    }
}

/// Both halves may be installed twice by mistake.
#[test]
fn package_is_installed_once() {
    let duplicate = ExtensionError::Duplicate { identifier: IDENTIFIER.into() };
    let router = printing().with_extension(extension().unwrap());
    assert_eq!(router.check(), Err(RouterError::Extensions { error: duplicate }));
}
