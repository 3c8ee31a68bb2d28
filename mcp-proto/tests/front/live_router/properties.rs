//! A live router after random updates behaves as a router that was built with the same contents.

use crate::common::messages::LEGACY;
use crate::common::router::ServerHarness;
use mcp_proto::front::{LiveRouter, NoArguments, Router, RouterError};
use mcp_proto::schema::{Prompt, Resource, ServerCapability};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{tool, with_tool};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Tool,
    Prompt,
    Resource,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Add(Kind, u8),
    Remove(Kind, u8),
    Disable(Kind, u8),
    Enable(Kind, u8),
    /// A change that fails.
    Invalid,
}

fn changes() -> impl Strategy<Value = Vec<Vec<Change>>> {
    let kind = prop_oneof![Just(Kind::Tool), Just(Kind::Prompt), Just(Kind::Resource)];
    let change = (kind, 0_u8..6, 0..17).prop_map(|(kind, name, what)| match what {
        0..8 => Change::Add(kind, name),
        8..10 => Change::Remove(kind, name),
        10..13 => Change::Disable(kind, name),
        13..16 => Change::Enable(kind, name),
        _ => Change::Invalid,
    });
    proptest::collection::vec(proptest::collection::vec(change, 1..5), 0..24)
}

/// The items of one kind, in order: a removed item keeps its place.
#[derive(Clone, Default, PartialEq)]
struct Items(Vec<(u8, State)>);

#[derive(Clone, Copy, PartialEq)]
enum State {
    Enabled,
    Disabled,
    Removed,
}

impl Items {
    /// Carries out a change. Returns whether it is valid.
    fn change(&mut self, name: u8, change: Change) -> bool {
        let found = self.0.iter_mut().find(|(item, _)| *item == name).map(|(_, state)| state);
        match (change, found) {
            (Change::Add(..), None) => self.0.push((name, State::Enabled)),
            (Change::Add(..), Some(state @ State::Removed)) => *state = State::Enabled,
            (Change::Add(..), Some(_)) | (_, None | Some(State::Removed)) => return false,
            (Change::Remove(..), Some(state)) => *state = State::Removed,
            (Change::Disable(..), Some(state)) => *state = State::Disabled,
            (Change::Enable(..) | Change::Invalid, Some(state)) => *state = State::Enabled,
        }
        true
    }

    fn listed(&self) -> impl Iterator<Item = u8> {
        self.0.iter().filter(|(_, state)| *state == State::Enabled).map(|(name, _)| *name)
    }
}

#[derive(Clone, Default, PartialEq)]
struct Model {
    tools: Items,
    prompts: Items,
    resources: Items,
}

impl Model {
    fn items(&mut self, kind: Kind) -> &mut Items {
        match kind {
            Kind::Tool => &mut self.tools,
            Kind::Prompt => &mut self.prompts,
            Kind::Resource => &mut self.resources,
        }
    }

    fn change(&mut self, change: Change) -> bool {
        match change {
            Change::Add(kind, name)
            | Change::Remove(kind, name)
            | Change::Disable(kind, name)
            | Change::Enable(kind, name) => self.items(kind).change(name, change),
            Change::Invalid => false,
        }
    }

    /// Builds a router with these items.
    fn router(&self) -> Router {
        let router = self.tools.listed().fold(empty(), |router, name| add(router, Kind::Tool, name));
        let router = self.prompts.listed().fold(router, |router, name| add(router, Kind::Prompt, name));
        self.resources.listed().fold(router, |router, name| add(router, Kind::Resource, name))
    }
}

fn empty() -> Router {
    Router::new("random", "1")
        .page_size(2)
        .declare(ServerCapability::ToolsListChanged)
        .declare(ServerCapability::PromptsListChanged)
        .declare(ServerCapability::ResourcesListChanged)
}

fn key(kind: Kind, name: u8) -> String {
    match kind {
        Kind::Tool | Kind::Prompt => format!("n{name}"),
        Kind::Resource => format!("r:{name}"),
    }
}

fn add(router: Router, kind: Kind, name: u8) -> Router {
    let key = key(kind, name);
    match kind {
        Kind::Tool => with_tool(router, &key),
        Kind::Prompt => router.prompt(Prompt::new(key), async |NoArguments {}, _| "prompt"),
        Kind::Resource => router.resource(Resource::new(key, "resource"), async |uri, _| uri),
    }
}

fn apply(router: Router, change: Change) -> Router {
    match change {
        Change::Add(kind, name) => add(router, kind, name),
        Change::Remove(kind, name) => match kind {
            Kind::Tool => router.remove_tool(&key(kind, name)),
            Kind::Prompt => router.remove_prompt(&key(kind, name)),
            Kind::Resource => router.remove_resource(&key(kind, name)),
        },
        Change::Disable(kind, name) => match kind {
            Kind::Tool => router.disable_tool(&key(kind, name)),
            Kind::Prompt => router.disable_prompt(&key(kind, name)),
            Kind::Resource => router.disable_resource(&key(kind, name)),
        },
        Change::Enable(kind, name) => match kind {
            Kind::Tool => router.enable_tool(&key(kind, name)),
            Kind::Prompt => router.enable_prompt(&key(kind, name)),
            Kind::Resource => router.enable_resource(&key(kind, name)),
        },
        Change::Invalid => router.tool_with(tool("not a name"), async |NoArguments {}, _| "never"),
    }
}

/// All that a client can see: the pages of each list, and the answer to a request for each item.
fn view(client: &mut ServerHarness) -> Vec<Value> {
    let mut seen = Vec::new();
    for method in ["tools/list", "prompts/list", "resources/list"] {
        let mut params = json!({});
        loop {
            let page = client.result(method, params);
            params = json!({"cursor": page["nextCursor"]});
            seen.push(page);
            if params["cursor"].is_null() {
                break;
            }
        }
    }
    for name in 0..6 {
        for (kind, method, field) in [
            (Kind::Tool, "tools/call", "name"),
            (Kind::Prompt, "prompts/get", "name"),
            (Kind::Resource, "resources/read", "uri"),
        ] {
            let mut answer = client.request(method, json!({(field): key(kind, name)}));
            answer["id"].take();
            seen.push(answer);
        }
    }
    seen
}

fn update(live: &LiveRouter, batch: &[Change]) -> Result<(), RouterError> {
    live.update(|router| batch.iter().fold(router, |router, change| apply(router, *change)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn live_router_equals_a_router_that_is_built_anew(batches in changes()) {
        let live = empty().live();
        let mut client = ServerHarness::legacy_shared(live.clone(), LEGACY, json!({}));
        let mut model = Model::default();
        for batch in &batches {
            let mut changed = model.clone();
            let valid = batch.iter().all(|change| changed.change(*change));
            prop_assert_eq!(update(&live, batch).is_ok(), valid);
            let before = model.clone();
            if valid {
                model = changed;
            }
            let lists = [(&before.tools, &model.tools), (&before.prompts, &model.prompts), (&before.resources, &model.resources)];
            let expected = lists.iter().filter(|(before, after)| !before.listed().eq(after.listed())).count();
            let notifications = core::iter::from_fn(|| client.try_line()).count();
            prop_assert_eq!(notifications, expected);
        }
        let mut anew = ServerHarness::legacy_shared(model.router(), LEGACY, json!({}));
        prop_assert_eq!(view(&mut client), view(&mut anew));
    }
}
