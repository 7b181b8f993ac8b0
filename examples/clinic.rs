//! A clinic whose truth is known: where the example log `examples/data/clinic.csv` comes from, and what a policy that was learned
//! from it is really worth.
//!
//! ```sh
//! cargo run --release -p esper-examples --bin clinic -- log > clinic.csv      # the log, a row a visit
//! cargo run --release -p esper-examples --bin clinic -- truth                 # what doctors are worth, and the best there is
//! cargo run --release -p esper-examples --bin clinic -- try RUN               # what a policy promised, and what it achieves
//! ```
//!
//! Patients are ill to a degree from 1 to 5, acutely or chronically. At every visit, of which there are at most six, a doctor waits, or
//! gives a mild drug or a strong one. Acute patients get well all of a sudden now and then, whatever is done. The strong drug
//! helps chronic patients most; to those above 70 it does harm one time of three. Whoever is well goes home. The outcome is 10
//! less 2 for every degree of illness that is left, less what drugs cost. The temperature goes with the illness and is not
//! always taken; it has no effect.

use esper::Registry;
use esper::policy::Policy;
use esper_data::{Cells, Moments, Rng, Seed};
use esper_nn::DeviceName;
use rand::RngExt;
use serde_json::{Value, json};

/// The visits that a patient has at most.
const VISITS: usize = 6;

/// What a doctor can do, and what it costs.
const ACTIONS: [(&str, f64); 3] = [("wait", 0.0), ("mild", 0.3), ("strong", 1.0)];

/// Doctors, and how many of a hundred patients each of them sees.
const DOCTORS: [(&str, u32); 3] = [("Adler", 35), ("Brandt", 30), ("Castro", 35)];

/// Whoever comes to the clinic.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Patient {
    age: u32,
    chronic: bool,
    illness: usize,
}

impl Patient {
    fn draw(rng: &mut Rng) -> Self {
        Patient {
            age: rng.random_range(20..=89),
            chronic: rng.random::<f64>() < 0.4,
            illness: rng.random_range(1..=5),
        }
    }

    /// By how much the illness may change after an action, with which chance.
    fn changes(&self, action: usize) -> Vec<(i64, f64)> {
        let remission = if self.chronic { 0.0 } else { 0.15 };
        let harm = if self.age > 70 { 0.33 } else { 0.08 };
        let rest: Vec<(i64, f64)> = match (action, self.chronic) {
            (0, _) => vec![(0, 0.7), (1, 0.3)],
            (1, false) => vec![(-1, 0.5), (0, 0.5)],
            (1, true) => vec![(-1, 0.25), (0, 0.65), (1, 0.1)],
            (_, false) => vec![(-1, 0.55), (0, 0.45 - harm), (2, harm)],
            (_, true) => vec![(-2, 0.6), (0, 0.4 - harm), (2, harm)],
        };
        let rest = rest.into_iter().map(|(change, chance)| (change, chance * (1.0 - remission)));
        rest.chain([(-5, remission)]).collect()
    }

    fn changed(&self, change: i64) -> Self {
        Patient { illness: (self.illness as i64 + change).clamp(0, 5) as usize, ..*self }
    }

    /// What follows an action, by chance.
    fn treated(&self, action: usize, rng: &mut Rng) -> Self {
        let mut left: f64 = rng.random();
        for (change, chance) in self.changes(action) {
            if left < chance {
                return self.changed(change);
            }
            left -= chance;
        }
        *self
    }

    /// Degrees above 36, as it is measured, if it is.
    fn temperature(&self, rng: &mut Rng) -> Option<f64> {
        let measured = 36.6 + 0.4 * self.illness as f64 + rng.random_range(-0.5..0.5);
        (rng.random::<f64>() < 0.9).then_some((measured * 10.0).round() / 10.0)
    }
}

/// Probabilities of a doctor's actions.
fn habits(doctor: &str, patient: &Patient, visit: usize) -> [f64; 3] {
    let mostly = |action: usize, share: f64| {
        let mut chances = [(1.0 - share) / 3.0; 3];
        chances[action] += share;
        chances
    };
    match doctor {
        // Knows what is best, and is often in a hurry.
        "Adler" => mostly(best(patient, visit).1, 0.7),
        // Saw somebody get well overnight after the strong drug.
        "Brandt" => mostly(2, 0.9),
        _ => mostly(0, 0.8),
    }
}

/// What the best plan is worth from a visit on, and what it does: dynamic programming.
fn best(patient: &Patient, visit: usize) -> (f64, usize) {
    let worth =
        |action: usize| value_of(patient, visit, action, &|next, visit| best(next, visit).0);
    let values = [0, 1, 2].map(worth);
    let action = (0..3).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0);
    (values[action], action)
}

/// What an action is worth, given what comes after it.
fn value_of(
    patient: &Patient,
    visit: usize,
    action: usize,
    after: &dyn Fn(&Patient, usize) -> f64,
) -> f64 {
    let follow = |(change, chance): (i64, f64)| {
        let next = patient.changed(change);
        let over = next.illness == 0 || visit + 1 == VISITS;
        chance * if over { 10.0 - 2.0 * next.illness as f64 } else { after(&next, visit + 1) }
    };
    patient.changes(action).into_iter().map(follow).sum::<f64>() - ACTIONS[action].1
}

