//! Importing: episodes are put together and handed over part by part, from memory or from temporary files.

use std::fs::File;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use super::mapping::RewardPer;
use super::rows::{CUT, ENDED, Group, Rows, changed, time_key, wanted};
use super::spill::Spill;
use super::survey::Survey;
use super::table::{Place, Watch};
use crate::builder::DatasetBuilder;
use crate::dataset::{Dataset, End};
use crate::error::DataError;
use crate::file::DatasetWriter;

/// Steps of a part, as a collector's.
const PART_STEPS: usize = 1 << 17;

/// What reading and writing take beside the rows themselves.
const FIXED: u64 = 64 << 20;

/// The most temporary files at a time.
const MOST_FILES: u64 = 200;

impl Survey {
    /// Imports everything and keeps it in memory.
    pub fn dataset(
        &self,
        mut watch: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Dataset, DataError> {
        let mut builder = self.builder();
        builder.reserve(self.steps() as usize, self.episodes());
        let (group, behaviours) = self.group(&mut watch)?;
        for episode in 0..self.episodes() {
            self.push_episode(&group, episode, &behaviours, &mut builder)?;
        }
        drop(group);
        builder.build().map_err(|error| error.in_file(self.table.path()))
    }

    /// Imports everything into a native file. At most about so many bytes are held in memory, the ids of episodes aside; what
    /// is beyond goes through temporary files beside the file. `keep` is shown every part that is written.
    pub fn write(
        &self,
        path: &Path,
        overwrite: bool,
        memory: u64,
        mut keep: impl FnMut(&Dataset) -> Result<(), DataError>,
        mut watch: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), DataError> {
        let behaviours: Vec<String> = self.plan.behaviours.iter().map(str::to_owned).collect();
        let mut writer = DatasetWriter::create(path, self.metadata(), &behaviours, overwrite)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        self.parts(memory, folder, &mut watch, &mut |part| {
            writer.write(&part)?;
            keep(&part)
        })?;
        writer.finish()
    }

    /// Whether the rows of every episode have an order, as importing needs it: goes through ids and times once more.
    pub fn check_order(
        &self,
        mut watch: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), DataError> {
        if self.slots.time.is_none() {
            return Ok(());
        }
        let mut starts = Vec::with_capacity(self.episodes() + 1);
        let mut rows = 0;
        for episode in &self.episodes.facts {
            starts.push(rows);
            rows += episode.rows as usize;
        }
        let (mut filled, mut times) = (starts.clone(), vec![0; rows]);
        starts.push(rows);
        let work = |chunk: &super::chunks::Chunk<'_>| {
            let (mut found, mut buffer) = (Vec::new(), String::new());
            chunk.rows(|_, values| {
                let episode = self.episodes.ids.find(values[0].text(&mut buffer));
                let time = values.get(1).and_then(|time| time_key(time, self.plan.time));
                found.push(episode.zip(time).ok_or_else(changed)?);
                Ok(())
            })?;
            Ok(found)
        };
        self.table.scan(&wanted(&self.slots), &mut watch, work, |found| {
            for (episode, time) in found {
                let place = filled[episode];
                filled[episode] += 1;
                if place >= starts[episode + 1] {
                    let error = DataError::Invalid(format!("a row {}", changed()));
                    return Err(error.in_file(self.table.path()));
                }
                times[place] = time;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for episode in 0..self.episodes() {
            let times = &mut times[starts[episode]..starts[episode + 1]];
            times.sort_unstable();
            if let Some(pair) = times.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(self.same_time(episode, pair[0]));
            }
        }
        Ok(())
    }

    /// Hands over the episodes in parts, in the order of their first appearance.
    fn parts(
        &self,
        memory: u64,
        folder: &Path,
        watch: &mut Watch<'_>,
        keep: &mut dyn FnMut(Dataset) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let partitions = self.partitions(memory);
        let mut builder = self.builder();
        if partitions.len() == 1 {
            let (group, behaviours) = self.group(watch)?;
            return self.emit(&group, &behaviours, &mut builder, watch, keep);
        }
        let (mut spills, behaviours) = self.spill(&partitions, folder, watch)?;
        for (partition, spill) in partitions.into_iter().zip(&mut spills) {
            let mut group = Group::new(self, partition);
            spill.read(&self.plan, |rows| {
                group.add(&rows)?;
                match watch(0) {
                    ControlFlow::Continue(()) => Ok(()),
                    ControlFlow::Break(()) => Err(DataError::Stopped),
                }
            })?;
            self.emit(&group, &behaviours, &mut builder, watch, keep)?;
        }
        Ok(())
    }

    /// Bytes that a row takes in memory.
    fn row_bytes(&self) -> u64 {
        let metadata = self.metadata();
        let size = |space: &crate::space::Space| {
            let cell = match space.cell_type() {
                crate::cells::CellType::Byte => 1,
                crate::cells::CellType::Short => 2,
                crate::cells::CellType::Float => 4,
            };
            space.cells() as u64 * cell
        };
        let finals =
            if self.slots.finals.is_empty() { 0 } else { 4 + size(&metadata.observation_space) };
        let time = if self.slots.time.is_some() { 8 } else { 0 };
        size(&metadata.observation_space) + size(&metadata.action_space) + 5 + time + finals
    }

    /// Ranges of episodes whose rows fit in memory together.
    fn partitions(&self, memory: u64) -> Vec<Range<usize>> {
        let all = self.steps() * self.row_bytes();
        let room = memory.saturating_sub(FIXED).max(memory / 4) * 2 / 3;
        let room = room.max(all / MOST_FILES).max(1);
        let mut partitions = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for (at, episode) in self.episodes.facts.iter().enumerate() {
            let more = episode.rows * self.row_bytes();
            if bytes > 0 && bytes + more > room {
                partitions.push(first..at);
                (first, bytes) = (at, 0);
            }
            bytes += more;
        }
        partitions.push(first..self.episodes());
        partitions
    }

    /// All rows at their places, and who decided in every episode.
    fn group(&self, watch: &mut Watch<'_>) -> Result<(Group, Vec<Option<u16>>), DataError> {
        let mut group = Group::new(self, 0..self.episodes());
        let behaviours = self.scan(watch, |rows| {
            group.add(rows).map_err(|error| error.in_file(self.table.path()))
        })?;
        Ok((group, behaviours))
    }

    /// Goes through all rows, in parts; gives who decided in every episode.
    fn scan(
        &self,
        watch: &mut Watch<'_>,
        mut add: impl FnMut(&Rows) -> Result<(), DataError>,
    ) -> Result<Vec<Option<u16>>, DataError> {
        let mut behaviours = vec![None; self.behaviour_count()];
        self.table.scan(
            &self.slots.columns,
            watch,
            |chunk| self.convert(chunk),
            |rows| {
                self.note_behaviours(&rows, &mut behaviours)?;
                add(&rows)?;
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(behaviours)
    }

    /// The same into a temporary file for every partition.
    fn spill(
        &self,
        partitions: &[Range<usize>],
        folder: &Path,
        watch: &mut Watch<'_>,
    ) -> Result<(Vec<Spill>, Vec<Option<u16>>), DataError> {
        let temporary = |_: &Range<usize>| -> Result<Spill, DataError> {
            // Without a name: nothing is left however the program ends.
            let file: File =
                tempfile::tempfile_in(folder).map_err(|error| DataError::io(folder, error))?;
            Ok(Spill::new(file, folder))
        };
        let mut spills = partitions.iter().map(temporary).collect::<Result<Vec<_>, _>>()?;
        let behaviours = self.scan(watch, |rows| {
            let mut finals = 0;
            for row in 0..rows.len() {
                let episode = rows.episode[row] as usize;
                let at = partitions.partition_point(|range| range.end <= episode);
                spills[at].add(rows, row, &mut finals)?;
            }
            Ok(())
        })?;
        Ok((spills, behaviours))
    }

    fn behaviour_count(&self) -> usize {
        if self.slots.behaviour.is_some() { self.episodes() } else { 0 }
    }

    /// Remembers who decided in every episode; it has to be the same in all of its rows.
    fn note_behaviours(&self, rows: &Rows, of: &mut [Option<u16>]) -> Result<(), DataError> {
        for (&episode, &behaviour) in rows.episode.iter().zip(&rows.behaviour) {
            let known = of[episode as usize].get_or_insert(behaviour);
            if *known != behaviour {
                let name = |behaviour: u16| self.plan.behaviours.get(usize::from(behaviour));
                let problem = format!(
                    "episode `{}`: the behaviour changes from `{}` to `{}`; every episode has one (--behaviour \"\" leaves the column out)",
                    self.episodes.ids.get(episode as usize),
                    name(*known),
                    name(behaviour)
                );
                let path = self.table.path().to_owned();
                return Err(DataError::InvalidFile { path, problem });
            }
        }
        Ok(())
    }

    fn builder(&self) -> DatasetBuilder {
        DatasetBuilder::new(self.metadata().clone()).with_behaviours(self.plan.behaviours.iter())
    }

    /// Appends the episodes of a group, and hands over parts that are full, and the last. Where groups begin does not matter, so
    /// that files are the same whatever memory there is.
    fn emit(
        &self,
        group: &Group,
        behaviours: &[Option<u16>],
        builder: &mut DatasetBuilder,
        watch: &mut Watch<'_>,
        keep: &mut dyn FnMut(Dataset) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        for episode in 0..group.starts.len() - 1 {
            self.push_episode(group, episode, behaviours, builder)?;
            let is_last = group.first + episode + 1 == self.episodes();
            if builder.steps() >= PART_STEPS || is_last {
                let part = std::mem::replace(builder, self.builder());
                keep(part.build().map_err(|error| error.in_file(self.table.path()))?)?;
                if watch(0).is_break() {
                    return Err(DataError::Stopped);
                }
            }
        }
        Ok(())
    }

    /// Appends an episode of a group.
    fn push_episode(
        &self,
        group: &Group,
        episode: usize,
        behaviours: &[Option<u16>],
        builder: &mut DatasetBuilder,
    ) -> Result<(), DataError> {
        let in_file = |error: DataError| error.in_file(self.table.path());
        if episode == 0 && !group.is_full() {
            return Err(in_file(DataError::Invalid(format!("a row {}", changed()))));
        }
        let rows = group.starts[episode]..group.starts[episode + 1];
        let number = group.first + episode;
        if let Some(Some(behaviour)) = behaviours.get(number) {
            builder.set_behaviour(Some(usize::from(*behaviour)));
        }
        let order = self.order(group, rows.clone(), number)?;
        let (seen, done) =
            (self.metadata().observation_space.cells(), self.metadata().action_space.cells());
        let cells = |rows: Range<usize>, width: usize| rows.start * width..rows.end * width;
        let last = order.as_ref().and_then(|order| order.last().copied()).unwrap_or(rows.end - 1);
        let rewards = self.rewards(&group.reward[rows.clone()], order.as_deref(), rows.start);
        match order {
            None => builder.push_steps(
                group.observation.view().slice(cells(rows.clone(), seen)),
                group.action.view().slice(cells(rows, done)),
                &rewards,
            ),
            Some(order) => order.iter().zip(&rewards).try_for_each(|(&row, &reward)| {
                builder.push(
                    group.observation.view().slice(cells(row..row + 1, seen)),
                    group.action.view().slice(cells(row..row + 1, done)),
                    reward,
                )
            }),
        }
        .map_err(in_file)?;
        let final_observation = match group.final_of.get(last) {
            Some(&at @ 1..) => {
                let at = at as usize - 1;
                group.finals.view().slice(cells(at..at + 1, seen))
            }
            _ => group.observation.view().slice(cells(last..last + 1, seen)),
        };
        builder.end(final_observation, self.end(group.flags[last])).map_err(in_file)
    }

    /// The rows of an episode in the order of their times; `None` if they are already.
    fn order(
        &self,
        group: &Group,
        rows: Range<usize>,
        episode: usize,
    ) -> Result<Option<Vec<usize>>, DataError> {
        if group.time.is_empty() {
            return Ok(None);
        }
        let times = &group.time[rows.clone()];
        if times.windows(2).all(|pair| pair[0] < pair[1]) {
            return Ok(None);
        }
        let mut order: Vec<usize> = rows.collect();
        order.sort_by_key(|&row| group.time[row]);
        let same = order.windows(2).find(|pair| group.time[pair[0]] == group.time[pair[1]]);
        match same {
            None => Ok(Some(order)),
            Some(pair) => Err(self.same_time(episode, group.time[pair[0]])),
        }
    }

    /// Two rows of an episode have the same time: finds out which.
    fn same_time(&self, episode: usize, key: i64) -> DataError {
        let id = self.episodes.ids.get(episode);
        let name = self
            .slots
            .time
            .map_or("", |slot| self.table.columns()[self.slots.columns[slot]].name.as_str());
        let mut places: Vec<Place> = Vec::new();
        let work = |chunk: &super::chunks::Chunk<'_>| {
            let mut found = Vec::new();
            let mut buffer = String::new();
            chunk.rows(|place, values| {
                let is_same = values[0].text(&mut buffer) == id
                    && values.get(1).and_then(|time| time_key(time, self.plan.time)) == Some(key);
                if is_same {
                    found.push(place);
                }
                Ok(())
            })?;
            Ok(found)
        };
        let searched = self.table.scan(
            &wanted(&self.slots),
            &mut |_| ControlFlow::Continue(()),
            work,
            |found| {
                places.extend(found);
                Ok(if places.len() < 2 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                })
            },
        );
        match (searched, places.as_slice()) {
            (Ok(()), [first, second, ..]) => {
                let ids = match first.file == second.file {
                    true => "",
                    false => {
                        "; if ids begin anew in every file, give every episode an id of its own"
                    }
                };
                let problem = format!(
                    "episode `{id}` has the same time (`{name}`) as in {}; times of an episode differ, or there is no such column (--time \"\" takes the order of the file){ids}",
                    self.table.place(*first)
                );
                self.table.wrong(*second, &problem)
            }
            _ => {
                let problem = format!("episode `{id}` has a time (`{name}`) twice");
                DataError::InvalidFile { path: self.table.path().to_owned(), problem }
            }
        }
    }

    /// The rewards of an episode in order. One outcome is that of the last step.
    fn rewards(&self, rewards: &[f32], order: Option<&[usize]>, start: usize) -> Vec<f32> {
        match self.plan.reward_per {
            RewardPer::Step => match order {
                None => rewards.to_vec(),
                Some(order) => order.iter().map(|row| rewards[row - start]).collect(),
            },
            RewardPer::Episode => {
                let outcome = rewards.iter().copied().find(|reward| !reward.is_nan());
                let mut spread = vec![0.0; rewards.len()];
                if let (Some(last), Some(outcome)) = (spread.last_mut(), outcome) {
                    *last = outcome;
                }
                spread
            }
        }
    }

    /// How an episode ended, by what its last row says.
    fn end(&self, flags: u8) -> End {
        let (ended, cut) = (flags & ENDED != 0, flags & CUT != 0);
        match (self.slots.end, self.slots.cut) {
            (None, None) => End { terminated: true, truncated: false },
            (Some(_), None) => End { terminated: ended, truncated: !ended },
            (None, Some(_)) => End { terminated: !cut, truncated: cut },
            (Some(_), Some(_)) => {
                End { terminated: ended && !(cut && self.plan.end_covers_cut), truncated: cut }
            }
        }
    }
}
