//! Serving: a policy that is asked in JSON, and answers in JSON.
//!
//! A [`Desk`] takes requests and gives answers. It knows which episodes are open, what each was asked for and promised, and keeps
//! what an agent has to remember of them. Whoever has a pipe, a socket or a queue only has to carry lines.
//!
//! A request is an object:
//!
//! | field | |
//! |---|---|
//! | `episode` | a text or a number that names the episode; the first request with a name begins it |
//! | `observation` | what is seen: an object by the names of columns, an array (in the log's own words, one value a column, where columns have names; else cells), or a single value |
//! | `level` or `target` | what the episode is asked for, at its first request: a level from 0 to 1, or an average return; what the data alone would choose, if neither is given |
//! | `reward` | what the episode's previous action paid |
//! | `end` | true frees the episode, after it was answered if there is an observation |
//!
//! The answer has `episode`, `action` (in the log's own words where they are known), `probabilities` of categories, `promise` (the
//! average return that is promised from the episode's start; null where nothing is), and perhaps a `warning`. What cannot be
//! answered has `error` in place of an action, and changed nothing. An array of requests is evaluated together, and answered by an array in the same
//! order.
//!
//! ```no_run
//! use esper::serving::{Desk, DeskOptions};
//! use esper::{Registry, policy::Policy};
//! use serde_json::json;
//!
//! let device = esper_nn::DeviceName::Cpu.open()?;
//! let policy = Policy::load("policy.safetensors".as_ref(), &Registry::default(), &device)?;
//! let mut desk = Desk::new(&policy, DeskOptions::default());
//! let answer = desk.answer(&json!({ "episode": "a", "observation": 0, "level": 0.9 }));
//! println!("{}", answer["action"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod asking;
mod episodes;
mod observation;
mod request;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Probabilities};
pub use observation::Reader as ObservationReader;

use esper_data::{Cells, Seed};
use serde_json::Value;

use crate::agent::{Agent, Choice};
use crate::policy::Policy;
use answer::ActionNames;
use asking::Asked;
use episodes::{Open, OpenEpisodes};
use observation::Reader;
use request::Request;

/// How a desk answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeskOptions {
    /// Decides everything random: the same requests get the same answers.
    pub seed: u64,
    /// Whether actions are drawn, or the most probable ones taken.
    pub choice: Choice,
    /// Episodes that may be open at once. When one more begins, the one that was not heard of for longest is forgotten.
    pub most_open: usize,
}

/// Episodes that may be open at once, if nothing else is said.
pub const MOST_OPEN: usize = 10_000;

impl Default for DeskOptions {
    fn default() -> Self {
        DeskOptions { seed: 0, choice: Choice::Drawn, most_open: MOST_OPEN }
    }
}

/// Answers requests for actions, in any number of episodes.
pub struct Desk {
    policy: Policy,
    agent: Box<dyn Agent>,
    options: DeskOptions,
    reader: Reader,
    names: ActionNames,
    episodes: OpenEpisodes,
    /// Episodes that began so far.
    begun: u64,
    /// Observations of all places, `[places, cells]`; only those that are asked about are looked at.
    observations: Cells,
}

/// A request that waits to be answered with others.
struct Waiting {
    /// Its answer, among all.
    at: usize,
    place: usize,
    end: bool,
}

impl Desk {
    /// A desk for a policy; no episode is open.
    pub fn new(policy: &Policy, options: DeskOptions) -> Self {
        let interface = &policy.card().interface;
        Desk {
            agent: policy.agent(),
            options,
            reader: Reader::new(interface),
            names: ActionNames::new(interface),
            episodes: OpenEpisodes::new(options.most_open),
            begun: 0,
            observations: Cells::empty(interface.observation.space().cell_type()),
            policy: policy.clone(),
        }
    }

    /// How many episodes are open.
    pub fn open_episodes(&self) -> usize {
        self.episodes.len()
    }

