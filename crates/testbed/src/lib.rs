//! The test bed: an SMT virtual machine for everyone.
