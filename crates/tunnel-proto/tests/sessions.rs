//! Two sessions joined by a link with delay, tiny reads and losses of the connection, on a
//! virtual clock.

#[path = "sim/play.rs"]
mod play;
#[path = "sim/world.rs"]
mod world;

use std::time::{Duration, Instant};

use proptest::{collection::vec, prelude::*};
use strait_tunnel_proto::{CloseCode, Config, EndReason, Open, OpenRefused, StreamId};
use world::{ACCEPTOR, DIALER, World};

const DELAY: Duration = Duration::from_millis(25);

#[test]
fn both_sides_greet_and_measure_the_round_trip() {
    let mut world = greeted(&Config::default());
    for at in [DIALER, ACCEPTOR] {
        assert!(world.established(at));
        assert_eq!(world.session(at).rtt(), Some(2 * DELAY));
        assert_eq!(world.session(at).peer().unwrap().version, 1);
    }
}

#[test]
fn bytes_arrive_when_every_read_and_write_is_of_one_byte() {
    let mut world = World::new(start(), &Config::default(), Duration::ZERO);
    let mut id = None;
    let mut wrote = 0;
    for _ in 0..5000 {
        for at in [DIALER, ACCEPTOR] {
            world.transmit(at, 1);
            world.deliver(at, 1);
            world.accept(at);
        }
        id = id.or_else(|| world.open(DIALER));
        if let Some(id) = id.filter(|_| wrote < 1000) {
            wrote += world.write(DIALER, id, 1);
        }
    }
    assert_eq!(wrote, 1000);
    world.settle();
    assert_eq!(world.read_so_far(ACCEPTOR, id.unwrap()), 1000);
}

#[test]
fn data_may_follow_open_at_once_up_to_the_initial_window() {
    let config = Config::default();
    let mut world = greeted(&config);
    let id = world.open(DIALER).unwrap();
    assert_eq!(
        fill(&mut world, DIALER, id),
        u64::from(config.stream_window)
    );
    world.advance(DELAY);
    world.deliver(ACCEPTOR, usize::MAX);
    assert_eq!(world.unread(ACCEPTOR, id), u64::from(config.stream_window));
    world.settle();
}

#[test]
fn a_stream_takes_no_more_than_its_window_from_a_writer_whose_reader_stops() {
    let config = Config::default();
    let mut world = greeted(&config);
    let id = opened(&mut world);
    assert_eq!(
        fill(&mut world, DIALER, id),
        u64::from(config.stream_window)
    );
    world.flow();
    assert_eq!(fill(&mut world, DIALER, id), 0);
    world.read(ACCEPTOR, id, u64::from(config.stream_window));
    world.flow();
    assert!(fill(&mut world, DIALER, id) >= u64::from(config.stream_window));
}

#[test]
fn readers_that_stop_after_their_windows_grew_do_not_stop_the_others() {
    let config = Config {
        stream_window: 16 << 10,
        stream_window_max: 256 << 10,
        growth_budget: 1 << 20,
        session_window: 1 << 20,
        ..Config::default()
    };
    let mut world = greeted(&config);
    for _ in 0..40 {
        let id = opened(&mut world);
        for _ in 0..6 {
            fill(&mut world, DIALER, id);
            world.flow();
            world.read(ACCEPTOR, id, u64::MAX);
            world.flow();
        }
        fill(&mut world, DIALER, id);
        world.flow();
        assert!(world.unread(ACCEPTOR, id) >= u64::from(config.stream_window));
    }
    let id = opened(&mut world);
    for _ in 0..20 {
        assert!(fill(&mut world, DIALER, id) >= u64::from(config.stream_window));
        world.flow();
        world.read(ACCEPTOR, id, u64::MAX);
        world.flow();
    }
}

#[test]
fn a_window_grows_to_the_bandwidth_delay_product_and_not_beyond() {
    // A reader that takes 64 KiB each 5 ms over a round trip of 50 ms: 640 KiB are under way.
    let mut world = greeted(&Config::default());
    let id = opened(&mut world);
    let step = Duration::from_millis(5);
    let mut last_second = 0;
    for tick in 0..400 {
        fill(&mut world, DIALER, id);
        for at in [DIALER, ACCEPTOR] {
            world.transmit(at, usize::MAX);
            world.deliver(at, usize::MAX);
        }
        world.read(ACCEPTOR, id, 64 << 10);
        if tick == 199 {
            last_second = world.read_so_far(ACCEPTOR, id);
        }
        world.advance(step);
    }
    let rate = world.read_so_far(ACCEPTOR, id) - last_second;
    assert!(
        rate > 11 << 20,
        "read {rate} bytes in the last second, of 12.5 MiB"
    );
    let under_way = fill(&mut world, DIALER, id) + world.unread(ACCEPTOR, id);
    assert!(under_way <= 4 * (640 << 10), "{under_way} bytes");
}

#[test]
fn frames_of_streams_take_turns() {
    let mut world = greeted(&Config::default());
    let ids = [opened(&mut world), opened(&mut world), opened(&mut world)];
    for id in ids {
        fill_without_sending(&mut world, DIALER, id);
    }
    for _ in 0..4 {
        world.transmit(DIALER, 3 * 16_384);
        for id in ids {
            fill_without_sending(&mut world, DIALER, id);
        }
    }
    world.advance(DELAY);
    world.deliver(ACCEPTOR, usize::MAX);
    let arrived = ids.map(|id| world.unread(ACCEPTOR, id));
    let (least, most) = (arrived.iter().min().unwrap(), arrived.iter().max().unwrap());
    // Who came first, when nothing waited, may be one batch of four frames ahead.
    assert!(*least > 0 && most - least <= 6 * 16_384, "{arrived:?}");
}

