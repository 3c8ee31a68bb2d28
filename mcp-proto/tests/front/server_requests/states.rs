//! Sealed states: whose they are, and for how long.

use super::*;

/// S4.4: whatever of a state is changed, the request is refused.
#[test]
fn a_state_that_was_tampered_with_is_refused() {
    let mut web = HttpHarness::new(router());
    let state = begun(&mut web);
    let text = state.as_str().unwrap();
    for at in 0..text.len() {
        let other = if &text[at..=at] == "A" { "B" } else { "A" };
        let changed = json!(format!("{}{other}{}", &text[..at], &text[at + 1..]));
        let answer = attempt(&mut web, "greet", Some(&changed), alice());
        refused(&answer);
    }
    for made_up in ["", "1.", "name:Alice", &format!("{text}-TAMPERED")] {
        refused(&attempt(&mut web, "greet", Some(&json!(made_up)), alice()));
    }
    assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

/// S4.5, S9.3, S10.9
#[test]
fn a_state_of_another_principal_is_refused() {
    let mut web = HttpHarness::new(router());
    web.principal = Some(Principal::new("alice"));
    let state = begun(&mut web);
    for other in [Some(Principal::new("mallory")), Some(Principal::new("")), None] {
        web.principal = other;
        refused(&attempt(&mut web, "greet", Some(&state), alice()));
    }
    web.principal = Some(Principal::new("alice"));
    assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

/// S4.5
#[test]
fn a_state_of_another_request_is_refused() {
    let mut web = HttpHarness::new(router());
    let state = begun(&mut web);
    refused(&attempt(&mut web, "other", Some(&state), alice()));
    for params in [
        json!({"name": "greet", "arguments": {"x": 1}}),
        json!({"name": "greet"}),
        json!({"name": "greet", "arguments": {}, "more": true}),
    ] {
        refused(&attempt_with(&mut web, params, Some(&state), alice()));
    }
    assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

/// S4.5
#[test]
fn a_state_that_has_lapsed_is_refused() {
    let mut web = HttpHarness::new(router());
    let state = begun(&mut web);
    web.advance(Duration::from_secs(599));
    assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
    web.advance(Duration::from_secs(1));
    assert!(refused(&attempt(&mut web, "greet", Some(&state), alice())).contains("lapsed"));

    let mut web = HttpHarness::new(router().state_lifetime(Duration::from_secs(5)));
    let state = begun(&mut web);
    web.advance(Duration::from_secs(5));
    refused(&attempt(&mut web, "greet", Some(&state), alice()));
}

/// S4.9: two instances that share the keys and nothing else.
#[test]
fn another_instance_goes_on_where_one_has_stopped() {
    let instance = || HttpHarness::new(router().seal(Sealer::new(key(1), [])));
    let (mut one, mut other) = (instance(), instance());
    let (_, state) = asked(&attempt(&mut one, "steps", None, None));
    let responses = json!({"first": accepted("first", "1")});
    let (_, state) = asked(&attempt(&mut other, "steps", Some(&state), Some(responses)));
    let responses = json!({"second": accepted("second", "2")});
    let (_, state) = asked(&attempt(&mut one, "steps", Some(&state), Some(responses)));
    let responses = json!({"third": accepted("third", "3")});
    assert_eq!(told(&attempt(&mut other, "steps", Some(&state), Some(responses))), "1 2 3");
}

/// S4.9
#[test]
fn keys_can_be_changed_between_rounds() {
    let mut old = HttpHarness::new(router().seal(Sealer::new(key(1), [])));
    let mut new = HttpHarness::new(router().seal(Sealer::new(key(2), [key(1)])));
    let (_, state) = asked(&attempt(&mut old, "steps", None, None));
    let responses = json!({"first": accepted("first", "1")});
    let (_, state) = asked(&attempt(&mut new, "steps", Some(&state), Some(responses)));
    refused(&attempt(&mut old, "steps", Some(&state), None));
}

#[test]
fn servers_that_share_no_key_or_no_name_refuse_each_others_states() {
    // Each test server counts its random numbers alike: only their keys differ.
    let mut one = HttpHarness::new(router().seal(Sealer::new(key(1), [])));
    let state = begun(&mut one);
    refused(&attempt(
        &mut HttpHarness::new(router().seal(Sealer::new(key(2), []))),
        "greet",
        Some(&state),
        alice(),
    ));
    refused(&attempt(&mut HttpHarness::new(router()), "greet", Some(&state), alice()));
    let namesake = Router::new("another", "1")
        .seal(Sealer::new(key(1), []))
        .tool_with(tool("greet"), async |NoArguments {}, cx: Context| question(&cx, "name").await);
    refused(&attempt(&mut HttpHarness::new(namesake), "greet", Some(&state), alice()));
}
