//! The tasks of 2025-11-25.

use super::*;

/// C14.7
#[test]
fn follower_fetches_the_result_of_an_ended_legacy_task() {
    for status in ["completed", "failed"] {
        let mut run = FollowerRun::legacy();
        run.poll(&task(status, ""));
        run.expect(&[&format!("tell {status}"), "result"]);
        run.follower.handle_result(run.now, Outcome::Result(raw(r#"{"isError":true}"#)));
        run.expect(&[r#"settle {"isError":true}"#]);
    }
}

/// C14.7: `tasks/result` returns the error that the request itself would have returned.
#[test]
fn failed_legacy_task_ends_with_its_error() {
    let mut run = FollowerRun::legacy();
    run.poll(&task("failed", ""));
    run.actions();
    run.follower.handle_result(run.now, error(code::INTERNAL_ERROR));
    run.expect(&["settle: the peer answered with an error: no (-32603)"]);
}

/// C14.7: the server sends its requests while it holds the result back.
#[test]
fn follower_fetches_the_result_of_a_legacy_task_that_needs_input_once() {
    let mut run = FollowerRun::legacy();
    run.poll(&task("input_required", ""));
    run.expect(&["tell input_required", "result, however long"]);
    run.poll(&task("input_required", ""));
    run.expect(&[]);
    run.poll(&task("working", ""));
    run.expect(&["tell working"]);
    run.follower.handle_result(run.now, Outcome::Result(raw("{}")));
    run.expect(&["settle {}"]);
}

#[test]
fn follower_fetches_a_result_again_that_is_held_back_for_too_long() {
    let mut run = FollowerRun::legacy();
    run.poll(&task("input_required", ""));
    run.poll_and_forget(&task("completed", ""));
    run.wait();
    run.expect(&["result"]);
    assert!(run.ended());
}

#[test]
fn follower_fetches_the_result_at_the_end_from_a_server_that_does_not_hold_it_back() {
    let mut run = FollowerRun::legacy();
    run.poll(&task("input_required", ""));
    run.actions();
    run.follower.handle_result(run.now, error(code::INVALID_PARAMS));
    run.expect(&["get"]);
    run.answer(&task("input_required", ""));
    run.expect(&[]);
    run.poll(&task("completed", ""));
    run.expect(&["tell completed", "result"]);
}

#[test]
fn follower_fetches_a_lost_result_again() {
    let mut run = FollowerRun::legacy();
    run.poll(&task("completed", ""));
    run.actions();
    run.follower.handle_result(run.now, lost());
    run.wait();
    run.expect(&["result"]);
}
