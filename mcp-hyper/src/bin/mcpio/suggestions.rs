//! Suggestions for mistyped names, and lists of names in a sentence.

use mcp_proto::consent::SafeText;

/// Least similarity of two names to suggest one for the other.
const ALIKE: f64 = 0.75;
/// How many names an error lists.
const SHOWN: usize = 8;

/// Suggests names similar to `wrong`, or else lists the known ones.
pub(crate) fn suggest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> String {
    // Names come from a peer: none may begin a line of its own.
    let known: Vec<String> = known.map(|name| SafeText::line(name).to_string()).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let likeness = |name: &str| strsim::jaro_winkler(&wrong.to_lowercase(), &name.to_lowercase());
    let mut alike: Vec<(f64, &str)> = known.iter().map(|name| (likeness(name), *name)).collect();
    alike.retain(|(likeness, name)| *likeness >= ALIKE || name.contains(wrong));
    alike.sort_by(|one, other| other.0.total_cmp(&one.0));
    alike.truncate(3);
    match (alike.is_empty(), known.as_slice()) {
        (false, _) => format!("; did you mean {}?", either(alike.into_iter().map(|(_, name)| name))),
        (true, []) => "; the list of names is empty".to_owned(),
        (true, known) if known.len() <= SHOWN => format!("; known names are {}", known.join(", ")),
        (true, [..]) => {
            let shown: Vec<&str> = known.iter().copied().take(SHOWN).collect();
            format!("; known names are {} and {} more", shown.join(", "), known.len() - SHOWN)
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
    fn suggestion_names_the_most_similar() {
        let known = ["echo", "add", "count", "get-sum"];
        assert_eq!(suggest("ehco", known.into_iter()), "; did you mean echo?");
        assert_eq!(suggest("sum", known.into_iter()), "; did you mean get-sum?");
    }

    #[test]
    fn suggestion_lists_a_bounded_number_of_known_names() {
        assert_eq!(suggest("zzz", ["echo", "add"].into_iter()), "; known names are echo, add");
        assert_eq!(suggest("zzz", [].into_iter()), "; the list of names is empty");
        let many: Vec<String> = (0..20).map(|number| format!("tool{number}")).collect();
        assert!(suggest("zzz", many.iter().map(String::as_str)).ends_with("and 12 more"));
    }

    #[test]
    fn suggested_names_stay_on_one_line() {
        let text = suggest("echo", ["ech\nmcp: run\x1b[2J"].into_iter());
        assert_eq!(text, "; known names are ech\\nmcp: run\\u{1b}[2J");
    }

    #[test]
    fn names_are_joined_as_in_a_sentence() {
        assert_eq!(either(["a", "b", "c"].into_iter()), "a, b or c");
        assert_eq!(either(["a"].into_iter()), "a");
    }
}
