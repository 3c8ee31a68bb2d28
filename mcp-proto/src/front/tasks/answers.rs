//! Answers to what a task asks for: those that fit, and those that wait in the store for the instance that runs the task.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use super::{StoredTaskState, TaskRecord};
use crate::rpc::{ErrorObject, code};
use crate::schema::{ElicitParams, InputRequest, InputResponse, InputResponses, Json};

/// Those of the responses that answer what is asked for. Others mean nothing.
///
/// # Errors
/// What to answer if one does not fit what was asked.
pub(super) fn matching_answers<'a>(
    responses: &InputResponses,
    asked: impl Fn(&str) -> Option<&'a InputRequest>,
) -> Result<BTreeMap<String, Json>, ErrorObject> {
    let mut fitting = BTreeMap::new();
    for (key, response) in responses.iter() {
        let Some(request) = asked(key) else { continue };
        let encode = |()| Json::encode(response).map_err(|error| error.to_string());
        let answer = check_answer(request, response).and_then(encode).map_err(|why| {
            let message = format!("the response {key:?} does not fit what was asked for: {why}");
            ErrorObject::new(code::INVALID_PARAMS, message)
        })?;
        fitting.insert(key.to_string(), answer);
    }
    Ok(fitting)
}

/// Whether a response can be that to a request, and why not.
fn check_answer(request: &InputRequest, response: &InputResponse) -> Result<(), String> {
    match (request, response) {
        (InputRequest::Elicit(ElicitParams::Form(form)), InputResponse::Elicit(answer)) => {
            form.check(answer).map_err(|error| error.to_string())
        }
        (InputRequest::Elicit(_), InputResponse::Elicit(_))
        | (InputRequest::CreateMessage(_), InputResponse::CreateMessage(_))
        | (InputRequest::ListRoots(_), InputResponse::ListRoots(_)) => Ok(()),
        _ => Err("it answers something else".into()),
    }
}

impl TaskRecord {
    /// Takes answers for the instance that runs the task; what they answer is no longer asked for. Says whether there
    /// were any.
    ///
    /// # Errors
    /// What to answer if one does not fit what was asked; then none is taken.
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
