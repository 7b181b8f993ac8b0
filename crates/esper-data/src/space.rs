//! Spaces: what an observation or an action looks like, as data.
//!
//! The names are Gymnasium's. A value of a space is a row of *cells*: small integers for the three categorical
//! spaces, floats for [`Space::Box`] and for mixtures of both, [`Space::Tuple`]. A network sees *features*: categories are
//! one-hot encoded, everything else is passed on as it is.
//!
//! ```
//! use esper_data::Space;
//!
//! let board = Space::MultiDiscrete { nvec: vec![8; 16] };
//! assert_eq!(board.cells(), 16);
//! assert_eq!(board.features(), 128);
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::cells::{CellType, CellsRef};

/// The most categories one cell can have: what two bytes hold.
pub const MAX_CATEGORIES: u32 = 1 << 16;

/// The most cells one value can have. Far above any task here; keeps sizes read from a file from overflowing.
pub const MAX_CELLS: usize = 1 << 24;

/// A set of possible observations or actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub enum Space {
    /// One of `n` categories, kept in one cell.
    Discrete {
        /// How many categories there are.
        n: u32,
    },
    /// Several cells, each with categories of its own.
    MultiDiscrete {
        /// How many categories each cell has.
        nvec: Vec<u32>,
    },
    /// Cells that are 0 or 1.
    MultiBinary {
        /// The shape the cells are laid out in, slowest axis first.
        shape: Vec<usize>,
    },
    /// Cells that are real numbers.
    Box {
        /// The shape the cells are laid out in, slowest axis first.
        shape: Vec<usize>,
        /// `[low, high]` of every cell; absent when the space is unbounded. What is infinite is `null` in JSON.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "bounds_as_json")]
        bounds: Option<Vec<[f32; 2]>>,
    },
    /// Several spaces side by side, none of them a tuple: numbers beside categories. All cells are stored as real numbers.
    /// For observations only.
    Tuple {
        /// The spaces, in the order of their cells.
        spaces: Vec<Space>,
    },
}

impl Space {
    /// How many cells one value has.
    pub fn cells(&self) -> usize {
        match self {
            Space::Discrete { .. } => 1,
            Space::MultiDiscrete { nvec } => nvec.len(),
            Space::MultiBinary { shape } | Space::Box { shape, .. } => shape.iter().product(),
            Space::Tuple { spaces } => spaces.iter().map(Space::cells).sum(),
        }
    }

    /// How many numbers a network sees for one value.
    pub fn features(&self) -> usize {
        match self {
            Space::Discrete { n } => *n as usize,
            Space::MultiDiscrete { nvec } => nvec.iter().map(|&n| n as usize).sum(),
            Space::MultiBinary { .. } | Space::Box { .. } => self.cells(),
            Space::Tuple { spaces } => spaces.iter().map(Space::features).sum(),
        }
    }

    /// How many of the features are plain real numbers; the others are 0 or 1, one-hot or binary.
    pub fn numbers(&self) -> usize {
        match self {
            Space::Box { .. } => self.cells(),
            Space::Tuple { spaces } => spaces.iter().map(Space::numbers).sum(),
            _ => 0,
        }
    }

    /// The spaces side by side that make up this one: itself, unless it is a tuple.
    pub fn parts(&self) -> &[Space] {
        match self {
            Space::Tuple { spaces } => spaces,
            space => std::slice::from_ref(space),
        }
    }

    /// For every cell how many categories it has; `None` for real numbers.
    pub fn categories(&self) -> Vec<Option<u32>> {
        match self {
            Space::Discrete { n } => vec![Some(*n)],
            Space::MultiDiscrete { nvec } => nvec.iter().copied().map(Some).collect(),
            Space::MultiBinary { .. } => vec![Some(2); self.cells()],
            Space::Box { .. } => vec![None; self.cells()],
            Space::Tuple { spaces } => spaces.iter().flat_map(Space::categories).collect(),
        }
    }

    /// The cells that are plain real numbers.
    pub fn real_cells(&self) -> Vec<usize> {
        let categories = self.categories().into_iter().enumerate();
        categories.filter(|(_, categories)| categories.is_none()).map(|(cell, _)| cell).collect()
    }

    /// The number a cell is stored as: the smallest that holds every value.
    pub fn cell_type(&self) -> CellType {
        let most = match self {
            Space::Discrete { n } => *n,
            Space::MultiDiscrete { nvec } => nvec.iter().copied().max().unwrap_or(0),
            Space::MultiBinary { .. } => 2,
            Space::Box { .. } | Space::Tuple { .. } => return CellType::Float,
        };
        if most <= 1 << 8 { CellType::Byte } else { CellType::Short }
    }

