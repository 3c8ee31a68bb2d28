//! Search over the tools of all servers.

use core::ops::Bound;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::catalogue::Catalogue;
use super::named_items::Entry;
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::schema::Tool;

/// How many words of one server are indexed beside the names of its tools: a hundred tools of two hundred words.
const WORDS_PER_SERVER: usize = 20_000;

/// How many words of a tool's name are indexed.
const NAME_WORDS: usize = 32;

/// How many words of a query count.
const QUERY_WORDS: usize = 32;

/// How many longer words of each server a word of a query finds.
const COMPLETIONS: usize = 32;

/// How fast further occurrences of a word count less, and how much long definitions count less: the usual constants of
/// BM25.
const SATURATION: f32 = 1.2;
const LENGTH_NORMALISATION: f32 = 0.75;

/// An index of the words of all visible tools: their names, titles, servers, descriptions and the names of their
/// arguments.
///
/// No server crowds out the others: the words of each that are indexed, and its [hits](Self::search), are bounded.
/// Results are ranked by BM25, with more weight on names than on descriptions. Identifiers are taken apart
/// (`createIssue`, `create_issue`), plurals are found by the singular, and words by their beginnings.
///
/// ```
/// use mcp_proto::host::tools::{Catalogue, ServerSettings, ToolIndex};
/// use mcp_proto::schema::Tool;
/// use serde_json::json;
///
/// let mut catalogue = Catalogue::default();
/// catalogue.add_server("github", ServerSettings::default());
/// let schema = json!({ "type": "object" });
/// let create = Tool::new("create_issue", "Opens a ticket in a repository", schema.clone());
/// catalogue.update("github", vec![create, Tool::new("list_branches", "Lists branches", schema)]);
///
/// let mut index = ToolIndex::default();
/// index.refresh(&catalogue);
/// let hits = index.search("repositories tickets", 5, |_| true);
/// assert_eq!(hits[0].name, "mcp__github__create_issue");
/// assert_eq!(hits.len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ToolIndex {
    /// The revision of the catalogue that is indexed.
    revision: Option<u64>,
    tools: Vec<IndexedTool>,
    /// The tools of each word.
    postings: OrderedMap<String, Vec<Posting>>,
    mean_length: f32,
}

#[derive(Clone, Debug)]
struct IndexedTool {
    name: String,
    /// The number of its server in the order of their names.
    server: usize,
    /// Sum of the weights of its words.
    length: f32,
}

/// A server whose tools are being indexed.
struct IndexedServer {
    number: usize,
    /// How many words are indexed further, beside the names of its tools.
    words_left: usize,
}

#[derive(Clone, Copy, Debug)]
struct Posting {
    tool: usize,
    weight: f32,
}

/// A tool that a search found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// Its name for a model.
    pub name: String,
    /// Its score: greater is better. Scores of different searches are not comparable.
    pub score: f32,
}

/// The part of a schema that is indexed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments {
    properties: OrderedMap<String, IgnoredAny>,
}

impl ToolIndex {
    /// Indexes the catalogue, if it changed. An index belongs to one catalogue.
    pub fn refresh(&mut self, catalogue: &Catalogue) {
        if self.revision == Some(catalogue.revision()) {
            return;
        }
        *self = Self { revision: Some(catalogue.revision()), ..Self::default() };
        let mut servers: OrderedMap<&str, IndexedServer> = OrderedMap::new();
        for (number, server) in catalogue.servers().enumerate() {
            servers.insert(server, IndexedServer { number, words_left: WORDS_PER_SERVER });
        }
        for entry in catalogue.tools() {
            if let Some(server) = servers.get_mut(entry.server) {
                self.insert(entry, server);
            }
        }
        let total: f32 = self.tools.iter().map(|tool| tool.length).sum();
        self.mean_length = total / self.tools.len().max(1) as f32;
    }

