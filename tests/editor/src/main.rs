//! The editor test: a client and a host in a graphical editor, without its graphics.
//!
//! `editor CONFIGURATION PROGRAM` reads keys from its standard input and prints its screen, as one line, whenever that
//! has changed. The event loop owns the run queue and the timers; everything of MCP runs on it, between two frames: a
//! client of PROGRAM, and a host of the servers of CONFIGURATION, programs and URLs. Nothing there blocks.
//!
//! | Key | Action |
//! |---|---|
//! | `S` | call `add` of all servers at once |
//! | `C` | call `confirm` of the server `one`, which asks the user |
//! | `y`, `n` | answer the question |
//! | `W` | call `wait` of the server `two`, which does not end |
//! | Escape | cancel the running call |
//! | `N` | ask the server `two` how many calls were cancelled |
//! | `L` | call `add` of the program |
//! | `Q` | close everything and quit |
//! | others | type |

mod executor;
mod runtime;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error;
use std::io::Read as _;
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use futures_channel::oneshot;
use futures_lite::future::or;
use mcp_hyper::host::{Host, HostOptions};
use mcp_hyper::mcp_proto::host::config::{Config, ConfigFile, Source};
use mcp_hyper::schema::{ElicitResult, Map};
use mcp_hyper::{CallToolResult, Client, ClientHandlers, ElicitParams};
use mcp_smol::Command;
use serde_json::json;

use executor::{Executor, Task, Timers};
use runtime::EditorRuntime;

/// The events of the event loop, from any thread.
pub enum AppEvent {
    /// A task was woken, or a timer set.
    Wake,
    Key(char),
    /// A server asks the user.
    Question(Question),
    /// The standard input has ended.
    End,
}

pub struct Question {
    text: String,
    answer: oneshot::Sender<bool>,
}

/// The tasks that are polled between two frames.
const TASKS_PER_FRAME: usize = 32;

#[derive(Default)]
struct Screen {
    text: String,
    tools: usize,
    sums: Vec<String>,
    status: String,
    is_over: bool,
}

struct Editor {
    executor: Rc<Executor>,
    timers: Timers,
    host: Host,
    client: Client,
    screen: Rc<RefCell<Screen>>,
    questions: VecDeque<Question>,
    /// The call that Escape cancels.
    running: Option<Task>,
}

impl Editor {
    fn new(events: Sender<AppEvent>, config: Config, program: &str) -> Self {
        let executor = Executor::new(events.clone());
        let timers = Timers::new(events.clone());
        let options = HostOptions::new("editor", "1.0.0").config(config);
        let options = options.runtime(EditorRuntime { timers: timers.clone() }).handlers(move |entry| {
            let (server, events) = (entry.name().to_owned(), events.clone());
            ClientHandlers::new().elicitation(move |params: ElicitParams, _| {
                let (answer, answered) = oneshot::channel();
                let text = format!("{server}: {}", params.message());
                let _ = events.send(AppEvent::Question(Question { text, answer }));
                async move {
                    match answered.await {
                        Ok(true) => ElicitResult::accept(Map::new()),
                        Ok(false) => ElicitResult::decline(),
                        Err(_) => ElicitResult::cancel(),
                    }
                }
            })
        });
        let (host, host_driver) = options.start();
        let screen = Rc::<RefCell<Screen>>::default();
        let (client, driver) = mcp_smol::connect(Command::new(program));
        executor.spawn(async { drop(host_driver.await) }).detach();
        executor.spawn(async { drop(driver.await) }).detach();
        let (watched, shown, mut changes) = (host.clone(), screen.clone(), host.events());
        let count_tools = async move {
            while changes.next().await.is_some() {
                shown.borrow_mut().tools = watched.tools().len();
            }
        };
        executor.spawn(count_tools).detach();
        Self { executor, timers, host, client, screen, questions: VecDeque::new(), running: None }
    }

