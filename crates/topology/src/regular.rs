//! Machines in which every package, cache and core is like every other: for tests and simulation.

use crate::{BuildError, Builder, CPU_MAX, CoreSpec, Topology};

/// How CPU numbers are spread over the lanes of a regular machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Siblings have adjacent numbers: core 0 has CPUs 0 and 1 (POWER, arm64, many x86 servers).
    #[default]
    Adjacent,
    /// All first lanes are numbered, then all second lanes: CPU n and CPU n + cores are siblings
    /// (most x86 machines).
    Apart,
}

/// The shape of a regular machine. One NUMA node a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regular {
    /// Packages, at least 1.
    pub packages: u32,
    /// Last-level (L3) caches of a package, at least 1.
    pub caches_per_package: u32,
    /// Cores on each cache, at least 1.
    pub cores_per_cache: u32,
    /// Lanes of each core, at least 1.
    pub lanes_per_core: u32,
    /// How CPU numbers are spread.
    pub numbering: Numbering,
}

impl Regular {
    /// One package with one last-level cache, siblings numbered adjacently.
    pub fn one_package(cores: u32, lanes_per_core: u32) -> Regular {
        Regular {
            packages: 1,
            caches_per_package: 1,
            cores_per_cache: cores,
            lanes_per_core,
            numbering: Numbering::Adjacent,
        }
    }
}

impl Topology {
    /// Builds a regular machine with all lanes online. Fails if a count is 0 or a CPU number would
    /// be above [`CPU_MAX`].
    pub fn regular(shape: &Regular) -> Result<Topology, BuildError> {
        let factors = [
            shape.packages,
            shape.caches_per_package,
            shape.cores_per_cache,
        ];
        let cores = factors
            .iter()
            .try_fold(1_u32, |product, factor| product.checked_mul(*factor));
        let cpus = cores.and_then(|cores| cores.checked_mul(shape.lanes_per_core));
        let (Some(cores), Some(0..=CPU_COUNT_MAX)) = (cores, cpus) else {
            return Err(BuildError::CpuTooLarge(u32::MAX));
        };
        let mut builder = Builder::new();
        for core in 0..cores {
            let cache = core / shape.cores_per_cache;
            let package = cache / shape.caches_per_package;
            let cpus = (0..shape.lanes_per_core).map(|lane| match shape.numbering {
                Numbering::Adjacent => core * shape.lanes_per_core + lane,
                Numbering::Apart => lane * cores + core,
            });
            let spec = CoreSpec::new(cpus)
                .package(package as i32)
                .node(package)
                .cache(3, cache);
            builder = builder.core(spec);
        }
        builder.build()
    }
}

/// The most CPUs that can be numbered.
const CPU_COUNT_MAX: u32 = CPU_MAX + 1;

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Regular = Regular {
        packages: 2,
        caches_per_package: 2,
        cores_per_cache: 3,
        lanes_per_core: 4,
        numbering: Numbering::Adjacent,
    };

    fn cpus(machine: &Topology, core: usize) -> String {
        machine.cores()[core].cpus().to_string()
    }

    #[test]
    fn adjacent_and_apart_numberings() {
        let adjacent = Topology::regular(&SHAPE).unwrap();
        assert_eq!((adjacent.cores().len(), adjacent.lanes().count()), (12, 48));
        assert_eq!(cpus(&adjacent, 1), "4-7");
        let apart = Regular {
            numbering: Numbering::Apart,
            ..SHAPE
        };
        assert_eq!(cpus(&Topology::regular(&apart).unwrap(), 1), "1,13,25,37");
    }

    #[test]
    fn places_follow_the_counts() {
        let machine = Topology::regular(&SHAPE).unwrap();
        let core = &machine.cores()[9];
        assert_eq!((core.package, core.node, core.cache), (1, 1, 3));
        assert_eq!(machine.caches().len(), 4);
    }

    #[test]
    fn impossible_counts_are_refused() {
        let none = Regular {
            packages: 0,
            ..SHAPE
        };
        assert_eq!(Topology::regular(&none), Err(BuildError::NoCores));
        let laneless = Regular {
            lanes_per_core: 0,
            ..SHAPE
        };
        assert_eq!(Topology::regular(&laneless), Err(BuildError::NoLanes(0)));
        for packages in [100_000, u32::MAX] {
            let huge = Regular { packages, ..SHAPE };
            assert!(matches!(
                Topology::regular(&huge),
                Err(BuildError::CpuTooLarge(_))
            ));
        }
    }
}
