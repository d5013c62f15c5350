//! `sidelane testbed probe`: what the emulation delivers, beside what was asked for.

pub mod measured;
