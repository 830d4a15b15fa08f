//! Two sessions against a reference model, over a link that splits and delays.
#![no_main]

#[path = "../../crates/tunnel-proto/tests/sim/play.rs"]
mod play;
#[path = "../../crates/tunnel-proto/tests/sim/world.rs"]
#[expect(dead_code, reason = "the tests of the crate use more of it")]
mod world;

use std::time::Instant;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| {
    #[expect(clippy::disallowed_methods, reason = "a world needs some first instant")]
    play::play(Instant::now(), script);
});
