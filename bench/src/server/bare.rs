//! A server that does nothing: bare axum handlers that answer with as many bytes as the real ones.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use http_body::Frame;

use super::streams::EVENT;

/// Events in a piece of a stream, as the server sends them.
pub const PIECE: u64 = 256;

/// Listens, says where, and answers until it is ended: documents of so many bytes, and streams of events of so many bytes.
pub fn serve(document: usize, event: usize) -> io::Result<()> {
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let document = format!("{{\"text\":\"{}\"}}", "x".repeat(document.saturating_sub(11)));
    let piece: String = (0..PIECE).map(|_| build_event(event)).collect();
    let piece = Bytes::from(piece);
    let read = move |Path(run): Path<String>| {
        let document = document.clone();
        async move {
            std::hint::black_box(run);
            ([(header::CONTENT_TYPE, "application/json; charset=utf-8")], document)
        }
    };
    let stream = move |Path(pieces): Path<u64>| {
        let body = Body::new(Pieces { piece: piece.clone(), left: pieces });
        async move { ([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], body).into_response() }
    };
    let router = Router::new().route("/runs/{run}", get(read)).route("/stream/{pieces}", get(stream));
    threads.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{}", serde_json::json!({ "url": format!("http://{}", listener.local_addr()?) }));
        io::stdout().flush()?;
        axum::serve(listener, router).await
    })
}

fn build_event(bytes: usize) -> String {
    let word = String::from_utf8_lossy(EVENT);
    let rest = bytes.saturating_sub(word.len() + 8);
    format!("{word}data: {}\n\n", "x".repeat(rest))
}

/// The same piece, so many times.
struct Pieces {
    piece: Bytes,
    left: u64,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }
}
