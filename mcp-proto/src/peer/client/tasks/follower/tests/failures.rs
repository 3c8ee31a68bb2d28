//! Failures while a task is followed.

use super::*;

/// A transport error with this retry advice.
fn transport_error(retry: RetryAdvice) -> TransportError {
    let mut error = TransportError::new("HTTP", 0, "");
    error.retry = retry;
    error
}

#[test]
fn follower_repeats_a_failed_poll_a_few_times() {
    for failure in [
        lost,
        || error(code::INTERNAL_ERROR),
        || Outcome::Transport(transport_error(RetryAdvice::Later)),
        || Outcome::Transport(transport_error(RetryAdvice::Unknown)),
    ] {
        let mut run = FollowerRun::modern();
        for _ in 0..MAX_FAILURES {
            run.wait();
            run.expect(&["get"]);
            run.follower.handle_get(run.now, failure());
            run.expect(&[]);
        }
        run.wait();
        run.expect(&["get"]);
        run.follower.handle_get(run.now, failure());
        assert!(run.actions().concat().starts_with("settle: "));
    }
}

#[test]
fn follower_counts_only_consecutive_failures() {
    let mut run = FollowerRun::modern();
    for _ in 0..3 {
        for _ in 0..MAX_FAILURES {
            run.wait();
            run.follower.handle_get(run.now, lost());
        }
        run.wait();
        run.answer(&task("working", ""));
    }
    assert!(!run.ended());
}

#[test]
fn follower_does_not_repeat_a_poll_after_a_permanent_error() {
    for outcome in [
        error(code::INVALID_PARAMS),
        error(code::METHOD_NOT_FOUND),
        error(code::MISSING_REQUIRED_CLIENT_CAPABILITY),
        Outcome::Transport(transport_error(RetryAdvice::Never)),
    ] {
        let mut run = FollowerRun::modern();
        run.wait();
        run.expect(&["get"]);
        run.follower.handle_get(run.now, outcome);
        assert!(run.actions().concat().starts_with("settle: "));
        assert!(run.ended());
    }
}

#[test]
fn follower_honours_the_retry_time_of_the_server() {
    let mut run = FollowerRun::modern();
    run.wait();
    let mut busy = transport_error(RetryAdvice::Later);
    busy.retry_after = Some(Duration::from_secs(20));
    run.follower.handle_get(run.now, Outcome::Transport(busy));
    assert_eq!(run.wait(), Duration::from_secs(20));
}

#[test]
fn answer_about_another_task_or_without_its_result_is_a_failure() {
    for odd in [
        task("working", "").replace("\"t\"", "\"u\""),
        task("completed", ""),
        task("failed", ""),
        task("resting", ""),
        "[]".into(),
        "{}".into(),
    ] {
        let mut run = FollowerRun::modern();
        run.poll(&odd);
        assert!(!run.actions().concat().contains("settle"), "{odd}");
        assert!(!run.ended(), "{odd}");
    }
}

#[test]
fn follower_refuses_an_incomplete_result() {
    let mut run = FollowerRun::modern();
    run.poll(&task("completed", r#","result":{"resultType":"input_required"}"#));
    run.expect(&[
        "tell completed",
        "settle: the answer could not be read: the result of the task is not a complete result",
    ]);
}

#[test]
fn follower_sends_postponed_requests_later() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.answers(&["a"]);
    run.actions();
    run.follower.postpone(run.now, &FollowAction::Update(OrderedMap::new()));
    run.wait();
    run.expect(&["update a", "get"]);
    run.follower.postpone(run.now, &FollowAction::Get);
    run.wait();
    run.expect(&["get"]);
}
