//! The follower's table, row by row, and its invariants for arbitrary input.

mod failures;
mod legacy;

use core::time::Duration;

use super::{FollowAction, Follower, MAX_FAILURES, ResultWait, TaskInputMode, TaskSnapshot};
use crate::Instant;
use crate::ordered_map::OrderedMap;
use crate::peer::{LostReason, Outcome, RetryAdvice, TransportError};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::Era;

const MOST_KEYS: usize = 4;

fn raw(text: impl Into<String>) -> Raw {
    Raw::new(text).expect("valid JSON")
}

fn text(act: &FollowAction) -> String {
    let keys = |of: &OrderedMap<String, Raw>| of.keys().cloned().collect::<Vec<_>>().join("+");
    match act {
        FollowAction::Get => "get".into(),
        FollowAction::Result(ResultWait::Short) => "result".into(),
        FollowAction::Result(ResultWait::UntilEnd) => "result, however long".into(),
        FollowAction::Update(answers) => format!("update {}", keys(answers)),
        FollowAction::Cancel => "cancel".into(),
        FollowAction::RequestInput(requests) => format!("ask {}", keys(requests)),
        FollowAction::WithdrawInput => "withdraw".into(),
        FollowAction::Report(report) => format!("tell {}", report.status.as_str()),
        FollowAction::Resolve(Outcome::Result(result)) => format!("settle {}", result.as_str()),
        FollowAction::Resolve(outcome) => format!("settle: {outcome}"),
    }
}

/// A running task with its follower.
struct FollowerRun {
    follower: Follower,
    now: Instant,
}

impl FollowerRun {
    fn created(era: Era, seed: &str) -> Self {
        let now = Instant::ORIGIN;
        let seed = TaskSnapshot::read(&raw(seed)).expect("a seed").report;
        Self { follower: Follower::created(now, era, seed, TaskInputMode::Automatic, MOST_KEYS), now }
    }

    fn modern() -> Self {
        let mut run = Self::created(Era::Modern, &task("working", ""));
        run.expect(&["tell working"]);
        run
    }

    fn legacy() -> Self {
        let mut run = Self::created(Era::Legacy, &task("working", ""));
        run.expect(&["tell working"]);
        run
    }

    fn actions(&mut self) -> Vec<String> {
        let mut acts = Vec::new();
        while let Some(act) = self.follower.poll_action() {
            acts.push(text(&act));
        }
        acts
    }

    #[track_caller]
    fn expect(&mut self, expected: &[&str]) {
        assert_eq!(self.actions(), expected);
    }

    /// Waits until the follower's deadline, and returns how long that took.
    #[track_caller]
    fn wait(&mut self) -> Duration {
        let due = self.follower.deadline().expect("a deadline");
        let waited = due.saturating_since(self.now);
        self.now = due;
        self.follower.handle_timeout(due);
        waited
    }

    /// Waits, expects a poll, and answers it.
    #[track_caller]
    fn poll(&mut self, answer: &str) {
        self.wait();
        self.expect(&["get"]);
        self.answer(answer);
    }

    fn answer(&mut self, answer: &str) {
        self.follower.handle_get(self.now, Outcome::Result(raw(answer)));
    }

    fn notice(&mut self, of: &str) {
        self.follower.handle_notification(self.now, TaskSnapshot::read(&raw(of)).expect("a task"));
    }

    fn answers(&mut self, keys: &[&str]) {
        let answers = keys.iter().map(|key| (key.to_string(), raw("{}"))).collect();
        self.follower.handle_input(Ok(answers));
    }

    fn ended(&self) -> bool {
        self.follower.deadline().is_none()
    }
}

fn task(status: &str, more: &str) -> String {
    format!(
        r#"{{"taskId":"t","status":"{status}","createdAt":"then","lastUpdatedAt":"now","ttlMs":null{more}}}"#
    )
}

