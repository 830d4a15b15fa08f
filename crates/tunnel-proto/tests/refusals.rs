//! What a peer must not do, each by its name: the session ends and the peer is told.

use std::time::Instant;

use bytes::BytesMut;
use strait_tunnel_proto::{
    CloseCode, Config, DecodeError, Decoded, EndReason, Event, Frame, Hello, InstanceId, Kind,
    Open, ProtocolError, Session, Side, StreamId,
};

#[test]
fn bytes_that_are_no_frame() {
    let mut session = greeted();
    session.receive(now(), &[0x7f, 0, 0, 0, 0, 0, 0, 0]);
    refused(
        session,
        &ProtocolError::Decode(DecodeError::UnknownKind(0x7f)),
    );
}

#[test]
fn a_frame_before_hello() {
    let mut session = new();
    give(&mut session, &Frame::Ping([0; 8]));
    refused(session, &ProtocolError::HelloExpected(Kind::Ping));
}

#[test]
fn a_second_hello() {
    let mut session = greeted();
    give(&mut session, &Frame::Hello(hello()));
    refused(session, &ProtocolError::SecondHello);
}

#[test]
fn a_hello_of_the_same_side() {
    let mut session = new();
    give(
        &mut session,
        &Frame::Hello(Hello {
            side: Side::Acceptor,
            ..hello()
        }),
    );
    refused(session, &ProtocolError::SameSide(Side::Acceptor));
}

#[test]
fn a_hello_without_a_common_version() {
    let mut session = new();
    give(
        &mut session,
        &Frame::Hello(Hello {
            version_min: 2,
            version_max: 4,
            ..hello()
        }),
    );
    ended(
        session,
        &EndReason::Version { min: 2, max: 4 },
        CloseCode::Version,
    );
}

#[test]
fn a_newer_peer_that_still_speaks_version_1_is_welcome() {
    let mut session = new();
    give(
        &mut session,
        &Frame::Hello(Hello {
            version_max: 2,
            features: u64::MAX,
            ..hello()
        }),
    );
    assert_eq!(session.peer().unwrap().version, 1);
}

#[test]
fn a_stream_number_of_the_wrong_side() {
    let mut session = greeted();
    give(&mut session, &open(2));
    refused(session, &ProtocolError::BadStreamId(id(2)));
}

#[test]
fn a_stream_number_that_was_used() {
    let mut session = greeted();
    give(&mut session, &open(5));
    give(&mut session, &open(3));
    refused(session, &ProtocolError::BadStreamId(id(3)));
}

#[test]
fn a_frame_for_a_stream_that_was_never_opened() {
    for stream in [id(1), id(2)] {
        let mut session = greeted();
        give(
            &mut session,
            &Frame::Data {
                stream,
                payload: b"x",
            },
        );
        refused(
            session,
            &ProtocolError::NeverOpened {
                kind: Kind::Data,
                stream,
            },
        );
    }
}

#[test]
fn data_before_the_answer_to_an_open() {
    let mut session = greeted();
    let stream = session.open(Open::target("tcp:a.b:1")).unwrap();
    give(
        &mut session,
        &Frame::Data {
            stream,
            payload: b"x",
        },
    );
    refused(
        session,
        &ProtocolError::Unexpected {
            kind: Kind::Data,
            stream,
        },
    );
}

#[test]
fn a_second_answer_to_an_open() {
    let mut session = greeted();
    let stream = session.open(Open::target("tcp:a.b:1")).unwrap();
    give(&mut session, &Frame::Accept { stream, detail: "" });
    give(&mut session, &Frame::Accept { stream, detail: "" });
    refused(
        session,
        &ProtocolError::Unexpected {
            kind: Kind::Accept,
            stream,
        },
    );
}

#[test]
fn an_answer_to_a_stream_of_its_own() {
    let mut session = greeted();
    give(&mut session, &open(1));
    give(
        &mut session,
        &Frame::Reject {
            stream: id(1),
            code: 1,
            text: "",
        },
    );
    refused(
        session,
        &ProtocolError::Unexpected {
            kind: Kind::Reject,
            stream: id(1),
        },
    );
}

#[test]
fn data_after_fin() {
    let mut session = greeted();
    give(&mut session, &open(1));
    give(&mut session, &Frame::Fin { stream: id(1) });
    give(
        &mut session,
        &Frame::Data {
            stream: id(1),
            payload: b"x",
        },
    );
    refused(
        session,
        &ProtocolError::Unexpected {
            kind: Kind::Data,
            stream: id(1),
        },
    );
}

#[test]
fn done_before_both_sides_finished() {
    let mut session = greeted();
    give(&mut session, &open(1));
    give(&mut session, &Frame::Fin { stream: id(1) });
    give(&mut session, &Frame::Done { stream: id(1) });
    refused(
        session,
        &ProtocolError::Unexpected {
            kind: Kind::Done,
            stream: id(1),
        },
    );
}

