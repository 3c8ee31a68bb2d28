//! Requests that wait for an exchange of their token checker.

use core::future::Future as _;
use core::net::IpAddr;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use mcp_proto::Bytes;
use mcp_proto::auth::server::{Checker, TokenValidation};
use mcp_proto::auth::{Fetch, FetchId, FetchPolicy, Secret};
use mcp_proto::front::guard::{CheckerVerifier, FetchResponse, Guard, GuardDecision, PendingVerification};
use mcp_proto::quota::QuotaOwner;

use super::*;

const FETCH: FetchId = FetchId::new(1);
/// The limit for one sender: three fifths of the total limit.
const MOST: usize = 615;

/// Needs one exchange before it accepts any token.
struct FetchingChecker {
    answered: bool,
}

impl Checker for FetchingChecker {
    fn check(&mut self, _: Now, _: &QuotaOwner, _: &Secret) -> TokenValidation {
        if self.answered {
            TokenValidation::Valid(Box::new(access("")))
        } else {
            TokenValidation::Pending(FETCH)
        }
    }

    fn handle_answer(&mut self, _: Now, _: FetchId, _: u16, _: &[u8]) {
        self.answered = true;
    }

    fn handle_failed(&mut self, _: Now, _: FetchId, _: &str) {}

    fn poll_fetch(&mut self) -> Option<(Fetch, FetchPolicy)> {
        None
    }

    fn has_fetch(&self) -> bool {
        false
    }
}

fn ask(guard: &Guard) -> PendingVerification {
    ask_from(guard, None)
}

fn ask_from(guard: &Guard, client: Option<IpAddr>) -> PendingVerification {
    let fields = [("authorization", "Bearer one")];
    let head = RequestHead { method: "POST", path: "/mcp", fields: &fields, client };
    match guard.check(&head, at(0)) {
        GuardDecision::Verifying(verifying) => verifying,
        GuardDecision::Answer(answer) => panic!("{answer:?}"),
    }
}

fn poll(verifying: &mut PendingVerification) -> Poll<Result<GrantedAccess, HttpResponse>> {
    Pin::new(verifying).poll(&mut Context::from_waker(Waker::noop()))
}

/// Contract 8, S10.2: waiting requests are bounded, one above the limit gets an error, and one that ends makes room.
#[test]
fn waiting_requests_are_bounded() {
    let guard = Guard::new(protection(), CheckerVerifier::from_checker(FetchingChecker { answered: false }));
    let mut waiting: Vec<_> = (0..MOST).map(|_| ask(&guard)).collect();
    assert!(waiting.iter_mut().all(|verifying| poll(verifying).is_pending()));
    let refused = |polled| matches!(polled, Poll::Ready(Err(HttpResponse { status: 429, .. })));
    assert!(refused(poll(&mut ask(&guard))));
    let Poll::Ready(Err(answer)) = poll(&mut ask(&guard)) else { panic!() };
    assert!(answer.headers.contains(&("retry-after", "5".into())));
    // A request polled again keeps its place, and takes no other.
    assert!(poll(&mut waiting[0]).is_pending());
    assert!(refused(poll(&mut ask(&guard))));
    drop(waiting.pop());
    let mut last = ask(&guard);
    assert!(poll(&mut last).is_pending());
    assert!(refused(poll(&mut ask(&guard))));
    waiting.push(last);
    // Others have room.
    let mut other = ask_from(&guard, Some(IpAddr::from([192, 0, 2, 1])));
    assert!(poll(&mut other).is_pending());
    waiting.push(other);

    guard.handle_fetched(at(1), FETCH, Ok(FetchResponse { status: 200, body: Bytes::new() }));
    assert!(waiting.iter_mut().all(|verifying| matches!(poll(verifying), Poll::Ready(Ok(_)))));
}