    fn insert(&mut self, entry: Entry<'_, Tool>, indexed: &mut IndexedServer) {
        let Entry { name, server, item } = entry;
        let mut weights: OrderedMap<String, f32> = OrderedMap::new();
        // Adds the weight of each word, unless the tool has `limit` other words.
        let mut add = |text: &str, weight: f32, limit: usize| {
            each_word(text, |word| {
                if let Some(sum) = weights.get_mut(word) {
                    *sum += weight;
                } else if weights.len() < limit {
                    weights.insert(word.into(), weight);
                }
            });
            weights.len()
        };
        add(&item.name, 5.0, NAME_WORDS);
        let named = add(server, 2.0, usize::MAX);
        let limit = named.saturating_add(indexed.words_left);
        if limit > named {
            add(item.title.as_deref().unwrap_or_default(), 3.0, limit);
            add(item.description.as_deref().unwrap_or_default(), 1.0, limit);
            let arguments: Arguments = item.input_schema.decode().unwrap_or_default();
            arguments.properties.keys().for_each(|argument| _ = add(argument, 1.5, limit));
        }
        indexed.words_left = limit.saturating_sub(weights.len());
        let tool = self.tools.len();
        let length = weights.values().sum();
        self.tools.push(IndexedTool { name: name.into(), server: indexed.number, length });
        for (word, weight) in weights {
            self.postings.entry(word).or_default().push(Posting { tool, weight });
        }
    }

    /// Finds tools by words, the best first, at most `limit` of those whose names `accept` accepts.
    ///
    /// A tool need not have every word. The first 32 words of the query count. As long as tools of other servers are
    /// found, no server has more than half of the hits.
    pub fn search(&self, query: &str, limit: usize, mut accept: impl FnMut(&str) -> bool) -> Vec<Hit> {
        let mut words: Vec<String> = Vec::new();
        each_word(query, |word| {
            if words.len() < QUERY_WORDS && !words.iter().any(|other| other == word) {
                words.push(word.into());
            }
        });
        let mut scores: OrderedMap<usize, f32> = OrderedMap::new();
        for word in &words {
            for (tool, score) in self.scores_of(word) {
                *scores.entry(tool).or_default() += score;
            }
        }
        let found = scores.into_iter().filter_map(|(tool, score)| Some((self.tools.get(tool)?, score)));
        let mut found: Vec<_> = found.filter(|(tool, _)| accept(&tool.name)).collect();
        found.sort_by(|(a, a_score), (b, b_score)| {
            b_score.total_cmp(a_score).then_with(|| a.name.cmp(&b.name))
        });
        // Those within the share of their server are chosen first, then the best of the others.
        let share = limit.div_ceil(2);
        let mut hits: OrderedMap<usize, usize> = OrderedMap::new();
        let (within, beyond): (Vec<_>, Vec<_>) = found.into_iter().enumerate().partition(|(_, (tool, _))| {
            let hits = hits.entry(tool.server).or_default();
            *hits = hits.saturating_add(1);
            *hits <= share
        });
        let mut chosen: Vec<_> = within.into_iter().chain(beyond).take(limit).collect();
        chosen.sort_unstable_by_key(|(rank, _)| *rank);
        chosen.into_iter().map(|(_, (tool, score))| Hit { name: tool.name.clone(), score }).collect()
    }

    /// The score of one word for each tool that has it, or a longer word that begins with it.
    fn scores_of(&self, word: &str) -> OrderedMap<usize, f32> {
        let mut scores: OrderedMap<usize, f32> = OrderedMap::new();
        // Short beginnings say too little.
        let has_completions = word.chars().count() >= 3;
        let words = self
            .postings
            .range::<str>((Bound::Included(word), Bound::Unbounded))
            .take_while(|(other, _)| *other == word || has_completions && other.starts_with(word));
        // The longer words of each server so far, and the last of them.
        let mut completions: OrderedMap<usize, (usize, &str)> = OrderedMap::new();
        for (other, postings) in words {
            let other = other.as_str();
            let is_longer = other != word;
            let share = if is_longer { 0.5 } else { 1.0 };
            let rarity = self.rarity(postings.len());
            for &Posting { tool, weight } in postings {
                let Some(indexed) = self.tools.get(tool) else { continue };
                if is_longer {
                    let (count, last) = completions.entry(indexed.server).or_insert((0, word));
                    if *last != other {
                        (*count, *last) = (count.saturating_add(1), other);
                    }
                    if *count > COMPLETIONS {
                        continue;
                    }
                }
                let length = indexed.length / self.mean_length.max(1.0);
                let damping = SATURATION * (1.0 - LENGTH_NORMALISATION + LENGTH_NORMALISATION * length);
                let score = share * rarity * weight * (SATURATION + 1.0) / (weight + damping);
                let best = scores.entry(tool).or_default();
                *best = best.max(score);
            }
        }
        scores
    }

