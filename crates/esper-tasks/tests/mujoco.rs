//! The MuJoCo worlds: golden traces of Gymnasium's, noise, copies on other threads. They need MuJoCo's library; where there is
//! none, they say so and test nothing but that.

use std::io::Write as _;
use std::ops::ControlFlow;

use esper_data::{Cells, CellsRef};
use esper_tasks::mujoco::rules::{
    HALFCHEETAH, HOPPER, HOPPER_V4, Rules, WALKER2D, WALKER2D_V4, noise_deviation,
};
use esper_tasks::mujoco::{MujocoError, MujocoWorld, version};
use esper_tasks::{CollectOptions, Collection, Step, World, WorldError, task};

/// Says something past the test runner, which keeps what macros print to itself.
fn say(words: &str) {
    std::io::stderr().write_all(format!("{words}\n").as_bytes()).expect("somebody listens");
}

/// Whether there is a MuJoCo. Only that it is not found is no failure.
fn there_is_a_mujoco() -> bool {
    match version() {
        Ok(_) => true,
        Err(error @ MujocoError::NotFound) => {
            say(&format!("THE MUJOCO WORLDS ARE NOT TESTED: {error}"));
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// A step in a world: what it gives and what is seen.
fn step(world: &mut MujocoWorld, action: &[f32]) -> (Step, Vec<f32>) {
    let mut seen = Cells::Float(vec![0.0; world.spaces().observation.cells()]);
    let cells = seen.len();
    let step = world.step(CellsRef::Float(action), seen.view_mut(0..cells)).unwrap();
    match seen {
        Cells::Float(seen) => (step, seen),
        _ => unreachable!("it was made of floats"),
    }
}

/// Positions and velocities after a reset.
fn start(world: &mut MujocoWorld, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut seen = Cells::Float(vec![0.0; world.spaces().observation.cells()]);
    let cells = seen.len();
    world.reset(seed, seen.view_mut(0..cells)).unwrap();
    let (positions, velocities) = world.motion();
    (positions.to_vec(), velocities.to_vec())
}

fn numbers<T: std::str::FromStr>(text: &str) -> Vec<T> {
    let parse = |word: &str| word.parse().unwrap_or_else(|_| panic!("{word} is no number"));
    text.split_whitespace().map(parse).collect()
}

/// Plays a golden trace again; how far observations and rewards are off at most.
fn play_again(rules: &'static Rules, trace: &str) -> f32 {
    let mut world = MujocoWorld::new(rules, 0.0).unwrap();
    let mut worst: f32 = 0.0;
    let mut steps = 0;
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        let (order, rest) = line.split_once(' ').unwrap();
        let parts: Vec<&str> = rest.split(';').collect();
        if order == "start" {
            world.start_at(&numbers::<f64>(parts[0]), &numbers::<f64>(parts[1])).unwrap();
            continue;
        }
        let (step, seen) = step(&mut world, &numbers::<f32>(parts[0]));
        let mut expected = numbers::<f32>(parts[1]);
        expected.extend(numbers::<f32>(parts[2]));
        let found = seen.iter().chain([&step.reward]);
        assert_eq!(expected.len(), seen.len() + 1);
        for (found, expected) in found.zip(&expected) {
            worst = worst.max((found - expected).abs() / expected.abs().max(1.0));
        }
        let ends = [step.terminated, step.truncated].map(u8::from);
        assert_eq!(numbers::<u8>(parts[3]), ends, "step {steps}");
        steps += 1;
    }
    assert_eq!(steps, 50);
    worst
}

/// `bench/mujoco_parity.py --golden` has made the traces with MuJoCo 4.0, with which they are equal. What another version or
/// another machine rounds otherwise grows with every contact: with 3.5 to 3.17 they are off by 1e-7. Before 3.5 MuJoCo itself
/// let a hopper land otherwise.
#[test]
fn worlds_are_gymnasiums() {
    if !there_is_a_mujoco() {
        return;
    }
    let version = version().unwrap();
    if (version.major, version.minor) < (3, 5) {
        say(&format!("THERE ARE NO TRACES OF MUJOCO {version} TO COMPARE WITH"));
        return;
    }
    let traces: [(&Rules, &str); 5] = [
        (&HOPPER, include_str!("mujoco/hopper.txt")),
        (&HOPPER_V4, include_str!("mujoco/hopper-v4.txt")),
        (&WALKER2D, include_str!("mujoco/walker2d.txt")),
        (&WALKER2D_V4, include_str!("mujoco/walker2d-v4.txt")),
        (&HALFCHEETAH, include_str!("mujoco/halfcheetah.txt")),
    ];
    for (rules, trace) in traces {
        let worst = play_again(rules, trace);
        assert!(worst <= 1e-5, "{}: off by {worst} of them", trace.lines().next().unwrap());
    }
}

/// The start is drawn as in Gymnasium: within 0.005 for what hops and walks; positions within 0.1 and normal velocities of
/// deviation 0.1 for the cheetah.
#[test]
fn starts_are_drawn_around_the_models() {
    if !there_is_a_mujoco() {
        return;
    }
    let mut hopper = MujocoWorld::new(&HOPPER, 0.0).unwrap();
    let mut cheetah = MujocoWorld::new(&HALFCHEETAH, 0.0).unwrap();
    let mut squares = 0.0;
    for seed in 0..1_000 {
        let (positions, velocities) = start(&mut hopper, seed);
        let around = [0.0, 1.25, 0.0, 0.0, 0.0, 0.0];
        let near = |(number, centre): (&f64, &f64)| (number - centre).abs() <= 0.005;
        assert!(positions.iter().zip(&around).all(near), "{positions:?}");
        assert!(velocities.iter().zip(&[0.0; 6]).all(near), "{velocities:?}");
        let (positions, velocities) = start(&mut cheetah, seed);
        assert!(positions.iter().all(|number| number.abs() <= 0.1), "{positions:?}");
        squares += velocities.iter().map(|number| number * number).sum::<f64>();
    }
    // 9,000 squares of deviation 0.1: the mean's own deviation is 0.00015.
    assert!((squares / 9_000.0 - 0.01).abs() < 0.0008, "{squares}");
}

/// Noise leaves the start and the first step as they are, and then does what its deviation says.
#[test]
fn noise_is_added_to_actions() {
    if !there_is_a_mujoco() {
        return;
    }
    let [mut quiet, mut noisy] =
        [0.0, 0.5].map(|sigma| MujocoWorld::new(&HALFCHEETAH, sigma).unwrap());
    let action = [0.0; 6];
    let (mut costs, mut expected) = (0.0, 0.0);
    for seed in 0..200 {
        assert_eq!(start(&mut quiet, seed), start(&mut noisy, seed));
        // No noise at t = 0.
        assert_eq!(step(&mut quiet, &action), step(&mut noisy, &action));
        assert_ne!(step(&mut quiet, &action), step(&mut noisy, &action));
        for time in 2..40 {
            // What an action of zeros costs is what its noise costs.
            let before = noisy.motion().0[0];
            let reward = f64::from(step(&mut noisy, &action).0.reward);
            costs += (noisy.motion().0[0] - before) / 0.05 - reward;
            expected += 0.1 * 6.0 * noise_deviation(time, 0.5).powi(2);
        }
    }
    assert!((costs / expected - 1.0).abs() < 0.03, "{costs} for {expected}");
}

#[test]
fn an_episode_is_cut_after_a_thousand_steps() {
    if !there_is_a_mujoco() {
        return;
    }
    let mut world = MujocoWorld::new(&HALFCHEETAH, 0.0).unwrap();
    start(&mut world, 7);
    for time in 1..=1_000 {
        let (step, _) = step(&mut world, &[0.1; 6]);
        assert_eq!((step.terminated, step.truncated), (false, time == 1_000), "{time}");
    }
}

#[test]
fn what_is_no_action_is_refused() {
    if !there_is_a_mujoco() {
        return;
    }
    let mut world = MujocoWorld::new(&HOPPER, 0.0).unwrap();
    let mut seen = Cells::Float(vec![0.0; 11]);
    for action in [&[0.0, f32::NAN, 0.0][..], &[f32::INFINITY, 0.0, 0.0], &[0.0; 2], &[]] {
        let refused = world.step(CellsRef::Float(action), seen.view_mut(0..11));
        assert!(matches!(refused, Err(WorldError::Action { .. })), "{action:?}");
    }
    let refused = world.step(CellsRef::Byte(&[0, 0, 0]), seen.view_mut(0..11));
    assert!(matches!(refused, Err(WorldError::Action { .. })));
    assert!(world.start_at(&[0.0; 6], &[f64::NAN; 6]).is_err());
    assert!(world.start_at(&[0.0; 5], &[0.0; 6]).is_err());
    // Beyond the bounds is the bound.
    let [mut far, mut bound] = [(); 2].map(|()| MujocoWorld::new(&HOPPER, 0.0).unwrap());
    start(&mut far, 1);
    start(&mut bound, 1);
    assert_eq!(step(&mut far, &[1e12, -3.0, 0.5]).1, step(&mut bound, &[1.0, -1.0, 0.5]).1);
}

/// Collected on several threads, with the world's noise in the name that data remembers.
#[test]
fn data_is_the_same_from_any_number_of_threads_and_remembers_the_noise() {
    if !there_is_a_mujoco() {
        return;
    }
    let noisy = task("Hopper-v5+noise=0.50").unwrap();
    let options = CollectOptions { steps: Some(5_000), ..CollectOptions::default() };
    let collection = Collection::new(noisy, &options).unwrap();
    assert_eq!(collection.metadata().task.as_deref(), Some("hopper+noise=0.5"));
    let collected = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut parts = Vec::new();
        pool.install(|| {
            collection.run(
                |part| {
                    parts.push(part);
                    Ok(())
                },
                |_| ControlFlow::Continue(()),
            )
        })
        .unwrap();
        format!("{parts:?}")
    };
    assert_eq!(collected(1), collected(3));
}

/// Tasks are known without MuJoCo; only their worlds are not.
#[test]
fn tasks_are_described_without_a_library() {
    for (name, seen, controls) in
        [("hopper", 11, 3), ("walker2d-v4", 17, 6), ("halfcheetah-v4", 17, 6)]
    {
        let task = task(name).unwrap();
        let spaces = task.spaces().unwrap();
        assert_eq!((spaces.observation.cells(), spaces.action.cells()), (seen, controls));
        assert!(task.reference_returns().is_some());
        let names: Vec<&str> = task.behaviours().iter().map(|b| b.name.as_str()).collect();
        assert_eq!(names, ["expert", "medium", "random"]);
        if let Err(error) = task.world() {
            assert!(matches!(error, WorldError::Mujoco(MujocoError::NotFound)), "{error}");
            assert!(error.to_string().contains("`pip install mujoco`"), "{error}");
        }
    }
}

/// The players that are included return what they were stopped at, within what few episodes can tell.
#[test]
fn players_play_as_well_as_they_are_said_to() {
    if !there_is_a_mujoco() {
        return;
    }
    for (name, expert, medium) in [
        ("hopper", 3_000.0, 900.0..1_300.0),
        ("walker2d", 4_000.0, 900.0..1_900.0),
        ("halfcheetah", 8_000.0, 2_200.0..3_800.0),
    ] {
        let mean_return = |behaviour: &str| {
            let options = CollectOptions {
                steps: Some(12_000),
                behaviours: vec![behaviour.to_owned()],
                ..CollectOptions::default()
            };
            let mut tally = esper_data::Tally::default();
            Collection::new(task(name).unwrap(), &options)
                .unwrap()
                .run(|part| tally.add(&part), |_| ControlFlow::Continue(()))
                .unwrap();
            tally.total().mean_return
        };
        let returned = mean_return("expert");
        assert!(returned > 0.9 * expert, "{name}: {returned}");
        let returned = mean_return("medium");
        assert!(medium.contains(&returned), "{name}: {returned}");
    }
}

/// The three data sets of D4RL come first, and the paper's numbers belong to them.
#[test]
fn data_sets_are_those_of_d4rl() {
    let hopper = task("hopper").unwrap();
    let names: Vec<&str> = hopper.datasets().iter().map(|data| data.name.as_str()).collect();
    assert_eq!(names, ["medium-expert", "medium", "medium-replay", "expert", "random"]);
    let published =
        |policy, data| hopper.published("esper", policy, Some(data)).map(|result| result.mean);
    let score = hopper.reference_returns().unwrap().normalised_score(
        published(Some("transformer"), "medium").expect("the paper has a number for it"),
    );
    assert!((score - 50.57).abs() < 1e-9, "{score}");
    assert_eq!(
        (published(Some("mlp"), "medium"), published(Some("transformer"), "random")),
        (None, None)
    );
}
