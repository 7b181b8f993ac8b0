//! The paper's Figure 1 and its theorem, on worlds small enough to count everything.

use std::collections::HashMap;

use esper::condition::Target;
use esper::methods::Learned;
use esper::run::Plan;
use esper::settings::Preset;
use esper::{Registry, Unwatched};
use esper_data::{Cells, Dataset, DatasetBuilder, End, Metadata, Seed, Space};
use esper_tasks::gambling::rules::{ACTIONS, OUTCOMES, REWARD, STATES, mean_return};

/// One trajectory: its states (one more than actions), actions and rewards.
struct Trajectory {
    states: Vec<u8>,
    actions: Vec<u8>,
    rewards: Vec<f32>,
}

fn dataset(states: u32, actions: u32, trajectories: &[Trajectory]) -> Dataset {
    let [observation_space, action_space] = [states, actions].map(|n| Space::Discrete { n });
    let mut builder = DatasetBuilder::new(Metadata::new(observation_space, action_space));
    for Trajectory { states, actions, rewards } in trajectories {
        let length = actions.len();
        builder.push_steps(&states[..length], actions, rewards).unwrap();
        let end = End { terminated: true, truncated: false };
        builder.end(&states[length..], end).unwrap();
    }
    builder.build().unwrap()
}

/// Every trajectory of the gamble under uniformly random actions, equally often.
fn gambling(times: usize) -> Dataset {
    let mut all = Vec::new();
    for _ in 0..times {
        for (action, outcomes) in OUTCOMES.iter().enumerate() {
            for &outcome in outcomes {
                all.extend((0..ACTIONS as u8).map(|ignored| Trajectory {
                    states: vec![0, outcome, outcome],
                    actions: vec![action as u8, ignored],
                    rewards: vec![0.0, REWARD[usize::from(outcome)]],
                }));
            }
        }
    }
    dataset(STATES as u32, ACTIONS as u32, &all)
}

/// Two choices with a fair coin between them that everybody sees. Half of the agents are skilled: their second choice is
/// 1, which pays 3, where the other's, 0, pays 1. A first choice of 1 costs 1 and, if the coin shows 1, pays 4.
fn coin(times: usize) -> Dataset {
    let mut all = Vec::new();
    for _ in 0..times {
        for (first, coin, second) in (0..8u8).map(|bits| (bits & 1, bits >> 1 & 1, bits >> 2 & 1)) {
            let luck = if first == 1 { f32::from(coin) * 4.0 - 1.0 } else { 0.0 };
            all.push(Trajectory {
                states: vec![0, 1 + coin, 3],
                actions: vec![first, second],
                rewards: vec![0.0, 1.0 + 2.0 * f32::from(second) + luck],
            });
        }
    }
    dataset(4, 2, &all)
}

/// The mean, over the data, of the total variation between p(s_1 | s_0, a_0) and p(s_1 | s_0, a_0, label): what the label
/// of the first step tells about the world's own randomness. Labels count as equal within `width`.
fn told(data: &Dataset, labels: &[f32], width: f32) -> f64 {
    let mut counts: HashMap<(usize, i64), HashMap<usize, f64>> = HashMap::new();
    for episode in 0..data.episodes() {
        let step = data.episode_steps(episode).start;
        let next = data.observations().category(data.episode_observations(episode).start + 1);
        let bin = (labels[step] / width).round() as i64;
        let group = counts.entry((data.actions().category(step), bin)).or_default();
        *group.entry(next).or_default() += 1.0;
    }
    let mut by_action: HashMap<usize, HashMap<usize, f64>> = HashMap::new();
    for ((action, _), group) in &counts {
        for (&next, count) in group {
            *by_action.entry(*action).or_default().entry(next).or_default() += count;
        }
    }
    let variation = |action: &usize, group: &HashMap<usize, f64>| {
        let all = &by_action[action];
        let (size, total) = (group.values().sum::<f64>(), all.values().sum::<f64>());
        let difference = |(next, count): (&usize, &f64)| {
            (count / total - group.get(next).unwrap_or(&0.0) / size).abs() / 2.0
        };
        size * all.iter().map(difference).sum::<f64>()
    };
    let sum: f64 = counts.iter().map(|((action, _), group)| variation(action, group)).sum();
    sum / data.episodes() as f64
}

