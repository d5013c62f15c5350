//! Tests that run inside the test bed, one after the other, on its real kernel.

mod budget;
mod control;
mod jobs;
mod lanes;
mod lifecycle;
mod metrics;
mod promote;
mod protection;
mod rules;
mod shows;
mod support;