#[test]
fn a_silent_peer_is_given_up_after_interval_and_grace() {
    let mut world = greeted(&Config::default());
    world.black_hole();
    world.advance(Duration::from_secs(15));
    for at in [DIALER, ACCEPTOR] {
        assert_eq!(world.over(at), Some(&EndReason::PeerSilent));
    }
}

#[test]
fn an_hour_of_silence_costs_pings_and_nothing_else() {
    let mut world = greeted(&Config::default());
    for _ in 0..3600 {
        world.advance(Duration::from_secs(1));
        world.flow();
    }
    assert_eq!(world.over(DIALER), None);
    assert_eq!(world.over(ACCEPTOR), None);
}

#[test]
fn a_peer_that_never_greets_is_given_up() {
    let mut world = World::new(start(), &Config::default(), DELAY);
    world.black_hole();
    world.advance(Duration::from_secs(10));
    assert_eq!(world.over(DIALER), Some(&EndReason::NoHello));
}

#[test]
fn a_drained_session_ends_when_its_last_stream_is_over() {
    let mut world = greeted(&Config::default());
    let id = opened(&mut world);
    world.write(DIALER, id, 100);
    world.drain(ACCEPTOR, Duration::from_secs(60));
    world.flow();
    for at in [DIALER, ACCEPTOR] {
        assert_eq!(world.over(at), None);
        let refused = world.session(at).open(Open::target("tcp:a.b:1"));
        assert_eq!(refused, Err(OpenRefused::Draining));
    }
    world.settle();
    for at in [DIALER, ACCEPTOR] {
        assert!(world.over(at).is_some_and(EndReason::is_drained));
    }
}

#[test]
fn an_open_that_crosses_a_drain_is_refused_and_not_lost() {
    let mut world = greeted(&Config::default());
    world.drain(ACCEPTOR, Duration::from_secs(60));
    let id = world.open(DIALER).unwrap();
    world.settle();
    assert!(!world.live(DIALER).contains(&id));
    assert!(world.over(DIALER).is_some_and(EndReason::is_drained));
}

#[test]
fn a_drained_session_ends_at_the_deadline() {
    let mut world = greeted(&Config::default());
    opened(&mut world);
    world.drain(ACCEPTOR, Duration::from_secs(3));
    world.flow();
    world.advance(Duration::from_secs(3));
    world.flow();
    let code = |reason: Option<&EndReason>| match reason {
        Some(EndReason::Closed(reason) | EndReason::ClosedByPeer(reason)) => Some(reason.code),
        _ => None,
    };
    assert_eq!(code(world.over(ACCEPTOR)), Some(CloseCode::DrainDeadline));
    assert_eq!(code(world.over(DIALER)), Some(CloseCode::DrainDeadline));
}

#[test]
fn the_peers_limit_on_streams_is_kept() {
    let mut world = greeted(&Config {
        max_streams: 3,
        ..Config::default()
    });
    for _ in 0..3 {
        opened(&mut world);
    }
    let refused = world.session(DIALER).open(Open::target("tcp:a.b:1"));
    assert_eq!(refused, Err(OpenRefused::TooManyStreams));
    let first = world.live(DIALER)[0];
    world.reset(DIALER, first, 1);
    assert!(world.open(DIALER).is_some());
    world.settle();
}

#[test]
fn requests_beyond_the_limit_are_refused_and_the_others_stay() {
    let mut world = greeted(&Config {
        max_pending: 2,
        ..Config::default()
    });
    for _ in 0..5 {
        world.open(DIALER).unwrap();
    }
    world.flow();
    assert_eq!(
        (world.live(DIALER).len(), world.live(ACCEPTOR).len()),
        (2, 2)
    );
    world.settle();
}

#[test]
fn a_cut_connection_ends_both_sessions_and_every_timer() {
    let mut world = greeted(&Config::default());
    opened(&mut world);
    world.cut();
    for at in [DIALER, ACCEPTOR] {
        assert!(matches!(world.over(at), Some(EndReason::Carrier(_))));
        assert_eq!(world.session(at).poll_timeout(), None);
        assert!(world.session(at).poll_transmit().is_empty());
    }
}

proptest! {
    #[test]
    fn whatever_happens_both_ends_keep_their_promises(script in vec(any::<u8>(), 0..600)) {
        play::play(start(), &script);
    }
}

fn greeted(config: &Config) -> World {
    let mut world = World::new(start(), config, DELAY);
    world.flow();
    world
}

fn opened(world: &mut World) -> StreamId {
    let id = world.open(DIALER).expect("the limit is not reached");
    world.flow();
    world.accept(ACCEPTOR);
    world.flow();
    id
}

/// Writes until the stream takes no more, sending all the time.
fn fill(world: &mut World, at: usize, id: StreamId) -> u64 {
    let mut taken = 0;
    loop {
        let wrote = world.write(at, id, 16_384);
        let sent = world.transmit(at, usize::MAX);
        taken += u64::try_from(wrote).expect("fits");
        if wrote == 0 && sent == 0 {
            return taken;
        }
    }
}

fn fill_without_sending(world: &mut World, at: usize, id: StreamId) {
    while world.write(at, id, 16_384) > 0 {}
}

#[expect(clippy::disallowed_methods, reason = "a test needs some first instant")]
fn start() -> Instant {
    Instant::now()
}
