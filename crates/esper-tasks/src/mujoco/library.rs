//! MuJoCo's library, opened while the program runs: ten C functions, and what makes them safe.
//!
//! No layout of MuJoCo's structures is known here: a model and its data are pointers, and everything goes in and out through
//! `mj_getState` and `mj_setState`. Their bits and the ten functions are the same from MuJoCo 3.0 to 4.0, the bit of the
//! controls aside.

// The one module outside esper-nn with `unsafe`: every call of C is here.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::MujocoError;
use super::find;

/// What state consists of, as bits of `mjtState`.
mod part {
    use std::ffi::c_int;

    /// Seconds since the start.
    pub(super) const TIME: c_int = 1 << 0;
    /// Positions of the joints, `qpos`.
    pub(super) const POSITION: c_int = 1 << 1;
    /// Velocities of the joints, `qvel`.
    pub(super) const VELOCITY: c_int = 1 << 2;
    /// Time, positions and velocities, in this order.
    pub(super) const MOTION: c_int = TIME | POSITION | VELOCITY;
}

/// The library that is open. One is enough for a process, and it stays open: models point into it.
static OPEN: Mutex<Option<Arc<Library>>> = Mutex::new(None);

/// A version of MuJoCo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 4 in 4.0.1.
    pub major: i32,
    /// 0 in 4.0.1.
    pub minor: i32,
    /// 1 in 4.0.1.
    pub patch: i32,
}

impl Version {
    /// From `mj_version`: 337 is 3.3.7; from 3.5 on, 3005000 is 3.5.0.
    fn of(number: c_int) -> Self {
        let base = if number < 1_000 { 10 } else { 1_000 };
        Version { major: number / (base * base), minor: number / base % base, patch: number % base }
    }

    /// The bit of the controls in `mjtState`. 3.5 put another before it.
    fn control_bit(self) -> c_int {
        if self >= (Version { major: 3, minor: 5, patch: 0 }) { 1 << 6 } else { 1 << 5 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// How many numbers a model's state has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Positions, `nq`.
    pub(super) positions: usize,
    /// Velocities, `nv`.
    pub(super) velocities: usize,
    /// Controls, `nu`.
    pub(super) controls: usize,
}

/// The functions, with the types that `mujoco.h` gives them. Bits are `unsigned int` before 3.5, which is passed alike.
struct Library {
    path: PathBuf,
    version: Version,
    load_xml: unsafe extern "C" fn(*const c_char, *const c_void, *mut c_char, c_int) -> *mut c_void,
    delete_model: unsafe extern "C" fn(*mut c_void),
    make_data: unsafe extern "C" fn(*const c_void) -> *mut c_void,
    delete_data: unsafe extern "C" fn(*mut c_void),
    reset_data: unsafe extern "C" fn(*const c_void, *mut c_void),
    step: unsafe extern "C" fn(*const c_void, *mut c_void),
    state_size: unsafe extern "C" fn(*const c_void, c_int) -> c_int,
    get_state: unsafe extern "C" fn(*const c_void, *const c_void, *mut f64, c_int),
    set_state: unsafe extern "C" fn(*const c_void, *mut c_void, *const f64, c_int),
    /// What the functions are in. Last: it is closed when nothing can call them any more.
    _library: libloading::Library,
}

impl Library {
    /// Opens a file.
    fn open(path: PathBuf) -> Result<Self, MujocoError> {
        let failed = |source| MujocoError::Open { path: path.clone(), source };
        // SAFETY: opening runs what the library does when it is loaded. MuJoCo's registers its own decoders and plugins, which
        // asks nothing of whoever loads it. That the file is MuJoCo's is up to whoever named or installed it, as with any
        // library that a program is linked to.
        let library = unsafe { libloading::Library::new(&path) }.map_err(failed)?;
        /// The function of a name, as the field it is assigned to has it.
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: `mujoco.h` declares the function with these types, in every version from 3.0 to 4.0. The pointer is
                // kept beside the library, which outlives it.
                *unsafe { library.get($name) }.map_err(failed)?
            };
        }
        let version: unsafe extern "C" fn() -> c_int = function!("mj_version");
        // SAFETY: it takes nothing and returns a number.
        let version = Version::of(unsafe { version() });
        if version < (Version { major: 3, minor: 0, patch: 0 }) {
            return Err(MujocoError::TooOld { path, version });
        }
        Ok(Library {
            load_xml: function!("mj_loadXML"),
            delete_model: function!("mj_deleteModel"),
            make_data: function!("mj_makeData"),
            delete_data: function!("mj_deleteData"),
            reset_data: function!("mj_resetData"),
            step: function!("mj_step"),
            state_size: function!("mj_stateSize"),
            get_state: function!("mj_getState"),
            set_state: function!("mj_setState"),
            version,
            path,
            _library: library,
        })
    }
}

