//! The request of an attempt, from its input: with secrets put in, and with what must not follow it to another host.

use hyper::body::Bytes;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT,
};
use hyper::{Method, StatusCode};
use serde_json::{Map, Value};
use unstuck_core::command::Report;
use unstuck_core::decide::unit_name;
use unstuck_core::model::error::{Error, Reason};
use unstuck_core::model::secret::{SecretPart, parse};

use super::base64;
use super::target::Target;
use crate::executor::Job;
use crate::secrets::{Redactor, SecretValues, percent_encode};

/// The header that is the same for every attempt of a step in a generation, so that a server can tell a repeated request.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// What is sent.
pub(super) struct PreparedRequest {
    pub(super) method: Method,
    pub(super) target: Target,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    /// The headers that are for this host only.
    credentials: Vec<HeaderName>,
    /// Whether the body has a secret in it.
    has_secret_body: bool,
}

impl PreparedRequest {
    /// Makes the request of an attempt. Adds to `redactor` what it sends of secrets in another form.
    pub(super) fn new(
        job: &Job,
        secrets: &SecretValues,
        redactor: &mut Redactor,
    ) -> Result<PreparedRequest, Report> {
        let Value::Object(mut input) = job.input.value() else {
            return Err(wrong("the input of an `http` step is a map with a `url`"));
        };
        let reader = Reader { secrets };
        let target = reader.url(&mut input)?;
        let (mut headers, mut credentials) = reader.headers(&mut input)?;
        let (body, content_type, has_secret_body) = reader.body(input.remove("body"))?;
        let method = reader.method(&input, body.is_some())?;
        if let Some(content_type) = content_type {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
        }
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("unstuck/", env!("CARGO_PKG_VERSION"))));
        if let Ok(lineage) = HeaderValue::from_str(&lineage(job)) {
            headers.entry(IDEMPOTENCY_KEY).or_insert(lineage);
        }
        if let Some(user) = target.user.as_deref().filter(|_| !headers.contains_key(AUTHORIZATION)) {
            let encoded = base64::encode(user.as_bytes());
            redactor.add(&encoded);
            if let Ok(basic) = HeaderValue::from_str(&format!("Basic {encoded}")) {
                headers.insert(AUTHORIZATION, basic);
            }
        }
        credentials.extend([AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION]);
        Ok(PreparedRequest { method, target, headers, body, credentials, has_secret_body })
    }

    /// The request that a redirect asks for, or why it is not made.
    pub(super) fn redirected(
        mut self,
        status: StatusCode,
        location: &str,
    ) -> Result<PreparedRequest, String> {
        let target = self.target.redirected(location)?;
        // As browsers and all other clients do: only 307 and 308 repeat what was sent.
        let becomes_get = match status.as_u16() {
            303 => self.method != Method::HEAD,
            301 | 302 => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = None;
            self.headers.remove(CONTENT_TYPE);
        }
        if !target.has_same_origin(&self.target) {
            if self.body.is_some() && self.has_secret_body {
                return Err(format!(
                    "{} redirects to another host ({target}), and the body contains a secret: it is not sent there",
                    self.target
                ));
            }
            for name in &self.credentials {
                self.headers.remove(name);
            }
        }
        Ok(PreparedRequest { target, ..self })
    }
}

/// Names what the request is for: the same for every attempt of a step in a generation.
pub(super) fn lineage(job: &Job) -> String {
    let attempt = job.attempt;
    format!("{}/{}/{}", attempt.run, attempt.generation, unit_name(&job.flow, attempt.unit))
}

/// An input that cannot be sent.
pub(super) fn wrong(cause: impl Into<String>) -> Report {
    let error = Error { reason: Reason::Data, ..Error::new(cause.into()) };
    Report::Fail { error: Box::new(error), fatal: true }
}

/// Reads an input, which is in the form of secrets where the step uses some.
struct Reader<'a> {
    secrets: &'a SecretValues,
}

