//! Answers to input requests of tasks: their checks, and their storage for the instance that runs the task.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use super::{StoredTaskState, TaskRecord};
use crate::rpc::{ErrorObject, code};
use crate::schema::{ElicitParams, InputRequest, InputResponse, InputResponses, Json};

/// Returns the responses that answer open input requests. Others are ignored.
///
/// # Errors
/// The error for a response that does not match its request.
pub(super) fn matching_answers<'a>(
    responses: &InputResponses,
    asked: impl Fn(&str) -> Option<&'a InputRequest>,
) -> Result<BTreeMap<String, Json>, ErrorObject> {
    let mut fitting = BTreeMap::new();
    for (key, response) in responses.iter() {
        //= S11.8 "stale keys ignored"
        let Some(request) = asked(key) else { continue };
        let encode = |()| Json::encode(response).map_err(|error| error.to_string());
        let answer = check_answer(request, response).and_then(encode).map_err(|why| {
            let message = format!("the response {key:?} does not fit its input request: {why}");
            ErrorObject::new(code::INVALID_PARAMS, message)
        })?;
        fitting.insert(key.to_string(), answer);
    }
    Ok(fitting)
}

/// Checks that a response matches its request.
fn check_answer(request: &InputRequest, response: &InputResponse) -> Result<(), String> {
    match (request, response) {
        (InputRequest::Elicit(ElicitParams::Form(form)), InputResponse::Elicit(answer)) => {
            form.check(answer).map_err(|error| error.to_string())
        }
        (InputRequest::Elicit(_), InputResponse::Elicit(_))
        | (InputRequest::CreateMessage(_), InputResponse::CreateMessage(_))
        | (InputRequest::ListRoots(_), InputResponse::ListRoots(_)) => Ok(()),
        _ => Err("it answers a request of another method".into()),
    }
}

impl TaskRecord {
    /// Stores answers for the instance that runs the task, and removes their input requests. Returns whether there were
    /// any.
    ///
    /// # Errors
    /// The error for a response that does not match its request; then no answer is stored.
    pub(super) fn take_answers(&mut self, responses: &InputResponses) -> Result<bool, ErrorObject> {
        let StoredTaskState::InputRequired(requests) = &mut self.state else { return Ok(false) };
        let mut taken = matching_answers(responses, |key| requests.get(key))?;
        let any = !taken.is_empty();
        for key in taken.keys() {
            requests.remove(key);
        }
        self.answers.append(&mut taken);
        if requests.is_empty() {
            self.state = StoredTaskState::Working;
        }
        Ok(any)
    }
}