#[test]
fn more_bytes_than_the_stream_was_granted() {
    let mut session = greeted();
    give(&mut session, &open(1));
    for _ in 0..8 {
        give(
            &mut session,
            &Frame::Data {
                stream: id(1),
                payload: &[0; 16_376],
            },
        );
    }
    assert!(!session.is_over());
    give(
        &mut session,
        &Frame::Data {
            stream: id(1),
            payload: &[0; 65],
        },
    );
    refused(session, &ProtocolError::StreamOverrun(id(1)));
}

#[test]
fn more_credit_than_a_window_can_be() {
    for stream in [None, Some(id(1))] {
        let mut session = greeted();
        give(&mut session, &open(1));
        give(
            &mut session,
            &Frame::Credit {
                stream,
                bytes: u32::MAX,
            },
        );
        refused(session, &ProtocolError::CreditOverflow);
    }
}

#[test]
fn an_open_after_the_promise_to_open_nothing() {
    let mut session = greeted();
    give(&mut session, &open(1));
    session.drain(now(), std::time::Duration::from_secs(9));
    give(
        &mut session,
        &Frame::Drain {
            answer: true,
            deadline_ms: 9000,
        },
    );
    give(&mut session, &open(3));
    refused(session, &ProtocolError::OpenAfterDrain(id(3)));
}

#[test]
fn making_answers_without_reading_them() {
    let mut session = greeted();
    for _ in 0..100_000 {
        give(&mut session, &Frame::Ping([0; 8]));
    }
    ended(session, &EndReason::Backlog, CloseCode::Backlog);
}

#[test]
fn late_frames_for_a_stream_that_is_over_are_welcome() {
    let mut session = greeted();
    give(&mut session, &open(1));
    session.reset(id(1), 9);
    give(
        &mut session,
        &Frame::Data {
            stream: id(1),
            payload: &[0; 1000],
        },
    );
    give(
        &mut session,
        &Frame::Credit {
            stream: Some(id(1)),
            bytes: 5,
        },
    );
    give(&mut session, &Frame::Fin { stream: id(1) });
    give(
        &mut session,
        &Frame::Reset {
            stream: id(1),
            code: 8,
        },
    );
    assert!(!session.is_over());
}

#[test]
fn a_session_that_is_over_does_nothing() {
    let mut session = greeted();
    session.close(CloseCode::Normal.into());
    while session.poll_event().is_some() {}
    let left = session.poll_transmit().len();
    session.transmitted(left);
    give(&mut session, &open(1));
    session.handle_timeout(now() + std::time::Duration::from_secs(100));
    session.drain(now(), std::time::Duration::ZERO);
    session.close(CloseCode::Normal.into());
    session.handle_disconnect("gone");
    assert!(session.open(Open::target("tcp:a.b:1")).is_err());
    assert_eq!((session.poll_event(), session.poll_timeout()), (None, None));
    assert!(session.poll_transmit().is_empty());
}

fn refused(session: Session, error: &ProtocolError) {
    ended(
        session,
        &EndReason::Protocol(error.clone()),
        CloseCode::Protocol,
    );
}

/// The session is over for this reason, and the last frame tells the peer.
fn ended(mut session: Session, reason: &EndReason, told: CloseCode) {
    let last = std::iter::from_fn(|| session.poll_event()).last();
    assert_eq!(last, Some(Event::Closed(reason.clone())));
    assert_eq!(session.poll_timeout(), None);
    let mut bytes = session.poll_transmit();
    let mut last = None;
    while let Ok(Some((Decoded::Frame(frame), len))) = Frame::decode(bytes) {
        bytes = &bytes[len..];
        last = Some(frame);
    }
    assert!(
        matches!(last, Some(Frame::Close { code, .. }) if code == told),
        "{last:?}"
    );
}

fn new() -> Session {
    Session::new(now(), Side::Acceptor, Config::default()).expect("the default is valid")
}

fn greeted() -> Session {
    let mut session = new();
    give(&mut session, &Frame::Hello(hello()));
    session
}

fn give(session: &mut Session, frame: &Frame<'_>) {
    let mut bytes = BytesMut::new();
    frame.encode(&mut bytes).expect("the payload fits");
    assert_eq!(session.receive(now(), &bytes).consumed, bytes.len());
}

fn open(number: u32) -> Frame<'static> {
    Frame::Open {
        stream: id(number),
        open: Open::target("tcp:a.b:1"),
    }
}

fn id(number: u32) -> StreamId {
    StreamId::new(number).expect("not zero")
}

fn hello() -> Hello {
    Hello {
        version_min: 1,
        version_max: 1,
        side: Side::Dialer,
        features: 0,
        instance: InstanceId::default(),
        stream_window: 131_072,
        session_window: 67_108_864,
        max_frame: 16_384,
        max_streams: 16_384,
        software: Box::default(),
    }
}

#[expect(clippy::disallowed_methods, reason = "a test needs some first instant")]
fn now() -> Instant {
    Instant::now()
}
