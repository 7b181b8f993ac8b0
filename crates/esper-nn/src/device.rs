//! Where models are kept and run: on the CPU, or on a GPU.

use std::fmt;
use std::str::FromStr;

pub use burn::tensor::Device;

/// A device by its name, as a user chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceName {
    /// The processor, with the fused kernels of this crate.
    #[default]
    Cpu,
    /// The graphics card, by Vulkan, Metal or DirectX 12 (cargo feature `gpu`).
    Gpu,
}

impl DeviceName {
    /// All there are.
    pub const ALL: [DeviceName; 2] = [DeviceName::Cpu, DeviceName::Gpu];

    /// The name of a device.
    pub fn of(device: &Device) -> Self {
        if *device == default_device() { DeviceName::Cpu } else { DeviceName::Gpu }
    }

    /// The device itself, without gradients; [`Device::autodiff`] adds them. The same each time.
    ///
    /// ```
    /// use esper_nn::{DeviceName, default_device};
    ///
    /// let name: DeviceName = "cpu".parse()?;
    /// assert_eq!(name.open()?, default_device());
    /// # Ok::<(), esper_nn::DeviceError>(())
    /// ```
    pub fn open(self) -> Result<Device, DeviceError> {
        match self {
            DeviceName::Cpu => Ok(default_device()),
            DeviceName::Gpu => gpu(),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DeviceName::Cpu => "cpu",
            DeviceName::Gpu => "gpu",
        })
    }
}

impl FromStr for DeviceName {
    type Err = DeviceError;

    fn from_str(name: &str) -> Result<Self, DeviceError> {
        let found = DeviceName::ALL.into_iter().find(|device| device.to_string() == name);
        found.ok_or_else(|| DeviceError::Unknown(name.to_owned()))
    }
}

/// Why there is no such device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No device has this name.
    #[error("there is no device `{0}`; choose `cpu` or `gpu`")]
    Unknown(String),
    /// The program has no code for GPUs in it.
    #[error("this program was built without GPU support; build it with `--features gpu`")]
    NotBuilt,
    /// The machine has no GPU, or no driver for it.
    #[error(
        "no GPU was found; install the graphics driver with its Vulkan part \
         (on Debian and Ubuntu: `apt install mesa-vulkan-drivers`, which can also do without a GPU, slowly)"
    )]
    NotFound(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is one, but it does not start.
    #[error("the GPU cannot be used: {0}")]
    Unusable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The device for those who have no wish: the CPU.
pub fn default_device() -> Device {
    Device::flex()
}

#[cfg(not(feature = "gpu"))]
fn gpu() -> Result<Device, DeviceError> {
    Err(DeviceError::NotBuilt)
}

#[cfg(feature = "gpu")]
fn gpu() -> Result<Device, DeviceError> {
    use burn::tensor::wgpu::WgpuInitError;
    use std::sync::{Mutex, PoisonError};

    // Burn registers a GPU once in a program, and `Device::wgpu` would do so with a panic where there is none.
    static OPENED: Mutex<Option<Device>> = Mutex::new(None);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = &*opened {
        return Ok(device.clone());
    }
    let device = match Device::wgpu_options().init() {
        // Somebody else has registered it.
        Err(WgpuInitError::Registration { .. }) => Device::wgpu(Default::default()),
        Err(error @ WgpuInitError::AdapterUnavailable { .. }) => {
            return Err(DeviceError::NotFound(Box::new(error)));
        }
        other => other.map_err(|error| DeviceError::Unusable(Box::new(error)))?,
    };
    *opened = Some(device.clone());
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in DeviceName::ALL {
            assert_eq!(name.to_string().parse::<DeviceName>().unwrap(), name);
        }
        let problem = "tpu".parse::<DeviceName>().unwrap_err().to_string();
        assert_eq!(problem, "there is no device `tpu`; choose `cpu` or `gpu`");
    }

    #[cfg(not(feature = "gpu"))]
    #[test]
    fn a_gpu_that_was_not_built_in_says_how_to_get_it() {
        let problem = DeviceName::Gpu.open().unwrap_err().to_string();
        assert!(problem.contains("--features gpu"), "{problem}");
    }
}
