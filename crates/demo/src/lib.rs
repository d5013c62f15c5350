//! The demonstration: a server beside batch work, under several schedulers.