/// What a method and a policy learn.
fn learn(data: &Dataset, method: &str, policy: &str, settings: &[&str]) -> Learned {
    let registry = Registry::default();
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let config = registry.config(Preset::Quick).changed(None, &settings).unwrap();
    let plan = Plan::new(&registry, method, policy, config).unwrap().with_seed(1);
    plan.train(data, &Unwatched).unwrap().learned
}

/// The labels of a method. The policy that comes with them is not looked at.
fn relabel(data: &Dataset, method: &str, settings: &[&str]) -> Vec<f32> {
    let settings: Vec<&str> = settings.iter().chain(&["mlp.steps=1"]).copied().collect();
    learn(data, method, "mlp", &settings).labels.expect("it has labels").values
}

/// A small ESPER, enough for worlds of a few states.
fn small(data: &Dataset, transition: &str) -> Vec<f32> {
    relabel(data, "esper", &small_settings(transition))
}

fn small_settings(transition: &str) -> Vec<&'static str> {
    let transition = match transition {
        "history" => "cluster.transition=history",
        _ => "cluster.transition=markov",
    };
    vec![
        "cluster.rep_size=8",
        "cluster.rep_groups=1",
        "cluster.hidden=32",
        "cluster.steps=1500",
        transition,
        "leakage.steps=300",
        "returns.hidden=32",
        "returns.steps=1000",
        "returns.batch=1500",
    ]
}

/// Conditioning on a return takes the actions that reached it, as often as they did; the world then does what it does.
#[test]
fn figure_1() {
    let data = gambling(1);
    let achieved = |target: f32| {
        let reached: Vec<usize> = (0..data.episodes())
            .filter(|&episode| data.episode_return(episode) == f64::from(target))
            .map(|episode| data.actions().category(data.episode_steps(episode).start))
            .collect();
        let sum: f64 = reached.iter().map(|&action| f64::from(mean_return(action))).sum();
        sum / reached.len() as f64
    };
    let table = [-15.0, -6.0, 1.0, 5.0].map(achieved);
    for (achieved, expected) in table.into_iter().zip([-5.0, -2.5, -1.0 / 6.0, -5.0]) {
        assert!((achieved - expected).abs() < 1e-12, "{table:?}");
    }
}

/// Observed returns tell the outcome of the gambles; ESPER's labels do not, and are the mean returns of the actions.
#[test]
fn labels_of_the_gamble_tell_nothing_about_its_outcome() {
    // A gamble of ±10: with so many episodes its mean is known to within 0.08.
    let data = gambling(3_000);
    let observed = relabel(&data, "rvs", &[]);
    // Certain of one of two outcomes, for two of three actions.
    assert!((told(&data, &observed, 0.1) - 1.0 / 3.0).abs() < 1e-9);

    let labels = small(&data, "markov");
    assert!(told(&data, &labels, 0.5) < 0.02, "{}", told(&data, &labels, 0.5));
    for episode in 0..data.episodes() {
        let first = data.episode_steps(episode).start;
        let action = data.actions().category(first);
        assert!((labels[first] - mean_return(action)).abs() < 0.25, "{} {action}", labels[first]);
        let paid = data.rewards()[first + 1];
        assert!((labels[first + 1] - paid).abs() < 0.25, "{} {paid}", labels[first + 1]);
    }
}

/// Here clusters have something to say: who is skilled. They say that, and not how the coin fell, whichever way the
/// transition predictor looks at the past.
#[test]
fn labels_tell_agents_apart_and_not_their_luck() {
    let data = coin(300);
    let observed = relabel(&data, "rvs", &[]);
    assert!(told(&data, &observed, 0.1) > 0.2);
    for transition in ["markov", "history"] {
        let labels = small(&data, transition);
        let told = told(&data, &labels, 0.3);
        assert!(told < 0.05, "{transition}: {told}");
        // Skill is worth 2, the first choice 1 on average, and the coin nothing.
        for episode in 0..data.episodes() {
            let first = data.episode_steps(episode).start;
            let [chosen, skill] =
                [first, first + 1].map(|step| data.actions().category(step) as f32);
            let expected = 1.0 + 2.0 * skill + chosen;
            let label = labels[first];
            assert!((label - expected).abs() < 0.3, "{transition}: {label}, not {expected}");
        }
    }
}

