//! HDF5 files, read with a crate that trusts nothing in them; sizes that a file only claims are checked here.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use hdf5_reader::group::Group;
use hdf5_reader::{
    ByteOrder, Dataset, Datatype, FilesystemExternalLinkResolver, Hdf5File, OpenOptions,
};

use super::numbers::{Array, Numbers};
use super::problem;
use crate::error::DataError;

/// What a file begins with.
pub(super) const MAGIC: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// The most that deflate can shrink anything by.
const MOST_SHRUNK: u64 = 1032;

/// How much larger than its file an array may be before its pieces are counted.
const USUALLY_SHRUNK: u64 = 16;

/// What even a tiny file may ask for.
const FREE_BYTES: u64 = 1 << 20;

/// An open file.
pub(super) struct Hdf5<'a> {
    pub(super) path: &'a Path,
    file: Hdf5File,
    bytes: u64,
}

impl<'a> Hdf5<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Self, DataError> {
        let bytes = std::fs::metadata(path).map_err(|error| DataError::io(path, error))?.len();
        let unreadable = |error: hdf5_reader::error::Error| {
            problem(path, format!("it cannot be read as an HDF5 file: {error}"))
        };
        let most = bytes.saturating_mul(MOST_SHRUNK).saturating_add(FREE_BYTES);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        // Old versions of Minari split data sets over files beside the main one.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let defaults = OpenOptions::default();
        let options = OpenOptions {
            max_read_bytes: most,
            max_chunk_bytes: most.min(defaults.max_chunk_bytes),
            external_link_resolver: Some(Arc::new(FilesystemExternalLinkResolver::new(folder))),
            ..defaults
        };
        let file = Hdf5File::open_with_options(path, options).map_err(unreadable)?;
        let block = file.superblock();
        let end = block.base_address.saturating_add(block.eof_address);
        if end > bytes {
            return Err(problem(path, format!("it is cut: {bytes} bytes of {end} are there")));
        }
        Ok(Hdf5 { path, file, bytes })
    }

    pub(super) fn root(&self) -> Result<Group, DataError> {
        self.file.root_group().map_err(|error| self.at("/", error))
    }

    /// Groups and arrays in a group.
    pub(super) fn members(
        &self,
        group: &Group,
        at: &str,
    ) -> Result<(Vec<Group>, Vec<Dataset>), DataError> {
        group.members().map_err(|error| self.at(at, error))
    }

    /// A problem at a place in the file.
    pub(super) fn at(&self, at: &str, error: impl std::fmt::Display) -> DataError {
        problem(self.path, format!("`{at}`: {error}"))
    }

    /// An attribute that is a text, if there is one of the name.
    pub(super) fn text_attribute(&self, group: &Group, name: &str) -> Option<String> {
        group.attribute(name).ok()?.read_string().ok()
    }

    /// An attribute that is a number, if there is one of the name.
    pub(super) fn count_attribute(&self, group: &Group, name: &str) -> Option<u64> {
        let value = group.attribute(name).ok()?.read_as_f64().ok()?;
        (value >= 0.0 && value.fract() == 0.0).then_some(value as u64)
    }

    /// How many rows an array says it has, and how many numbers a row.
    fn shape(&self, dataset: &Dataset, at: &str) -> Result<(usize, Vec<usize>), DataError> {
        let too_large = || self.at(at, "its shape is beyond anything that can be read");
        let size = |&n: &u64| usize::try_from(n).map_err(|_| too_large());
        let shape: Vec<usize> = dataset.shape().iter().map(size).collect::<Result<_, _>>()?;
        shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n.max(1))).ok_or_else(too_large)?;
        match shape.split_first() {
            Some((&rows, shape)) => Ok((rows, shape.to_vec())),
            None => Ok((1, Vec::new())),
        }
    }

    /// How many rows an array says it has, before it is read.
    pub(super) fn rows(&self, dataset: &Dataset, at: &str) -> Result<usize, DataError> {
        Ok(self.shape(dataset, at)?.0)
    }

    /// Refuses an array that is larger than what is there to fill it.
    fn check_claim(&self, dataset: &Dataset, at: &str) -> Result<(), DataError> {
        let claimed = dataset.raw_byte_len().map_err(|error| self.at(at, error))? as u64;
        let refused =
            || self.at(at, format!("it claims {claimed} bytes in a file of {} bytes", self.bytes));
        let times = |factor: u64| self.bytes.saturating_mul(factor).saturating_add(FREE_BYTES);
        if dataset.chunks().is_none() {
            return if claimed <= self.bytes { Ok(()) } else { Err(refused()) };
        }
        if claimed <= times(USUALLY_SHRUNK) {
            return Ok(());
        }
        if claimed > times(MOST_SHRUNK) {
            return Err(refused());
        }
        let mut found = 0u64;
        for chunk in dataset.iter_chunks().map_err(|error| self.at(at, error))? {
            found += chunk.map_err(|error| self.at(at, error))?.bytes().len() as u64;
        }
        if claimed <= found { Ok(()) } else { Err(refused()) }
    }

    /// Reads an array of numbers or booleans.
    pub(super) fn array(&self, dataset: &Dataset, at: &str) -> Result<Array, DataError> {
        let (rows, shape) = self.shape(dataset, at)?;
        let mut truths = false;
        let mut datatype = dataset.dtype();
        if let Datatype::Enum { base, members } = datatype {
            truths = members.len() == 2;
            datatype = base;
        }
        let decode = match datatype {
            Datatype::FixedPoint { size, signed, byte_order } => {
                decode_whole(*size, *signed && !truths, *byte_order)
            }
            Datatype::FloatingPoint { size, byte_order } => decode_real(*size, *byte_order),
            _ => None,
        };
        let Some(decode) = decode else {
            let what = match datatype {
                Datatype::String { .. } => "texts",
                Datatype::VarLen { .. } => "rows of different lengths (pictures as JPEG, or texts)",
                _ => "something else",
            };
            return Err(self.at(at, format!("it holds {what} where numbers belong")));
        };
        self.check_claim(dataset, at)?;
        let bytes = dataset.read_raw_bytes().map_err(|error| self.at(at, error))?;
        let numbers = decode(&bytes)
            .ok_or_else(|| self.at(at, "a number is too large; 64 bits with a sign are read"))?;
        let width: usize = shape.iter().product();
        let found = numbers.len();
        if Some(found) != rows.checked_mul(width) {
            return Err(self.at(at, format!("{found} numbers for {rows} rows of {width}")));
        }
        Ok(Array { at: at.to_owned(), rows, shape, numbers, truths })
    }
}

