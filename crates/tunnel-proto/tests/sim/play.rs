//! Plays a list of operations on a [`World`]; the list may be anything.

use std::time::{Duration, Instant};

use strait_tunnel_proto::{Config, StreamId};

use super::world::World;

/// Plays operations that bytes stand for, four bytes each, then lets everything settle.
pub(crate) fn play(start: Instant, script: &[u8]) {
    let [windows, delay, script @ ..] = script else {
        return;
    };
    let config = Config {
        stream_window: 16_384 << (windows & 1),
        stream_window_max: 16_384 << (1 + (windows >> 1) % 4),
        session_window: 65_536,
        growth_budget: 1 << 17,
        max_streams: 6,
        max_pending: 4,
        ..Config::default()
    };
    let mut world = World::new(start, &config, Duration::from_millis(u64::from(*delay)));
    world.flow();
    for operation in script.chunks_exact(4) {
        if let [what, which, high, low] = operation {
            step(&mut world, *what, *which, u16::from_be_bytes([*high, *low]));
        }
    }
    world.settle();
}

fn step(world: &mut World, what: u8, which: u8, amount: u16) {
    let at = usize::from(what >> 7);
    let bytes = usize::from(amount);
    let stream = |world: &World| -> Option<StreamId> {
        let live = world.live(at);
        live.get(usize::from(which) % live.len().max(1)).copied()
    };
    match (what & 0x7f) % 16 {
        0 | 1 => drop(world.open(at)),
        2 => world.accept(at),
        3 => world.reject(at, amount),
        4..=6 => {
            if let Some(id) = stream(world) {
                world.write(at, id, bytes % 40_000);
            }
        }
        7 | 8 => {
            if let Some(id) = stream(world) {
                world.read(at, id, u64::from(amount));
            }
        }
        9 => {
            if let Some(id) = stream(world) {
                world.finish(at, id);
            }
        }
        10 if which.is_multiple_of(4) => {
            if let Some(id) = stream(world) {
                world.reset(at, id, amount);
            }
        }
        10..=12 => drop(world.transmit(at, bytes)),
        13 => drop(world.deliver(at, bytes)),
        14 => world.advance(Duration::from_millis(u64::from(amount % 500))),
        _ => rarely(world, at, which, amount),
    }
}

/// What ends a session is rare, or there would be no other cases.
fn rarely(world: &mut World, at: usize, which: u8, amount: u16) {
    match which {
        0 => world.close(at),
        1 => world.cut(),
        2 => world.black_hole(),
        3..=6 => world.drain(at, Duration::from_millis(u64::from(amount))),
        7..=9 => world.advance(Duration::from_secs(20)),
        10..=20 => world.flow(),
        _ => {}
    }
}