    /// Runs a call as the task that Escape cancels, and shows how long it takes.
    fn run<E: Error>(&mut self, call: impl Future<Output = Result<CallToolResult, E>> + 'static) {
        let (screen, timers) = (self.screen.clone(), self.timers.clone());
        let ticks = screen.clone();
        let ticking = async move {
            for tick in 0u32.. {
                ticks.borrow_mut().status = format!("running {tick}");
                timers.sleep(Duration::from_millis(20)).await;
            }
            std::future::pending().await
        };
        self.running = Some(self.executor.spawn(async move {
            let result = or(call, ticking).await;
            screen.borrow_mut().status = match result {
                Ok(result) => result.text_content(),
                Err(error) => format!("error: {error}"),
            };
        }));
    }

    fn handle_key(&mut self, key: char) {
        match key {
            'y' | 'n' if !self.questions.is_empty() => {
                let question = self.questions.pop_front();
                // The call may have ended meanwhile.
                question.map(|question| question.answer.send(key == 'y'));
            }
            'S' => self.add_everywhere(),
            'C' => self.run(self.host.call_tool("mcp__one__confirm", json!({}))),
            'W' => self.run(self.host.call_tool("mcp__two__wait", json!({}))),
            'N' => self.run(self.host.call_tool("mcp__two__cancelled", json!({}))),
            'L' => self.run(self.client.call_tool("add", json!({ "a": 20, "b": 22 }))),
            'Q' => self.quit(),
            '\u{1b}' => {
                if self.running.take().is_some() {
                    self.screen.borrow_mut().status = "cancelled".to_owned();
                }
            }
            key => self.screen.borrow_mut().text.push(key),
        }
    }

    fn add_everywhere(&self) {
        let servers = self.host.servers();
        self.screen.borrow_mut().sums = vec!["…".to_owned(); servers.len()];
        for (index, server) in servers.iter().enumerate() {
            let name = format!("mcp__{}__add", server.name);
            let call = self.host.call_tool(&name, json!({ "a": index, "b": 1 }));
            let screen = self.screen.clone();
            let show = async move {
                let sum = call.await.map_or_else(|error| error.to_string(), |sum| sum.text_content());
                screen.borrow_mut().sums[index] = sum;
            };
            self.executor.spawn(show).detach();
        }
    }

    fn quit(&mut self) {
        self.running = None;
        let (host, client, screen) = (self.host.clone(), self.client.clone(), self.screen.clone());
        let close = async move {
            host.close().await;
            client.close().await;
            screen.borrow_mut().is_over = true;
        };
        self.executor.spawn(close).detach();
    }

    fn draw(&self) -> String {
        let screen = self.screen.borrow();
        let question = self.questions.front().map_or("", |question| &question.text);
        let sums = screen.sums.join(" ");
        format!("{} | {} tools | {sums} | {question} | {}", screen.text, screen.tools, screen.status)
    }

    fn run_event_loop(mut self, events: &Receiver<AppEvent>) {
        let mut drawn = String::new();
        while !self.screen.borrow().is_over {
            let wait = self.timers.fire();
            for _ in 0..TASKS_PER_FRAME {
                if !self.executor.poll_one() {
                    break;
                }
            }
            let screen = self.draw();
            if screen != drawn {
                println!("{screen}");
                drawn = screen;
            }
            let wait = if self.executor.is_idle() { wait } else { Some(Duration::ZERO) };
            let event = match wait {
                Some(wait) => events.recv_timeout(wait),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(AppEvent::Key(key)) => self.handle_key(key),
                Ok(AppEvent::Question(question)) => self.questions.push_back(question),
                Ok(AppEvent::End) => self.quit(),
                Ok(AppEvent::Wake) | Err(_) => {}
            }
            // A call that was cancelled no longer waits for its answer.
            self.questions.retain(|question| !question.answer.is_canceled());
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err("usage: editor CONFIGURATION PROGRAM".into());
    };
    let file = ConfigFile::parse(Source::user(&*path), &std::fs::read(&path)?);
    for error in &file.errors {
        eprintln!("{error}");
    }
    let (events, inbox) = mpsc::channel();
    let editor = Editor::new(events.clone(), Config::merge([file]), &program);
    std::thread::spawn(move || {
        let mut key = [0];
        while let Ok(1) = std::io::stdin().read(&mut key)
            && events.send(AppEvent::Key(key[0].into())).is_ok()
        {}
        let _ = events.send(AppEvent::End);
    });
    editor.run_event_loop(&inbox);
    Ok(())
}
