//! Estimates the cost of checking an input against a JSON Schema, before it is checked: a small schema that refers to
//! itself can try exponentially many alternatives on a small input.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// How many steps a check may take. A step is one subschema on one value, or something that takes about as long.
pub(crate) const MAX_STEPS: u64 = 1_000_000;
/// Up to how many steps, repeated alternatives included, all problems of an input are reported.
pub(crate) const MAX_TOLD_STEPS: u64 = 50_000;
/// How many subschemas a schema may have.
pub(crate) const MAX_SUBSCHEMAS: usize = 10_000;
/// How deep subschemas may be applied inside each other: each takes stack.
const MAX_DEPTH: usize = 1_000;
/// How many pattern states times bytes take about as long as one step.
const PATTERN_STEPS: u64 = 1_000;

/// The subschemas of a schema, and which of them apply where.
pub(crate) struct SchemaGraph {
    nodes: Vec<Subschema>,
    /// A reference could not be followed here: whatever is in the schema may apply anywhere.
    is_opaque: bool,
}

/// What a check would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Where each subschema looks at each value once.
    pub(crate) distinct: u64,
    /// Where alternatives inside of alternatives are looked at again and again, with copies of what they look at.
    pub(crate) repeated: u64,
}

/// The check would take too much; nothing was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooMuch {
    Steps,
    Depth,
}

#[derive(Default)]
struct Subschema {
    /// On the same value.
    same: Vec<usize>,
    /// On the same value, as alternatives: what each has to say is collected before one is chosen.
    alternatives: Vec<usize>,
    properties: HashMap<String, usize>,
    /// On each property.
    each_property: Vec<usize>,
    /// On the name of each property: how large the subschema is.
    names: u64,
    prefix: Vec<usize>,
    /// On each item.
    each_item: Vec<usize>,
    /// States of the patterns that look at text.
    patterns: u64,
    /// States of the patterns that look at names of properties.
    name_patterns: u64,
    /// The value is compared as a whole, so often.
    compares: u64,
    /// Whether what others have looked at has to be found out again.
    is_unevaluated: bool,
}

impl SchemaGraph {
    /// Reads a schema and resolves its references; `None` if it has too many subschemas.
    pub(crate) fn read(schema: &Value) -> Option<SchemaGraph> {
        let mut reader = Reader::default();
        reader.add_subschema(schema, "#");
        if reader.nodes.len() > MAX_SUBSCHEMAS {
            return None;
        }
        for (node, target) in std::mem::take(&mut reader.references) {
            match reader.places.get(&target) {
                Some(place) if !reader.has_ids => reader.nodes[node].same.push(*place),
                Some(_) | None => reader.is_opaque = true,
            }
        }
        Some(SchemaGraph { nodes: reader.nodes, is_opaque: reader.is_opaque })
    }

    /// Estimates what a check of this value would take, or says that it is too much.
    pub(crate) fn cost(&self, value: &Value) -> Result<Cost, TooMuch> {
        let mut meter =
            Meter { graph: self, known: HashMap::new(), sizes: HashMap::new(), steps: 0, depth: 0 };
        if self.is_opaque || self.nodes.iter().any(|node| !node.alternatives.is_empty() || node.compares > 0)
        {
            meter.measure_size(value, 0)?;
        }
        if self.is_opaque {
            let distinct = meter.size(value).saturating_mul(self.nodes.len() as u64 + 500);
            if distinct > MAX_STEPS {
                return Err(TooMuch::Steps);
            }
            return Ok(Cost { distinct, repeated: u64::MAX });
        }
        let repeated = meter.cost_of_subschema(0, value)?;
        Ok(Cost { distinct: meter.steps, repeated })
    }
}

/// Counts the steps of subschemas on values. Each pair is visited once and remembered.
struct Meter<'a> {
    graph: &'a SchemaGraph,
    /// The repeated cost of a pair; nothing while it is being found out.
    known: HashMap<(usize, *const Value), u64>,
    /// How large a value is, with all in it, where that is more than 1.
    sizes: HashMap<*const Value, u64>,
    steps: u64,
    depth: usize,
}