/// Opens MuJoCo's library from a file, or from the folder it is in, for all worlds that are made from now on. Without this,
/// the first of them looks for it: where `$MUJOCO_PATH` says, or in the package `mujoco` of the Python on the path.
pub fn use_library(path: impl AsRef<Path>) -> Result<(), MujocoError> {
    let path = find::named_by(path.as_ref())?;
    // The same file by another name is the same library.
    let same = |other: &Path| match (path.canonicalize(), other.canonicalize()) {
        (Ok(path), Ok(other)) => path == other,
        _ => path == other,
    };
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    match open.as_ref() {
        Some(library) if same(&library.path) => {}
        Some(library) => return Err(MujocoError::AlreadyOpen(library.path.clone())),
        None => *open = Some(Arc::new(Library::open(path)?)),
    }
    Ok(())
}

/// The version of MuJoCo's library, which is looked for and opened if it is not open yet.
pub fn version() -> Result<Version, MujocoError> {
    Ok(library()?.version)
}

/// The library. One that is not found is looked for again the next time: somebody may have installed it.
fn library() -> Result<Arc<Library>, MujocoError> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = open.as_ref() {
        return Ok(library.clone());
    }
    let library = Arc::new(Library::open(find::find()?)?);
    *open = Some(library.clone());
    Ok(library)
}

/// A compiled model: what is simulated. It never changes, and any number of simulations share it.
pub(super) struct Model {
    library: Arc<Library>,
    /// From `mj_loadXML`, not deleted before this is dropped.
    pointer: NonNull<c_void>,
    sizes: Sizes,
    control_bit: c_int,
}

// SAFETY: a model belongs to no thread. After it is made it is only read: every function it is given to but `mj_deleteModel`
// takes it as `const mjModel*`, and MuJoCo documents that threads may share it as long as each has data of its own.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

impl Model {
    /// Compiles a model that is written in XML, whose state has to have these sizes. One at a time: MuJoCo keeps the last XML
    /// it has read in a global variable.
    pub(super) fn compile(name: &str, xml: &str, sizes: Sizes) -> Result<Self, MujocoError> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let library = library()?;
        let version = library.version;
        let refused =
            |problem: String| MujocoError::Model { model: name.to_owned(), version, problem };
        // Reading from memory takes a layout that has changed (`mjVFS`), or functions that 3.0 does not have.
        let file = temporary_file(xml).map_err(|error| refused(error.to_string()))?;
        let path = file.path().to_str().and_then(|path| CString::new(path).ok());
        let path = path
            .ok_or_else(|| refused("the folder of temporary files has an odd name".to_owned()))?;
        let mut problem: [c_char; 1_000] = [0; 1_000];
        let pointer = {
            let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the path ends with a zero; no virtual file system is allowed, and null is none; `problem` is as long as it
            // is said to be, and starts as an empty string. Nobody else reads XML meanwhile.
            unsafe {
                (library.load_xml)(
                    path.as_ptr(),
                    ptr::null(),
                    problem.as_mut_ptr(),
                    problem.len() as c_int,
                )
            }
        };
        let Some(pointer) = NonNull::new(pointer) else {
            // MuJoCo ends what it writes with a zero; should it not, the last byte does.
            problem[problem.len() - 1] = 0;
            // SAFETY: there is a zero within the array.
            let problem = unsafe { CStr::from_ptr(problem.as_ptr()) };
            return Err(refused(problem.to_string_lossy().trim().to_owned()));
        };
        let model = Model { control_bit: version.control_bit(), library, pointer, sizes };
        model.check_sizes().map_err(refused)?;
        Ok(model)
    }

    /// Whether the bits mean what they are thought to mean. In every model here the number of controls is another than that of
    /// positions and velocities, which are what a wrong bit would give.
    fn check_sizes(&self) -> Result<(), String> {
        let Sizes { positions, velocities, controls } = self.sizes;
        let expected = [
            ("time", part::TIME, 1),
            ("positions", part::POSITION, positions),
            ("velocities", part::VELOCITY, velocities),
            ("time, positions and velocities", part::MOTION, 1 + positions + velocities),
            ("controls", self.control_bit, controls),
        ];
        for (name, bits, size) in expected {
            // SAFETY: the model is one; any set of bits below `mjNSTATE` has a size.
            let found = unsafe { (self.library.state_size)(self.pointer.as_ptr(), bits) };
            if usize::try_from(found) != Ok(size) {
                return Err(format!("{found} {name} where {size} are expected"));
            }
        }
        Ok(())
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: it came from `mj_loadXML`; whatever was made from it has kept it alive until here.
        unsafe { (self.library.delete_model)(self.pointer.as_ptr()) }
    }
}

