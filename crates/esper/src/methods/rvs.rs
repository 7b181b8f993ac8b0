//! Return conditioning (RvS, the Decision Transformer): the label of a step is the return that followed it.

use super::{About, Context, Labels, Relabel};
use crate::error::Error;

/// Leaves returns as they are. In a world with luck, that is what goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rvs;

impl Relabel for Rvs {
    fn about(&self) -> About {
        About::new("rvs")
            .titled("return conditioning")
            .titled_with("transformer", "Decision Transformer")
            .summed_up("imitates whatever reached a return, by luck or not")
    }

    fn is_made_for_levels(&self) -> bool {
        false
    }

    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
        Ok(Labels::new(context.returns_to_go()))
    }
}