    /// Checks that the space itself makes sense; a space read from a file may not.
    pub fn validate(&self) -> Result<(), String> {
        let categories = |n: u32| match n {
            0 => Err(format!("{self}: a cell has no categories")),
            n if n > MAX_CATEGORIES => Err(format!(
                "{self}: {n} categories in one cell; at most {MAX_CATEGORIES} are supported"
            )),
            _ => Ok(()),
        };
        match self {
            Space::Discrete { n } => categories(*n)?,
            Space::MultiDiscrete { nvec } => nvec.iter().try_for_each(|&n| categories(n))?,
            Space::MultiBinary { .. } => {}
            Space::Tuple { spaces } => {
                if spaces.iter().any(|space| matches!(space, Space::Tuple { .. })) {
                    return Err(format!("{self}: a tuple within a tuple"));
                }
                spaces.iter().try_for_each(Space::validate)?;
            }
            Space::Box { shape, bounds } => {
                let cells = checked_cells(shape);
                if let Some(bounds) = bounds {
                    if Some(bounds.len()) != cells {
                        return Err(format!("{self}: {} bounds for its cells", bounds.len()));
                    }
                    if let Some([low, high]) = bounds
                        .iter()
                        .find(|[low, high]| low > high || low.is_nan() || high.is_nan())
                    {
                        return Err(format!("{self}: low {low} is not at or below high {high}"));
                    }
                }
            }
        }
        let cells = match self {
            Space::Discrete { .. } => Some(1),
            Space::MultiDiscrete { nvec } => Some(nvec.len()),
            Space::MultiBinary { shape } | Space::Box { shape, .. } => checked_cells(shape),
            // Each is small, as was just checked.
            Space::Tuple { spaces } => {
                spaces.iter().try_fold(0usize, |sum, space| sum.checked_add(space.cells()))
            }
        };
        match cells {
            Some(1..=MAX_CELLS) => Ok(()),
            Some(0) => Err(format!("{self}: has no cells")),
            _ => Err(format!("{self}: more than {MAX_CELLS} cells")),
        }
    }

    /// Checks that every row of `cells` is a value of this space. The error names the first row that is not.
    ///
    /// Real numbers only have to be finite: loggers clip and round, so that values a little outside the bounds are
    /// normal; [`crate::suspicions`] mentions them.
    pub fn check(&self, cells: CellsRef<'_>) -> Result<(), CellError> {
        let width = self.cells();
        match (self, cells) {
            (Space::Discrete { n }, _) => below(cells, width, |_| *n),
            (Space::MultiDiscrete { nvec }, _) => match nvec.as_slice() {
                [first, rest @ ..] if rest.iter().all(|n| n == first) => {
                    below(cells, width, |_| *first)
                }
                nvec => below(cells, width, |cell| nvec[cell]),
            },
            (Space::MultiBinary { .. }, _) => below(cells, width, |_| 2),
            (Space::Box { .. }, CellsRef::Float(values)) => {
                match values.iter().position(|value| !value.is_finite()) {
                    None => Ok(()),
                    Some(at) => Err(CellError {
                        row: at / width,
                        cell: at % width,
                        problem: format!("{} is not a finite number", values[at]),
                    }),
                }
            }
            (Space::Tuple { .. }, CellsRef::Float(values)) => {
                let limits = self.categories();
                let problem = |value: f32, limit: Option<u32>| match limit {
                    _ if !value.is_finite() => Some(format!("{value} is not a finite number")),
                    Some(_) if value < 0.0 || value.fract() != 0.0 => {
                        Some(format!("{value} is no category"))
                    }
                    Some(n) if value >= n as f32 => Some(format!("{value} is not below {n}")),
                    _ => None,
                };
                let found = values.chunks_exact(width).enumerate().find_map(|(row, values)| {
                    let mut cells = values.iter().zip(&limits).enumerate();
                    cells.find_map(|(cell, (value, limit))| {
                        let problem = problem(*value, *limit)?;
                        Some(CellError { row, cell, problem })
                    })
                });
                found.map_or(Ok(()), Err)
            }
            (Space::Box { .. } | Space::Tuple { .. }, _) => Err(CellError {
                row: 0,
                cell: 0,
                problem: "holds integers where the space has real numbers".to_owned(),
            }),
        }
    }

