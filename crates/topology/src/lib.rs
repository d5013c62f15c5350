//! Processors as the scheduler sees them: packages, caches, cores and lanes.