impl Reader<'_> {
    fn url(&self, input: &mut Map<String, Value>) -> Result<Target, Report> {
        let Some(Value::String(url)) = input.remove("url") else {
            return Err(wrong("the `url` of the request is not a text"));
        };
        // A secret that a url begins with is a url itself; anywhere else it is a part of one.
        let whole = |place: usize, secret: &str| {
            if place == 0 { secret.to_owned() } else { percent_encode(secret) }
        };
        Target::parse(&self.text(&url, whole)?).map_err(wrong)
    }

    fn method(&self, input: &Map<String, Value>, has_body: bool) -> Result<Method, Report> {
        let method = match input.get("method") {
            None | Some(Value::Null) if has_body => return Ok(Method::POST),
            None | Some(Value::Null) => return Ok(Method::GET),
            Some(Value::String(method)) => self.text(method, |_, secret| secret.to_owned())?,
            Some(_) => return Err(wrong("the `method` of the request is not a text")),
        };
        let method = method.to_ascii_uppercase();
        METHODS.into_iter().find(|known| known.as_str() == method).ok_or_else(|| {
            wrong("the `method` of the request is none of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS")
        })
    }

    /// The headers, and which of them have a secret in them.
    fn headers(&self, input: &mut Map<String, Value>) -> Result<(HeaderMap, Vec<HeaderName>), Report> {
        let mut headers = HeaderMap::new();
        let mut secret = Vec::new();
        let given = match input.remove("headers") {
            None | Some(Value::Null) => return Ok((headers, secret)),
            Some(Value::Object(given)) => given,
            Some(_) => return Err(wrong("the `headers` of the request are not a map")),
        };
        for (name, value) in given {
            let Ok(header) = HeaderName::try_from(name.to_ascii_lowercase()) else {
                return Err(wrong(format!("`{name}` is not the name of a header")));
            };
            let text = match value {
                Value::Null => continue,
                Value::String(text) => {
                    if self.has_secret(&text) {
                        secret.push(header.clone());
                    }
                    self.text(&text, |_, secret| secret.to_owned())?
                }
                Value::Bool(value) => value.to_string(),
                Value::Number(number) => number.to_string(),
                Value::Array(_) | Value::Object(_) => {
                    return Err(wrong(format!("the value of header `{header}` is not a text")));
                }
            };
            let Ok(mut value) = HeaderValue::from_bytes(text.trim().as_bytes()) else {
                return Err(wrong(format!("the value of header `{header}` is not one line of text")));
            };
            value.set_sensitive(self.has_secret(&text));
            headers.insert(header, value);
        }
        Ok((headers, secret))
    }

    /// The body, what it is, and whether it has a secret in it.
    fn body(&self, body: Option<Value>) -> Result<(Option<Bytes>, Option<&'static str>, bool), Report> {
        match body {
            None | Some(Value::Null) => Ok((None, None, false)),
            Some(Value::String(text)) => {
                let has_secret = self.has_secret(&text);
                let text = self.text(&text, |_, secret| secret.to_owned())?;
                Ok((Some(text.into()), Some("text/plain; charset=utf-8"), has_secret))
            }
            Some(value) => {
                let has_secret = self.has_secret_within(&value);
                let value =
                    if self.secrets.is_empty() { value } else { self.secrets.put_into_value(value)? };
                Ok((Some(value.to_string().into()), Some("application/json"), has_secret))
            }
        }
    }

    fn text(&self, text: &str, write: impl Fn(usize, &str) -> String) -> Result<String, Report> {
        if self.secrets.is_empty() { Ok(text.to_owned()) } else { self.secrets.put_into_text(text, write) }
    }

    fn has_secret(&self, text: &str) -> bool {
        !self.secrets.is_empty() && parse(text).iter().any(|part| matches!(part, SecretPart::Reference(_)))
    }

    fn has_secret_within(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.has_secret(text),
            Value::Array(items) => items.iter().any(|item| self.has_secret_within(item)),
            Value::Object(entries) => entries.values().any(|value| self.has_secret_within(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}
