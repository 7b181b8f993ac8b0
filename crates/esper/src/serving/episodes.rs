//! The episodes that are open: their places, and who was not heard of for longest.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::condition::Target;

/// What is known of an open episode.
pub(super) struct Open {
    /// What its first request asked for, if anything.
    pub(super) asked: Option<Target>,
    /// What was promised from its start.
    pub(super) promise: Option<f64>,
    /// Actions so far.
    pub(super) steps: u64,
    /// Whether the last action's reward is in.
    pub(super) paid: bool,
    /// Whether a request of it waits for its action.
    pub(super) waits: bool,
}

/// Open episodes by name and by place; places that are free are taken again.
pub(super) struct OpenEpisodes {
    most: usize,
    places: HashMap<String, usize>,
    open: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// Who was heard of when: the oldest first.
    heard: BTreeMap<u64, usize>,
    now: u64,
    forgotten: HashSet<String>,
    /// The same in order: names that never come back are not kept for ever.
    forgotten_order: VecDeque<String>,
}

struct Entry {
    name: String,
    heard: u64,
    open: Open,
}

impl OpenEpisodes {
    pub(super) fn new(most: usize) -> Self {
        OpenEpisodes {
            most: most.max(1),
            places: HashMap::new(),
            open: Vec::new(),
            free: Vec::new(),
            heard: BTreeMap::new(),
            now: 0,
            forgotten: HashSet::new(),
            forgotten_order: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// The place of an open episode.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub(super) fn get(&self, place: usize) -> Option<&Open> {
        self.open.get(place)?.as_ref().map(|entry| &entry.open)
    }

    /// Begins an episode in a place of its own.
    pub(super) fn begin(&mut self, name: String, open: Open) -> usize {
        let place = self.free.pop().unwrap_or(self.open.len());
        if place == self.open.len() {
            self.open.push(None);
        }
        self.now += 1;
        self.heard.insert(self.now, place);
        self.places.insert(name.clone(), place);
        self.open[place] = Some(Entry { name, heard: self.now, open });
        place
    }

    /// An open episode, which was just heard of.
    ///
    /// # Panics
    ///
    /// When no episode is open there.
    pub(super) fn touch(&mut self, place: usize) -> &mut Open {
        self.now += 1;
        let entry = self.open[place].as_mut().expect("an episode is open here");
        self.heard.remove(&entry.heard);
        self.heard.insert(self.now, place);
        entry.heard = self.now;
        &mut entry.open
    }

    /// Ends the episode in a place, if there is one.
    pub(super) fn end(&mut self, place: usize) {
        if let Some(entry) = self.open.get_mut(place).and_then(Option::take) {
            self.heard.remove(&entry.heard);
            self.places.remove(&entry.name);
            self.free.push(place);
        }
    }

    /// Ends the episode that was not heard of for longest, and gives its place.
    pub(super) fn forget_oldest(&mut self) -> Option<usize> {
        let (_, &place) = self.heard.first_key_value()?;
        let name = self.open[place].as_ref()?.name.clone();
        self.end(place);
        if self.forgotten.insert(name.clone()) {
            self.forgotten_order.push_back(name);
        }
        if self.forgotten_order.len() > self.most
            && let Some(oldest) = self.forgotten_order.pop_front()
        {
            self.forgotten.remove(&oldest);
        }
        Some(place)
    }

    /// Whether an episode of this name was forgotten; says so once.
    pub(super) fn was_forgotten(&mut self, name: &str) -> bool {
        let was = self.forgotten.remove(name);
        if was {
            self.forgotten_order.retain(|other| other != name);
        }
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Open {
        Open { asked: None, promise: None, steps: 0, paid: true, waits: false }
    }

    #[test]
    fn the_least_recently_used_is_forgotten() {
        let mut episodes = OpenEpisodes::new(2);
        let [a, b] = ["a", "b"].map(|name| episodes.begin(name.to_owned(), open()));
        assert!(episodes.is_full());
        episodes.touch(a);
        assert_eq!(episodes.forget_oldest(), Some(b));
        assert_eq!((episodes.place("a"), episodes.place("b")), (Some(a), None));
        assert!(episodes.was_forgotten("b") && !episodes.was_forgotten("b"));
        assert_eq!(episodes.begin("c".to_owned(), open()), b, "places are taken again");
        episodes.end(a);
        episodes.end(b);
        assert_eq!((episodes.len(), episodes.heard.len(), episodes.forget_oldest()), (0, 0, None));
    }

    #[test]
    fn what_is_forgotten_is_not_remembered_for_ever() {
        let mut episodes = OpenEpisodes::new(3);
        for name in 0..100 {
            if episodes.is_full() {
                episodes.forget_oldest();
            }
            episodes.begin(name.to_string(), open());
        }
        assert_eq!((episodes.open.len(), episodes.forgotten.len()), (3, 3));
        assert!(episodes.was_forgotten("96") && !episodes.was_forgotten("93"));
    }
}