/// The counter-example that the paper's appendix on history conditioning answers: what Markov predictors cannot see. A first
/// choice of 0 pays 0.75 for sure; after 1 there is a fair coin (states 1 and 2), then a state that forgets it (3), then
/// another (4 and 5), and the game pays 1 if the coins differ. The last action of everybody, who remembers, says whether they
/// do. Given the state that forgets, that tells nothing about the second coin; given the whole history, everything.
fn two_coins(times: usize) -> Dataset {
    let mut all = Vec::new();
    for _ in 0..times {
        for (first, second) in (0..4u8).map(|bits| (bits & 1, bits >> 1)) {
            let differ = first ^ second;
            all.push(Trajectory {
                states: vec![0, 1 + first, 3, 4 + second, 6],
                actions: vec![1, 0, 0, differ],
                rewards: vec![0.0, 0.0, 0.0, f32::from(differ)],
            });
            all.push(Trajectory { states: vec![0, 6], actions: vec![0], rewards: vec![0.75] });
        }
    }
    dataset(7, 2, &all)
}

/// Clusters that hide from a Markov predictor tell how the coins fall, and label a win with 1 and a loss with 0: whoever asks for 1
/// gambles, and gets 0.5. Those that hide from one who remembers label the gamble with 0.5, and the best that can be
/// asked for is what is sure, 0.75. Predictor and policy, a transformer, both see the history, as the theorem asks.
#[test]
fn history_saves_what_markov_labels_lose() {
    let data = two_coins(400);
    for (transition, win, achieved) in [("markov", 1.0, 0.5), ("history", 0.5, 0.75)] {
        let mut settings = small_settings(transition);
        settings.extend(["condition=return", "cluster.attempts=1", "leakage.luck_steps=0"]);
        settings.extend(["cluster.beta_act=0.1", "transformer.steps=600", "transformer.width=32"]);
        let learned = learn(&data, "esper", "transformer", &settings);
        let labels = &learned.labels.as_ref().expect("it has labels").values;
        for episode in 0..data.episodes() {
            let first = data.episode_steps(episode).start;
            let won = data.episode_return(episode) == 1.0;
            let expected = match data.actions().category(first) {
                0 => 0.75,
                _ if won => win,
                _ => 1.0 - win,
            };
            let label = labels[first];
            assert!((label - expected).abs() < 0.1, "{transition}: {label}, not {expected}");
        }
        let first = |episode: usize| labels[data.episode_steps(episode).start];
        let highest = (0..data.episodes()).map(first).fold(f32::MIN, f32::max);
        // What the first choice is worth, whoever makes it: the coins are fair.
        let mut agent = learned.policy.agent();
        let places: Vec<usize> = (0..1_000).collect();
        for &place in &places {
            let target = Target::Return(f64::from(highest));
            agent.begin(place, target, Seed::new(7).indexed(place as u64));
        }
        let (seen, mut actions) = (Cells::Byte(vec![0; places.len()]), Cells::Byte(Vec::new()));
        agent.act(seen.view(), &places, &mut actions).unwrap();
        let worth = |&place: &usize| [0.75, 0.5][actions.category(place)];
        let mean = places.iter().map(worth).sum::<f64>() / places.len() as f64;
        assert!((mean - achieved).abs() < 0.03, "{transition}: {mean}, not {achieved}");
    }
}

/// Two choices of three that nothing is left to chance of: the first pays 0 to 2 at once, the second twice that.
fn sure(times: usize) -> Dataset {
    let choices = (0..9u8).map(|both| (both / 3, both % 3));
    let trajectory = |(first, second): (u8, u8)| Trajectory {
        states: vec![0, 1 + first, 4],
        actions: vec![first, second],
        rewards: vec![f32::from(first), 2.0 * f32::from(second)],
    };
    let all: Vec<Trajectory> = (0..times).flat_map(|_| choices.clone().map(trajectory)).collect();
    dataset(5, 3, &all)
}

/// In a deterministic world what an episode returned is what its behaviour returns: ESPER is return conditioning there.
#[test]
fn without_chance_labels_are_returns() {
    let data = sure(100);
    let few = ["cluster.steps=100", "leakage.steps=50", "promise.steps=10"];
    assert_eq!(relabel(&data, "esper", &few), relabel(&data, "rvs", &few));
    let gamble = relabel(&gambling(20), "esper", &few);
    assert_ne!(gamble, relabel(&gambling(20), "rvs", &few), "where there is chance they are not");
}