    /// Writes the features of one row of cells: one-hot for categories, the numbers themselves otherwise.
    ///
    /// `row` indexes values, not cells; `features` has [`Space::features`] entries, which are all overwritten.
    pub fn encode(&self, cells: CellsRef<'_>, row: usize, features: &mut [f32]) {
        self.encode_at(cells, row * self.cells(), features);
    }

    /// The same of the cells from one on.
    fn encode_at(&self, cells: CellsRef<'_>, first: usize, features: &mut [f32]) {
        let range = first..first + self.cells();
        match self {
            Space::Discrete { .. } => {
                features.fill(0.0);
                features[cells.category(first)] = 1.0;
            }
            Space::MultiDiscrete { nvec } => {
                features.fill(0.0);
                let mut offset = 0;
                for (&n, at) in nvec.iter().zip(range) {
                    features[offset + cells.category(at)] = 1.0;
                    offset += n as usize;
                }
            }
            Space::MultiBinary { .. } | Space::Box { .. } => match cells {
                CellsRef::Byte(values) => widen(&values[range], features, f32::from),
                CellsRef::Short(values) => widen(&values[range], features, f32::from),
                CellsRef::Float(values) => features.copy_from_slice(&values[range]),
            },
            Space::Tuple { spaces } => {
                let (mut cell, mut rest) = (first, features);
                for space in spaces {
                    let (own, others) = rest.split_at_mut(space.features());
                    space.encode_at(cells, cell, own);
                    (cell, rest) = (cell + space.cells(), others);
                }
            }
        }
    }

    /// Appends the indices of the features that are 1 in one row, counted among those that are not plain numbers: the sparse
    /// form of [`Space::encode`], which a first layer can sum as a few weight rows. Nothing for [`Space::Box`].
    pub fn active(&self, cells: CellsRef<'_>, row: usize, indices: &mut Vec<u32>) {
        let (mut first, mut offset) = (row * self.cells(), 0);
        for space in self.parts() {
            let range = first..first + space.cells();
            first = range.end;
            match space {
                Space::Discrete { .. } => {
                    indices.push(offset + cells.category(range.start) as u32);
                }
                Space::MultiDiscrete { nvec } => {
                    let mut offset = offset;
                    for (&n, at) in nvec.iter().zip(range) {
                        indices.push(offset + cells.category(at) as u32);
                        offset += n;
                    }
                }
                Space::MultiBinary { .. } => {
                    let ones = range.enumerate().filter(|&(_, at)| cells.category(at) == 1);
                    indices.extend(ones.map(|(cell, _)| offset + cell as u32));
                }
                Space::Box { .. } | Space::Tuple { .. } => {}
            }
            offset += (space.features() - space.numbers()) as u32;
        }
    }
}

/// Short and unambiguous, as Gymnasium prints them: `Discrete(7)`, `MultiBinary(2 x 7 x 6)`.
impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join =
            |shape: &[usize]| shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
        match self {
            Space::Discrete { n } => write!(f, "Discrete({n})"),
            Space::MultiDiscrete { nvec } => match nvec.as_slice() {
                [first, rest @ ..] if rest.iter().all(|n| n == first) => {
                    write!(f, "MultiDiscrete({} cells of {first})", nvec.len())
                }
                nvec => write!(f, "MultiDiscrete({nvec:?})"),
            },
            Space::MultiBinary { shape } => write!(f, "MultiBinary({})", join(shape)),
            Space::Box { shape, .. } => write!(f, "Box({})", join(shape)),
            Space::Tuple { spaces } => {
                let spaces: Vec<String> = spaces.iter().map(Space::to_string).collect();
                write!(f, "Tuple({})", spaces.join(", "))
            }
        }
    }
}

/// A cell that is not a value of its space.
#[derive(Clone, Debug, PartialEq)]
pub struct CellError {
    /// The row (value) it is in.
    pub row: usize,
    /// The cell within the row.
    pub cell: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}, cell {}: {}", self.row, self.cell, self.problem)
    }
}

impl std::error::Error for CellError {}

