//! Carries sessions over real streams.
