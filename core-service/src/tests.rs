//! Tests of a whole core, and the tools that all tests of this crate share.

mod as_of;
pub(crate) mod conformance;
mod faults;
pub(crate) mod faulty;
mod fuzz;
pub(crate) mod harness;
mod recount;
mod rows;
mod simulation;
