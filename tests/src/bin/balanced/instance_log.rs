//! Clients that know which instance has answered: the balancer says so in a header.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_hyper::{ClientOptions, WireEvent};
use mcp_proto::front::{Client, ClientHandlers};
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::schema::{ElicitParams, ElicitResult, ElicitValue, Map};

use crate::Outcome;

/// The instances that have answered, one after the other.
#[derive(Clone, Default)]
pub(crate) struct InstanceLog(Arc<Mutex<Vec<String>>>);

impl InstanceLog {
    fn entries(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instances that have answered since [`take`](Self::take).
    pub(crate) fn instances(&self) -> BTreeSet<String> {
        self.entries().iter().cloned().collect()
    }

    /// How many answers came from which instance since this was asked last.
    pub(crate) fn take(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for instance in std::mem::take(&mut *self.entries()) {
            *counts.entry(instance).or_default() += 1;
        }
        counts
    }
}

/// Connects through the balancer, and runs the client along.
pub(crate) fn connect(socket: &Path, mode: EraPolicy) -> Outcome<(Client, InstanceLog)> {
    let trace = InstanceLog::default();
    let seen = trace.clone();
    let (client, driver) = ClientOptions::new("balanced", env!("CARGO_PKG_VERSION"))
        .era_policy(mode)
        .handlers(ClientHandlers::new().elicitation(async |params, _| answer(&params)))
        .unix_socket(socket)
        .on_wire(move |event| {
            if let WireEvent::Head { headers, .. } = event {
                let instance = headers.get("x-instance").and_then(|value| value.to_str().ok());
                seen.entries().push(instance.unwrap_or("none").to_owned());
            }
        })
        .connect("http://localhost/mcp")?;
    smol::spawn(driver).detach();
    Ok((client, trace))
}

/// Each field with its own name and what it was asked for.
fn answer(params: &ElicitParams) -> ElicitResult {
    let ElicitParams::Form(form) = params else { return ElicitResult::decline() };
    let fields = form.requested_schema.properties.iter();
    let filled = fields.map(|(name, _)| (name, ElicitValue::String(format!("{name} of {}", form.message))));
    ElicitResult::accept(filled.collect::<Map<_>>())
}

/// What a tool says that asks twice.
pub(crate) fn expected(n: u32) -> String {
    format!("{n}: city of call {n}, day of call {n}")
}

/// Counts, for people.
pub(crate) fn shown(counts: &BTreeMap<String, usize>) -> String {
    let each: Vec<_> = counts.iter().map(|(instance, count)| format!("{count} by {instance}")).collect();
    each.join(", ")
}

/// Fails unless it holds.
pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(otherwise().into()) }
}
