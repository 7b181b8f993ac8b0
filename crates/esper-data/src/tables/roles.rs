//! Which column is what: as the user says, else by the usual names. What is in doubt is an error.

use super::mapping::Mapping;
use super::table::{Column, PANDAS_INDEX};
use crate::error::DataError;
use std::path::Path;

/// Columns by their role, as numbers of the table's columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Roles {
    pub(super) episode: usize,
    pub(super) time: Option<usize>,
    pub(super) observation: Vec<usize>,
    pub(super) action: Vec<usize>,
    pub(super) reward: usize,
    pub(super) end: Option<usize>,
    pub(super) cut: Option<usize>,
    pub(super) behaviour: Option<usize>,
    /// One for every observation, or none.
    pub(super) finals: Vec<usize>,
    /// What is left out.
    pub(super) ignored: Vec<usize>,
    /// What has to be said.
    pub(super) notes: Vec<String>,
}

const EPISODE: &[&str] = &[
    "episode",
    "episodes",
    "episode_id",
    "episodeid",
    "ep",
    "ep_id",
    "trajectory",
    "trajectory_id",
    "traj",
    "traj_id",
    "session",
    "session_id",
    "sessionid",
    "patient",
    "patient_id",
    "patientid",
    "user",
    "user_id",
    "userid",
    "subject",
    "subject_id",
    "customer",
    "customer_id",
    "client_id",
    "case",
    "case_id",
    "stay",
    "stay_id",
    "icustay_id",
    "visit_id",
    "encounter_id",
    "game",
    "game_id",
    "rollout",
    "rollout_id",
    "conversation_id",
    "eps_id",
];
const TIME: &[&str] = &[
    "step",
    "steps",
    "step_id",
    "t",
    "time",
    "timestep",
    "time_step",
    "timesteps",
    "timestamp",
    "ts",
    "datetime",
    "date",
    "turn",
    "day",
    "visit",
    "round",
    "event_time",
    "step_index",
];
const ACTION: &[&str] = &[
    "action",
    "actions",
    "act",
    "decision",
    "decisions",
    "treatment",
    "treatments",
    "choice",
    "intervention",
    "action_id",
];
const REWARD: &[&str] = &["reward", "rewards", "r", "outcome", "payoff"];
const END: &[&str] = &[
    "done",
    "dones",
    "terminal",
    "terminals",
    "terminated",
    "termination",
    "end",
    "ended",
    "is_last",
    "is_terminal",
    "episode_end",
    "finished",
];
const CUT: &[&str] = &["truncated", "truncateds", "truncation", "timeout", "timeouts"];
const BEHAVIOUR: &[&str] = &[
    "behaviour",
    "behavior",
    "behaviour_policy",
    "behavior_policy",
    "policy",
    "policy_id",
    "agent",
    "agent_id",
];
/// Beginnings of names that observations have where others are there beside them.
const OBSERVATION: &[&str] = &["observation", "observations", "obs", "state"];
/// Beginnings of names of what the world answered.
const FINAL: &[&str] = &["final", "next"];
/// What tells about the future, or how likely an action was: nothing to decide by.
const NEVER_SEEN: &[&str] = &[
    "return",
    "returns",
    "return_to_go",
    "returns_to_go",
    "rtg",
    "advantage",
    "advantages",
    "label",
    "labels",
    "action_prob",
    "action_probability",
    "action_logp",
    "action_log_prob",
    "logp",
    "log_prob",
    "propensity",
    "action_dist_inputs",
    "episode_return",
    "discount",
    "unroll_id",
];

/// A name as it is compared with the usual ones.
fn plain(name: &str) -> String {
    let letter = |c: char| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    name.trim().chars().map(letter).collect()
}

/// Finds the role of every column.
pub(super) fn find(mapping: &Mapping, columns: &[Column], path: &Path) -> Result<Roles, DataError> {
    let finder = Finder { mapping, columns };
    finder.find().map_err(|problem| DataError::Mapping { path: path.to_owned(), problem })
}

struct Finder<'a> {
    mapping: &'a Mapping,
    columns: &'a [Column],
}

/// Columns that belong together: an element of a list stands for all of it.
type Group = Vec<usize>;