    /// How much a word counts that `with` tools have: the less frequent, the more.
    fn rarity(&self, with: usize) -> f32 {
        let (all, with) = (self.tools.len() as f32, with as f32);
        binary_logarithm(1.0 + (all - with + 0.5) / (with + 0.5))
    }
}

/// The logarithm to base 2 of a number of at least 1, interpolated between powers of two, as `core` has no logarithm.
fn binary_logarithm(number: f32) -> f32 {
    let bits = number.to_bits();
    let exponent = (bits >> 23).saturating_sub(127);
    let mantissa = f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000);
    exponent as f32 + mantissa - 1.0
}

/// The longest word, in bytes. The rest of a longer one is left out.
const WORD_BYTES: usize = 64;

/// Calls `act` with each word of the text, in lower case and in the singular.
///
/// Words end at characters other than letters and digits, and within identifiers: `createIssue` and `HTTPServer` have
/// two. Each character of scripts without spaces between words is one.
fn each_word(text: &str, mut act: impl FnMut(&str)) {
    let mut word = String::new();
    let mut end = |word: &mut String| {
        if !word.is_empty() {
            act(singular(word));
            word.clear();
        }
    };
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let follows_lower = !before.is_uppercase() && before.is_alphanumeric();
        let precedes_lower = characters.peek().is_some_and(|next| next.is_lowercase());
        if !character.is_alphanumeric()
            || is_word(character)
            || is_word(before)
            || character.is_uppercase() && (follows_lower || precedes_lower)
        {
            end(&mut word);
        }
        if character.is_alphanumeric() && word.len() < WORD_BYTES {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    end(&mut word);
}

/// Whether the character is a word by itself: Chinese characters and Japanese syllables.
fn is_word(character: char) -> bool {
    matches!(
        character,
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
    )
}

/// The word without an English plural ending.
fn singular(word: &mut String) -> &str {
    if word.len() > 4 && word.ends_with("ies") {
        word.truncate(word.len().saturating_sub(3));
        word.push('y');
    } else if word.len() > 3
        && word.ends_with('s')
        && !["ss", "us", "is"].iter().any(|end| word.ends_with(end))
    {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_is_near_the_exact_one() {
        for number in [1.0_f32, 1.5, 2.0, 3.0, 10.0, 1000.0, 65536.0] {
            let exact = std::primitive::f32::log2(number);
            assert!((binary_logarithm(number) - exact).abs() < 0.09, "{number}");
        }
    }

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word| words.push(word.into()));
        words
    }

    #[test]
    fn identifiers_are_taken_apart() {
        assert_eq!(
            words("createIssue get_user-name HTTPServer S3 v2Beta"),
            ["create", "issue", "get", "user", "name", "http", "server", "s3", "v2", "beta"]
        );
    }

    #[test]
    fn plurals_become_singular() {
        assert_eq!(
            words("queries issues status class analysis gas"),
            ["query", "issue", "status", "class", "analysis", "gas"]
        );
    }

    #[test]
    fn characters_without_spaces_between_are_words() {
        assert_eq!(words("天气tool Größe"), ["天", "气", "tool", "größe"]);
    }

    #[test]
    fn long_words_are_cut() {
        assert_eq!(words(&"x".repeat(1000))[0].len(), WORD_BYTES);
    }
}