    /// Appends the answer to a line of JSON, with the end of a line; nothing to a blank one. What is no JSON is answered, too.
    pub fn answer_line(&mut self, line: &[u8], answer: &mut Vec<u8>) {
        // A file that some programs write begins with a byte order mark.
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        if line.trim_ascii().is_empty() {
            return;
        }
        let written = match serde_json::from_slice(line) {
            Ok(Value::Array(requests)) => {
                serde_json::to_writer(&mut *answer, &self.answer_all(&requests))
            }
            Ok(request) => serde_json::to_writer(&mut *answer, &self.answer_one(&request)),
            Err(error) => {
                let words = format!("the line is no JSON: {error}");
                serde_json::to_writer(&mut *answer, &Answer::error(Value::Null, words))
            }
        };
        written.expect("memory can always be written to");
        answer.push(b'\n');
    }

    /// The answer to a request, or those to an array of them.
    pub fn answer(&mut self, request: &Value) -> Value {
        let value = match request {
            Value::Array(requests) => serde_json::to_value(self.answer_all(requests)),
            request => serde_json::to_value(self.answer_one(request)),
        };
        value.expect("answers can always be written")
    }

    fn answer_one(&mut self, request: &Value) -> Answer {
        let answers = self.answer_all(std::slice::from_ref(request));
        answers.into_iter().next().expect("a request has an answer")
    }

    /// The answers to some requests, in their order. They are what one request after the other would get, but for rounding.
    pub fn answer_all(&mut self, requests: &[Value]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(requests.len());
        let mut waiting = Vec::new();
        for request in requests {
            let answer = match Request::read(request) {
                Ok(request) => self.admit(request, &mut answers, &mut waiting),
                Err(words) => Answer::error(request::episode_of(request), words),
            };
            answers.push(answer);
        }
        self.act(&mut answers, &mut waiting);
        answers
    }

    /// Takes a request in: answers it but for its action, which is to be waited for.
    fn admit(
        &mut self,
        request: Request<'_>,
        answers: &mut [Answer],
        waiting: &mut Vec<Waiting>,
    ) -> Answer {
        let Request { episode, key, observation, asked, reward, end, mut warnings } = request;
        let refused = |words: String| Answer::error(episode.clone(), words);
        // One after the other within an episode.
        let known = self.episodes.place(&key).and_then(|place| self.episodes.get(place));
        if known.is_some_and(|open| open.waits) {
            self.act(answers, waiting);
        }
        let Some(observation) = observation else {
            return match (end, self.episodes.place(&key)) {
                (false, _) => refused(
                    "there is no `observation`; without one, only `end` makes sense".to_owned(),
                ),
                (true, None) => {
                    warnings.push("no such episode is open".to_owned());
                    Answer::without_action(episode.clone(), None, warnings)
                }
                (true, Some(place)) => {
                    let promise = self.episodes.get(place).and_then(|open| open.promise);
                    self.close(place);
                    Answer::without_action(episode.clone(), promise, warnings)
                }
            };
        };
        let mut cells = Cells::empty(self.observations.cell_type());
        if let Err(words) = self.reader.read(observation, &mut cells, &mut warnings) {
            return refused(words);
        }
        let place = match self.episodes.place(&key) {
            Some(place) => place,
            None => {
                if self.episodes.is_full() {
                    self.act(answers, waiting);
                    if let Some(oldest) = self.episodes.forget_oldest() {
                        self.agent.end(oldest);
                    }
                }
                self.begin(key, asked, &cells, &mut warnings)
            }
        };
        self.remember(place, &cells);
        let open = self.episodes.touch(place);
        if let Some(asked) = asked
            && open.asked != Some(asked)
        {
            warnings.push(
                "what an episode is asked for is settled by its first request; this is ignored"
                    .to_owned(),
            );
        }
        if let Some(reward) = reward {
            if open.steps == 0 {
                warnings
                    .push("there was no action yet for this `reward`; it is ignored".to_owned());
            } else if !open.paid {
                open.paid = true;
                if let Err(error) = self.agent.reward(place, reward) {
                    return refused(error.to_string());
                }
            }
        }
        let open = self.episodes.touch(place);
        open.waits = true;
        let promise = open.promise;
        waiting.push(Waiting { at: answers.len(), place, end });
        Answer::without_action(episode.clone(), promise, warnings)
    }