/// What a doctor is worth from a visit on.
fn worth(doctor: &str, patient: &Patient, visit: usize) -> f64 {
    let chances = habits(doctor, patient, visit);
    let of =
        |action: usize| value_of(patient, visit, action, &|next, visit| worth(doctor, next, visit));
    (0..3).map(|action| chances[action] * of(action)).sum()
}

/// The mean over patients who come.
fn over_patients(of: impl Fn(&Patient) -> f64) -> f64 {
    let mut sum = 0.0;
    for (chronic, share) in [(false, 0.6), (true, 0.4)] {
        for (age, share) in [(50, share * 51.0 / 70.0), (80, share * 19.0 / 70.0)] {
            let patient = |illness| Patient { age, chronic, illness };
            sum += (1..=5).map(|illness| share / 5.0 * of(&patient(illness))).sum::<f64>();
        }
    }
    sum
}

/// Writes the log: a row a visit, the outcome in the last.
fn log(patients: usize, seed: u64) {
    println!("patient,visit,doctor,age,kind,illness,temperature,treatment,outcome");
    for number in 0..patients {
        let mut rng = Seed::new(seed).named("clinic").indexed(number as u64).rng();
        let mut patient = Patient::draw(&mut rng);
        let weights = DOCTORS.map(|(_, weight)| f64::from(weight));
        let doctor = DOCTORS[esper_data::draw_weighted(&weights, &mut rng)].0;
        let mut cost = 0.0;
        for visit in 0..VISITS {
            let chances = habits(doctor, &patient, visit);
            let action = esper_data::draw_weighted(&chances, &mut rng);
            let temperature = patient.temperature(&mut rng);
            let next = patient.treated(action, &mut rng);
            cost += ACTIONS[action].1;
            let over = next.illness == 0 || visit + 1 == VISITS;
            let outcome = 10.0 - 2.0 * next.illness as f64 - cost;
            println!(
                "P{number:04},{},{doctor},{},{},{},{},{},{}",
                visit + 1,
                patient.age,
                if patient.chronic { "chronic" } else { "acute" },
                patient.illness,
                temperature.map_or(String::new(), |degrees| format!("{degrees:.1}")),
                ACTIONS[action].0,
                if over { format!("{outcome:.1}") } else { String::new() },
            );
            patient = next;
            if over {
                break;
            }
        }
    }
}

/// Plays a policy with patients of its own, as an engineer would embed it: observations by the names of their columns.
fn try_policy(run: &str, patients: usize) -> Result<(), Box<dyn std::error::Error>> {
    let path = std::path::Path::new(run).join("policy.safetensors");
    let policy = Policy::load(&path, &Registry::default(), &DeviceName::Cpu.open()?)?;
    let card = policy.card();
    let target = card.offline_target().ok_or("this policy cannot be asked for anything")?;
    let promised = card.promised(target).ok_or("this policy promises nothing")?;
    let fields = &card.interface.fields;
    let mut agent = policy.agent();
    let mut outcomes = Vec::new();
    for number in 0..patients {
        // Patients whom nobody has seen.
        let seed = Seed::new(1_000_000).named("clinic").indexed(number as u64);
        let mut rng = seed.rng();
        let mut patient = Patient::draw(&mut rng);
        agent.begin(0, target, seed.named("policy"));
        let mut cost = 0.0;
        for visit in 0..VISITS {
            let seen = json!({
                "age": patient.age,
                "kind": if patient.chronic { "chronic" } else { "acute" },
                "illness": patient.illness,
                "temperature": patient.temperature(&mut rng),
            });
            let Value::Object(seen) = seen else { unreachable!("it was just made") };
            let mut cells = Cells::empty(card.interface.observation.space().cell_type());
            fields.observation_cells(&seen, &mut cells)?;
            let mut actions = Cells::empty(card.interface.action.encoding().space().cell_type());
            agent.act(cells.view(), &[0], &mut actions)?;
            let word = fields.action_value(&[actions.category(0) as f32]);
            let is_done =
                |(name, _): &(&str, f64)| word.as_ref().and_then(Value::as_str) == Some(name);
            let action =
                ACTIONS.iter().position(is_done).ok_or("the policy does something else")?;
            patient = patient.treated(action, &mut rng);
            cost += ACTIONS[action].1;
            if patient.illness == 0 || visit + 1 == VISITS {
                outcomes.push(10.0 - 2.0 * patient.illness as f64 - cost);
                break;
            }
            agent.reward(0, 0.0)?;
        }
        agent.end(0);
    }
    let achieved = Moments::of(outcomes.iter().copied());
    let promise = promised.promise;
    println!("promised {:.2} ({:.2} to {:.2})", promise.promise, promise.low, promise.high);
    println!("achieved {:.2} ± {:.2}", achieved.mean, achieved.standard_error());
    truth();
    Ok(())
}

fn truth() {
    for (doctor, _) in DOCTORS {
        println!("{doctor:<9}{:.2}", over_patients(|patient| worth(doctor, patient, 0)));
    }
    println!("the best {:.2}", over_patients(|patient| best(patient, 0).0));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["log"] => log(5_000, 0),
        ["log", patients] => log(patients.parse()?, 0),
        ["truth"] => truth(),
        ["try", run] => try_policy(run, 20_000)?,
        ["try", run, patients] => try_policy(run, patients.parse()?)?,
        _ => return Err("say `log`, `truth` or `try RUN`".into()),
    }
    Ok(())
}
