//! Small dense linear algebra: as many rows as a core has lanes.

/// A square matrix, row by row.
pub(super) type Matrix = Vec<Vec<f64>>;

/// Added to the diagonal, relative to it, so that every matrix has an inverse; what is not
/// determined then gets an enormous variance.
const RIDGE: f64 = 1e-9;

/// Rounds of coordinate descent at most.
const ROUNDS: usize = 20_000;

/// Coordinate descent ends when nothing changes by more, relative to the largest.
const STEADY: f64 = 1e-12;

pub(super) fn zeros(size: usize) -> Matrix {
    vec![vec![0.0; size]; size]
}

/// Adds `factor` × v × vᵀ.
pub(super) fn add_outer(matrix: &mut Matrix, v: &[f64], factor: f64) {
    for (row, a) in matrix.iter_mut().zip(v) {
        for (cell, b) in row.iter_mut().zip(v) {
            *cell += factor * a * b;
        }
    }
}

pub(super) fn scale(matrix: &mut Matrix, factor: f64) {
    matrix.iter_mut().flatten().for_each(|cell| *cell *= factor);
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn times(matrix: &Matrix, v: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| dot(row, v)).collect()
}

fn diagonal(matrix: &Matrix) -> impl Iterator<Item = f64> + '_ {
    let cell = |(index, row): (usize, &Vec<f64>)| row.get(index).copied().unwrap_or(0.0);
    matrix.iter().enumerate().map(cell)
}

/// The x ≥ 0 that minimises xᵀAx − 2bᵀx, by coordinate descent; A positive semidefinite. An x that
/// A says nothing about is 0.
pub(super) fn non_negative(a: &Matrix, b: &[f64]) -> Vec<f64> {
    let mut x = vec![0.0; b.len()];
    for _ in 0..ROUNDS {
        let (mut change, mut largest) = (0.0_f64, 0.0_f64);
        for (index, (row, target)) in a.iter().zip(b).enumerate() {
            let (Some(pivot), Some(old)) = (row.get(index), x.get(index).copied()) else {
                continue;
            };
            if *pivot <= 0.0 {
                continue;
            }
            let new = (old + (target - dot(row, &x)) / pivot).max(0.0);
            if let Some(value) = x.get_mut(index) {
                *value = new;
            }
            change = change.max((new - old).abs());
            largest = largest.max(new);
        }
        if change <= STEADY * largest {
            break;
        }
    }
    x
}

/// The inverse of a positive semidefinite matrix whose diagonal is first scaled to 1 and then
/// lifted by the ridge. Rows of zeros give zeros.
pub(super) fn inverse(matrix: &Matrix) -> Matrix {
    let size = matrix.len();
    let root = |d: f64| if d > 0.0 { 1.0 / d.sqrt() } else { 0.0 };
    let roots: Vec<f64> = diagonal(matrix).map(root).collect();
    // Each row: scaled matrix, then the identity; Gauss and Jordan. No pivoting is needed for a
    // positive definite one.
    let mut rows: Matrix = (matrix.iter().zip(&roots).enumerate())
        .map(|(index, (row, of_row))| {
            let scaled = row.iter().zip(&roots).map(|(cell, of)| cell * of * of_row);
            let unit = (0..size).map(|column| f64::from(u8::from(column == index)));
            let mut row: Vec<f64> = scaled.chain(unit).collect();
            if let Some(cell) = row.get_mut(index) {
                *cell += if *of_row > 0.0 { RIDGE } else { 1.0 };
            }
            row
        })
        .collect();
    for index in 0..size {
        let Some(mut pivot_row) = rows.get(index).cloned() else {
            continue;
        };
        let pivot = pivot_row
            .get(index)
            .copied()
            .unwrap_or(1.0)
            .max(RIDGE * RIDGE);
        pivot_row.iter_mut().for_each(|cell| *cell /= pivot);
        for (other, row) in rows.iter_mut().enumerate() {
            let factor = row.get(index).copied().unwrap_or(0.0);
            if other == index {
                row.clone_from(&pivot_row);
            } else {
                let cells = row.iter_mut().zip(&pivot_row);
                cells.for_each(|(cell, pivot)| *cell -= factor * pivot);
            }
        }
    }
    let unscaled = |(row, of_row): (&Vec<f64>, &f64)| -> Vec<f64> {
        let right = row.iter().skip(size).zip(&roots);
        right.map(|(cell, of)| cell * of * of_row).collect()
    };
    rows.iter().zip(&roots).map(unscaled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inverse_is_one() {
        let matrix = vec![vec![4.0e6, 1.0e3, 0.0], vec![1.0e3, 3.0, 0.0], vec![0.0; 3]];
        let found = inverse(&matrix);
        let determinant = 4.0e6 * 3.0 - 1.0e6;
        let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-6 * b.abs(), "{found:?}");
        close(found[0][0], 3.0 / determinant);
        close(found[0][1], -1.0e3 / determinant);
        close(found[1][1], 4.0e6 / determinant);
        assert_eq!(found[2], [0.0; 3]);
    }

    #[test]
    fn what_is_not_determined_has_an_enormous_variance() {
        let found = inverse(&vec![vec![1.0, 2.0], vec![2.0, 4.0]]);
        assert!(found[0][0] > 1e8 && found[1][1] > 1e7, "{found:?}");
    }

    #[test]
    fn the_minimum_is_found_within_the_bound() {
        let a = vec![vec![2.0, 1.0], vec![1.0, 3.0]];
        let close = |x: Vec<f64>, y: [f64; 2]| {
            assert!(x.iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-9), "{x:?}");
        };
        close(non_negative(&a, &[4.0, 7.0]), [1.0, 2.0]);
        close(non_negative(&a, &[-4.0, 6.0]), [0.0, 2.0]);
        close(non_negative(&vec![vec![0.0]], &[0.0]), [0.0; 2]);
    }
}
