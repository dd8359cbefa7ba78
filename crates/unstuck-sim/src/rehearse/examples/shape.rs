//! What the output of a step may look like, guessed from how expressions read it: `rows.size()` is of a list, `n > 3` of a
//! number. Nothing is promised: whoever suggests it tries it first.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use unstuck_core::model::expression::Expression;
use unstuck_core::model::flow::{Flow, Kind, Step, StepIndex};

use super::{computed, expressions};

/// What is known about a value.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Any,
    Leaf(Value),
    Map(BTreeMap<String, Shape>),
    /// Of at least so many items.
    List(Box<Shape>, usize),
}

/// Lists and loops in each other are followed so deep.
const DEEPEST: usize = 8;
/// A list has so many items at most, whatever place of it is read.
const LONGEST: usize = 16;

/// An example of what this step puts out. An item of a `forEach` puts out what others read as an item of a list.
pub(super) fn guess(flows: &[Flow], flow: &Flow, step: &Step) -> Value {
    let mut shape = read_as(flow, step);
    // What a child puts out is what its last step does, unless it says otherwise.
    let last = super::last_steps(flow);
    if flow.output.is_none() && matches!(last[..], [only] if flow.step(only).id == step.id) {
        for parent in flows {
            let is_it = |step: &&Step| matches!(&step.kind, Kind::Child(child) if *child == flow.name);
            for caller in parent.steps.iter().filter(is_it) {
                shape = merge(shape, of_item(read_as(parent, caller), caller));
            }
        }
    }
    value(&of_item(shape, step))
}

/// What one item must be, where a list is read of a fan-out.
fn of_item(shape: Shape, step: &Step) -> Shape {
    match (shape, &step.node.for_each) {
        (Shape::List(item, _), Some(_)) => *item,
        (_, Some(_)) => Shape::Any,
        (shape, None) => shape,
    }
}

/// What the output of a step must be, by all expressions of its flow.
fn read_as(flow: &Flow, step: &Step) -> Shape {
    let mut shape = Shape::Any;
    let Some(place) = flow.steps.iter().position(|known| known.id == step.id) else { return shape };
    let place = StepIndex(u16::try_from(place).unwrap_or(u16::MAX));
    let id = &step.id;
    let roots =
        [format!("steps.{id}.output"), format!("steps['{id}'].output"), format!("steps[\"{id}\"].output")];
    let mut read = |expression: &Expression, whole: &SchemaRoot<'_>| {
        if !expression.reads.steps.contains(&place) {
            return;
        }
        for root in &roots {
            let found = infer(&expression.source, root, whole, 0);
            shape = merge(std::mem::replace(&mut shape, Shape::Any), found);
        }
    };
    for reader in &flow.steps {
        let items = items_of(reader);
        for expression in expressions(reader) {
            let whole = whole(reader, expression, &items);
            let is_list = matches!(whole, Shape::List(..));
            read(
                expression,
                &SchemaRoot { shape: &whole, items: if is_list { &items } else { &Shape::Any } },
            );
        }
    }
    if let Some(output) = flow.output.as_ref().and_then(computed) {
        read(output, &SchemaRoot { shape: &Shape::Any, items: &Shape::Any });
    }
    shape
}

/// What the value of an expression must be, by the field that it stands in.
fn whole(reader: &Step, expression: &Expression, items: &Shape) -> Shape {
    let is = |other: Option<&Expression>| other.is_some_and(|other| std::ptr::eq(other, expression));
    if is(reader.node.when.as_ref()) {
        Shape::Leaf(json!(true))
    } else if is(reader.node.for_each.as_ref().and_then(|each| computed(&each.items))) {
        Shape::List(Box::new(items.clone()), 1)
    } else if matches!(reader.kind, Kind::Wait(_)) && !is(reader.node.with.as_ref().and_then(computed)) {
        Shape::Leaf(json!("1m"))
    } else {
        Shape::Any
    }
}

const EXAMPLE: &str = "example";

/// What each item of a fan-out is, by what its step reads of it.
fn items_of(step: &Step) -> Shape {
    let nothing = SchemaRoot { shape: &Shape::Any, items: &Shape::Any };
    let shapes = expressions(step).into_iter().filter(|expression| expression.reads.item);
    shapes.map(|expression| infer(&expression.source, "item", &nothing, 0)).fold(Shape::Any, merge)
}

/// What is known from outside: of a value that is all of the expression, and of the items of a list that it gives.
struct SchemaRoot<'a> {
    shape: &'a Shape,
    items: &'a Shape,
}

