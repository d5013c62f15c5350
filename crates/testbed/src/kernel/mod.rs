//! The kernel to boot: one of the distribution's, fetched and cached, or one's own.

mod image;

pub use image::Image;

use crate::error::{Error, Result};
use crate::spec::Kernel;

/// Finds the kernel asked for, fetching it where needed.
pub fn find(kernel: &Kernel) -> Result<Image> {
    match kernel {
        Kernel::Path(path) => Image::at(path),
        _ => Err(Error::Kernel("only --kernel PATH".into())),
    }
}