impl Finder<'_> {
    fn find(&self) -> Result<Roles, String> {
        let Mapping { episode, time, reward, end, cut, behaviour, .. } = self.mapping;
        let mut taken = vec![false; self.columns.len()];
        let mut notes = Vec::new();
        let mut ignored = Vec::new();
        for name in &self.mapping.ignore {
            ignored.extend(self.named(name, "--ignore")?);
        }
        ignored.iter().for_each(|&at| taken[at] = true);

        // What is said first: what is found by its name is none of that.
        let said = [
            (episode, "--episode"),
            (time, "--time"),
            (reward, "--reward"),
            (end, "--end"),
            (cut, "--cut"),
            (behaviour, "--behaviour"),
        ];
        let mut single = Vec::new();
        for (name, option) in said {
            let at = match name.as_deref() {
                None | Some("") => None,
                Some(name) => Some(self.one(name, option)?),
            };
            single.push(at);
        }
        let many = |names: &[String], option: &str| -> Result<Vec<usize>, String> {
            let mut found = Vec::new();
            for name in names {
                found.extend(self.named(name, option)?);
            }
            Ok(found)
        };
        let mut observation = many(&self.mapping.observation, "--observation")?;
        let mut action = many(&self.mapping.action, "--action")?;
        let mut finals = many(&self.mapping.final_observation, "final_observation")?;
        let given = single.iter().flatten().chain(&observation).chain(&action).chain(&finals);
        for &at in given {
            if std::mem::replace(&mut taken[at], true) {
                return Err(format!(
                    "column `{}` is to be two things at once",
                    self.columns[at].name
                ));
            }
        }

        let mut found = |name: &Option<String>,
                         at: &mut Option<usize>,
                         usual: &[&str],
                         role: &str,
                         option: &str| {
            if name.is_none() && at.is_none() {
                *at = self.usual(&taken, usual, role, option)?;
                if let Some(at) = *at {
                    taken[at] = true;
                }
                return Ok(at.is_some());
            }
            Ok::<bool, String>(false)
        };
        found(episode, &mut single[0], EPISODE, "the episode id", "--episode")?;
        found(time, &mut single[1], TIME, "the time within episodes", "--time")?;
        found(reward, &mut single[2], REWARD, "the reward", "--reward")?;
        // `terminated` and `truncated` are a pair; each is looked for among its own names.
        let end_found = found(end, &mut single[3], END, "the end of episodes", "--end")?;
        found(cut, &mut single[4], CUT, "where episodes are cut", "--cut")?;
        found(behaviour, &mut single[5], BEHAVIOUR, "who decides", "--behaviour")?;
        if action.is_empty() {
            action = self.usual_actions(&taken)?;
            action.iter().for_each(|&at| taken[at] = true);
        }

        for (at, taken) in taken.iter_mut().enumerate() {
            let name = plain(&self.columns[at].name);
            let is_index =
                self.columns[at].name == PANDAS_INDEX || name.starts_with("__index_level_");
            let list = self.columns[at].list.as_deref().map(plain);
            let never = NEVER_SEEN.contains(&name.as_str())
                || list.is_some_and(|list| NEVER_SEEN.contains(&list.as_str()));
            if !*taken && (is_index || never) {
                *taken = true;
                ignored.push(at);
            }
        }
        let answers: Vec<usize> =
            (0..taken.len()).filter(|&at| !taken[at] && self.answered(at).is_some()).collect();
        if observation.is_empty() {
            observation = self.usual_observations(&taken, &mut notes)?;
            observation.iter().for_each(|&at| taken[at] = true);
        }
        if finals.is_empty() {
            finals = self.usual_finals(&answers, &observation);
            finals.iter().for_each(|&at| taken[at] = true);
        }
        if !finals.is_empty() && finals.len() != observation.len() {
            return Err(format!(
                "{} columns of final observations for {} of observations; there has to be one for each",
                finals.len(),
                observation.len()
            ));
        }
        ignored.extend((0..taken.len()).filter(|&at| !taken[at]));
        ignored.sort_unstable();
        ignored.dedup();

        let episode = single[0]
            .ok_or_else(|| self.missing("says which episode a row belongs to", "--episode"))?;
        let reward = single[2].ok_or_else(|| self.missing("is the reward", "--reward"))?;
        if observation.is_empty() {
            return Err(self.missing("is left to be the observation", "--observation"));
        }
        if let Some(at) = single[3].filter(|_| end_found) {
            let name = &self.columns[at].name;
            notes.push(format!("`{name}` says in an episode's last row whether it ended there"));
        }
        let roles = Roles {
            episode,
            time: single[1],
            observation,
            action,
            reward,
            end: single[3],
            cut: single[4],
            behaviour: single[5],
            finals,
            ignored,
            notes,
        };
        self.check_readable(&roles)?;
        Ok(roles)
    }

    /// A name that no column has is an error that lists some which do.
    fn named(&self, name: &str, option: &str) -> Result<Group, String> {
        let exact = self.columns.iter().position(|column| column.name == name);
        let list: Group = (0..self.columns.len())
            .filter(|&at| self.columns[at].list.as_deref() == Some(name))
            .collect();
        match (exact, list.is_empty()) {
            (Some(at), _) => Ok(vec![at]),
            (None, false) => Ok(list),
            (None, true) => {
                Err(format!("there is no column `{name}` ({option}); there are {}", self.all()))
            }
        }
    }

    fn one(&self, name: &str, option: &str) -> Result<usize, String> {
        match self.named(name, option)?.as_slice() {
            [at] => Ok(*at),
            _ => Err(format!("column `{name}` ({option}) is a list, and one value is needed")),
        }
    }

    /// All columns, in words.
    fn all(&self) -> String {
        self.words(&(0..self.columns.len()).collect::<Vec<_>>())
    }

    /// Some columns in words, lists as such.
    fn words(&self, some: &[usize]) -> String {
        const SHOWN: usize = 30;
        let mut names: Vec<String> = Vec::new();
        for &at in some {
            let Column { name, list, .. } = &self.columns[at];
            let name = format!("`{}`", list.as_ref().unwrap_or(name));
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let more = names.len().saturating_sub(SHOWN);
        names.truncate(SHOWN);
        match more {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        }
    }

    fn missing(&self, what: &str, option: &str) -> String {
        format!("no column {what}; name it with {option}: there are {}", self.all())
    }

    /// The one column whose name is usual for a role.
    fn usual(
        &self,
        taken: &[bool],
        usual: &[&str],
        role: &str,
        option: &str,
    ) -> Result<Option<usize>, String> {
        let is =
            |at: &usize| !taken[*at] && usual.contains(&plain(&self.columns[*at].name).as_str());
        let found: Vec<usize> = (0..self.columns.len()).filter(is).collect();
        match found.as_slice() {
            [] => Ok(None),
            [at] => Ok(Some(*at)),
            several => {
                Err(format!("which is {role}: {}? Say so with {option}", self.words(several)))
            }
        }
    }

    /// The columns of actions: one of a usual name, a list, or several that begin with `action_`.
    fn usual_actions(&self, taken: &[bool]) -> Result<Vec<usize>, String> {
        let free = |at: &usize| !taken[*at];
        let mut groups: Vec<Group> = Vec::new();
        let mut numbered: Group = Vec::new();
        for at in (0..self.columns.len()).filter(free) {
            let Column { name, list, .. } = &self.columns[at];
            let plain_name = plain(name);
            if NEVER_SEEN.contains(&plain_name.as_str()) {
                continue;
            }
            if let Some(list) = list {
                if ACTION.contains(&plain(list).as_str()) {
                    match groups.last_mut() {
                        Some(group) if self.columns[group[0]].list.as_ref() == Some(list) => {
                            group.push(at);
                        }
                        _ => groups.push(vec![at]),
                    }
                }
            } else if ACTION.contains(&plain_name.as_str()) {
                groups.push(vec![at]);
            } else if ["action_", "actions_", "act_"]
                .iter()
                .any(|start| plain_name.starts_with(start))
            {
                numbered.push(at);
            }
        }
        if !numbered.is_empty() {
            groups.push(numbered);
        }
        match groups.as_slice() {
            [] => Err(self.missing("is the action", "--action")),
            [group] => Ok(group.clone()),
            several => {
                let all: Vec<usize> = several.concat();
                Err(format!("which is the action: {}? Say so with --action", self.words(&all)))
            }
        }
    }

    /// The beginning of an observation's name, if it has a usual one.
    fn family(&self, at: usize) -> Option<&'static str> {
        let Column { name, list, .. } = &self.columns[at];
        let name = plain(list.as_ref().unwrap_or(name));
        OBSERVATION.iter().copied().find(|family| {
            name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        })
    }

    /// The name of the column whose value after the action this one has, by its own name.
    fn answered(&self, at: usize) -> Option<String> {
        let Column { name, list, .. } = &self.columns[at];
        let start = |name: &str| {
            let name = plain(name);
            let start = FINAL.iter().find(|start| name.starts_with(&format!("{start}_")))?;
            Some(name[start.len() + 1..].to_owned())
        };
        let rest = start(name)?;
        // Whether there is such a column, or a whole list of that name.
        let base = list.as_deref().and_then(start).unwrap_or_else(|| rest.clone());
        let known = self.columns.iter().any(|column| {
            plain(&column.name) == rest
                || column.list.as_deref().is_some_and(|list| plain(list) == base)
        });
        known.then_some(rest)
    }

    /// Columns that begin with `observation_` or the like where there are any, else all that are left.
    fn usual_observations(
        &self,
        taken: &[bool],
        notes: &mut Vec<String>,
    ) -> Result<Vec<usize>, String> {
        let is_free = |at: &usize| !taken[*at] && self.answered(*at).is_none();
        let left: Vec<usize> = (0..self.columns.len()).filter(is_free).collect();
        let families: Vec<usize> =
            left.iter().copied().filter(|&at| self.family(at).is_some()).collect();
        let mut kinds: Vec<&str> = families.iter().filter_map(|&at| self.family(at)).collect();
        kinds.dedup();
        kinds.sort_unstable();
        kinds.dedup();
        match (families.as_slice(), kinds.as_slice()) {
            ([], _) => {
                Ok(left.into_iter().filter(|&at| self.columns[at].unreadable.is_none()).collect())
            }
            (_, [_, _, ..]) => Err(format!(
                "which are the observation: {}? Say so with --observation",
                self.words(&families)
            )),
            (all, _) if all.len() == left.len() => Ok(families),
            // `state` may be where somebody lives.
            ([at], [family]) if plain(&self.columns[*at].name) == *family => Err(format!(
                "is `{}` the whole observation, or are all of {}? Say so with --observation",
                self.columns[*at].name,
                self.words(&left)
            )),
            _ => {
                let others: Vec<usize> =
                    left.into_iter().filter(|at| !families.contains(at)).collect();
                notes.push(format!(
                    "left out, because observations are {}: {}",
                    self.words(&families),
                    self.words(&others)
                ));
                Ok(families)
            }
        }
    }

    /// For every observation the column of what the last action led to; none if one is missing.
    fn usual_finals(&self, answers: &[usize], observation: &[usize]) -> Vec<usize> {
        let answer = |at: &usize| {
            let name = plain(&self.columns[*at].name);
            answers.iter().copied().find(|&other| self.answered(other).as_ref() == Some(&name))
        };
        observation.iter().map(answer).collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    fn check_readable(&self, roles: &Roles) -> Result<(), String> {
        let Roles { episode, time, reward, end, cut, behaviour, .. } = roles;
        let single = [Some(*episode), *time, Some(*reward), *end, *cut, *behaviour];
        let lists = roles.observation.iter().chain(&roles.action).chain(&roles.finals);
        for at in single.iter().flatten().chain(lists) {
            if let Column { name, unreadable: Some(kind), .. } = &self.columns[*at] {
                return Err(format!(
                    "column `{name}` holds {kind}, which cannot be imported; leave it out with --ignore"
                ));
            }
        }
        Ok(())
    }
}

