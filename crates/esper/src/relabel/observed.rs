//! Return conditioning: the label of a step is the return that followed it.

use super::{Context, Labels, Relabel};
use crate::error::Error;

/// Leaves returns as they are. In a world with luck, that is what goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed;

impl Relabel for Observed {
    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
        Ok(Labels { values: context.data.returns_to_go(context.discount), ..Labels::default() })
    }
}
