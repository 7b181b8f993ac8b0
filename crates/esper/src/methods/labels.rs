//! Labels from a file: whatever made them, a policy is trained on them, evaluated and reported like any other.

use std::path::PathBuf;

use esper_data::{Dataset, StepLabels, read_file};

use super::{About, Context, Findings, Labels, Relabel};
use crate::error::Error;
use crate::settings::Config;

/// What this method is called, whatever the file.
pub(crate) const NAME: &str = "labels";

/// Takes its labels from a file, one row a step, as `labels.parquet` is written.
#[derive(Clone, Debug)]
pub struct FromFile {
    /// The file.
    pub path: PathBuf,
}

impl Relabel for FromFile {
    fn about(&self) -> About {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        About::new(NAME)
            .titled(format!("labels from {name}"))
            .summed_up("takes its labels from a file")
    }

    fn identity(&self) -> Result<Option<String>, Error> {
        let bytes = read_file(&self.path)?;
        Ok(Some(format!("labels with checksum {:08x}", crc32fast::hash(&bytes))))
    }

    fn check(&self, data: &Dataset, _: &Config) -> Result<(), Error> {
        StepLabels::read(&self.path, data)?;
        Ok(())
    }

    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
        let values = StepLabels::read(&self.path, context.data)?.labels;
        let calibration = Some(context.calibration(&values));
        let findings = Findings { calibration, ..Findings::default() };
        Ok(Labels { findings, ..Labels::new(values) })
    }
}
