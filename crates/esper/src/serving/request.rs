//! Requests as they come: what they have to hold, and what is wrong with them.

use serde_json::{Map, Value};

use crate::condition::Target;

/// A request that makes sense so far as it can be told without the policy.
pub(super) struct Request<'a> {
    pub(super) episode: &'a Value,
    /// What the episode is known by.
    pub(super) key: String,
    pub(super) observation: Option<&'a Value>,
    pub(super) asked: Option<Target>,
    pub(super) reward: Option<f32>,
    pub(super) end: bool,
    pub(super) warnings: Vec<String>,
}

/// The most characters of an episode's name: names are remembered.
const LONGEST_NAME: usize = 1_000;

const FIELDS: [&str; 6] = ["episode", "observation", "level", "target", "reward", "end"];

impl<'a> Request<'a> {
    /// What a value of JSON asks for, or what is wrong with it.
    pub(super) fn read(value: &'a Value) -> Result<Self, String> {
        let Value::Object(fields) = value else {
            return Err(format!("a request is an object; this is {}", kind(value)));
        };
        let (episode, key) = name(fields)?;
        let asked = match (number(fields, "level")?, number(fields, "target")?) {
            (Some(_), Some(_)) => {
                return Err("`level` and `target` are both given; ask for one of them".to_owned());
            }
            (Some(level), None) => Some(Target::Level(level)),
            (None, Some(target)) => Some(Target::Return(target)),
            (None, None) => None,
        };
        let reward = match number(fields, "reward")? {
            Some(reward) if !(reward as f32).is_finite() => {
                return Err(format!("`reward` is {reward}, which is too large"));
            }
            reward => reward.map(|reward| reward as f32),
        };
        let end = match fields.get("end") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(end)) => *end,
            Some(other) => {
                return Err(format!("`end` is {}; it is true or false", kind(other)));
            }
        };
        let observation = fields.get("observation").filter(|value| !value.is_null());
        let unknown = fields.keys().filter(|name| !FIELDS.contains(&name.as_str()));
        let ignored = |name: &String| format!("`{name}` is no field of a request; it is ignored");
        let warnings = unknown.map(ignored).collect();
        Ok(Request { episode, key, observation, asked, reward, end, warnings })
    }
}

/// The episode of a request that cannot be read, if at least that can be told.
pub(super) fn episode_of(request: &Value) -> Value {
    match request.get("episode") {
        Some(name @ (Value::String(_) | Value::Number(_))) => name.clone(),
        _ => Value::Null,
    }
}

/// The name of an episode; texts and numbers do not get in each other's way.
fn name(fields: &Map<String, Value>) -> Result<(&Value, String), String> {
    let value = fields.get("episode").ok_or("there is no `episode`, which names it")?;
    let key = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().nth(LONGEST_NAME).is_none() => format!("\"{text}"),
        Value::String(_) => {
            return Err(format!("`episode` has more than {LONGEST_NAME} characters"));
        }
        other => return Err(format!("`episode` is {}; it is a text or a number", kind(other))),
    };
    Ok((value, key))
}

fn number(fields: &Map<String, Value>, name: &str) -> Result<Option<f64>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(format!("`{name}` is {}; it is a number", kind(value))),
        },
    }
}

/// What a value of JSON is, for an error.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