fn asking(keys: &[&str]) -> String {
    let requests: Vec<String> = keys
        .iter()
        .map(|key| format!(r#""{key}":{{"method":"elicitation/create","params":{{}}}}"#))
        .collect();
    task("input_required", &format!(r#","inputRequests":{{{}}}"#, requests.join(",")))
}

fn error(code: i64) -> Outcome {
    Outcome::Error(ErrorObject::new(code, "no"))
}

fn lost() -> Outcome {
    Outcome::Lost(LostReason::Disconnected(String::new()))
}

// --- The extension of 2026-07-28 ---

/// C14.3
#[test]
fn follower_polls_a_task_until_it_is_completed() {
    let mut run = FollowerRun::modern();
    run.poll(&task("working", ""));
    run.expect(&[]);
    run.poll(&task("completed", r#","result":{"content":[]}"#));
    run.expect(&["tell completed", r#"settle {"content":[]}"#]);
    assert!(run.ended());
}

/// C14.3
#[test]
fn follower_honours_the_interval_of_the_server_as_it_changes() {
    let mut run = FollowerRun::created(Era::Modern, &task("working", r#","pollIntervalMs":3000"#));
    run.expect(&["tell working"]);
    assert_eq!(run.wait(), Duration::from_secs(3));
    run.expect(&["get"]);
    run.answer(&task("working", r#","pollIntervalMs":7000"#));
    run.expect(&["tell working"]);
    assert_eq!(run.wait(), Duration::from_secs(7));
}

/// C14.3: the server's interval is bounded on both sides.
#[test]
fn interval_is_between_fifty_milliseconds_and_a_minute() {
    for (wish, expected) in [("0", 50), ("1", 50), ("-5", 100), ("1e300", 100), ("3600000", 60_000)] {
        let mut run =
            FollowerRun::created(Era::Modern, &task("working", &format!(r#","pollIntervalMs":{wish}"#)));
        assert_eq!(run.wait(), Duration::from_millis(expected), "{wish}");
    }
}

#[test]
fn pauses_grow_without_an_interval_while_the_status_is_unchanged() {
    let mut run = FollowerRun::modern();
    let mut pauses = vec![];
    for _ in 0..8 {
        pauses.push(run.wait().as_millis());
        run.expect(&["get"]);
        run.answer(&task("working", ""));
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    run.poll(&task("working", r#","statusMessage":"half""#));
    run.expect(&["tell working"]);
    assert_eq!(run.wait(), Duration::from_millis(100));
}

/// C14.3
#[test]
fn follower_polls_a_task_at_once_if_it_is_not_working() {
    for status in ["input_required", "completed", "failed", "cancelled"] {
        let mut run = FollowerRun::created(Era::Modern, &task(status, ""));
        run.expect(&[&format!("tell {status}"), "get"]);
        assert!(run.ended(), "no timer while the poll is in flight");
    }
}

#[test]
fn follower_polls_a_resumed_task_at_once() {
    let mut follower = Follower::resumed(Era::Modern, "t".into(), TaskInputMode::Automatic, MOST_KEYS);
    assert!(matches!(follower.poll_action(), Some(FollowAction::Get)));
    follower.handle_get(Instant::ORIGIN, Outcome::Result(raw(task("completed", r#","result":{}"#))));
    assert!(matches!(follower.poll_action(), Some(FollowAction::Report(_))));
    assert!(matches!(follower.poll_action(), Some(FollowAction::Resolve(Outcome::Result(_)))));
}

#[test]
fn failed_task_ends_with_its_error() {
    let mut run = FollowerRun::modern();
    run.poll(&task("failed", r#","error":{"code":-32603,"message":"limit"}"#));
    run.expect(&["tell failed", "settle: the peer answered with an error: limit (-32603)"]);
}

#[test]
fn task_cancelled_by_the_server_ends_as_cancelled() {
    for mut run in [FollowerRun::modern(), FollowerRun::legacy()] {
        run.poll(&task("cancelled", r#","statusMessage":"quota""#));
        run.expect(&["tell cancelled", "settle: the server cancelled the task: quota"]);
    }
}

/// C14.4
#[test]
fn follower_requests_each_key_once_and_sends_the_answers() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a", "b"]));
    run.expect(&["tell input_required", "ask a+b"]);
    run.poll(&asking(&["a", "b"]));
    run.expect(&[]);
    run.answers(&["a", "b"]);
    run.expect(&["update a+b"]);
    // The server's status may lag behind the update.
    run.poll(&asking(&["a", "b", "c"]));
    run.expect(&["ask c"]);
    run.follower.handle_update(run.now, Outcome::Result(raw("{}")));
    run.answers(&["c"]);
    run.expect(&["update c"]);
    run.follower.handle_update(run.now, Outcome::Result(raw("{}")));
    run.poll(&task("completed", r#","result":{}"#));
    run.expect(&["tell completed", "settle {}"]);
}

/// C14.4
#[test]
fn follower_does_not_request_an_answered_key_again() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.answers(&["a"]);
    run.expect(&["tell input_required", "ask a", "update a"]);
    run.follower.handle_update(run.now, Outcome::Result(raw("{}")));
    run.poll_and_forget(&task("working", ""));
    run.poll(&asking(&["a"]));
    run.expect(&["tell input_required"]);
}

/// C14.4
#[test]
fn follower_sends_one_update_at_a_time() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.poll_and_forget(&asking(&["a", "b"]));
    run.answers(&["a"]);
    run.answers(&["b"]);
    run.expect(&["update a"]);
    run.follower.handle_update(run.now, Outcome::Result(raw("{}")));
    run.expect(&["update b"]);
}

impl FollowerRun {
    fn poll_and_forget(&mut self, answer: &str) {
        self.actions();
        self.poll(answer);
        self.actions();
    }
}

#[test]
fn follower_repeats_a_lost_update_a_few_times() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.answers(&["a"]);
    run.expect(&["tell input_required", "ask a", "update a"]);
    for _ in 0..MAX_FAILURES {
        run.follower.handle_update(run.now, lost());
        run.wait();
        run.expect(&["update a", "get"]);
        run.answer(&asking(&["a"]));
    }
    run.follower.handle_update(run.now, lost());
    run.expect(&["cancel", "settle: the peer ended the connection"]);
}

#[test]
fn refused_update_ends_a_task_that_still_waits() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.answers(&["a"]);
    run.actions();
    run.follower.handle_update(run.now, error(code::INVALID_PARAMS));
    run.expect(&["get"]);
    run.answer(&asking(&["a"]));
    run.expect(&["cancel", "settle: the peer answered with an error: no (-32602)"]);
}

#[test]
fn refusal_of_a_late_update_does_not_end_the_task() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.answers(&["a"]);
    run.actions();
    run.follower.handle_update(run.now, error(code::INVALID_PARAMS));
    run.expect(&["get"]);
    run.answer(&task("completed", r#","result":{}"#));
    run.expect(&["tell completed", "settle {}"]);
}

#[test]
fn error_of_the_application_cancels_the_task() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.actions();
    run.follower.handle_input(Err(error(code::INTERNAL_ERROR)));
    run.expect(&["cancel", "settle: the peer answered with an error: no (-32603)"]);
}

#[test]
fn task_that_ends_withdraws_its_input_requests() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.actions();
    run.poll(&task("completed", r#","result":{}"#));
    run.expect(&["tell completed", "withdraw", "settle {}"]);
    run.answers(&["a"]);
    run.expect(&[]);
}

#[test]
fn follower_limits_the_input_requests_of_a_task() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a", "b", "c", "d"]));
    run.actions();
    run.poll(&asking(&["e"]));
    run.expect(&[
        "cancel",
        "withdraw",
        "settle: the answer could not be read: the task asks for more than this side allows",
    ]);
}

#[test]
fn follower_requests_no_input_in_manual_mode() {
    let seed = TaskSnapshot::read(&raw(task("working", ""))).expect("a seed").report;
    let mut run = FollowerRun {
        follower: Follower::created(Instant::ORIGIN, Era::Modern, seed, TaskInputMode::Manual, MOST_KEYS),
        now: Instant::ORIGIN,
    };
    run.actions();
    run.poll(&asking(&["a"]));
    run.expect(&["tell input_required"]);
}

/// C14.5
#[test]
fn follower_cancels_a_task_and_stops_polling_it() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.actions();
    run.follower.cancel();
    run.expect(&["cancel", "withdraw"]);
    assert!(run.ended());
    run.notice(&task("completed", r#","result":{}"#));
    run.expect(&[]);
}

#[test]
fn follower_can_stop_without_cancelling_the_task() {
    let mut run = FollowerRun::modern();
    run.follower.stop_following();
    run.expect(&[]);
    assert!(run.ended());
}

/// C14.6
#[test]
fn notification_counts_like_a_poll_and_polling_continues() {
    let mut run = FollowerRun::modern();
    run.notice(&asking(&["a"]));
    run.expect(&["tell input_required", "ask a"]);
    run.poll(&asking(&["a"]));
    run.expect(&[]);
    run.notice(&task("completed", r#","result":{}"#));
    run.expect(&["tell completed", "withdraw", "settle {}"]);
}

/// C14.6
#[test]
fn notification_postpones_the_next_poll() {
    let mut run = FollowerRun::created(Era::Modern, &task("working", r#","pollIntervalMs":1000"#));
    run.now = run.now + Duration::from_millis(900);
    run.notice(&task("working", r#","pollIntervalMs":1000,"statusMessage":"half""#));
    assert_eq!(run.wait(), Duration::from_secs(1));
}

// --- Arbitrary input ---

/// Every order of inputs: time always advances, and the end is reported once.
#[test]
fn follower_ends_once_and_never_hangs_in_any_order_of_inputs() {
    const INPUTS: usize = 12;
    for era in [Era::Modern, Era::Legacy] {
        for seed in 0..1_000_u64 {
            let mut chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut run = FollowerRun::created(era, &task("working", ""));
            let (mut settled, mut asked, mut answered) = (0, 0, 0);
            for _ in 0..24 {
                chance ^= chance << 13;
                chance ^= chance >> 7;
                chance ^= chance << 17;
                match chance as usize % INPUTS {
                    0 => run.answer(&task("working", "")),
                    1 => run.answer(&asking(&["a", "b"])),
                    2 => run.answer(&task("completed", r#","result":{}"#)),
                    3 => run.notice(&asking(&["c"])),
                    4 => run.notice(&task("failed", r#","error":{"code":1,"message":""}"#)),
                    5 => run.follower.handle_get(run.now, lost()),
                    6 => run.follower.handle_update(run.now, lost()),
                    7 => run.follower.handle_update(run.now, Outcome::Result(raw("{}"))),
                    8 => run.follower.handle_result(run.now, error(code::INTERNAL_ERROR)),
                    9 if answered < asked => {
                        answered += 1;
                        run.answers(&["a"]);
                    }
                    10 => run.follower.cancel(),
                    _ => {
                        if let Some(due) = run.follower.deadline() {
                            run.now = due;
                            run.follower.handle_timeout(due);
                            assert!(run.follower.deadline().is_none_or(|next| next > due));
                        }
                    }
                }
                for act in run.actions() {
                    settled += usize::from(act.starts_with("settle"));
                    asked += usize::from(act.starts_with("ask"));
                    assert!(settled == 0 || !act.starts_with("get"), "{act} after the end");
                }
            }
            assert!(settled <= 1, "{seed}");
        }
    }
}
