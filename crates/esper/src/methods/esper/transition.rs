//! The transition predictor: `p(s_{t+1} | s_t, a_t, I)`, or with all that came before in place of s_t and a_t.

use burn::module::Module;
use burn::tensor::Tensor;
use esper_data::Rng;
use esper_nn::{Device, Lstm, LstmConfig, LstmState, Mlp, Noise, RowsIn};

use super::cluster::hidden_layers;
use super::settings::{ClusterConfig, TransitionInput};
use crate::methods::Context;
use crate::trajectories::{Interface, Trajectories};
use crate::windows::{Windows, burn_in};

/// Predicts the mean of the next observation; its distribution is normal with unit variance.
#[derive(Module, Debug)]
pub(crate) struct TransitionPredictor {
    history: Option<History>,
    mlp: Mlp,
}

/// A summary of s_0, a_0, …, s_t, a_t for every t, by a memory that runs forwards.
#[derive(Module, Debug)]
struct History {
    encoder: Mlp,
    memory: Lstm,
}

impl TransitionPredictor {
    pub(crate) fn new(
        config: &ClusterConfig,
        interface: &Interface,
        device: &Device,
        rng: &mut Rng,
    ) -> Self {
        let ClusterConfig { hidden, layers, rep_size, .. } = *config;
        let history = (config.transition == TransitionInput::History).then(|| History {
            encoder: hidden_layers(config, interface.width(), hidden, 1).init(device, rng),
            memory: LstmConfig::new(hidden, hidden).init(device, rng),
        });
        let summary = if history.is_some() { hidden } else { 0 };
        let inputs = interface.width() + summary + rep_size;
        let outputs = interface.observation.width();
        TransitionPredictor {
            history,
            mlp: hidden_layers(config, inputs, outputs, layers).init(device, rng),
        }
    }

    /// Predictions with clusters (`[rows, rep_size]`) and without. `before` is the state of the memory before the first steps of
    /// windows that begin later than their trajectories do.
    pub(crate) fn forward(
        &self,
        batch: &Trajectories,
        clusters: Tensor<2>,
        before: Option<LstmState>,
        noise: &mut Noise,
    ) -> Predicted {
        let (seen, state) = self.seen(batch, before, noise);
        // Columns that are left out count as zeros.
        let with_clusters = self.mlp.forward(seen.clone().with(clusters), noise);
        Predicted { with_clusters, without: self.mlp.forward(seen, noise), state }
    }

    /// What is seen beside clusters, and the state of the memory after the last steps, if there is one.
    fn seen(
        &self,
        batch: &Trajectories,
        before: Option<LstmState>,
        noise: &mut Noise,
    ) -> (RowsIn, Option<LstmState>) {
        let seen: RowsIn = batch.states_and_actions.clone();
        let Some(History { encoder, memory }) = &self.history else {
            return (seen, None);
        };
        let encoded = encoder.forward(seen.clone(), noise);
        let (summary, state) = memory.forward(encoded, batch.offsets(), before);
        (seen.with(summary), Some(state))
    }

    /// The state of the memory before windows of a batch, by a burn-in over what came before.
    pub(crate) fn state_before(
        &self,
        context: &Context<'_>,
        windows: Windows,
        batch: &Trajectories,
        device: &Device,
    ) -> Option<LstmState> {
        self.history.as_ref()?;
        let Context { data, interface, .. } = *context;
        let earlier = batch.packed.windows().iter().map(|&window| windows.before(window));
        burn_in(&earlier.collect::<Vec<_>>(), device, |earlier| {
            let batch = Trajectories::new(data, interface, earlier, context.device);
            let (_, state) = self.valid().seen(&batch, None, &mut Noise::new(0));
            state.expect("there is a memory")
        })
    }
}

/// What a predictor expects the next observations to be: `[rows, features]` each.
pub(crate) struct Predicted {
    pub(crate) with_clusters: Tensor<2>,
    pub(crate) without: Tensor<2>,
    /// Where its memory goes on after the last steps, if it has one.
    pub(crate) state: Option<LstmState>,
}