fn value(shape: &Shape) -> Value {
    match shape {
        Shape::Any => json!(EXAMPLE),
        Shape::Leaf(value) => value.clone(),
        Shape::Map(fields) => {
            Value::Object(fields.iter().map(|(name, shape)| (name.clone(), value(shape))).collect())
        }
        Shape::List(item, least) => Value::Array(vec![value(item); (*least).clamp(1, LONGEST)]),
    }
}

fn merge(one: Shape, other: Shape) -> Shape {
    match (one, other) {
        (Shape::Any, shape) | (shape, Shape::Any) => shape,
        (Shape::Map(mut fields), Shape::Map(more)) => {
            for (name, shape) in more {
                let known = fields.remove(&name).unwrap_or(Shape::Any);
                fields.insert(name, merge(known, shape));
            }
            Shape::Map(fields)
        }
        (Shape::List(one, least), Shape::List(other, more)) => {
            Shape::List(Box::new(merge(*one, *other)), least.max(more))
        }
        // What has parts says more than what has none.
        (Shape::Leaf(_), shape @ (Shape::Map(_) | Shape::List(..))) => shape,
        (shape, _) => shape,
    }
}

/// What `root` must be, by all places of the text that name it.
fn infer(text: &str, root: &str, whole: &SchemaRoot<'_>, depth: usize) -> Shape {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let mut shape = Shape::Any;
    if depth > DEEPEST {
        return shape;
    }
    for (start, _) in text.match_indices(root) {
        let (before, rest) = (&text[..start], &text[start + root.len()..]);
        let goes_on = rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if before.ends_with(is_word) || goes_on {
            continue;
        }
        shape = merge(shape, path(before, rest, whole, depth));
    }
    shape
}

/// What a value must be that is followed by this.
fn path(before: &str, rest: &str, whole: &SchemaRoot<'_>, depth: usize) -> Shape {
    if depth > DEEPEST {
        return Shape::Any;
    }
    if let Some(after) = rest.strip_prefix('.') {
        let after = after.strip_prefix('?').unwrap_or(after);
        let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        return match after.strip_prefix('(') {
            Some(arguments) => method(name, arguments, whole, depth),
            None if name.is_empty() => Shape::Any,
            None => field(name, path(before, after, whole, depth + 1)),
        };
    }
    let Some(after) = rest.strip_prefix('[') else { return leaf(before, rest, whole) };
    let after = after.strip_prefix('?').unwrap_or(after);
    let Some((key, after)) = after.split_once(']') else { return Shape::Any };
    let of_it = |after| path(before, after, whole, depth + 1);
    match key.trim().parse::<usize>() {
        Ok(place) => Shape::List(Box::new(of_it(after)), place.saturating_add(1)),
        Err(_) => match literal(key.trim()) {
            Some(Value::String(name)) => field(&name, of_it(after)),
            Some(_) | None => Shape::Any,
        },
    }
}

fn field(name: &str, shape: Shape) -> Shape {
    Shape::Map(BTreeMap::from([(name.to_owned(), shape)]))
}

/// What a value must be that this is called on.
fn method(name: &str, arguments: &str, whole: &SchemaRoot<'_>, depth: usize) -> Shape {
    match name {
        "filter" | "map" | "all" | "exists" | "exists_one" => {
            let (inside, after) = closed(arguments);
            let Some((variable, body)) = inside.split_once(',') else { return Shape::Any };
            let nothing = SchemaRoot { shape: &Shape::Any, items: &Shape::Any };
            let item = infer(body, variable.trim(), &nothing, depth + 1);
            let same = if name == "filter" { path("", after, whole, depth + 1) } else { Shape::Any };
            merge(Shape::List(Box::new(item), 1), same)
        }
        "size" | "join" | "sort" | "reverse" | "distinct" | "flatten" => {
            Shape::List(Box::new(whole.items.clone()), 1)
        }
        "contains" | "startsWith" | "endsWith" | "matches" | "lowerAscii" | "upperAscii" | "trim"
        | "indexOf" | "lastIndexOf" | "substring" | "replace" | "split" => Shape::Leaf(json!(EXAMPLE)),
        _ => Shape::Any,
    }
}

/// What stands in the brackets that are open, and what follows them.
fn closed(text: &str) -> (&str, &str) {
    let mut open = 1;
    for (place, letter) in text.char_indices() {
        match letter {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return (&text[..place], &text[place + 1..]);
        }
    }
    (text, "")
}

