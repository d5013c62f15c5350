//! SMT metrics: pure arithmetic.
