//! A batch process that steps aside by itself: the matrix multiplication of `examples/matmul.c`, in which
//! each basic block looks at the lane signal.

use crate::error::{During, Result};
use std::ffi::c_int;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Rows of a matrix: few, so that multiplications are short beside what is measured, also under emulation.
const SIZE: usize = 32;

unsafe extern "C" {
    fn sidelane_demo_multiply(a: *const f64, b: *const f64, product: *mut f64, size: c_int);
}

/// What such a process has done since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Multiplications.
    pub multiplications: u64,
    /// Times that it stepped aside.
    pub naps: u64,
}

/// Bytes of the file in which a process keeps its totals: two numbers, little endian.
const TOTALS_BYTES: usize = 16;

impl Totals {
    fn encode(self) -> [u8; TOTALS_BYTES] {
        ((u128::from(self.naps) << 64) | u128::from(self.multiplications)).to_le_bytes()
    }

    /// Those that a process keeps in a file; none before its first multiplication.
    pub(crate) fn read(file: &Path) -> Result<Totals> {
        let bytes = match std::fs::read(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            read => read.during(|| file.display().to_string())?,
        };
        let both = bytes.try_into().map_or(0, u128::from_le_bytes);
        Ok(Totals {
            multiplications: both as u64,
            naps: (both >> 64) as u64,
        })
    }
}

/// Multiplies without end, and keeps the totals in a file.
///
/// # Errors
/// The file cannot be written.
pub fn multiply(totals_file: &Path) -> Result<()> {
    let during = || totals_file.display().to_string();
    let file = File::create(totals_file).during(during)?;
    let factor: Vec<f64> = (0..SIZE * SIZE).map(|i| (i % 7 + 1) as f64).collect();
    let mut product = vec![0.0; SIZE * SIZE];
    for multiplications in 1.. {
        // SAFETY: all three are matrices of SIZE rows and columns, and only the last is written.
        unsafe {
            let size = SIZE as c_int;
            sidelane_demo_multiply(factor.as_ptr(), factor.as_ptr(), product.as_mut_ptr(), size);
        }
        let naps = sidelane_runtime::nap::totals().naps;
        let totals = Totals {
            multiplications,
            naps,
        };
        file.write_all_at(&totals.encode(), 0).during(during)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplications_are_those_of_the_example() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
        let mut product = [0.0; 4];
        // SAFETY: matrices of two rows and columns
        unsafe { sidelane_demo_multiply(a.as_ptr(), b.as_ptr(), product.as_mut_ptr(), 2) };
        assert_eq!(product, [19.0, 22.0, 43.0, 50.0]);
    }

    #[test]
    fn totals_are_read_back_and_bad_files_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("totals");
        assert_eq!(Totals::read(&file).unwrap(), Totals::default());
        let totals = Totals {
            multiplications: u64::MAX,
            naps: 7,
        };
        std::fs::write(&file, totals.encode()).unwrap();
        assert_eq!(Totals::read(&file).unwrap(), totals);
        assert!(multiply(&folder.path().join("none/totals")).is_err());
    }
}
