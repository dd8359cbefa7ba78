//! The text of a file as a tree in which every key and value has its position.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// A place in a file, counted from 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Position {
    /// The start of a file.
    pub(crate) const START: Position = Position { line: 1, column: 1 };

    pub(crate) fn of(location: serde_saphyr::Location) -> Position {
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).max(1);
        Position { line: number(location.line()), column: number(location.column()) }
    }
}

/// A value and where it is written.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: Position,
    /// Where its text is in the file; exact for scalars only.
    raw: Range<usize>,
    pub(crate) content: Content,
}

/// The content of a node, as in JSON.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    /// As written: keys may still come twice.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) node: Node,
}

impl Node {
    /// Returns a node at the same place with other content.
    pub(crate) fn with_content(&self, content: Content) -> Node {
        Node { at: self.at, raw: self.raw.clone(), content }
    }

    /// Returns the text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Null | Content::Bool(_) | Content::Number(_) | Content::List(_) | Content::Map(_) => {
                None
            }
        }
    }

    /// Returns the entry of this key, if it is a map that has one.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.content {
            Content::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) | Content::List(_) => {
                None
            }
        }
    }

    /// Returns the word for its type, for messages.
    pub(crate) fn word(&self) -> &'static str {
        match &self.content {
            Content::Null => "nothing",
            Content::Bool(_) => "true or false",
            Content::Number(_) => "a number",
            Content::Text(_) => "text",
            Content::List(_) => "a list",
            Content::Map(_) => "a map",
        }
    }

    /// Returns a scalar as it is spelled in the file: `1.10` stays `1.10`.
    pub(crate) fn spelling(&self, file: &str) -> Option<String> {
        match &self.content {
            Content::Text(text) => Some(text.clone()),
            Content::Bool(value) => Some(value.to_string()),
            Content::Number(number) => {
                let spelled = file.get(self.raw.clone()).map(str::trim).filter(|raw| !raw.is_empty());
                Some(spelled.map_or_else(|| number.to_string(), str::to_owned))
            }
            Content::Null | Content::List(_) | Content::Map(_) => None,
        }
    }

    /// Converts to JSON, without positions.
    pub(crate) fn value(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(*value),
            Content::Number(number) => Value::Number(number.clone()),
            Content::Text(text) => Value::String(text.clone()),
            Content::List(nodes) => nodes.iter().map(Node::value).collect(),
            Content::Map(entries) => {
                let pairs = entries.iter().map(|entry| (entry.key.clone(), entry.node.value()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }

    /// Follows a JSON pointer as far as it leads, and returns the last node.
    pub(crate) fn at_pointer(&self, pointer: &str) -> &Node {
        let mut node = self;
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            let next = match &node.content {
                Content::List(nodes) => part.parse::<usize>().ok().and_then(|place| nodes.get(place)),
                Content::Map(entries) => {
                    entries.iter().find(|entry| entry.key == part).map(|entry| &entry.node)
                }
                Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// Returns the position of the byte at `offset` of this text. If the file spells the text differently (escapes,
    /// folding), the position where it starts.
    pub(crate) fn place_inside(&self, file: &str, offset: usize) -> Position {
        let (Some(text), Some(raw)) = (self.text(), file.get(self.raw.clone())) else { return self.at };
        let inside =
            raw.find(text).map(|start| start + offset).or_else(|| offset_in_indented_text(text, raw, offset));
        let before = inside.and_then(|inside| raw.get(..inside));
        let Some(before) = before else { return self.at };
        let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        match before.rsplit_once('\n') {
            None => Position { column: self.at.column.saturating_add(count(before)), ..self.at },
            Some((lines, last)) => Position {
                line: self.at.line.saturating_add(count(&lines.replace(|c| c != '\n', ""))).saturating_add(1),
                column: count(last).saturating_add(1),
            },
        }
    }
}

/// Finds an offset of a block text (`|`) in `raw`, where its lines are indented.
fn offset_in_indented_text(text: &str, raw: &str, offset: usize) -> Option<usize> {
    let before = text.get(..offset)?;
    let number = before.matches('\n').count();
    let column = before.rsplit('\n').next()?.len();
    let line = text.split('\n').nth(number)?;
    let written = raw.split('\n').nth(number)?;
    let start: usize = raw.split('\n').take(number).map(|line| line.len() + 1).sum();
    let indentation = written.strip_suffix(line).filter(|before| before.trim().is_empty())?;
    Some(start + indentation.len() + column)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        let span = spanned.defined.span();
        let start = span.byte_offset().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let length = span.byte_len().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        Ok(Node { at: Position::of(spanned.defined), raw: start..start + length, content: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON knows")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Content, E> {
        Number::from_f64(value).map(Content::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Content, E> {
        Ok(Content::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Content::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, node)) = map.next_entry::<Spanned<String>, Node>()? {
            entries.push(Entry { at: Position::of(key.defined), key: key.value, node });
        }
        Ok(Content::Map(entries))
    }
}