impl Meter<'_> {
    /// Measures how many values this one contains, itself included, and remembers the sizes above 1.
    fn measure_size(&mut self, value: &Value, depth: usize) -> Result<u64, TooMuch> {
        if depth > MAX_DEPTH {
            return Err(TooMuch::Depth);
        }
        let mut size = 1_u64;
        match value {
            Value::Array(items) => {
                for item in items {
                    size = size.saturating_add(self.measure_size(item, depth + 1)?);
                }
            }
            Value::Object(entries) => {
                for item in entries.values() {
                    size = size.saturating_add(self.measure_size(item, depth + 1)?);
                }
            }
            Value::String(text) => size += text.len() as u64 / 64,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        // Most values are small, and not worth keeping.
        if size > 1 {
            self.sizes.insert(std::ptr::from_ref(value), size);
            if self.sizes.len() as u64 > MAX_STEPS {
                return Err(TooMuch::Steps);
            }
        }
        Ok(size)
    }

    fn size(&self, value: &Value) -> u64 {
        self.sizes.get(&std::ptr::from_ref(value)).copied().unwrap_or(1)
    }

    /// Adds steps, or fails if the limit is exceeded.
    fn spend(&mut self, steps: u64) -> Result<(), TooMuch> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_STEPS { Err(TooMuch::Steps) } else { Ok(()) }
    }

    /// Counts the steps of a subschema on a value with everything that it applies, and returns the cost if nothing were
    /// remembered. A pair that is still being counted costs nothing: a reference leads back to it.
    fn cost_of_subschema(&mut self, place: usize, value: &Value) -> Result<u64, TooMuch> {
        let pair = (place, std::ptr::from_ref(value));
        if let Some(cost) = self.known.get(&pair).copied() {
            // The lookup itself counts as a step.
            self.spend(1)?;
            return Ok(cost);
        }
        self.known.insert(pair, 0);
        if self.depth >= MAX_DEPTH {
            return Err(TooMuch::Depth);
        }
        self.depth += 1;
        let graph = self.graph;
        let node = &graph.nodes[place];
        let own = count_own_steps(node, value, self.size(value));
        self.spend(own)?;
        let mut cost = own;
        for place in &node.same {
            cost = cost.saturating_add(self.cost_of_subschema(*place, value)?);
        }
        for place in &node.alternatives {
            // Its problems are kept, each with a copy of the value.
            let visited = self.cost_of_subschema(*place, value)?.saturating_mul(self.size(value).max(2));
            cost = cost.saturating_add(visited);
        }
        if node.is_unevaluated {
            cost = cost.saturating_mul(2);
            self.spend(own)?;
        }
        cost = cost.saturating_add(self.cost_of_children(node, value)?);
        self.depth -= 1;
        self.known.insert(pair, cost);
        Ok(cost)
    }

    /// Counts the steps on the properties and items of a value.
    fn cost_of_children(&mut self, node: &Subschema, value: &Value) -> Result<u64, TooMuch> {
        let mut cost = 0_u64;
        match value {
            Value::Object(entries) => {
                for (key, value) in entries {
                    if let Some(place) = node.properties.get(key) {
                        cost = cost.saturating_add(self.cost_of_subschema(*place, value)?);
                    }
                    for place in &node.each_property {
                        cost = cost.saturating_add(self.cost_of_subschema(*place, value)?);
                    }
                }
            }
            Value::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    let in_prefix = node.prefix.get(place);
                    for place in in_prefix.into_iter().chain(&node.each_item) {
                        cost = cost.saturating_add(self.cost_of_subschema(*place, item)?);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(cost)
    }
}

/// Counts the steps of a subschema itself: comparisons, patterns and property names.
fn count_own_steps(node: &Subschema, value: &Value, size: u64) -> u64 {
    let mut steps = 1_u64.saturating_add(node.compares.saturating_mul(size));
    let patterns = |states: u64, text: &str| states.saturating_mul(text.len() as u64) / PATTERN_STEPS;
    match value {
        Value::String(text) => steps = steps.saturating_add(patterns(node.patterns, text)),
        Value::Object(entries) => {
            for name in entries.keys() {
                steps = steps.saturating_add(node.names).saturating_add(patterns(node.name_patterns, name));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
    }
    steps
}

#[derive(Default)]
struct Reader {
    nodes: Vec<Subschema>,
    /// Subschemas by how a reference names them.
    places: HashMap<String, usize>,
    /// Who refers to what.
    references: Vec<(usize, String)>,
    has_ids: bool,
    is_opaque: bool,
}

impl Reader {
    /// Adds a subschema and everything inside it, in the order of the text, and returns its index.
    fn add_subschema(&mut self, schema: &Value, at: &str) -> usize {
        let place = self.nodes.len();
        self.nodes.push(Subschema::default());
        self.places.insert(at.to_owned(), place);
        let Value::Object(fields) = schema else { return place };
        if self.nodes.len() > MAX_SUBSCHEMAS {
            return place;
        }
        self.has_ids |= place > 0 && fields.contains_key("$id");
        for anchor in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(name)) = fields.get(anchor)
                && self.places.insert(format!("#{name}"), place).is_some()
            {
                self.is_opaque = true;
            }
        }
        for reference in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(Value::String(target)) = fields.get(reference) {
                self.references.push((place, decode_percent_escapes(target)));
            }
        }
        let mut node = Subschema::default();
        self.add_in_place_subschemas(fields, at, &mut node);
        self.add_property_and_item_schemas(fields, at, &mut node);
        add_assertions(fields, &mut node);
        self.nodes[place] = node;
        place
    }

    /// Adds the subschemas that apply to the same value: `allOf`, `anyOf`, `$ref` and the like.
    fn add_in_place_subschemas(&mut self, fields: &Map<String, Value>, at: &str, node: &mut Subschema) {
        for word in ["not", "if", "then", "else", "contentSchema"] {
            node.same
                .extend(fields.get(word).map(|schema| self.add_subschema(schema, &format!("{at}/{word}"))));
        }
        node.same.extend(self.add_subschema_list(fields, "allOf", at));
        for word in ["anyOf", "oneOf"] {
            node.alternatives.extend(self.add_subschema_list(fields, word, at));
        }
        for word in ["dependentSchemas", "dependencies"] {
            node.same.extend(self.add_subschema_map(fields, word, at).into_values());
        }
        // They apply where somebody refers to them.
        for word in ["$defs", "definitions"] {
            self.add_subschema_map(fields, word, at);
        }
    }

    /// Adds the subschemas for properties and items. `propertyNames` applies to every name as a whole, so that only its
    /// size matters.
    fn add_property_and_item_schemas(&mut self, fields: &Map<String, Value>, at: &str, node: &mut Subschema) {
        node.properties = self.add_subschema_map(fields, "properties", at);
        node.each_property.extend(self.add_subschema_map(fields, "patternProperties", at).into_values());
        for word in ["additionalProperties", "unevaluatedProperties"] {
            node.each_property
                .extend(fields.get(word).map(|schema| self.add_subschema(schema, &format!("{at}/{word}"))));
        }
        if let Some(names) = fields.get("propertyNames") {
            let before = self.nodes.len();
            self.add_subschema(names, &format!("{at}/propertyNames"));
            node.names = (self.nodes.len() - before) as u64;
        }
        node.prefix = self.add_subschema_list(fields, "prefixItems", at);
        if let Some(Value::Array(_)) = fields.get("items") {
            node.prefix.extend(self.add_subschema_list(fields, "items", at));
        }
        for word in ["items", "contains", "additionalItems", "unevaluatedItems"] {
            let schema = fields.get(word).filter(|schema| !schema.is_array());
            node.each_item.extend(schema.map(|schema| self.add_subschema(schema, &format!("{at}/{word}"))));
        }
        node.is_unevaluated =
            fields.contains_key("unevaluatedProperties") || fields.contains_key("unevaluatedItems");
    }

    fn add_subschema_list(&mut self, fields: &Map<String, Value>, word: &str, at: &str) -> Vec<usize> {
        let Some(Value::Array(schemas)) = fields.get(word) else { return Vec::new() };
        let all = schemas.iter().enumerate();
        all.map(|(place, schema)| self.add_subschema(schema, &format!("{at}/{word}/{place}"))).collect()
    }

    fn add_subschema_map(
        &mut self,
        fields: &Map<String, Value>,
        word: &str,
        at: &str,
    ) -> HashMap<String, usize> {
        let Some(Value::Object(schemas)) = fields.get(word) else { return HashMap::new() };
        let add = |(name, schema): (&String, &Value)| {
            let escaped = name.replace('~', "~0").replace('/', "~1");
            (name.clone(), self.add_subschema(schema, &format!("{at}/{word}/{escaped}")))
        };
        schemas.iter().map(add).collect()
    }
}

