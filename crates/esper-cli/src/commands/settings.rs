//! What commands share: the options of learning, and who learns by acting.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use esper::settings::Preset;
use esper_online::LearnedReplays;
use esper_tasks::Replays;

use super::parse::{parse_policy, policy_help};
use crate::output::{Failure, Output};

/// Who learns by acting, where data is a replay.
pub(super) fn replays(output: &Output) -> Result<Arc<dyn Replays>, Failure> {
    Ok(Arc::new(LearnedReplays { device: output.device()? }))
}

/// Options of learning.
#[derive(clap::Args)]
pub(super) struct Settings {
    /// Where the numbers come from: `quick` is sized for two CPU cores, `paper` is the paper's
    #[arg(long, value_enum, default_value_t = PresetName::Quick)]
    pub(super) preset: PresetName,

    /// What a policy is told: `return` is what is left to collect, as in the paper; `level` is where a behaviour stands among
    /// those that were seen from the same start; `step-level` is where it stands among those in the same state
    #[arg(long, value_enum, value_name = "C")]
    condition: Option<ConditionName>,

    /// Change settings by a TOML file, as a run folder's config.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Change one setting, as in cluster.beta_act=0.02; repeat for more
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    #[arg(long, help = policy_help(), value_name = "P", value_parser = parse_policy, default_value = "mlp")]
    pub(super) policy: String,

    /// Take at most this much memory, as in 2GB or 512MiB: data that is larger stays on disk while it is learned from, in files
    /// beside what is written [default: all there is]
    #[arg(long, value_name = "SIZE", value_parser = esper::memory::parse)]
    pub(super) memory: Option<u64>,

    /// Also write what is measured while training as event files for TensorBoard, into the folder of every run
    #[arg(long)]
    pub(super) tensorboard: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ConditionName {
    Return,
    Level,
    StepLevel,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum PresetName {
    Quick,
    Paper,
}

impl From<PresetName> for Preset {
    fn from(name: PresetName) -> Self {
        match name {
            PresetName::Quick => Preset::Quick,
            PresetName::Paper => Preset::Paper,
        }
    }
}

impl Settings {
    /// Settings that are changed, as `key=value`.
    pub(super) fn pairs(&self) -> Vec<String> {
        let condition = self.condition.map(|condition| match condition {
            ConditionName::Return => "condition=return",
            ConditionName::Level => "condition=level",
            ConditionName::StepLevel => "condition=step-level",
        });
        condition.into_iter().map(str::to_owned).chain(self.set.iter().cloned()).collect()
    }

    /// The TOML file, if there is one.
    pub(super) fn document(&self) -> Result<Option<String>, Failure> {
        let Some(path) = &self.config else { return Ok(None) };
        esper_data::read_text(path).map(Some).map_err(Failure::misuse)
    }
}
