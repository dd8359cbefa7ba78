//! Whether a run on a server moves by itself, judged by its document and those of its children.

use unstuck_api::{Run, Step};

use super::is_final;

/// How deep a chain of children is followed.
const MAX_DEPTH: usize = 64;

/// Returns whether only an operator can move the run. `load` loads the document of a child; none where it is gone.
pub(super) fn is_at_rest<E>(
    run: &Run,
    load: &mut impl FnMut(&str) -> Result<Option<Run>, E>,
) -> Result<bool, E> {
    is_at_rest_below(run, load, 0)
}

fn is_at_rest_below<E>(
    run: &Run,
    load: &mut impl FnMut(&str) -> Result<Option<Run>, E>,
    depth: usize,
) -> Result<bool, E> {
    // Its parent has not heard of its end yet.
    if is_final(&run.state) {
        return Ok(depth == 0);
    }
    // In every other state something is under way, due, or paused on purpose.
    if !matches!(run.state.as_str(), "held" | "error") || depth >= MAX_DEPTH {
        return Ok(false);
    }
    if run.failing {
        let handler = run.handler.as_ref().and_then(|handler| handler.run.as_deref());
        return is_child_at_rest(handler, load, depth);
    }
    for (place, step) in run.steps.iter().enumerate() {
        let has_items = run.steps.get(place + 1).is_some_and(|next| is_item_of(next, step));
        let rests = has_items
            || match step.state.as_str() {
                "waiting" => false,
                "error" => step.next_auto_resume.is_none(),
                "active" => is_child_at_rest(step.child.as_deref(), load, depth)?,
                _ => true,
            };
        if !rests {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_child_at_rest<E>(
    child: Option<&str>,
    load: &mut impl FnMut(&str) -> Result<Option<Run>, E>,
    depth: usize,
) -> Result<bool, E> {
    let Some(child) = child else { return Ok(false) };
    match load(child)? {
        Some(child) => is_at_rest_below(&child, load, depth + 1),
        None => Ok(false),
    }
}

/// Returns whether a step of a document is an item of another, which stands before its items.
fn is_item_of(item: &Step, step: &Step) -> bool {
    item.id.strip_prefix(step.id.as_str()).is_some_and(|rest| rest.starts_with('['))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::{Value, json};

    use super::*;

    fn run(state: &str, steps: &[Value]) -> Run {
        let steps: Vec<Value> = steps
            .iter()
            .map(|step| {
                let mut all = json!({"output": null, "error": null, "nextAutoResumeReason": null, "rounds": 1, "attempts": []});
                let given = step.as_object().expect("it is an object").clone();
                all.as_object_mut().expect("it is an object").extend(given);
                all
            })
            .collect();
        serde_json::from_value(json!({
            "id": "run_1", "generation": 1, "flow": "f", "version": "1", "key": null, "state": state, "input": {}, "output": null,
            "createdAt": "2030-01-01T00:00:00Z", "updatedAt": "2030-01-01T00:00:00Z", "error": null, "nextAutoResumeReason": null,
            "steps": steps, "decisions": [],
        }))
        .expect("it is a run")
    }

    #[test]
    fn a_run_rests_when_only_a_person_can_move_it() {
        let later = "2030-01-01T00:01:00Z";
        let cases = [
            ("completed", vec![], true),
            ("failed", vec![], true),
            ("running", vec![json!({"id": "a", "state": "active"})], false),
            ("paused", vec![json!({"id": "a", "state": "pending"})], false),
            ("queued", vec![], false),
            ("held", vec![json!({"id": "a", "state": "held"}), json!({"id": "b", "state": "pending"})], true),
            (
                "held",
                vec![json!({"id": "a", "state": "held"}), json!({"id": "b", "state": "waiting"})],
                false,
            ),
            ("error", vec![json!({"id": "a", "state": "error"})], true),
            ("error", vec![json!({"id": "a", "state": "error", "nextAutoResume": later})], false),
            // The step of a fan-out stands for its items, which are looked at by themselves.
            (
                "error",
                vec![json!({"id": "a", "state": "active"}), json!({"id": "a[0]", "state": "error"})],
                true,
            ),
            (
                "error",
                vec![
                    json!({"id": "a", "state": "error"}),
                    json!({"id": "a[0]", "state": "error"}),
                    json!({"id": "a[1]", "state": "waiting"}),
                ],
                false,
            ),
            ("held", vec![json!({"id": "a", "state": "active", "child": "held"})], true),
            ("held", vec![json!({"id": "a", "state": "active", "child": "moves"})], false),
            // Its parent will hear of it.
            ("held", vec![json!({"id": "a", "state": "active", "child": "ended"})], false),
            ("held", vec![json!({"id": "a", "state": "active", "child": "gone"})], false),
        ];
        let mut load = |child: &str| {
            Ok::<_, Infallible>(match child {
                "held" => Some(run("held", &[json!({"id": "x", "state": "held"})])),
                "moves" => Some(run("running", &[])),
                "ended" => Some(run("completed", &[])),
                _ => None,
            })
        };
        for (state, steps, wanted) in cases {
            let Ok(rests) = is_at_rest(&run(state, &steps), &mut load);
            assert_eq!(rests, wanted, "{state} {steps:?}");
        }
    }
}
