//! The `run` kind: a program with its arguments, or a shell line. Inputs are never inserted into either.

use unstuck_core::model::flow::ProcessCommand;

use crate::problem::Problems;
use crate::read::LocatedNode;
use crate::tree::{Content, Node};

/// The names that expressions can begin with.
const ROOTS: [&str; 6] = ["input", "steps", "run", "item", "index", "secrets"];

/// Reads the command of a step: a text is a shell line, a list is a program with its arguments.
pub(crate) fn read_command(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<ProcessCommand> {
    match &spot.node.content {
        Content::Text(_) => {
            let line = spot.read_text(problems)?;
            check_argument(spot.node, line, &spot.path, problems)
                .then(|| ProcessCommand::Shell(line.to_owned()))
        }
        Content::List(nodes) => read_arguments(nodes, spot, problems).map(ProcessCommand::Argv),
        Content::Null | Content::Bool(_) | Content::Number(_) | Content::Map(_) => {
            spot.report_expected(problems, "a list of a program and its arguments, or a shell line");
            None
        }
    }
}

/// Reads a program and its arguments; refuses an empty list.
fn read_arguments(
    nodes: &[Node],
    spot: &LocatedNode<'_>,
    problems: &mut Problems<'_>,
) -> Option<Vec<String>> {
    let mut argv = Vec::with_capacity(nodes.len());
    for (place, node) in nodes.iter().enumerate() {
        let spot = LocatedNode { node, path: format!("{}[{place}]", spot.path) };
        match node.spelling(problems.text) {
            Some(text) if place == 0 && text.trim().is_empty() => {
                spot.refuse(problems, "the name of the program is empty");
            }
            Some(text) => {
                if check_argument(node, &text, &spot.path, problems) {
                    argv.push(text);
                }
            }
            None => spot.report_expected(problems, "text"),
        }
    }
    if nodes.is_empty() {
        spot.refuse(problems, "the command is empty").hint("for example `run: [make, all]`");
    }
    (argv.len() == nodes.len() && !argv.is_empty()).then_some(argv)
}

/// Refuses a NUL character, and an expression, which would not be evaluated here. Returns whether the text is fine.
fn check_argument(node: &Node, text: &str, path: &str, problems: &mut Problems<'_>) -> bool {
    if let Some(offset) = text.find('\0') {
        problems.error_inside(node, offset, path, "a command cannot contain a NUL character");
        return false;
    }
    let Some(offset) = find_expression(text) else { return true };
    problems.error_inside(node, offset, path, "expressions are not allowed in a command").hint(
        "pass the value in `with`: the process gets it as JSON on stdin and in $UNSTUCK_INPUT, and each field as $INPUT_<NAME>",
    );
    false
}

/// Finds a `${` that begins an expression of ours. The shell's own `${VAR}` is allowed.
fn find_expression(text: &str) -> Option<usize> {
    text.match_indices("${").map(|(place, _)| place).find(|place| starts_expression(text, place + 2))
}

/// Returns whether the text after a `${` refers to something that expressions know.
fn starts_expression(text: &str, start: usize) -> bool {
    let rest = &text[start..];
    let inside = &rest[..rest.find('}').unwrap_or(rest.len())];
    let named = identifiers(inside).any(|(place, word)| {
        let after = &inside[place + word.len()..];
        ROOTS.contains(&word)
            && (after.starts_with('.') || after.starts_with("['") || after.starts_with("[\""))
    });
    let bare = inside.trim();
    if named || !ROOTS.contains(&bare) {
        return named;
    }
    // `${item}` may be a shell variable: it is one if the line uses it elsewhere too.
    let elsewhere = |before: &str, (place, word): (usize, &str)| {
        word == bare && !before[..place].ends_with('$') && !before[..place].ends_with("${")
    };
    let (before, after) = (&text[..start - 2], &rest[inside.len()..]);
    inside != bare
        || !(identifiers(before).any(|word| elsewhere(before, word))
            || identifiers(after).any(|word| elsewhere(after, word)))
}

/// Iterates over the identifiers of a text with their offsets.
fn identifiers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut place = 0;
    std::iter::from_fn(move || {
        let start = place + text[place..].find(part)?;
        let end = text[start..].find(|c| !part(c)).map_or(text.len(), |length| start + length);
        place = end;
        Some((start, &text[start..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_told_from_the_variables_of_the_shell() {
        let cases = [
            ("echo ${input.name}", Some(5)),
            ("echo ${ steps.fetch.output }", Some(5)),
            ("echo ${steps['fetch'].output}", Some(5)),
            ("echo $HOME ${size(input.list)}", Some(11)),
            ("echo ${item}", Some(5)),
            ("echo ${ item }", Some(5)),
            ("echo ${run.id}", Some(5)),
            ("${input.program}", Some(0)),
            ("curl -H ${secrets.TOKEN}", Some(8)),
            ("echo ${HOME}/x ${PATH:-y} $item ${#array[@]}", None),
            ("for item in a b; do echo ${item}; done", None),
            ("read input; echo ${input}", None),
            ("echo ${my_input.x}", None),
            ("echo ${inputs}", None),
            ("echo '$' {input.x}", None),
            ("echo ${INPUT_NAME}", None),
            ("echo ${", None),
        ];
        for (line, expected) in cases {
            assert_eq!(find_expression(line), expected, "{line}");
        }
    }
}