/// What a value must be of which no part is read, by what stands before and after it.
fn leaf(before: &str, rest: &str, whole: &SchemaRoot<'_>) -> Shape {
    let (before, rest) = (before.trim_end(), rest.trim_start());
    if matches!(before, "" | "${") && matches!(rest, "" | "}") {
        return whole.shape.clone();
    }
    let of_call = [
        ("timestamp(", json!("2026-01-01T00:00:00Z")),
        ("duration(", json!("1m")),
        ("int(", json!(1)),
        ("double(", json!(1)),
        ("math.abs(", json!(1)),
    ];
    if let Some((_, example)) = of_call.iter().find(|(call, _)| before.ends_with(call)) {
        return Shape::Leaf(example.clone());
    }
    if before.ends_with("size(") || before.ends_with(" in") {
        return Shape::List(Box::new(Shape::Any), 1);
    }
    for (operator, by) in [("==", 0), (">=", 0), ("<=", 0), (">", 1), ("<", -1)] {
        if let Some(other) = rest.strip_prefix(operator) {
            return match literal(other.trim_start()) {
                Some(Value::Number(n)) => Shape::Leaf(n.as_i64().map_or(json!(n), |n| json!(n + by))),
                Some(Value::Null) => Shape::Any,
                Some(literal) => Shape::Leaf(literal),
                None => Shape::Any,
            };
        }
    }
    let is_condition = rest.starts_with('?')
        || [rest.get(..2), before.get(before.len().saturating_sub(2)..)]
            .into_iter()
            .flatten()
            .any(|sign| matches!(sign, "&&" | "||"))
        || before.ends_with('!');
    if is_condition {
        return Shape::Leaf(json!(true));
    }
    let is_number =
        rest.starts_with(['*', '/', '%', '-']) || before.ends_with(['*', '/', '%', '-', '<', '>']);
    let is_sum = rest
        .strip_prefix('+')
        .is_some_and(|other| literal(other.trim_start()).is_some_and(|l| l.is_number()));
    if is_number || is_sum { Shape::Leaf(json!(1)) } else { Shape::Any }
}

/// The literal at the start of a text.
fn literal(text: &str) -> Option<Value> {
    for word in ["null", "true", "false"] {
        if text.starts_with(word) {
            return serde_json::from_str(word).ok();
        }
    }
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let rest = &text[1..];
        return rest.split_once(quote).map(|(inside, _)| json!(inside));
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-')).unwrap_or(text.len());
    serde_json::from_str::<Value>(&text[..end]).ok().filter(Value::is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_guessed_from_how_it_is_read() {
        let cases = [
            ("with: {n: '${ steps.a.output.n }'}", json!({"n": "example"})),
            ("with: {n: '${ steps.a.output.user.id + 1 }'}", json!({"user": {"id": 1}})),
            ("if: steps.a.output.rows.size() > 0", json!({"rows": ["example"]})),
            ("if: steps.a.output.ok", json!({"ok": true})),
            ("if: steps.a.output.n > 3 && !steps.a.output.late", json!({"n": 4, "late": true})),
            ("if: steps.a.output.state == 'paid'", json!({"state": "paid"})),
            ("if: \"steps.a.output['first-name'] == 'x'\"", json!({"first-name": "x"})),
            ("with: {n: '${ steps.a.output[1].id }'}", json!([{"id": "example"}, {"id": "example"}])),
            (
                "forEach: '${ steps.a.output.rows.filter(row, row.n > 1) }'\n    with: {id: '${ item.id }'}",
                json!({"rows": [{"id": "example", "n": 2}]}),
            ),
            ("forEach: '${ steps.a.output }'\n    with: {id: '${ item.id }'}", json!([{"id": "example"}])),
            ("with: {n: '${ steps.a.output.trim() }'}", json!("example")),
            (
                "with: {n: \"${ timestamp(steps.a.output.at) + duration('1h') }\"}",
                json!({"at": "2026-01-01T00:00:00Z"}),
            ),
            ("with: {n: '${ steps.ab.output.x }'}", json!("example")),
        ];
        for (reader, wanted) in cases {
            let text = format!(
                "flow: f\nsteps:\n  - {{id: a, action: a}}\n  - {{id: ab, action: a}}\n  - id: b\n    action: b\n    {reader}\n"
            );
            let loaded = unstuck_flow::load(&text, "flow", ".", &|_| false);
            let flow = loaded.unwrap_or_else(|problems| panic!("{reader}: {problems:#?}")).flows.remove(0);
            assert_eq!(guess(&[], &flow, &flow.steps[0]), wanted, "{reader}");
        }
    }
}
