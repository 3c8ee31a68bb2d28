"""Writes all mutants of a file into its source at once, each behind a switch.

A mutant of an expression becomes an arm of `match crate::mutant(…)`, and one of a function's body an arm before it. Each arm
begins on a line of its own with its number in a comment, by which the compiler's errors are understood.
"""

import re

import tree_sitter
import tree_sitter_rust

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))
# What every crate with mutants has in its root. The variable RECORD names a file that gets the numbers of the places reached.
ROOT = """
/// The number of the mutant that runs. `first` is that of the first one at this place.
pub(crate) fn mutant(first: usize) -> usize {
    use std::io::Write as _;
    use std::sync::atomic::{AtomicBool, Ordering};
    static CHOSEN: std::sync::OnceLock<(usize, Option<std::fs::File>)> = std::sync::OnceLock::new();
    static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    let (chosen, record) = CHOSEN.get_or_init(|| {
        let chosen = std::env::var("MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        let file = std::env::var_os("RECORD");
        (chosen, file.map(|path| std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap()))
    });
    if let Some(mut file) = record.as_ref()
        && !REACHED[first].swap(true, Ordering::Relaxed)
    {
        file.write_all(std::format!("{first}\\n").as_bytes()).unwrap();
    }
    *chosen
}
"""


def offset_of(lines, position):
    """The byte where a position of cargo-mutants begins: lines and characters from 1."""
    line = position["line"] - 1
    return sum(map(len, lines[:line])) + len(lines[line].decode()[: position["column"] - 1].encode())


def enclosing(node, kinds):
    while node is not None and node.type not in kinds:
        node = node.parent
    return node


def text_of(node):
    return node.text.decode()


def find(tree, genre, start, end, replacement):
    """The node that a mutant replaces, with the text in its place; None if it cannot be switched."""
    node = tree.root_node.descendant_for_byte_range(start, end)
    if genre == "FnValue":
        node = enclosing(node, ["function_item"])
        body, kind = (node and node.child_by_field_name(name) for name in ("body", "return_type"))
        # Such a function returns one type alone, which has no name.
        if body is None or kind is not None and "impl " in text_of(kind):
            return None
        return body, f"return {replacement}"
    if genre == "BinaryOperator":
        node = enclosing(node, ["binary_expression", "compound_assignment_expr"])
        if node is None:
            return None
        left, operator, right = (node.child_by_field_name(name) for name in ("left", "operator", "right"))
        if operator.start_byte != start:
            return None
        place = text_of(left) if node.type == "compound_assignment_expr" else f"({text_of(left)})"
        return node, f"{place} {replacement} ({text_of(right)})"
    if genre == "UnaryOperator":
        node = enclosing(node, ["unary_expression"])
        return node and (node, f"({text_of(node.children[-1])})")
    if genre == "MatchArm":
        node = tree.root_node.descendant_for_byte_range(start, start + 1)
        while node is not None and (node.type, node.start_byte) != ("match_arm", start):
            node = node.parent
        if node is None or node == node.parent.named_children[-1]:
            return None  # what is left would not cover every value
        return node.child_by_field_name("pattern"), "false"
    if genre == "MatchArmGuard":
        node = enclosing(node, ["match_arm"])
        return node and (node.child_by_field_name("pattern"), replacement)
    return None


def render(node, places):
    """The text of a node with the switches of all places in it. `places`: the arms, numbers and texts, by node."""
    at, parts = node.start_byte, []
    for child in node.children:
        parts.append(node.text[at - node.start_byte : child.start_byte - node.start_byte].decode())
        parts.append(render(child, places))
        at = child.end_byte
    parts.append(node.text[at - node.start_byte :].decode())
    text = "".join(parts)
    if node.id not in places:
        return text
    numbers = "".join(f"/*{number}*/" for number, _ in places[node.id])
    choice = f"crate::mutant({places[node.id][0][0]})"
    arms = "".join(f"\n/*{number}*/ {number} => {replacement}," for number, replacement in places[node.id])
    if node.type == "block":
        return f"{{ match {choice} {{ {numbers}{arms}\n/*_*/ _ => {{}} }}\n{text[1:]}"
    if node.type == "match_pattern":
        guard = node.child_by_field_name("condition")
        if guard is None:
            return f"{text} if match {choice} {{ {numbers}{arms}\n/*_*/ _ => true }}"
        # What is before the guard has no places: patterns have no mutants.
        keyword = next(child for child in node.children if child.type == "if")
        before = keyword.start_byte - node.start_byte
        pattern, rest = text.encode()[:before].decode(), text.encode()[before + len("if") :].decode()
        return f"{pattern} if match {choice} {{ {numbers}{arms}\n/*_*/ _ => {rest} }}"
    return f"(match {choice} {{ {numbers}{arms}\n/*_*/ _ => {text} }})"


def switched(source, mutants):
    """The text of a file with those mutants, and the numbers of those that cannot be switched."""
    tree, lines = PARSER.parse(source), source.splitlines(keepends=True)
    places, without = {}, []
    for mutant in mutants:
        start, end = (offset_of(lines, mutant.span[name]) for name in ("start", "end"))
        found = find(tree, mutant.genre, start, end, mutant.replacement)
        if found is None:
            without.append(mutant.number)
        else:
            node, text = found
            places.setdefault(node.id, []).append((mutant.number, text))
    return render(tree.root_node, places), without


def numbers_at(lines, index):
    """The numbers of the arm, or of the whole place, on a line of a switched file."""
    while index >= 0:
        found = re.findall(r"/\*(\d+|_)\*/", lines[index])
        if found:
            return [int(number) for number in found if number != "_"]
        index -= 1
    return []
