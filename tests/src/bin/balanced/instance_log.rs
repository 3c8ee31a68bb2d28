//! Clients that log which instance answered, by a header of the balancer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_hyper::{ClientOptions, WireEvent};
use mcp_proto::front::{Client, ClientHandlers};
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::schema::{ElicitParams, ElicitResult, ElicitValue, Map};

use crate::Outcome;
use crate::proofs::{BEARER, URL};

/// The instances that answered, in order, and how many requests they refused.
#[derive(Clone, Default)]
pub(crate) struct InstanceLog {
    answers: Arc<Mutex<Vec<String>>>,
    unavailable: Arc<AtomicUsize>,
}

impl InstanceLog {
    fn entries(&self) -> MutexGuard<'_, Vec<String>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of answers with status 503 and `Retry-After`.
    pub(crate) fn unavailable(&self) -> usize {
        self.unavailable.load(Ordering::SeqCst)
    }

    /// The instances that answered since the last [`take`](Self::take).
    pub(crate) fn instances(&self) -> BTreeSet<String> {
        self.entries().iter().cloned().collect()
    }

    /// Takes the number of answers of each instance since the last call.
    pub(crate) fn take(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for instance in std::mem::take(&mut *self.entries()) {
            *counts.entry(instance).or_default() += 1;
        }
        counts
    }
}

/// Connects through the balancer, and spawns the client's driver.
pub(crate) fn connect(socket: &Path, mode: EraPolicy) -> Outcome<(Client, InstanceLog)> {
    let trace = InstanceLog::default();
    let seen = trace.clone();
    let (client, driver) = options(socket, mode)
        .header("authorization", BEARER)
        .on_wire(move |event| {
            if let WireEvent::Head { status, headers, .. } = event {
                let is_unavailable = status.as_u16() == 503 && headers.contains_key("retry-after");
                seen.unavailable.fetch_add(usize::from(is_unavailable), Ordering::SeqCst);
                let instance = headers.get("x-instance").and_then(|value| value.to_str().ok());
                seen.entries().push(instance.unwrap_or("none").to_owned());
            }
        })
        .connect(URL)?;
    smol::spawn(driver).detach();
    Ok((client, trace))
}

/// The options of a client without a token.
pub(crate) fn options(socket: &Path, mode: EraPolicy) -> ClientOptions {
    ClientOptions::new("balanced", env!("CARGO_PKG_VERSION"))
        .era_policy(mode)
        .handlers(ClientHandlers::new().elicitation(async |params, _| answer(&params)))
        .unix_socket(socket)
}

/// Fills each field with its name and the form's message.
pub(crate) fn answer(params: &ElicitParams) -> ElicitResult {
    let ElicitParams::Form(form) = params else { return ElicitResult::decline() };
    let fields = form.requested_schema.properties.iter();
    let filled = fields.map(|(name, _)| (name, ElicitValue::String(format!("{name} of {}", form.message))));
    ElicitResult::accept(filled.collect::<Map<_>>())
}

/// The result of a tool that asks twice.
pub(crate) fn expected(n: u32) -> String {
    format!("{n}: city of call {n}, day of call {n}")
}

/// Formats the counts.
pub(crate) fn shown(counts: &BTreeMap<String, usize>) -> String {
    let each: Vec<_> = counts.iter().map(|(instance, count)| format!("{count} by {instance}")).collect();
    each.join(", ")
}

/// Fails unless the condition holds.
pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(otherwise().into()) }
}
