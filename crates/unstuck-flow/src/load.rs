//! Loads a file: all flows in it, or all problems of it.

use unstuck_core::model::flow::Flow;
use unstuck_core::time::Time;

use crate::outline::{self, Outline};
use crate::problem::{Problem, Problems};
use crate::references::{Neighbours, Reference};
use crate::tree::Position;
use crate::{flow, parse};

/// What a file gave.
#[derive(Debug)]
pub struct Loaded {
    /// Its flows, in the order of the file.
    pub flows: Vec<Flow>,
    /// What is only suspicious.
    pub warnings: Vec<Problem>,
    /// Warnings that apply once a time has passed, such as a wait until that instant.
    pub passing: Vec<(Time, Problem)>,
}

impl Loaded {
    /// Lists the warnings at this time, in the order of the file.
    pub fn warnings_at(&self, now: Time) -> Vec<Problem> {
        let passed = self.passing.iter().filter(|(time, _)| *time <= now).map(|(_, problem)| problem);
        let mut warnings: Vec<Problem> = self.warnings.iter().chain(passed).cloned().collect();
        warnings.sort_by_key(|warning| (warning.line, warning.column));
        warnings
    }
}

/// Loads a file with one or more flows: YAML documents, a JSON object, or a list of either.
///
/// `file` is the name shown in problems, `directory` is where local processes start, and `known` says whether a flow
/// exists elsewhere. A file loads as a whole or not at all, and every problem is reported at once.
pub fn load(
    text: &str,
    file: &str,
    directory: &str,
    known: &dyn Fn(&str) -> bool,
) -> Result<Loaded, Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut problems = Problems::new(file, text);
    let Some(documents) = parse::parse_documents(&mut problems) else { return Err(problems.into_sorted()) };
    if documents.is_empty() {
        problems
            .error(Position::START, "", "the file contains no flow")
            .hint("start with `flow: <name>` and `steps:`");
    }
    let outlines: Vec<Outline<'_>> =
        documents.iter().filter_map(|document| outline::read_outline(document, &mut problems)).collect();
    refuse_duplicate_names(&outlines, &mut problems);
    let compiled: Vec<(Option<Flow>, Vec<Reference>)> =
        outlines.iter().map(|outline| flow::compile_flow(outline, directory, &mut problems)).collect();
    let names: Vec<&str> = outlines.iter().filter_map(|outline| outline.name).collect();
    let flows = outlines.iter().zip(&compiled);
    // A flow whose name is wrong speaks of others all the same.
    let flows =
        flows.map(|(outline, (_, references))| (outline.name.unwrap_or_default(), references.as_slice()));
    let neighbours = Neighbours::new(flows.collect());
    neighbours.check_existence(&names, known, &mut problems);
    neighbours.check_handlers(&mut problems);
    neighbours.check_children(&mut problems);
    if problems.any_error() {
        return Err(problems.into_sorted());
    }
    let flows = compiled.into_iter().filter_map(|(flow, _)| flow).collect();
    let passing = problems.take_passing();
    Ok(Loaded { flows, warnings: problems.into_sorted(), passing })
}

/// Refuses two flows of one file with the same name.
fn refuse_duplicate_names(outlines: &[Outline<'_>], problems: &mut Problems<'_>) {
    for (place, outline) in outlines.iter().enumerate() {
        let Some(name) = outline.name else { continue };
        let first = outlines[..place].iter().find(|other| other.name == Some(name));
        if let (Some(first), Some(spot)) = (first, outline.object.spot("flow")) {
            let line = first.object.at.line;
            spot.refuse(problems, format!("the name `{name}` is already used by the flow on line {line}"))
                .hint("give each flow its own name");
        }
    }
}
