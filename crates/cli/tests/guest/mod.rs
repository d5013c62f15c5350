//! Tests that run inside the test bed, one after the other, on its real kernel.

mod control;
mod lanes;
mod lifecycle;
mod protection;
mod rules;
mod support;
