//! Failures while a task is followed.

use super::*;

/// A transport error with this retry advice.
fn transport_error(retry: RetryAdvice) -> TransportError {
    let mut error = TransportError::new("HTTP", 0, "");
    error.retry = retry;
    error
}

#[test]
fn a_question_that_fails_is_asked_again_a_few_times() {
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
fn failures_count_only_in_a_row() {
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
fn what_asking_again_does_not_change_is_not_asked_again() {
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
fn a_server_that_says_when_to_come_again_is_left_alone_until_then() {
    let mut run = FollowerRun::modern();
    run.wait();
    let mut busy = transport_error(RetryAdvice::Later);
    busy.retry_after = Some(Duration::from_secs(20));
    run.follower.handle_get(run.now, Outcome::Transport(busy));
    assert_eq!(run.wait(), Duration::from_secs(20));
}

#[test]
fn an_answer_about_another_task_or_without_what_it_promises_is_a_failure() {
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
fn a_result_that_is_no_complete_one_is_not_taken() {
    let mut run = FollowerRun::modern();
    run.poll(&task("completed", r#","result":{"resultType":"input_required"}"#));
    run.expect(&["tell completed", "settle: the answer could not be read: the result of the task is none"]);
}

#[test]
fn what_can_not_be_sent_now_is_sent_later() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.answers(&["a"]);
    run.actions();
    run.follower.postpone(run.now, &FollowAction::Update(BTreeMap::new()));
    run.wait();
    run.expect(&["update a", "get"]);
    run.follower.postpone(run.now, &FollowAction::Get);
    run.wait();
    run.expect(&["get"]);
}