/// A file with this text, which is gone when it is dropped.
fn temporary_file(xml: &str) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("esper-").suffix(".xml").tempfile()?;
    file.write_all(xml.as_bytes())?;
    file.flush()?;
    Ok(file)
}

/// A model in motion: its own `mjData`.
pub(super) struct Simulation {
    model: Arc<Model>,
    /// From `mj_makeData` of this model, not deleted before this is dropped, and known to nobody else.
    data: NonNull<c_void>,
    /// Time, positions and velocities, as `data` has them.
    motion: Vec<f64>,
}

// SAFETY: data belongs to no thread, only to one at a time; it is reached through `&mut self` alone, and the model it is
// used with may be shared.
unsafe impl Send for Simulation {}

impl Simulation {
    /// The model at its start.
    pub(super) fn new(model: Arc<Model>) -> Result<Self, MujocoError> {
        // SAFETY: the model is one.
        let data = unsafe { (model.library.make_data)(model.pointer.as_ptr()) };
        let data = NonNull::new(data).ok_or(MujocoError::Memory)?;
        let motion = vec![0.0; 1 + model.sizes.positions + model.sizes.velocities];
        let mut simulation = Simulation { model, data, motion };
        simulation.read();
        Ok(simulation)
    }

    /// Puts everything back to the model's start.
    pub(super) fn reset(&mut self) {
        // SAFETY: the data was made from the model.
        unsafe { (self.model.library.reset_data)(self.model.pointer.as_ptr(), self.data.as_ptr()) }
        self.read();
    }

    /// The positions and the velocities of the joints.
    pub(super) fn motion(&self) -> (&[f64], &[f64]) {
        self.motion[1..].split_at(self.model.sizes.positions)
    }

    /// Changes the positions and the velocities of the joints. They have to be finite.
    pub(super) fn set_motion(&mut self, change: impl FnOnce(&mut [f64], &mut [f64])) {
        let (positions, velocities) = self.motion[1..].split_at_mut(self.model.sizes.positions);
        change(positions, velocities);
        // SAFETY: the data was made from the model, and `motion` is as long as `check_sizes` found these parts to be.
        unsafe {
            (self.model.library.set_state)(
                self.model.pointer.as_ptr(),
                self.data.as_ptr(),
                self.motion.as_ptr(),
                part::MOTION,
            );
        }
    }

    /// Goes on by so many time steps under these controls.
    ///
    /// # Panics
    ///
    /// When there are more or fewer controls than the model has.
    pub(super) fn step(&mut self, controls: &[f64], steps: u32) -> Result<(), MujocoError> {
        assert_eq!(controls.len(), self.model.sizes.controls, "controls of another model");
        let (model, data) = (self.model.pointer.as_ptr(), self.data.as_ptr());
        let library = &self.model.library;
        // SAFETY: the data was made from the model, and `check_sizes` found it to have as many controls as there are here.
        unsafe { (library.set_state)(model, data, controls.as_ptr(), self.model.control_bit) }
        for _ in 0..steps {
            // SAFETY: the data was made from the model.
            unsafe { (library.step)(model, data) }
        }
        let before = self.motion[0];
        self.read();
        // MuJoCo starts again, at time 0, when numbers get out of hand; in a first step, where this could not be seen, they
        // have had no time to.
        if self.motion[0] > before { Ok(()) } else { Err(MujocoError::Unstable) }
    }

    /// Reads what `data` has into `motion`.
    fn read(&mut self) {
        // SAFETY: the data was made from the model, and `motion` is as long as `check_sizes` found these parts to be.
        unsafe {
            (self.model.library.get_state)(
                self.model.pointer.as_ptr(),
                self.data.as_ptr(),
                self.motion.as_mut_ptr(),
                part::MOTION,
            );
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // SAFETY: it came from `mj_makeData`, and nobody else has it.
        unsafe { (self.model.library.delete_data)(self.data.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the headers of these versions have them (`mjVERSION_HEADER`, `mjSTATE_CTRL`).
    #[test]
    fn the_bit_of_the_controls_follows_from_the_version() {
        let known = [
            (301, "3.0.1", 5),
            (337, "3.3.7", 5),
            (340, "3.4.0", 5),
            (3_005_000, "3.5.0", 6),
            (3_010_000, "3.10.0", 6),
            (3_017_000, "3.17.0", 6),
            (4_000_000, "4.0.0", 6),
        ];
        for (number, name, bit) in known {
            let version = Version::of(number);
            assert_eq!((version.to_string().as_str(), version.control_bit()), (name, 1 << bit));
        }
    }

    #[test]
    fn a_file_that_is_no_library_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let problem = Library::open(file.path().to_owned()).err().unwrap();
        assert!(problem.to_string().contains("cannot be opened as MuJoCo's library"), "{problem}");
    }
}