/// Checks that every cell is a category below the limit of its place in the row.
fn below(cells: CellsRef<'_>, width: usize, limit: impl Fn(usize) -> u32) -> Result<(), CellError> {
    fn first_bad<T: Copy + Into<u32>>(
        values: &[T],
        width: usize,
        limit: impl Fn(usize) -> u32,
    ) -> Option<(usize, usize, u32)> {
        values.chunks_exact(width).enumerate().find_map(|(row, values)| {
            // Nearly always there is none, and to see that takes less without a way out in the middle.
            let is_bad = |cell: usize| values[cell].into() >= limit(cell);
            if !(0..width).fold(false, |any, cell| any | is_bad(cell)) {
                return None;
            }
            let cell = (0..width).find(|&cell| is_bad(cell))?;
            Some((row, cell, values[cell].into()))
        })
    }
    let bad = match cells {
        CellsRef::Byte(values) => first_bad(values, width, &limit),
        CellsRef::Short(values) => first_bad(values, width, &limit),
        CellsRef::Float(_) => {
            return Err(CellError {
                row: 0,
                cell: 0,
                problem: "holds real numbers where the space has categories".to_owned(),
            });
        }
    };
    match bad {
        None => Ok(()),
        Some((row, cell, value)) => {
            Err(CellError { row, cell, problem: format!("{value} is not below {}", limit(cell)) })
        }
    }
}

/// JSON has no infinity: `null` stands for it.
mod bounds_as_json {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Bounds = Option<Vec<[f32; 2]>>;

