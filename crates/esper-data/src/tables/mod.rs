//! Tables of decisions: CSV, JSON lines and Parquet files of any program, in and out.
//!
//! A table has one row a step. [`Table::open`] finds its columns, [`Table::survey`] goes through it once to see what they hold
//! and which episodes there are, as far as a [`Mapping`] does not say so already, and [`Survey::write`] or
//! [`Survey::dataset`] go through it again to make a data set of it. Rows may be in any order; episodes stay in the order of their
//! first appearance. Above a bound on memory, rows wait in temporary files, sorted by episode.
//!
//! ```
//! use std::ops::ControlFlow;
//! use esper_data::tables::{Mapping, Table};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("log.csv");
//! std::fs::write(&path, "patient_id,day,age,treatment,outcome\nb,1,40,drug,\nb,2,41,none,1\na,1,70,none,0\n")?;
//!
//! let go_on = |_| ControlFlow::Continue(());
//! let survey = Table::open(&[path])?.survey(&Mapping { time: Some("day".to_owned()), ..Mapping::default() }, go_on)?;
//! let data = survey.dataset(go_on)?;
//! assert_eq!((data.episodes(), data.steps(), data.episode_return(0)), (2, 3, 1.0));
//! assert_eq!(data.metadata().fields.action_value(&[0.0]), Some("drug".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answers;
mod chunks;
mod csv;
mod decide;
mod encode;
mod episodes;
mod export;
mod facts;
mod import;
mod json;
mod mapping;
mod memory;
mod open;
mod parquet;
mod plan;
mod roles;
mod rows;
mod sniff;
mod spill;
mod survey;
mod table;
mod value;
mod words;

pub use export::write_csv;
pub use mapping::{Kind, Mapping, RewardPer};
pub use memory::available_memory;
pub use open::{is_native_file, open, open_with_notes};
pub use survey::{ColumnReport, Survey};
pub use table::Table;