type Decode = Box<dyn Fn(&[u8]) -> Option<Numbers>>;

/// Calls for every number of so many bytes, least significant byte first.
fn each<const N: usize, T>(
    bytes: &[u8],
    order: ByteOrder,
    number: impl Fn([u8; N]) -> T,
) -> Vec<T> {
    let convert = |bytes: &[u8; N]| {
        let mut bytes = *bytes;
        if order == ByteOrder::BigEndian {
            bytes.reverse();
        }
        number(bytes)
    };
    bytes.as_chunks().0.iter().map(convert).collect()
}

fn decode_whole(size: u8, signed: bool, order: ByteOrder) -> Option<Decode> {
    let whole = Numbers::Whole;
    Some(match (size, signed) {
        (1, false) => Box::new(|bytes| Some(Numbers::Bytes(bytes.to_vec()))),
        (1, true) => {
            Box::new(move |b| Some(whole(each(b, order, |b| i64::from(i8::from_le_bytes(b))))))
        }
        (2, false) => {
            Box::new(move |b| Some(whole(each(b, order, |b| i64::from(u16::from_le_bytes(b))))))
        }
        (2, true) => {
            Box::new(move |b| Some(whole(each(b, order, |b| i64::from(i16::from_le_bytes(b))))))
        }
        (4, false) => {
            Box::new(move |b| Some(whole(each(b, order, |b| i64::from(u32::from_le_bytes(b))))))
        }
        (4, true) => {
            Box::new(move |b| Some(whole(each(b, order, |b| i64::from(i32::from_le_bytes(b))))))
        }
        (8, true) => Box::new(move |b| Some(whole(each(b, order, i64::from_le_bytes)))),
        (8, false) => Box::new(move |b| {
            let values = each(b, order, |b| i64::try_from(u64::from_le_bytes(b)).ok());
            values.into_iter().collect::<Option<_>>().map(whole)
        }),
        _ => return None,
    })
}

fn decode_real(size: u8, order: ByteOrder) -> Option<Decode> {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    Some(match size {
        2 => Box::new(move |b| {
            Some(Numbers::Single(each(b, order, |b| f32::from(Half::from_le_bytes(b)))))
        }),
        4 => Box::new(move |b| Some(Numbers::Single(each(b, order, f32::from_le_bytes)))),
        8 => Box::new(move |b| Some(Numbers::Double(each(b, order, f64::from_le_bytes)))),
        _ => return None,
    })
}
