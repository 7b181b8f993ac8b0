//! The rules of the gamble, without chance of their own.

/// The number of states: the choice, and what each action can lead to.
pub const STATES: usize = 7;

/// The number of actions.
pub const ACTIONS: usize = 3;

/// The state in which the choice is made.
pub const START: u8 = 0;

/// What a state pays when it is left; the choice itself pays nothing.
pub const REWARD: [f32; STATES] = [0.0, 5.0, -15.0, 1.0, -6.0, 1.0, 1.0];

/// The two states an action leads to, equally likely: a0 gambles high, a1 low, a2 is safe.
pub const OUTCOMES: [[u8; 2]; ACTIONS] = [[1, 2], [3, 4], [5, 6]];

/// The mean return of an action.
pub fn mean_return(action: usize) -> f32 {
    let [good, bad] = OUTCOMES[action];
    (REWARD[usize::from(good)] + REWARD[usize::from(bad)]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_returns_are_the_papers() {
        assert_eq!([0, 1, 2].map(mean_return), [-5.0, -2.5, 1.0]);
    }
}
