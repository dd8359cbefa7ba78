//! The store of a server: what it holds, checks of it, and copies.

use axum::http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use unstuck_api::store::{StoreCopyBody, StoreJobKind};
use unstuck_api::{ProblemDocument, ProblemType};

use super::REPLAYED;
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Answered;
use crate::store_jobs::NewJob;

/// Says where the store is and what it holds.
pub(crate) fn info(call: &Call) -> Answered {
    let document = call.app.settings.store_tool.run(&["info"]);
    Answer::view(&document.map_err(|why| Problem::new(ProblemType::Internal, why))?)
}

/// Begins a check of all that the data alone can prove.
pub(crate) fn check(call: &Call) -> Answered {
    begin(call, StoreJobKind::Check, vec!["check".to_owned()])
}

/// Begins a copy in the folder for copies.
pub(crate) fn copy(call: &Call) -> Answered {
    let StoreCopyBody { name } = call.json()?;
    let Some(copies) = &call.app.settings.store_tool.copies else {
        let mut problem = ProblemDocument::new(
            ProblemType::NotEnabled,
            "no folder is configured for copies of the store; start the server with --copies FOLDER",
        );
        problem.about.setting = Some("copies".to_owned());
        return Err(Problem::from(problem));
    };
    let name = name.unwrap_or_else(|| Timestamp::now().strftime("unstuck-%Y%m%dT%H%M%S.%3fZ").to_string());
    if !is_folder_name(&name) {
        return Err(Problem::bad_field(
            "name",
            format!(
                "`{name}` is not a name for a copy; use 1 to 128 letters, digits, `.`, `_` and `-`, the first a letter or digit"
            ),
        ));
    }
    let folder = copies.join(&name);
    if folder.exists() {
        return Err(Problem::new(
            ProblemType::InUse,
            format!("{} is there already; give the copy another name", folder.display()),
        ));
    }
    begin(call, StoreJobKind::Copy, vec!["copy".to_owned(), folder.to_string_lossy().into_owned()])
}

/// A name that leads nowhere else.
fn is_folder_name(name: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=128).contains(&name.len()) && name.bytes().all(is_safe) && name.as_bytes()[0].is_ascii_alphanumeric()
}

fn begin(call: &Call, what: StoreJobKind, arguments: Vec<String>) -> Answered {
    let context = call.context(None)?;
    let new = NewJob { what, arguments, by: call.by(), key: context.idempotency };
    let begun = call.app.store_jobs.begin(&call.app.settings.store_tool, new)?;
    let place = format!("/v1/store/jobs/{}", begun.view.job);
    let answer = Answer::view(&begun.view)?
        .with_status(StatusCode::ACCEPTED)
        .with_text_header(header::LOCATION, &place);
    Ok(if begun.is_replayed {
        answer.with_header(REPLAYED, HeaderValue::from_static("true"))
    } else {
        answer
    })
}

/// Says how far a check or copy is.
pub(crate) fn job(call: &Call) -> Answered {
    let id = call.part("job");
    let Some(view) = call.app.store_jobs.find(id) else {
        let mut problem = ProblemDocument::new(
            ProblemType::NotFound,
            format!("there is no job `{id}`; the last 20 are remembered until the server stops"),
        );
        problem.about.what = Some("job".to_owned());
        problem.about.name = Some(id.to_owned());
        return Err(Problem::from(problem));
    };
    Answer::view(&view)
}
