//! Sealed states: their owners and lifetimes.

use super::*;

/// S4.4: the server refuses a state with any change.
#[test]
fn server_refuses_a_changed_state() {
    let mut web = HttpHarness::new(router());
    let state = greet_state(&mut web);
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
    assert_eq!(text_of(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

/// S4.5, S9.3, S10.9
#[test]
fn server_refuses_a_state_of_another_principal() {
    let mut web = HttpHarness::new(router());
    web.principal = Some(Principal::new("alice"));
    let state = greet_state(&mut web);
    for other in [Some(Principal::new("mallory")), Some(Principal::new("")), None] {
        web.principal = other;
        refused(&attempt(&mut web, "greet", Some(&state), alice()));
    }
    web.principal = Some(Principal::new("alice"));
    assert_eq!(text_of(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

/// S4.5
#[test]
fn server_refuses_a_state_of_another_request() {
    let mut web = HttpHarness::new(router());
    let state = greet_state(&mut web);
    refused(&attempt(&mut web, "other", Some(&state), alice()));
    for params in [
        json!({"name": "greet", "arguments": {"x": 1}}),
        json!({"name": "greet"}),
        json!({"name": "greet", "arguments": {}, "more": true}),
    ] {
        refused(&attempt_with(&mut web, params, Some(&state), alice()));
    }
    assert_eq!(text_of(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

/// S4.5
#[test]
fn server_refuses_an_expired_state() {
    let mut web = HttpHarness::new(router());
    let state = greet_state(&mut web);
    web.advance(Duration::from_secs(599));
    assert_eq!(text_of(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
    web.advance(Duration::from_secs(1));
    assert!(refused(&attempt(&mut web, "greet", Some(&state), alice())).contains("lapsed"));

    let mut web = HttpHarness::new(router().state_lifetime(Duration::from_secs(5)));
    let state = greet_state(&mut web);
    web.advance(Duration::from_secs(5));
    refused(&attempt(&mut web, "greet", Some(&state), alice()));
}

/// S4.9, C1.28: two instances that share only the keys.
#[test]
fn another_instance_continues_from_the_state() {
    let instance = || HttpHarness::new(router().seal(Sealer::new(key(1), [])));
    let (mut one, mut other) = (instance(), instance());
    let (_, state) = required_input(&attempt(&mut one, "steps", None, None));
    let responses = json!({"first": accepted("first", "1")});
    let (_, state) = required_input(&attempt(&mut other, "steps", Some(&state), Some(responses)));
    let responses = json!({"second": accepted("second", "2")});
    let (_, state) = required_input(&attempt(&mut one, "steps", Some(&state), Some(responses)));
    let responses = json!({"third": accepted("third", "3")});
    assert_eq!(text_of(&attempt(&mut other, "steps", Some(&state), Some(responses))), "1 2 3");
}

/// S4.9
#[test]
fn operator_can_rotate_keys_between_rounds() {
    let mut old = HttpHarness::new(router().seal(Sealer::new(key(1), [])));
    let mut new = HttpHarness::new(router().seal(Sealer::new(key(2), [key(1)])));
    let (_, state) = required_input(&attempt(&mut old, "steps", None, None));
    let responses = json!({"first": accepted("first", "1")});
    let (_, state) = required_input(&attempt(&mut new, "steps", Some(&state), Some(responses)));
    refused(&attempt(&mut old, "steps", Some(&state), None));
}

#[test]
fn servers_with_other_keys_or_names_refuse_each_others_states() {
    // The random numbers of the test servers are equal: only their keys differ.
    let mut one = HttpHarness::new(router().seal(Sealer::new(key(1), [])));
    let state = greet_state(&mut one);
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