impl Roles {
    /// The mapping that says all of this.
    pub(super) fn mapping(&self, columns: &[Column], given: &Mapping) -> Mapping {
        let name = |at: usize| columns[at].name.clone();
        let or_none = |at: Option<usize>| Some(at.map(name).unwrap_or_default());
        // A list that is whole is named once.
        let names = |some: &[usize]| {
            let mut names: Vec<String> = Vec::new();
            for &at in some {
                let whole = columns[at].list.as_ref().filter(|list| {
                    (0..columns.len())
                        .filter(|&other| columns[other].list.as_ref() == Some(list))
                        .all(|other| some.contains(&other))
                });
                let name = whole.cloned().unwrap_or_else(|| name(at));
                if names.last() != Some(&name) {
                    names.push(name);
                }
            }
            names
        };
        Mapping {
            episode: Some(name(self.episode)),
            time: or_none(self.time),
            observation: names(&self.observation),
            action: names(&self.action),
            reward: Some(name(self.reward)),
            reward_per: given.reward_per,
            end: or_none(self.end),
            cut: or_none(self.cut),
            behaviour: or_none(self.behaviour),
            final_observation: names(&self.finals),
            ignore: names(&self.ignored),
            kinds: given.kinds.clone(),
            metadata: given.metadata.clone(),
        }
    }
}