/// Counts the comparisons and pattern states of a subschema.
fn add_assertions(fields: &Map<String, Value>, node: &mut Subschema) {
    node.compares = match fields.get("enum") {
        Some(Value::Array(values)) => values.len() as u64,
        Some(_) | None => 0,
    };
    node.compares += u64::from(fields.contains_key("const"));
    node.compares += 4 * u64::from(fields.get("uniqueItems") == Some(&Value::Bool(true)));
    if let Some(Value::String(pattern)) = fields.get("pattern") {
        node.patterns = estimate_pattern_states(pattern);
    }
    if let Some(Value::Object(schemas)) = fields.get("patternProperties") {
        node.name_patterns = schemas.keys().map(|pattern| estimate_pattern_states(pattern)).sum();
    }
}

/// Estimates the states of a pattern: a repetition multiplies them.
fn estimate_pattern_states(pattern: &str) -> u64 {
    let mut states = pattern.len() as u64;
    for counts in pattern.split('{').skip(1).filter_map(|part| part.split('}').next()) {
        let most = counts.split(',').filter_map(|count| count.trim().parse::<u64>().ok()).max();
        states = states.saturating_mul(most.unwrap_or(1).max(1));
    }
    states
}

/// Decodes the percent escapes of a reference, each once.
fn decode_percent_escapes(reference: &str) -> String {
    let bytes = reference.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut place = 0;
    while let Some(byte) = bytes.get(place) {
        let digits = reference.get(place + 1..place + 3).filter(|_| *byte == b'%');
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(*byte));
        place += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn escapes_are_decoded_once_and_in_either_case() {
        let cases = [
            ("#/$defs/a", "#/$defs/a"),
            ("#/$defs/a%20b", "#/$defs/a b"),
            ("#/$defs/a%2fb", "#/$defs/a/b"),
            ("#/$defs/a%2Fb", "#/$defs/a/b"),
            ("#/$defs/%257E", "#/$defs/%7E"),
            ("#/$defs/%c3%a4", "#/$defs/ä"),
            ("#/$defs/50%", "#/$defs/50%"),
            ("#/$defs/%zz%+1%ä", "#/$defs/%zz%+1%ä"),
        ];
        for (reference, decoded) in cases {
            assert_eq!(decode_percent_escapes(reference), decoded, "{reference}");
        }
    }

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(1), |inner, _| json!([inner]))
    }

    fn cost(schema: &Value, value: &Value) -> Result<Cost, TooMuch> {
        SchemaGraph::read(schema).expect("few enough").cost(value)
    }

    /// Each level of the value has two alternatives, and each looks at all levels below.
    fn attack() -> Value {
        json!({
            "$ref": "#/$defs/node",
            "$defs": {"node": {"oneOf": [
                {"type": "array", "items": {"$ref": "#/$defs/node"}},
                {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 1},
            ]}},
        })
    }

    #[test]
    fn alternatives_inside_of_alternatives_are_counted_without_trying_them() {
        let mut before = 0;
        for depth in 1..60 {
            let Cost { distinct, repeated } = cost(&attack(), &nested(depth)).expect("few pairs");
            assert!(distinct < 10 * (depth as u64 + 1), "each pair once: {distinct} at {depth}");
            assert!(repeated == u64::MAX || repeated >= 2 * before, "{repeated} after {before} at {depth}");
            before = repeated;
        }
        assert!(before > MAX_TOLD_STEPS, "{before}");
    }

    #[test]
    fn steps_are_counted_and_stop_at_the_budget() {
        let plain =
            json!({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}});
        let list = |n: usize| Value::Array((0..n).map(|n| json!({"n": n})).collect());
        // The list, and two for each item.
        assert_eq!(cost(&plain, &list(1_000)), Ok(Cost { distinct: 2_001, repeated: 2_001 }));
        assert_eq!(cost(&plain, &list(600_000)), Err(TooMuch::Steps));

        let wide = json!({"items": {"allOf": vec![json!({"minimum": 0}); 5_000]}});
        assert_eq!(cost(&wide, &json!(vec![1; 100])).map(|cost| cost.distinct), Ok(500_101));
        assert_eq!(cost(&wide, &json!(vec![1; 1_000])), Err(TooMuch::Steps));

        let pattern = json!({"pattern": "^(a{0,100}b{0,100}){100}$"});
        assert_eq!(cost(&pattern, &json!("a".repeat(1_000))), Err(TooMuch::Steps));
        assert!(cost(&json!({"pattern": "^[a-z0-9]+$"}), &json!("a".repeat(16_000_000))).is_ok());

        let compared = json!({"enum": vec![json!(1); 10_000]});
        assert_eq!(cost(&compared, &json!(vec![1; 1_000])), Err(TooMuch::Steps));
    }

    #[test]
    fn references_in_a_circle_end_and_long_chains_are_too_deep() {
        let circle =
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
        assert!(cost(&circle, &json!(1)).is_ok());
        let mut chain = Map::new();
        for n in 0..2_000 {
            chain.insert(format!("n{n}"), json!({"$ref": format!("#/$defs/n{}", n + 1)}));
        }
        chain.insert("n2000".to_owned(), json!(true));
        let chain = json!({"$ref": "#/$defs/n0", "$defs": chain});
        assert_eq!(cost(&chain, &json!(1)), Err(TooMuch::Depth));
    }

    #[test]
    fn what_cannot_be_followed_may_apply_anywhere() {
        let opaque = json!({"$defs": {"a": {"$id": "https://example.com/a", "type": "array"}},
            "items": {"$ref": "https://example.com/a"}});
        assert_eq!(cost(&opaque, &json!([[]])), Ok(Cost { distinct: 2 * 503, repeated: u64::MAX }));
        assert_eq!(cost(&opaque, &json!(vec![1; 10_000])), Err(TooMuch::Steps));
    }
}
