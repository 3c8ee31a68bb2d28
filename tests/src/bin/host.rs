//! A host that a script drives, for `tests/host`: `host FILE FOLDER` with one line for each action on standard input.
//!
//! - `call NAME TOOL JSON` calls a tool; lines that begin with NAME say what becomes of it.
//! - `reload` reads the configuration in FILE again.
//! - `close` ends the host, and so does the end of the input.
//!
//! Variables of the configuration are files in FOLDER. Each status of a server is a line.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader, stdin};
use std::path::{Path, PathBuf};

use mcp_hyper::host::{Host, HostEvent, HostOptions};
use mcp_proto::Secret;
use mcp_proto::host::config::{Config, ConfigFile, Lookup, ServerId, Source};
use serde_json::Value;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: host FILE FOLDER".into());
    };
    let config = read(&file)?;
    let options = HostOptions::new("host", env!("CARGO_PKG_VERSION")).config(config.clone());
    let (host, driver) = options.lookups(move |_, lookup| value(folder.clone().into(), lookup)).start();
    let driver = smol::spawn(driver);
    smol::spawn(report(host.clone())).detach();
    smol::block_on(async {
        let acted = act(&host, &file, config).await;
        host.close().await;
        driver.await?;
        acted
    })
}

fn read(file: &str) -> Outcome<Config> {
    Ok(Config::merge([ConfigFile::parse(Source::user(file), &fs::read(file)?)]))
}

/// The value of a variable, as it is now.
async fn value(folder: PathBuf, lookup: Lookup) -> Option<Secret> {
    let Lookup::Variable(name) = lookup else { return None };
    let text = smol::unblock(move || fs::read_to_string(Path::new(&folder).join(name))).await;
    text.ok().map(|text| Secret::new(text.trim()))
}

async fn report(host: Host) {
    let mut events = host.events();
    // The handle would keep the host open.
    drop(host);
    while let Some(event) = events.next().await {
        match event {
            HostEvent::Status { server, status: Some(status), .. } => println!("{server} {status}"),
            HostEvent::Status { server, status: None, .. } => println!("{server} removed"),
            _ => {}
        }
    }
}

async fn act(host: &Host, file: &str, mut config: Config) -> Outcome {
    loop {
        let line = smol::unblock(|| {
            let mut line = String::new();
            BufReader::with_capacity(1, stdin()).read_line(&mut line).map(|_| line)
        });
        let line = line.await?;
        match line.trim().splitn(4, ' ').collect::<Vec<_>>()[..] {
            ["call", name, tool, arguments] => call(host, name, tool, serde_json::from_str(arguments)?),
            ["reload"] => {
                let next = read(file)?;
                host.reload(&next);
                println!("reloaded: {}", changes(&config, &next));
                config = next;
            }
            ["close" | ""] => return Ok(()),
            _ => return Err(format!("unknown: {line:?}").into()),
        }
    }
}

fn call(host: &Host, name: &str, tool: &str, arguments: Value) {
    let (name, host, tool) = (name.to_owned(), host.clone(), tool.to_owned());
    let reported = name.clone();
    let called = async move {
        let call = host.call_tool(&tool, arguments);
        match call.on_progress(move |progress| println!("{reported} progress {}", progress.progress)).await {
            Ok(result) => println!("{name} answered: {}", result.text_content()),
            Err(error) => println!("{name} failed: {error}"),
        }
    };
    smol::spawn(called).detach();
}

fn changes(before: &Config, after: &Config) -> String {
    let changes = before.changes_to(after);
    let added = changes.added.iter().map(|entry| format!("added {}", entry.name()));
    let changed = changes.changed.iter().map(|change| format!("changed {}", change.server.name()));
    let name = |id: &ServerId| before.get(*id).map(|entry| entry.name().to_owned()).unwrap_or_default();
    let removed = changes.removed.iter().map(|id| format!("removed {}", name(id)));
    added.chain(changed).chain(removed).collect::<Vec<_>>().join("; ")
}