    pub(super) fn serialize<S: Serializer>(
        bounds: &Bounds,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let finite = |value: f32| value.is_finite().then_some(value);
        let pair = |pair: &[f32; 2]| pair.map(finite);
        let pairs = bounds.as_ref().map(|bounds| bounds.iter().map(pair).collect::<Vec<_>>());
        pairs.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Bounds, D::Error> {
        let pairs = Option::<Vec<[Option<f32>; 2]>>::deserialize(deserializer)?;
        let pair = |[low, high]: [Option<f32>; 2]| {
            [low.unwrap_or(f32::NEG_INFINITY), high.unwrap_or(f32::INFINITY)]
        };
        Ok(pairs.map(|pairs| pairs.into_iter().map(pair).collect()))
    }
}

fn widen<T: Copy>(values: &[T], features: &mut [f32], convert: impl Fn(T) -> f32) {
    for (feature, &value) in features.iter_mut().zip(values) {
        *feature = convert(value);
    }
}

/// The product of a shape, or `None` when it overflows.
fn checked_cells(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cells;

    #[test]
    fn categories_become_one_hot_features() {
        let space = Space::MultiDiscrete { nvec: vec![2, 3] };
        let cells = Cells::Byte(vec![0, 0, 1, 2]);
        let mut features = [9.0; 5];
        space.encode(cells.view(), 1, &mut features);
        assert_eq!(features, [0.0, 1.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn numbers_pass_through() {
        let space = Space::Box { shape: vec![2], bounds: None };
        let mut features = [0.0; 2];
        let cells = Cells::Float(vec![1.5, -2.0, 3.0, 4.0]);
        space.encode(cells.view(), 1, &mut features);
        assert_eq!(features, [3.0, 4.0]);
        let mut indices = vec![];
        space.active(cells.view(), 0, &mut indices);
        assert!(indices.is_empty());
    }

    #[test]
    fn active_indices_are_where_the_features_are_one() {
        let spaces = [
            (Space::Discrete { n: 4 }, Cells::Byte(vec![3, 1])),
            (Space::Discrete { n: 500 }, Cells::Short(vec![3, 499])),
            (Space::MultiDiscrete { nvec: vec![3, 2, 4] }, Cells::Byte(vec![0, 0, 0, 2, 1, 3])),
            (Space::MultiBinary { shape: vec![2, 2] }, Cells::Byte(vec![0, 0, 0, 0, 1, 0, 1, 1])),
        ];
        for (space, cells) in spaces {
            for row in 0..2 {
                let mut features = vec![0.0; space.features()];
                space.encode(cells.view(), row, &mut features);
                let mut indices = vec![];
                space.active(cells.view(), row, &mut indices);
                let expected: Vec<u32> =
                    (0..features.len() as u32).filter(|&i| features[i as usize] == 1.0).collect();
                assert_eq!(indices, expected, "{space} row {row}");
            }
        }
    }

    /// A number, one of three, two numbers, a pair of one of two and one of four.
    fn mixed() -> Space {
        let real = |cells: usize| Space::Box { shape: vec![cells], bounds: None };
        let pair = Space::MultiDiscrete { nvec: vec![2, 4] };
        Space::Tuple { spaces: vec![real(1), Space::Discrete { n: 3 }, real(2), pair] }
    }

    #[test]
    fn numbers_and_categories_stand_side_by_side() {
        let space = mixed();
        space.validate().unwrap();
        assert_eq!((space.cells(), space.features(), space.numbers()), (6, 12, 3));
        let limits = [None, Some(3), None, None, Some(2), Some(4)];
        assert_eq!(space.categories(), limits);
        let cells =
            Cells::Float(vec![9.0; 6].into_iter().chain([0.5, 2.0, -1.0, 7.0, 1.0, 3.0]).collect());
        let mut features = [9.0; 12];
        space.encode(cells.view(), 1, &mut features);
        assert_eq!(features, [0.5, 0.0, 0.0, 1.0, -1.0, 7.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        // Among the nine features that are no numbers.
        let mut indices = vec![];
        space.active(cells.view(), 1, &mut indices);
        assert_eq!(indices, [2, 4, 8]);
    }

    #[test]
    fn categories_in_a_tuple_are_checked() {
        let check = |cells: [f32; 6]| mixed().check(Cells::Float(cells.to_vec()).view());
        assert_eq!(check([0.5, 2.0, -1.0, 7.0, 1.0, 3.0]), Ok(()));
        for (at, value, words) in [
            (1, 3.0, "cell 1: 3 is not below 3"),
            (4, 0.5, "cell 4: 0.5 is no category"),
            (5, -1.0, "cell 5: -1 is no category"),
            (2, f32::NAN, "cell 2: NaN is not a finite number"),
        ] {
            let mut cells = [0.0; 6];
            cells[at] = value;
            assert_eq!(check(cells).unwrap_err().to_string(), format!("row 0, {words}"));
        }
    }

    #[test]
    fn cells_take_the_smallest_type_that_holds_them() {
        assert_eq!(Space::Discrete { n: 256 }.cell_type(), CellType::Byte);
        assert_eq!(Space::Discrete { n: 257 }.cell_type(), CellType::Short);
        assert_eq!(Space::MultiDiscrete { nvec: vec![2, 300] }.cell_type(), CellType::Short);
    }

    #[test]
    fn values_outside_the_space_are_named() {
        let space = Space::MultiDiscrete { nvec: vec![2, 3] };
        assert_eq!(space.check(Cells::Byte(vec![1, 2, 0, 0]).view()), Ok(()));
        let error = space.check(Cells::Byte(vec![1, 2, 0, 3]).view()).unwrap_err();
        assert_eq!(error.to_string(), "row 1, cell 1: 3 is not below 3");

        let space = Space::Box { shape: vec![2], bounds: None };
        let error = space.check(Cells::Float(vec![1.0, 2.0, f32::NAN, 0.0]).view()).unwrap_err();
        assert_eq!(error.to_string(), "row 1, cell 0: NaN is not a finite number");
    }

    #[test]
    fn senseless_spaces_are_refused() {
        for space in [
            Space::Discrete { n: 0 },
            Space::Discrete { n: MAX_CATEGORIES + 1 },
            Space::MultiDiscrete { nvec: vec![] },
            Space::MultiBinary { shape: vec![3, 0] },
            Space::MultiBinary { shape: vec![usize::MAX, 2] },
            Space::Box { shape: vec![2], bounds: Some(vec![[0.0, 1.0]]) },
            Space::Box { shape: vec![1], bounds: Some(vec![[1.0, 0.0]]) },
            Space::Tuple { spaces: vec![] },
            Space::Tuple { spaces: vec![Space::Discrete { n: 0 }] },
            Space::Tuple { spaces: vec![mixed()] },
        ] {
            assert!(space.validate().is_err(), "{space:?}");
        }
    }

    #[test]
    fn infinite_bounds_survive_json() {
        let bounds = vec![[f32::NEG_INFINITY, 1.5], [-2.0, f32::INFINITY]];
        let space = Space::Box { shape: vec![2], bounds: Some(bounds) };
        let json = serde_json::to_string(&space).unwrap();
        assert_eq!(json, r#"{"type":"Box","shape":[2],"bounds":[[null,1.5],[-2.0,null]]}"#);
        assert_eq!(serde_json::from_str::<Space>(&json).unwrap(), space);
    }

    #[test]
    fn the_json_form_is_stable() {
        let json = r#"{"type":"MultiBinary","shape":[2,7,6]}"#;
        let space: Space = serde_json::from_str(json).unwrap();
        assert_eq!(space, Space::MultiBinary { shape: vec![2, 7, 6] });
        assert_eq!(serde_json::to_string(&space).unwrap(), json);
    }
}
