//! Bodies of requests as they arrive: neither too large nor too slow, and no more of them at once than there is room for.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use http_body::Body as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use unstuck_api::{ProblemDocument, ProblemType};

use crate::app::App;
use crate::content_coding::{BodyDecoder, ContentCoding, DecodeError};
use crate::problem::Problem;

/// So many bytes of a body that is too large are read and dropped, because whoever still sends does not see the answer.
const MOST_DROPPED: usize = 32 << 20;

/// A body that has arrived, and its room.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceivedBody {
    pub(crate) bytes: Bytes,
    /// Given back when nobody needs the bytes any more.
    _room: Option<Arc<OwnedSemaphorePermit>>,
}

impl ReceivedBody {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Reads a body within its bounds.
pub(crate) async fn receive_body(
    app: &App,
    body: Body,
    coding: Option<ContentCoding>,
) -> Result<ReceivedBody, Problem> {
    let limit = app.settings.limits.body_time;
    timeout(limit, read_all(app, body, coding)).await.unwrap_or_else(|_| {
        let sentence = format!("the body did not arrive within {} s", limit.as_secs());
        Err(Problem::new(ProblemType::BadRequest, sentence))
    })
}

async fn read_all(app: &App, mut body: Body, coding: Option<ContentCoding>) -> Result<ReceivedBody, Problem> {
    let most = app.settings.limits.body;
    let mut decoder = BodyDecoder::new(coding, most);
    let (mut room, mut is_empty) = (None, true);
    while let Some(piece) = next_piece(&mut body).await? {
        is_empty = false;
        if let Err(error) = decoder.take(&piece) {
            // What has come so far is not needed either.
            drop((decoder, room));
            drop_rest(&mut body).await;
            return Err(refuse_body(&error, most));
        }
        take_room(app, decoder.len(), &mut room)?;
    }
    if is_empty {
        return Ok(ReceivedBody::default());
    }
    let bytes = decoder.finish().map_err(|error| refuse_body(&error, most))?;
    Ok(ReceivedBody { bytes: bytes.into(), _room: room.map(Arc::new) })
}

fn refuse_body(error: &DecodeError, most: usize) -> Problem {
    match error {
        DecodeError::TooLarge => too_large(most),
        DecodeError::Broken(coding) => {
            let name = coding.name();
            let sentence = format!("the body is not {name}, as `Content-Encoding` says, or ends too early");
            Problem::new(ProblemType::BadRequest, sentence)
        }
    }
}

/// Returns the next piece of a body, if there is one.
async fn next_piece(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        match frame {
            None => return Ok(None),
            Some(Ok(frame)) => {
                // Trailers say nothing to us.
                if let Ok(piece) = frame.into_data() {
                    return Ok(Some(piece));
                }
            }
            Some(Err(error)) => {
                let sentence = format!("the body did not arrive whole: {error}");
                return Err(Problem::new(ProblemType::BadRequest, sentence));
            }
        }
    }
}

async fn drop_rest(body: &mut Body) {
    let mut dropped = 0;
    while dropped < MOST_DROPPED
        && let Ok(Some(piece)) = next_piece(body).await
    {
        dropped += piece.len();
    }
}

/// Takes as much more room as a body of this length needs.
fn take_room(app: &App, length: usize, room: &mut Option<OwnedSemaphorePermit>) -> Result<(), Problem> {
    let taken = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = u32::try_from(length.div_ceil(1 << 10).saturating_sub(taken)).unwrap_or(u32::MAX);
    if more == 0 {
        return Ok(());
    }
    let Ok(permit) = app.body_room.clone().try_acquire_many_owned(more) else {
        let sentence = "too many large requests arrive at once; repeat this one in a moment";
        return Err(Problem::new(ProblemType::Overloaded, sentence));
    };
    match room {
        Some(room) => room.merge(permit),
        None => *room = Some(permit),
    }
    Ok(())
}

fn too_large(most: usize) -> Problem {
    let mut problem = ProblemDocument::new(
        ProblemType::TooLarge,
        format!("the body has more than {most} bytes, which is the maximum; send less at once"),
    );
    problem.about.what = Some("body".to_owned());
    problem.about.max = u64::try_from(most).ok();
    Problem::from(problem)
}
