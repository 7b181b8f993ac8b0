//! The rules of the worlds, in terms of the positions and velocities that MuJoCo gives: what is seen, what pays, what ends.
//!
//! Pure: no chance, no simulation. The definitions are Gymnasium's, version 5, and version 4 where that differs; D4RL's data
//! came from rules like the latter.

use super::library::Sizes;

/// Steps after which an episode is cut.
pub const TIME_LIMIT: u32 = 1_000;

/// The rules of a world. Positions are those of the joints (`qpos`): the torso's x and z in metres, its pitch, and the
/// angles of the limbs, in radians; velocities (`qvel`) likewise.
#[derive(Debug, PartialEq)]
pub struct Rules {
    /// The task's name.
    pub(super) name: &'static str,
    /// The model, in XML. Where there is a placeholder in it, this is what stands for it.
    pub(super) model: &'static str,
    pub(super) placeholder: Option<(&'static str, &'static str)>,
    /// Positions, of which the first is not seen; velocities; controls.
    pub(super) sizes: Sizes,
    /// Frame skip: time steps of the simulation that an action lasts for.
    pub(super) frame_skip: u32,
    /// Seconds of a time step, as the model has it.
    pub(super) time_step: f64,
    /// The start is drawn from around that of the model: uniform within this distance, positions and velocities.
    pub(super) start_noise: f64,
    /// Velocities at the start are normal with this deviation instead of uniform.
    pub(super) normal_velocities: bool,
    /// Velocities are seen within these bounds only.
    pub(super) seen_velocity: f64,
    /// What the sum of squares of an action costs.
    pub(super) control_cost: f32,
    /// When the body counts as standing. Whatever falls ends its episode.
    pub(super) healthy: Option<Healthy>,
}

/// When a body is healthy, and what that pays.
#[derive(Debug, PartialEq)]
pub(super) struct Healthy {
    /// Heights of the torso, bounds excluded.
    height: [f64; 2],
    /// Pitches of the torso, bounds excluded.
    pitch: [f64; 2],
    /// All but x and z, and all velocities, are within this, excluded.
    state: f64,
    /// Whether the step that ends unhealthy pays as if it did not: version 4.
    pays_for_falling: bool,
}

/// What being healthy pays in each step.
const HEALTHY_REWARD: f64 = 1.0;

const HOPPER_HEALTHY: Healthy = Healthy {
    height: [0.7, f64::INFINITY],
    pitch: [-0.2, 0.2],
    state: 100.0,
    pays_for_falling: false,
};

const WALKER_HEALTHY: Healthy = Healthy {
    height: [0.8, 2.0],
    pitch: [-1.0, 1.0],
    state: f64::INFINITY,
    pays_for_falling: false,
};

/// One leg that hops.
pub static HOPPER: Rules = Rules {
    name: "hopper",
    model: include_str!("hopper.xml"),
    placeholder: None,
    sizes: Sizes { positions: 6, velocities: 6, controls: 3 },
    frame_skip: 4,
    time_step: 0.002,
    start_noise: 0.005,
    normal_velocities: false,
    seen_velocity: 10.0,
    control_cost: 0.001,
    healthy: Some(HOPPER_HEALTHY),
};

/// One leg that hops, by the rules of version 4: falling pays for health a last time.
pub static HOPPER_V4: Rules = Rules {
    name: "hopper-v4",
    healthy: Some(Healthy { pays_for_falling: true, ..HOPPER_HEALTHY }),
    ..HOPPER
};

/// Two legs that walk.
pub static WALKER2D: Rules = Rules {
    name: "walker2d",
    model: include_str!("walker2d.xml"),
    placeholder: Some(("RIGHT_FOOT_FRICTION", "1.9")),
    sizes: Sizes { positions: 9, velocities: 9, controls: 6 },
    healthy: Some(WALKER_HEALTHY),
    ..HOPPER
};

/// Two legs that walk, by the rules of version 4: the right foot has less friction, and falling pays for health a last time.
pub static WALKER2D_V4: Rules = Rules {
    name: "walker2d-v4",
    placeholder: Some(("RIGHT_FOOT_FRICTION", "0.9")),
    healthy: Some(Healthy { pays_for_falling: true, ..WALKER_HEALTHY }),
    ..WALKER2D
};

/// Half a cheetah that runs and cannot fall. Versions 4 and 5 are the same.
pub static HALFCHEETAH: Rules = Rules {
    name: "halfcheetah",
    model: include_str!("halfcheetah.xml"),
    placeholder: None,
    sizes: Sizes { positions: 9, velocities: 9, controls: 6 },
    frame_skip: 5,
    time_step: 0.01,
    start_noise: 0.1,
    normal_velocities: true,
    seen_velocity: f64::INFINITY,
    control_cost: 0.1,
    healthy: None,
};

impl Rules {
    /// The model in XML.
    pub(super) fn xml(&self) -> String {
        match self.placeholder {
            Some((placeholder, text)) => self.model.replace(placeholder, text),
            None => self.model.to_owned(),
        }
    }

    /// Numbers in an observation: all positions but x, and all velocities.
    pub(super) fn seen(&self) -> usize {
        self.sizes.positions - 1 + self.sizes.velocities
    }

