//! Names that were mistyped, and names in a row.

use mcp_proto::consent::SafeText;

/// How alike two names must be for one to be taken for the other.
const ALIKE: f64 = 0.75;
/// How many names are worth reading in an error.
const SHOWN: usize = 8;

/// How to go on after `wrong`: with the names most like it, or else with those that there are.
pub(crate) fn suggestion<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> String {
    // Names are a peer's: none may begin a line of its own.
    let known: Vec<String> = known.map(|name| SafeText::line(name).to_string()).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let likeness = |name: &str| strsim::jaro_winkler(&wrong.to_lowercase(), &name.to_lowercase());
    let mut alike: Vec<(f64, &str)> = known.iter().map(|name| (likeness(name), *name)).collect();
    alike.retain(|(likeness, name)| *likeness >= ALIKE || name.contains(wrong));
    alike.sort_by(|one, other| other.0.total_cmp(&one.0));
    alike.truncate(3);
    match (alike.is_empty(), known.as_slice()) {
        (false, _) => format!("; did you mean {}?", either(alike.into_iter().map(|(_, name)| name))),
        (true, []) => "; there are none".to_owned(),
        (true, known) if known.len() <= SHOWN => format!("; there are {}", known.join(", ")),
        (true, [..]) => {
            let shown: Vec<&str> = known.iter().copied().take(SHOWN).collect();
            format!("; there are {} and {} more", shown.join(", "), known.len() - SHOWN)
        }
    }
}

/// `a, b or c`.
pub(crate) fn either<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [some @ .., last] => format!("{} or {last}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_suggested() {
        let known = ["echo", "add", "count", "get-sum"];
        assert_eq!(suggestion("ehco", known.into_iter()), "; did you mean echo?");
        assert_eq!(suggestion("sum", known.into_iter()), "; did you mean get-sum?");
    }

    #[test]
    fn with_nothing_alike_there_is_a_list_of_bounded_length() {
        assert_eq!(suggestion("zzz", ["echo", "add"].into_iter()), "; there are echo, add");
        assert_eq!(suggestion("zzz", [].into_iter()), "; there are none");
        let many: Vec<String> = (0..20).map(|number| format!("tool{number}")).collect();
        assert!(suggestion("zzz", many.iter().map(String::as_str)).ends_with("and 12 more"));
    }

    #[test]
    fn suggested_names_stay_in_their_line() {
        let told = suggestion("echo", ["ech\nmcp: run\x1b[2J"].into_iter());
        assert_eq!(told, "; there are ech\\nmcp: run\\u{1b}[2J");
    }

    #[test]
    fn names_are_joined_as_in_a_sentence() {
        assert_eq!(either(["a", "b", "c"].into_iter()), "a, b or c");
        assert_eq!(either(["a"].into_iter()), "a");
    }
}