    /// Begins an episode, given its first observation.
    fn begin(
        &mut self,
        key: String,
        asked: Option<crate::condition::Target>,
        cells: &Cells,
        warnings: &mut Vec<String>,
    ) -> usize {
        if self.episodes.was_forgotten(&key) {
            warnings.push(format!(
                "more than {} episodes were open, and this one was forgotten; it begins again",
                self.options.most_open
            ));
        }
        let Asked { target, promise } =
            asking::resolve(self.policy.card(), asked, cells.view(), warnings);
        // Also of its own where every episode has a process of its own.
        let seed = Seed::new(self.options.seed).named("act").named(&key).indexed(self.begun);
        let place =
            self.episodes.begin(key, Open { asked, promise, steps: 0, paid: true, waits: false });
        self.begun += 1;
        self.agent.begin(place, target, seed);
        place
    }

    /// Puts an observation where the agent looks for it.
    fn remember(&mut self, place: usize, cells: &Cells) {
        let (width, first) = (cells.len(), place * cells.len());
        while self.observations.len() < first + width {
            self.observations.extend_from(cells.view(), 0..width);
        }
        match (&mut self.observations, cells) {
            (Cells::Byte(all), Cells::Byte(own)) => all[first..first + width].copy_from_slice(own),
            (Cells::Short(all), Cells::Short(own)) => {
                all[first..first + width].copy_from_slice(own);
            }
            (Cells::Float(all), Cells::Float(own)) => {
                all[first..first + width].copy_from_slice(own);
            }
            _ => unreachable!("both are of the policy's space"),
        }
    }

    /// Lets the agent act for all that wait, and completes their answers.
    fn act(&mut self, answers: &mut [Answer], waiting: &mut Vec<Waiting>) {
        if waiting.is_empty() {
            return;
        }
        // In order of their places, as agents take them fastest.
        waiting.sort_unstable_by_key(|request| request.place);
        if self.act_together(answers, waiting).is_err() {
            // One of them is to blame: the others are answered.
            for request in &*waiting {
                let alone = std::slice::from_ref(request);
                if let Err(error) = self.act_together(answers, alone) {
                    let answer = &mut answers[request.at];
                    *answer = Answer::error(answer.episode.clone(), error.to_string());
                    let open = self.episodes.touch(request.place);
                    open.waits = false;
                    if open.steps == 0 {
                        self.close(request.place);
                    }
                }
            }
        }
        waiting.clear();
    }

    fn act_together(
        &mut self,
        answers: &mut [Answer],
        waiting: &[Waiting],
    ) -> Result<(), crate::Error> {
        let places: Vec<usize> = waiting.iter().map(|request| request.place).collect();
        let mut actions = Cells::empty(self.names.cell_type());
        let mut probabilities = Vec::new();
        self.agent.decide(
            self.observations.view(),
            &places,
            self.options.choice,
            &mut actions,
            &mut probabilities,
        )?;
        for (row, request) in waiting.iter().enumerate() {
            let answer = &mut answers[request.at];
            answer.action = Some(self.names.action(actions.view(), row));
            answer.probabilities = self.names.probabilities(&probabilities, row);
            let open = self.episodes.touch(request.place);
            open.steps += 1;
            open.paid = false;
            open.waits = false;
            if request.end {
                self.close(request.place);
            }
        }
        Ok(())
    }

    fn close(&mut self, place: usize) {
        self.agent.end(place);
        self.episodes.end(place);
    }
}