    /// Writes what is seen.
    pub(super) fn observe(&self, positions: &[f64], velocities: &[f64], observation: &mut [f32]) {
        let bound = self.seen_velocity;
        let velocities = velocities.iter().map(|velocity| velocity.clamp(-bound, bound));
        let numbers = positions[1..].iter().copied().chain(velocities);
        observation.iter_mut().zip(numbers).for_each(|(seen, number)| *seen = number as f32);
    }

    /// Whether the body is healthy. What cannot fall always is.
    pub(super) fn is_healthy(&self, positions: &[f64], velocities: &[f64]) -> bool {
        let Some(Healthy { height, pitch, state, .. }) = &self.healthy else { return true };
        let within = |[low, high]: [f64; 2], number: f64| low < number && number < high;
        within(*height, positions[1])
            && within(*pitch, positions[2])
            && positions[2..]
                .iter()
                .chain(velocities)
                .all(|&number| within([-state, *state], number))
    }

    /// What a step pays: how fast the torso's x went from `before` to `after`, and for health, less what the action costs.
    pub(super) fn reward(&self, before: f64, after: f64, action: &[f32], healthy: bool) -> f64 {
        let speed = (after - before) / (self.time_step * f64::from(self.frame_skip));
        let health = match &self.healthy {
            Some(rules) if healthy || rules.pays_for_falling => HEALTHY_REWARD,
            _ => 0.0,
        };
        // In the precision of actions, as in Gymnasium.
        let cost = self.control_cost * action.iter().map(|push| push * push).sum::<f32>();
        speed + health - f64::from(cost)
    }
}

/// Standard deviation of action noise after so many steps: |(1 − e^(−0.01 t)) · sin t · σ|.
pub fn noise_deviation(time: u32, sigma: f64) -> f64 {
    let time = f64::from(time);
    ((1.0 - (-0.01 * time).exp()) * time.sin() * sigma).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANDING: [f64; 6] = [3.0, 1.25, 0.0, 0.0, 0.0, 0.0];

    #[test]
    fn a_hopper_is_healthy_while_it_stands() {
        let healthy =
            |positions: [f64; 6], velocities: [f64; 6]| HOPPER.is_healthy(&positions, &velocities);
        let with = |index: usize, value: f64| {
            let mut positions = STANDING;
            positions[index] = value;
            positions
        };
        assert!(healthy(STANDING, [0.0; 6]));
        assert!(healthy(with(0, 1e9), [99.9; 6]));
        assert!(healthy(with(1, 101.0), [0.0; 6]));
        // Bounds are not within them.
        for (index, value) in [(1, 0.7), (2, 0.2), (2, -0.2), (3, 100.0), (5, -100.0)] {
            assert!(!healthy(with(index, value), [0.0; 6]), "{index} {value}");
        }
        assert!(!healthy(STANDING, [0.0, 0.0, 0.0, 0.0, 0.0, 100.0]));
        assert!(!healthy(with(1, f64::NAN), [0.0; 6]));
    }

    #[test]
    fn speed_and_health_pay_and_actions_cost() {
        // 0.008 m in 0.008 s; an action of squares 1 + 4 + 0.
        let action = [1.0, -2.0, 0.0];
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        close(HOPPER.reward(1.0, 1.008, &action, true), 1.0 + 1.0 - 0.005);
        close(HOPPER.reward(1.0, 1.008, &action, false), 1.0 - 0.005);
        close(HOPPER_V4.reward(1.0, 1.008, &action, false), 1.0 + 1.0 - 0.005);
        // 0.1 m in 0.05 s.
        close(HALFCHEETAH.reward(0.2, 0.1, &[1.0; 6], true), -2.0 - f64::from(0.1f32 * 6.0));
    }

    #[test]
    fn x_is_not_seen_and_velocities_are_cut() {
        let mut seen = [0.0; 11];
        HOPPER.observe(&STANDING, &[-20.0, 10.0, 11.0, 0.5, 0.0, -9.0], &mut seen);
        assert_eq!(seen, [1.25, 0.0, 0.0, 0.0, 0.0, -10.0, 10.0, 10.0, 0.5, 0.0, -9.0]);
        let mut seen = [0.0; 17];
        HALFCHEETAH.observe(&[1.0; 9], &[-20.0; 9], &mut seen);
        assert_eq!(seen[8..], [-20.0; 9]);
    }

    #[test]
    fn noise_grows_and_swings() {
        assert_eq!(noise_deviation(0, 1.0), 0.0);
        // sin 11 is below zero; a deviation is not.
        let expected = (1.0 - (-0.11f64).exp()) * 11.0f64.sin().abs() * 0.5;
        assert!((noise_deviation(11, 0.5) - expected).abs() < 1e-15);
        assert!((0..TIME_LIMIT).all(|time| noise_deviation(time, 2.0) < 2.0));
    }

    #[test]
    fn placeholders_are_filled() {
        for rules in [&HOPPER, &WALKER2D, &WALKER2D_V4, &HALFCHEETAH] {
            assert!(!rules.xml().contains("FRICTION"), "{}", rules.name);
        }
        assert_ne!(WALKER2D.xml(), WALKER2D_V4.xml());
    }
}
