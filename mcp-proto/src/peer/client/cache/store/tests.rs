use proptest::prelude::*;

use super::super::read_freshness;
use super::*;
use crate::ordered_map::OrderedMap;
use crate::schema::{Discover, ListPrompts, ListTools, Method, MethodInfo, ReadResource};

const MINUTE: Duration = Duration::from_secs(60);

fn at(ms: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(ms))
}

fn store() -> CacheStore {
    CacheStore::new(CacheConfig::default())
}

fn raw(text: &str) -> Raw {
    Raw::encode(text).unwrap()
}

fn of(method: &'static MethodInfo, params: &str) -> CacheRequest {
    CacheRequest::new(method, params.as_bytes().to_vec()).unwrap()
}

fn tools(cursor: Option<&str>) -> CacheRequest {
    match cursor {
        None => of(ListTools::INFO, "{}"),
        Some(cursor) => of(ListTools::INFO, &format!(r#"{{"cursor":"{cursor}"}}"#)),
    }
}

fn read(uri: &str) -> CacheRequest {
    of(ReadResource::INFO, &serde_json::json!({ "uri": uri }).to_string())
}

const fn public(ttl: Duration) -> Option<Freshness> {
    Some(Freshness { ttl, scope: CacheScope::Public })
}

const fn private(ttl: Duration) -> Option<Freshness> {
    Some(Freshness { ttl, scope: CacheScope::Private })
}

impl CacheStore {
    /// Makes a request that is answered at once.
    fn answer(&mut self, now: Instant, request: &CacheRequest, answer: &str, lease: Option<Freshness>) {
        let fill = self.begin_fill(now, request.clone(), Fallback::Stale);
        self.insert(now, fill, &raw(answer), lease);
        self.check();
    }

    fn has(&mut self, now: Instant, request: &CacheRequest) -> bool {
        self.find(now, request).is_some()
    }

    /// Checks the invariants of the store.
    fn check(&self) {
        assert!(self.entries.len() <= self.config.entries && self.bytes <= self.config.bytes, "{self:?}");
        let bytes: usize =
            self.entries.iter().map(|(key, kept)| charge(key, kept.result.as_bytes().len())).sum();
        assert_eq!(self.bytes, bytes);
        let by_use: OrderedMap<u64, CacheKey> =
            self.entries.iter().map(|(key, kept)| (kept.used_at, key.clone())).collect();
        assert_eq!(self.recency, by_use);
        assert!(self.recent_changes.len() <= MAX_RECENT_CHANGES);
    }
}

/// C8.1
#[test]
fn store_finds_a_result_by_its_method_and_all_params() {
    let mut store = store();
    store.answer(at(0), &tools(None), "first", public(MINUTE));
    assert_eq!(store.find(at(1), &tools(None)), Some(raw("first")));
    for other in [
        tools(Some("")),
        tools(Some("2")),
        of(ListTools::INFO, r#"{"vendor":1}"#),
        of(ListPrompts::INFO, "{}"),
        of(Discover::INFO, "{}"),
    ] {
        assert!(!store.has(at(1), &other), "{other:?}");
    }
    store.answer(at(0), &read("x://a"), "a", public(MINUTE));
    assert!(store.has(at(1), &read("x://a")) && !store.has(at(1), &read("x://ab")));
}

/// C5.8
#[test]
fn request_with_input_has_no_key() {
    for params in [
        r#"{"uri":"x://a","inputResponses":{}}"#,
        r#"{"uri":"x://a","requestState":"s"}"#,
        r#"{"uri":"x://a","requestState":null}"#,
    ] {
        assert_eq!(CacheRequest::new(ReadResource::INFO, params.as_bytes().to_vec()), None, "{params}");
    }
}

#[test]
fn oversized_request_has_no_key() {
    let long = format!(r#"{{"uri":"x://{}"}}"#, "a".repeat(10_000));
    assert_eq!(CacheRequest::new(ReadResource::INFO, long.into_bytes()), None);
}

/// C8.2
#[test]
fn store_finds_a_private_result_only_in_its_own_context() {
    let mut store = store();
    let (alice, bob) = (CacheContext::new("alice"), CacheContext::new("bob"));
    store.set_context(alice.clone());
    store.answer(at(0), &read("x://mine"), "alice's", private(MINUTE));
    store.answer(at(0), &read("x://all"), "everyone's", public(MINUTE));
    for other in [bob, CacheContext::default()] {
        store.set_context(other);
        assert_eq!(store.find(at(1), &read("x://mine")), None);
        assert_eq!(store.find(at(1), &read("x://all")), Some(raw("everyone's")));
    }
    store.set_context(alice);
    assert_eq!(store.find(at(1), &read("x://mine")), Some(raw("alice's")));
}

/// C8.2: the context of this result is unknown.
#[test]
fn store_drops_a_private_result_after_a_change_of_context() {
    let mut store = store();
    let (alice, bob) = (CacheContext::new("alice"), CacheContext::new("bob"));
    store.set_context(alice.clone());
    let fill = store.begin_fill(at(0), read("x://mine"), Fallback::None);
    store.set_context(bob);
    store.set_context(alice);
    store.insert(at(1), fill, &raw("whose?"), private(MINUTE));
    assert_eq!(store.len(), 0);
}

/// C8.3
#[test]
fn result_is_fresh_until_its_ttl_ends() {
    let mut store = store();
    let ttl = Duration::from_millis(100);
    store.answer(at(50), &tools(None), "a", public(ttl));
    assert!(store.has(at(50), &tools(None)) && store.has(at(149), &tools(None)));
    assert!(!store.has(at(150), &tools(None)), "now < received + ttl");
    assert_eq!(store.len(), 0, "an expired entry is useless");
    store.answer(at(0), &tools(None), "a", public(Duration::MAX));
    assert!(store.has(at(u64::MAX), &tools(None)));
}

/// C8.3
#[test]
fn result_without_ttl_evicts_the_previous_one() {
    for lease in [None, public(Duration::ZERO), private(Duration::ZERO)] {
        let mut store = store();
        store.answer(at(0), &tools(None), "a", public(MINUTE));
        store.answer(at(1), &tools(None), "b", lease);
        assert!(!store.has(at(1), &tools(None)), "{lease:?}");
    }
}

/// C8.3
#[test]
fn store_reads_ttl_and_scope_from_the_result() {
    let cases = [
        (r#"{"tools":[],"ttlMs":5,"cacheScope":"public"}"#, public(Duration::from_millis(5))),
        (r#"{"ttlMs":5.0,"cacheScope":"private"}"#, private(Duration::from_millis(5))),
        (r#"{"ttlMs":6e4}"#, private(MINUTE)),
        (r#"{"ttlMs":5,"cacheScope":"everyone"}"#, private(Duration::from_millis(5))),
        (r#"{"ttlMs":0,"cacheScope":"public"}"#, public(Duration::ZERO)),
        (r#"{"ttlMs":-1,"cacheScope":"public"}"#, public(Duration::ZERO)),
        (r#"{"ttlMs":1e300}"#, private(Duration::from_millis(u64::MAX))),
        (r#"{"ttlMs":null}"#, None),
        (r#"{"cacheScope":"public"}"#, None),
        (r#"{"nested":{"ttlMs":5}}"#, None),
        (r#"{"ttlMs":"5"}"#, None),
        (r#"{"ttlMs":5,"cacheScope":7}"#, None),
        (r#"{"ttlMs":1,"ttlMs":5}"#, None),
        (r#"[{"ttlMs":5}]"#, None),
    ];
    for (text, expected) in cases {
        assert_eq!(read_freshness(&Raw::new(text).unwrap()), expected, "{text}");
    }
    let broken = Raw::from_scan(crate::rpc::Text::from_static(r#"{"tools":[nonsense],"ttlMs":5}"#));
    assert_eq!(read_freshness(&broken), None);
}

/// C8.5
#[test]
fn change_of_a_list_invalidates_its_pages() {
    let mut store = store();
    for request in [tools(None), tools(Some("2")), of(ListPrompts::INFO, "{}"), read("x://a")] {
        store.answer(at(0), &request, "a", public(MINUTE));
        store.answer(at(0), &request, "a", private(MINUTE));
    }
    store.invalidate_method(ListTools::NAME);
    store.check();
    assert!(!store.has(at(1), &tools(None)) && !store.has(at(1), &tools(Some("2"))));
    assert!(store.has(at(1), &of(ListPrompts::INFO, "{}")) && store.has(at(1), &read("x://a")));
}

/// C8.5
#[test]
fn change_of_a_resource_invalidates_it_and_its_parents() {
    let uris = [
        "x://h",
        "x://h/",
        "x://h/a",
        "x://h/a/b",
        "x://h/a/b?c",
        "x://h/a/bc",
        "x://h/a/b/d",
        "x://h/aa",
        "y://h/a",
    ];
    let mut store = store();
    for uri in uris {
        store.answer(at(0), &read(uri), uri, public(MINUTE));
    }
    store.invalidate_subject(ReadResource::NAME, "x://h/a/b");
    store.check();
    let left: Vec<&str> = uris.into_iter().filter(|uri| store.has(at(1), &read(uri))).collect();
    assert_eq!(left, ["x://h/a/b?c", "x://h/a/bc", "x://h/a/b/d", "x://h/aa", "y://h/a"]);
}

/// C8.5
#[test]
fn store_drops_a_result_invalidated_before_it_arrived() {
    let mut store = store();
    let list = store.begin_fill(at(0), tools(None), Fallback::None);
    let changed = store.begin_fill(at(0), read("x://a"), Fallback::None);
    let other = store.begin_fill(at(0), read("x://b"), Fallback::None);
    store.invalidate_method(ListTools::NAME);
    store.invalidate_subject(ReadResource::NAME, "x://a/part");
    let later = store.begin_fill(at(0), read("x://c"), Fallback::None);
    for (fill, kept) in [(list, false), (changed, false), (other, true), (later, true)] {
        let request = fill.request().clone();
        store.insert(at(1), fill, &raw("a"), public(MINUTE));
        assert_eq!(store.has(at(2), &request), kept, "{request:?}");
    }
}

#[test]
fn store_that_forgot_a_change_treats_everything_as_changed() {
    let mut store = store();
    let early = store.begin_fill(at(0), read("x://a"), Fallback::None);
    for number in 0..=MAX_RECENT_CHANGES {
        store.invalidate_subject(ReadResource::NAME, &format!("y://{number}"));
    }
    let late = store.begin_fill(at(0), read("x://b"), Fallback::None);
    store.insert(at(1), early, &raw("a"), public(MINUTE));
    store.insert(at(1), late, &raw("b"), public(MINUTE));
    store.check();
    assert!(!store.has(at(1), &read("x://a")) && store.has(at(1), &read("x://b")));
    let fill = store.begin_fill(at(0), read("x://a"), Fallback::None);
    store.invalidate_subject(ReadResource::NAME, &"é".repeat(100_000));
    store.insert(at(1), fill, &raw("a"), public(MINUTE));
    assert!(!store.has(at(1), &read("x://a")), "a name too long to remember");
    store.check();
}

#[test]
fn store_keeps_the_result_of_the_later_of_two_requests() {
    let mut store = store();
    let first = store.begin_fill(at(0), tools(None), Fallback::None);
    let second = store.begin_fill(at(0), tools(None), Fallback::None);
    store.insert(at(1), second, &raw("newer"), public(MINUTE));
    store.insert(at(2), first, &raw("older"), private(MINUTE));
    assert_eq!(store.find(at(3), &tools(None)), Some(raw("newer")));
    store.check();
}

#[test]
fn store_evicts_the_least_recently_used_results_first() {
    let mut store = CacheStore::new(CacheConfig { entries: 3, ..CacheConfig::default() });
    for cursor in ["1", "2", "3"] {
        store.answer(at(0), &tools(Some(cursor)), cursor, public(MINUTE));
    }
    assert!(store.has(at(1), &tools(Some("1"))));
    store.answer(at(2), &tools(Some("4")), "4", public(MINUTE));
    let left: Vec<bool> = ["1", "2", "3", "4"].map(|cursor| store.has(at(3), &tools(Some(cursor)))).into();
    assert_eq!(left, [true, false, true, true]);
}

#[test]
fn store_is_bounded_in_bytes_and_a_result_has_at_most_a_quarter() {
    let mut store = CacheStore::new(CacheConfig { bytes: 4000, ..CacheConfig::default() });
    store.answer(at(0), &tools(None), &"a".repeat(1000), public(MINUTE));
    assert_eq!(store.len(), 0);
    for number in 0..100 {
        store.answer(at(0), &tools(Some(&number.to_string())), &"a".repeat(500), public(MINUTE));
    }
    assert!(store.len() > 3 && store.bytes() <= 4000);
}

/// A cached answer does not keep the input alive that contained it.
#[test]
fn store_copies_a_result_into_its_own_memory() {
    let mut store = store();
    let input = crate::rpc::Text::from(r#"xxxx{"a":1}xxxx"#);
    let fill = store.begin_fill(at(0), tools(None), Fallback::None);
    store.insert(at(0), fill, &Raw::from_scan(input.slice_ref(&input[4..11])), public(MINUTE));
    assert!(input.as_bytes().is_unique(), "no other owner is left");
}

#[test]
fn clear_removes_everything() {
    let mut store = store();
    store.answer(at(0), &tools(None), "a", public(MINUTE));
    let fill = store.begin_fill(at(0), tools(Some("2")), Fallback::None);
    store.clear();
    store.insert(at(1), fill, &raw("b"), public(MINUTE));
    assert_eq!((store.len(), store.bytes()), (0, 0));
    store.check();
}

#[test]
fn store_returns_stale_results_only_on_demand_and_for_a_limited_time() {
    let config = CacheConfig { stale_if_error: MINUTE, ..CacheConfig::default() };
    let mut store = CacheStore::new(config);
    store.answer(at(0), &tools(None), "old", public(Duration::from_millis(10)));
    assert!(!store.has(at(10), &tools(None)));
    let cases =
        [(59_000, Fallback::Stale, true), (59_000, Fallback::None, false), (60_010, Fallback::Stale, false)];
    for (ms, fallback, expected) in cases {
        let fill = store.begin_fill(at(ms), tools(None), fallback);
        assert_eq!(store.stale_answer(&fill).is_some(), expected, "{ms} {fallback:?}");
    }
    let fill = store.begin_fill(at(20), tools(None), Fallback::Stale);
    store.invalidate_method(ListTools::NAME);
    assert_eq!(store.stale_answer(&fill), None, "an invalidated result is not returned");
}

/// A step for a store and its model.
#[derive(Clone, Debug)]
enum Step {
    Ask(usize),
    Answer { which: usize, ttl: u64, public: bool },
    Find(usize),
    Outdate,
    News(usize),
    Context(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..URIS.len()).prop_map(Step::Ask),
        4 => (0..8_usize, 0..40_u64, any::<bool>()).prop_map(|(which, ttl, public)| Step::Answer { which, ttl, public }),
        4 => (0..URIS.len()).prop_map(Step::Find),
        1 => Just(Step::Outdate),
        2 => (0..URIS.len()).prop_map(Step::News),
        1 => (0..3_usize).prop_map(Step::Context),
        2 => (0..20_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..80)
}

const URIS: [&str; 8] = ["", "a", "a/", "a/b", "a/bc", "a/b/c", "a/\0", "é/b"];

proptest! {
    /// C8.2, C8.3, C8.5: an answer that is found is public or belongs to the context, has not expired, and was not
    /// invalidated since it was requested. The bounds hold at every step.
    #[test]
    fn store_never_finds_a_forbidden_result(steps in steps()) {
        struct PendingFill { fill: CacheFill, uri: usize, context: usize, serial: usize }
        struct StoredAnswer { uri: usize, context: usize, until: u64, public: bool, dead: bool, asked: usize }
        let mut store = CacheStore::new(CacheConfig { entries: 5, bytes: 4096, ..CacheConfig::default() });
        let (mut now, mut context, mut serial) = (0_u64, 0_usize, 0_usize);
        let mut asked: Vec<PendingFill> = Vec::new();
        // Keyed by the text of the result; everything requested before the step is obsolete.
        let mut told: OrderedMap<String, StoredAnswer> = OrderedMap::new();
        let mut outdated: Vec<(usize, Option<usize>)> = Vec::new();
        for step in steps {
            serial += 1;
            match step {
                Step::Ask(uri) => {
                    let fill = store.begin_fill(at(now), read(URIS[uri]), Fallback::None);
                    asked.push(PendingFill { fill, uri, context, serial });
                }
                Step::Answer { which, ttl, public: is_public } if !asked.is_empty() => {
                    let PendingFill { fill, uri, context: by, serial: since } = asked.remove(which % asked.len());
                    let text = serial.to_string();
                    let ttl_of = Duration::from_millis(ttl);
                    store.insert(at(now), fill, &raw(&text), if is_public { public(ttl_of) } else { private(ttl_of) });
                    let dead = outdated.iter().any(|(at, news)| {
                        *at > since && news.is_none_or(|news| concerns_simply(URIS[news], URIS[uri]))
                    });
                    told.insert(
                        raw(&text).as_str().into(),
                        StoredAnswer { uri, context: by, until: now + ttl, public: is_public, dead, asked: since },
                    );
                }
                Step::Answer { .. } => {}
                Step::Find(uri) => {
                    if let Some(found) = store.find(at(now), &read(URIS[uri])) {
                        let told = told.get(found.as_str()).unwrap();
                        prop_assert!(!told.dead && now < told.until && told.uri == uri);
                        prop_assert!(told.public || told.context == context);
                        prop_assert!(told.asked < serial);
                    }
                }
                Step::Outdate => {
                    store.invalidate_method(ReadResource::NAME);
                    outdated.push((serial, None));
                    told.values_mut().for_each(|told| told.dead = true);
                }
                Step::News(news) => {
                    store.invalidate_subject(ReadResource::NAME, URIS[news]);
                    outdated.push((serial, Some(news)));
                    told.values_mut()
                        .filter(|told| concerns_simply(URIS[news], URIS[told.uri]))
                        .for_each(|told| told.dead = true);
                }
                Step::Context(to) => {
                    context = to;
                    store.set_context(CacheContext::new(["", "one", "two"][to]));
                }
                Step::Wait(ms) => now += ms,
            }
            store.check();
        }
    }

    /// C8.5: a change of a resource invalidates the answers about it and no others.
    #[test]
    fn change_invalidates_exactly_the_results_it_concerns(kept in prop::collection::btree_set("[ab/\0]{0,6}", 0..20), news in "[ab/\0]{0,6}") {
        let mut store = store();
        for uri in &kept {
            store.answer(at(0), &read(uri), "a", public(MINUTE));
        }
        store.answer(at(0), &tools(None), "a", public(MINUTE));
        store.invalidate_subject(ReadResource::NAME, &news);
        store.check();
        for uri in &kept {
            prop_assert_eq!(store.has(at(1), &read(uri)), !concerns_simply(&news, uri), "{:?} {:?}", uri, news);
        }
        prop_assert!(store.has(at(1), &tools(None)));
    }
}

/// The rule restated: the same URI, or one that starts with `uri` up to a separator.
fn concerns_simply(news: &str, uri: &str) -> bool {
    let border = |at: usize| news.as_bytes().get(at).is_some_and(|byte| b"/?#".contains(byte));
    news == uri
        || (news.starts_with(uri) && (border(uri.len()) || uri.len().checked_sub(1).is_some_and(border)))
}
