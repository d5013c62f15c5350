//! Tests that run inside the test bed, one after the other, on its real kernel.

mod agree;
mod budget;
mod control;
mod demos;
mod field;
mod forced;
mod jobs;
mod lanes;
mod lifecycle;
mod metrics;
mod pair;
mod polarization;
mod pools;
mod promote;
mod protection;
mod retain;
mod rules;
mod shapes;
mod shows;
mod spread;
mod support;
mod terminal;
mod vms;
