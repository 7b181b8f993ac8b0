//! The transition predictor: `p(s_{t+1} | s_t, a_t, I)`, or with all that came before in place of s_t and a_t.

use burn::module::Module;
use burn::tensor::Tensor;
use esper_data::Rng;
use esper_nn::{Device, Lstm, LstmConfig, Mlp, Noise, RowsIn};

use super::cluster::hidden_layers;
use super::settings::{ClusterConfig, TransitionInput};
use crate::trajectories::{Interface, Trajectories};

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

    /// Predictions with clusters (`[rows, rep_size]`) and without: `[rows, features]` each.
    pub(crate) fn forward(
        &self,
        batch: &Trajectories,
        clusters: Tensor<2>,
        noise: &mut Noise,
    ) -> (Tensor<2>, Tensor<2>) {
        let mut seen: RowsIn = batch.states_and_actions.clone();
        if let Some(History { encoder, memory }) = &self.history {
            let encoded = encoder.forward(seen.clone(), noise);
            seen = seen.with(memory.forward(encoded, batch.offsets(), None).0);
        }
        // Columns that are left out count as zeros.
        let with_clusters = self.mlp.forward(seen.clone().with(clusters), noise);
        (with_clusters, self.mlp.forward(seen, noise))
    }
}
