//! Seeded mutations: what libFuzzer does, without asking which code they reach; and, where bytes are JSON, changes of its values.

use esper_data::Rng;
use rand::RngExt as _;
use serde_json::{Value, json};

/// Numbers that computations go wrong at, as the bytes of little-endian integers and floats.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
    0x7fc0_0000,
    0x7f80_0000,
    0x7ff8_0000_0000_0000,
    1 << 40,
];

/// Words that texts are spoiled with.
const WORDS: [&str; 14] = [
    "[]",
    "{}",
    "null",
    "-1",
    "1e999",
    "NaN",
    "\"\"",
    "\u{1b}[31m",
    "9223372036854775808",
    "=",
    "\n",
    ",",
    "true",
    "0.0000001",
];

/// One of the seeds, changed in a few places.
pub(crate) fn mutated(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let seed = &seeds[rng.random_range(0..seeds.len())];
    // What says which file it is stays, most of the time.
    let (head, body) = seed.split_at(usize::from(seed.len() > 1));
    for (kept, text) in [(&[][..], &seed[..]), (head, body)] {
        if rng.random_range(0..10) > 0
            && let Ok(mut value) = serde_json::from_slice::<Value>(text)
        {
            for _ in 0..rng.random_range(1..4) {
                change(&mut value, rng);
            }
            return [kept, &serde_json::to_vec(&value).expect("JSON")].concat();
        }
    }
    let mut bytes = seed.clone();
    for _ in 0..1 << rng.random_range(0..5) {
        spoil(&mut bytes, seeds, rng);
    }
    bytes
}

/// Changes bytes in one place.
fn spoil(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    if bytes.is_empty() {
        bytes.push(rng.random());
        return;
    }
    // The ends of files say what is in them: they are changed as often as all the rest.
    let at = match rng.random_range(0..4) {
        0 => rng.random_range(0..bytes.len().min(64)),
        1 => bytes.len() - 1 - rng.random_range(0..bytes.len().min(1024)),
        _ => rng.random_range(0..bytes.len()),
    };
    let longest = (bytes.len() - at).min(1 << rng.random_range(0..10));
    let length = rng.random_range(1..=longest);
    match rng.random_range(0..9) {
        0 => bytes[at] ^= 1 << rng.random_range(0..8),
        1 => bytes[at] = rng.random(),
        2 => {
            let number = NUMBERS[rng.random_range(0..NUMBERS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][rng.random_range(0..4)].min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
        3 => drop(bytes.drain(at..at + length)),
        4 => {
            let copy = bytes[at..at + length].to_vec();
            let to = rng.random_range(0..=bytes.len());
            drop(bytes.splice(to..to, copy));
        }
        5 => bytes.truncate(at),
        6 => {
            let word = WORDS[rng.random_range(0..WORDS.len())].bytes();
            drop(bytes.splice(at..at + length.min(8), word));
        }
        7 => {
            let other = &seeds[rng.random_range(0..seeds.len())];
            if !other.is_empty() {
                let from = rng.random_range(0..other.len());
                let piece = other[from..other.len().min(from + length)].to_vec();
                drop(bytes.splice(at..at + length, piece));
            }
        }
        _ => bytes[at..at + length].fill(rng.random()),
    }
}

/// Changes a JSON document in one place: another value, another type, nothing, or gone.
fn change(value: &mut Value, rng: &mut Rng) {
    let below = match value {
        Value::Object(fields) => fields.len(),
        Value::Array(values) => values.len(),
        _ => 0,
    };
    // Down, most of the time.
    if below > 0 && rng.random_range(0..8) > 0 {
        let at = rng.random_range(0..below);
        return match value {
            Value::Object(fields) => {
                let name = fields.keys().nth(at).expect("it is there").clone();
                match rng.random_range(0..12) {
                    0 => drop(fields.remove(&name)),
                    1 => {
                        let moved = fields.remove(&name).expect("it is there");
                        fields.insert(format!("{name}x"), moved);
                    }
                    _ => change(&mut fields[&name], rng),
                }
            }
            Value::Array(values) => match rng.random_range(0..12) {
                0 => drop(values.remove(at)),
                1 => values.insert(at, values[at].clone()),
                2 => values.truncate(at),
                3 => values.reverse(),
                _ => change(&mut values[at], rng),
            },
            _ => {}
        };
    }
    let number = value.as_f64();
    *value = match (rng.random_range(0..22), number) {
        (0..4, Some(number)) => json!(-number),
        (4..6, Some(number)) => json!(number * 1e30),
        (6, Some(_)) => json!(rng.random_range(-3..4)),
        (0, None) => json!([value.clone(), value.clone()]),
        (1..7, _) => json!([]),
        (7, _) => json!(null),
        (8, _) => json!({}),
        (9, _) => json!(""),
        (10, _) => json!("x\u{1b}[31m\u{0}\u{9b}"),
        (11, _) => json!(u64::MAX),
        (12, _) => json!(i64::MIN),
        (13, _) => json!(1e308),
        (14, _) => json!(-1e308),
        (15, _) => json!(1e-320),
        (16, _) => json!(0.5),
        (17, _) => json!([[]]),
        (18, _) => json!([null, 1e308, -1e308]),
        (19, _) => json!("../../elsewhere"),
        (20, _) => json!(false),
        _ => json!(0),
    };
}
