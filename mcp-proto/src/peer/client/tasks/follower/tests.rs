//! The follower's table, row by row, and its invariants for arbitrary input.

mod failures;
mod legacy;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;

use super::{FollowAction, Follower, MAX_FAILURES, ResultWait, TaskInputMode, TaskSnapshot};
use crate::Instant;
use crate::peer::{LostReason, Outcome, RetryAdvice, TransportError};
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::Era;

const MOST_KEYS: usize = 4;

fn raw(text: impl Into<String>) -> Raw {
    Raw::new(text).expect("valid JSON")
}

fn text(act: &FollowAction) -> String {
    let keys = |of: &BTreeMap<String, Raw>| of.keys().cloned().collect::<Vec<_>>().join("+");
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
fn a_task_is_asked_for_until_it_is_completed() {
    let mut run = FollowerRun::modern();
    run.poll(&task("working", ""));
    run.expect(&[]);
    run.poll(&task("completed", r#","result":{"content":[]}"#));
    run.expect(&["tell completed", r#"settle {"content":[]}"#]);
    assert!(run.ended());
}

/// C14.3
#[test]
fn the_servers_interval_is_honoured_as_it_changes() {
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
fn no_interval_is_shorter_than_fifty_milliseconds_or_longer_than_a_minute() {
    for (wish, expected) in [("0", 50), ("1", 50), ("-5", 100), ("1e300", 100), ("3600000", 60_000)] {
        let mut run =
            FollowerRun::created(Era::Modern, &task("working", &format!(r#","pollIntervalMs":{wish}"#)));
        assert_eq!(run.wait(), Duration::from_millis(expected), "{wish}");
    }
}

#[test]
fn without_an_interval_the_pauses_grow_while_there_is_no_news() {
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
fn a_seed_that_is_not_working_is_asked_for_at_once() {
    for status in ["input_required", "completed", "failed", "cancelled"] {
        let mut run = FollowerRun::created(Era::Modern, &task(status, ""));
        run.expect(&[&format!("tell {status}"), "get"]);
        assert!(run.ended(), "no timer while the question is on its way");
    }
}

#[test]
fn a_task_that_is_taken_up_again_is_asked_for_at_once() {
    let mut follower = Follower::resumed(Era::Modern, "t".into(), TaskInputMode::Automatic, MOST_KEYS);
    assert!(matches!(follower.poll_action(), Some(FollowAction::Get)));
    follower.handle_get(Instant::ORIGIN, Outcome::Result(raw(task("completed", r#","result":{}"#))));
    assert!(matches!(follower.poll_action(), Some(FollowAction::Report(_))));
    assert!(matches!(follower.poll_action(), Some(FollowAction::Resolve(Outcome::Result(_)))));
}

#[test]
fn a_failed_task_ends_with_its_error() {
    let mut run = FollowerRun::modern();
    run.poll(&task("failed", r#","error":{"code":-32603,"message":"limit"}"#));
    run.expect(&["tell failed", "settle: the peer answered with an error: limit (-32603)"]);
}

#[test]
fn a_task_that_the_server_gave_up_ends_so() {
    for mut run in [FollowerRun::modern(), FollowerRun::legacy()] {
        run.poll(&task("cancelled", r#","statusMessage":"quota""#));
        run.expect(&["tell cancelled", "settle: the server gave the task up: quota"]);
    }
}

/// C14.4
#[test]
fn what_a_task_asks_for_is_asked_once_per_key_and_handed_over() {
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
fn a_key_that_comes_again_after_its_answer_is_not_asked_again() {
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
fn one_lot_of_answers_waits_for_the_other() {
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
fn answers_that_do_not_get_through_are_sent_again_a_few_times() {
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
fn answers_that_the_server_refuses_end_the_task_if_it_still_waits() {
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
fn answers_that_come_too_late_end_nothing() {
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
fn an_error_instead_of_answers_gives_the_task_up() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.actions();
    run.follower.handle_input(Err(error(code::INTERNAL_ERROR)));
    run.expect(&["cancel", "settle: the peer answered with an error: no (-32603)"]);
}

#[test]
fn a_task_that_ends_while_it_asks_withdraws_what_it_asked() {
    let mut run = FollowerRun::modern();
    run.poll(&asking(&["a"]));
    run.actions();
    run.poll(&task("completed", r#","result":{}"#));
    run.expect(&["tell completed", "withdraw", "settle {}"]);
    run.answers(&["a"]);
    run.expect(&[]);
}

#[test]
fn a_task_may_not_ask_for_more_than_its_bound() {
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
fn where_the_application_sees_to_it_itself_nothing_is_asked() {
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
fn a_task_that_is_given_up_is_cancelled_and_asked_for_no_more() {
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
fn a_task_that_is_left_goes_on() {
    let mut run = FollowerRun::modern();
    run.follower.stop_following();
    run.expect(&[]);
    assert!(run.ended());
}

/// C14.6
#[test]
fn a_notification_tells_as_much_as_an_answer_and_asking_goes_on() {
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
fn a_notification_puts_the_next_question_off() {
    let mut run = FollowerRun::created(Era::Modern, &task("working", r#","pollIntervalMs":1000"#));
    run.now = run.now + Duration::from_millis(900);
    run.notice(&task("working", r#","pollIntervalMs":1000,"statusMessage":"half""#));
    assert_eq!(run.wait(), Duration::from_secs(1));
}

// --- Arbitrary input ---

/// Every order of inputs: time always advances, and the end is reported once.
#[test]
fn no_order_of_inputs_hangs_the_machine_or_ends_it_twice() {
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
