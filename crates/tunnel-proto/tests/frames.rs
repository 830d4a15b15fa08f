//! The bytes of frames: the golden ones of version 1, round trips, and every refusal.

use bytes::BytesMut;
use proptest::{array::uniform8, array::uniform16, collection::vec, prelude::*};
use strait_tunnel_proto::{
    CloseCode, DecodeError, Decoded, Frame, HEADER_LEN, Hello, InstanceId, InvalidOpen, Kind,
    MAX_FRAME, MAX_PAYLOAD, Open, Side, StreamId,
};

/// One line per message: a name, a colon, its bytes in hexadecimal. A version's file never
/// changes; a new version gets a new file.
const GOLDEN_1: &str = include_str!("golden/strait-1.txt");

#[test]
fn every_message_has_the_golden_bytes_of_version_1() {
    let written: String = messages()
        .iter()
        .map(|(name, frame)| format!("{name}: {}\n", hex(&encode(frame))))
        .collect();
    assert_eq!(written, GOLDEN_1);
}

#[test]
fn the_golden_bytes_of_version_1_are_understood() {
    for (line, (name, frame)) in GOLDEN_1.lines().zip(messages()) {
        let (golden_name, bytes) = line.split_once(": ").unwrap();
        let bytes = unhex(bytes);
        assert_eq!(golden_name, name);
        assert_eq!(
            Frame::decode(&bytes),
            Ok(Some((Decoded::Frame(frame), bytes.len())))
        );
    }
}

#[test]
fn the_golden_bytes_hold_every_kind() {
    let kinds: Vec<Kind> = messages().iter().map(|(_, frame)| frame.kind()).collect();
    for number in 1..=0x0e {
        assert!(
            kinds.iter().any(|kind| kind.wire() == number),
            "kind {number}"
        );
    }
}

#[test]
fn a_frame_may_be_as_long_as_a_tls_record_and_no_longer() {
    let payload = [7; MAX_PAYLOAD + 1];
    let longest = Frame::Data {
        stream: id(1),
        payload: &payload[1..],
    };
    assert_eq!(encode(&longest).len(), MAX_FRAME);
    let mut out = BytesMut::from(&b"before"[..]);
    let longer = Frame::Data {
        stream: id(1),
        payload: &payload,
    };
    assert_eq!(longer.encode(&mut out).unwrap_err().len, MAX_PAYLOAD + 1);
    assert_eq!(&out[..], b"before");
}

#[test]
fn what_a_newer_version_adds_is_skipped() {
    // An optional kind, an optional flag, a longer HELLO, a new field of an OPEN.
    assert_eq!(
        Frame::decode(&[0x80, 0x0f, 0, 1, 0, 0, 0, 9, 7]),
        Ok(Some((Decoded::Skipped(0x80), 9)))
    );
    let mut ping = encode(&Frame::Ping([1; 8]));
    ping[1] = 0xf0;
    assert_eq!(
        Frame::decode(&ping),
        Ok(Some((Decoded::Frame(Frame::Ping([1; 8])), 16)))
    );
    let named = Hello {
        software: "strait/0.1.0".into(),
        ..hello()
    };
    let mut longer = encode(&Frame::Hello(named.clone()));
    longer.extend([1, 2, 3]);
    longer[3] += 3;
    let decoded = Frame::decode(&longer);
    assert_eq!(
        decoded,
        Ok(Some((Decoded::Frame(Frame::Hello(named)), longer.len())))
    );
    let open = Frame::Open {
        stream: id(1),
        open: Open::target("tcp:a.b:1"),
    };
    let mut extended = encode(&open);
    extended.extend([200, 0, 2, 5, 5]);
    extended[3] += 5;
    assert_eq!(
        Frame::decode(&extended),
        Ok(Some((Decoded::Frame(open), extended.len())))
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn every_refusal_has_its_name() {
    use DecodeError as E;
    let kind = |kind: Kind| kind.wire();
    let long = [b'a'; 4097];
    let cases: Vec<(Vec<u8>, E)> = vec![
        (raw(0x7f, 0, 1, b""), E::UnknownKind(0x7f)),
        (raw(0, 0, 0, b""), E::UnknownKind(0)),
        (
            raw(kind(Kind::Fin), 1, 1, b""),
            E::UnknownFlags {
                kind: Kind::Fin,
                flags: 1,
            },
        ),
        (
            raw(kind(Kind::Drain), 2, 0, &[0; 4]),
            E::UnknownFlags {
                kind: Kind::Drain,
                flags: 2,
            },
        ),
        (
            vec![kind(Kind::Data), 0, 0x3f, 0xf9, 0, 0, 0, 1],
            E::TooLarge(0x3ff9),
        ),
        (
            raw(kind(Kind::Ping), 0, 0, &[0; 7]),
            E::WrongLength {
                kind: Kind::Ping,
                len: 7,
            },
        ),
        (
            raw(kind(Kind::Pong), 0, 0, &[0; 9]),
            E::WrongLength {
                kind: Kind::Pong,
                len: 9,
            },
        ),
        (
            raw(kind(Kind::Drain), 0, 0, &[0; 3]),
            E::WrongLength {
                kind: Kind::Drain,
                len: 3,
            },
        ),
        (
            raw(kind(Kind::Close), 0, 0, &[0]),
            E::WrongLength {
                kind: Kind::Close,
                len: 1,
            },
        ),
        (
            raw(kind(Kind::Reject), 0, 1, &[0]),
            E::WrongLength {
                kind: Kind::Reject,
                len: 1,
            },
        ),
        (
            raw(kind(Kind::Data), 0, 1, b""),
            E::WrongLength {
                kind: Kind::Data,
                len: 0,
            },
        ),
        (
            raw(kind(Kind::Fin), 0, 1, b"x"),
            E::WrongLength {
                kind: Kind::Fin,
                len: 1,
            },
        ),
        (
            raw(kind(Kind::Done), 0, 1, b"x"),
            E::WrongLength {
                kind: Kind::Done,
                len: 1,
            },
        ),
        (
            raw(kind(Kind::Reset), 0, 1, b"x"),
            E::WrongLength {
                kind: Kind::Reset,
                len: 1,
            },
        ),
        (
            raw(kind(Kind::Credit), 0, 1, b"x"),
            E::WrongLength {
                kind: Kind::Credit,
                len: 1,
            },
        ),
        (raw(kind(Kind::Credit), 0, 1, &[0; 4]), E::ZeroCredit),
        (
            raw(kind(Kind::Open), 0, 0, b""),
            E::StreamMissing(Kind::Open),
        ),
        (
            raw(kind(Kind::Data), 0, 0, b"x"),
            E::StreamMissing(Kind::Data),
        ),
        (
            raw(kind(Kind::Ping), 0, 1, &[0; 8]),
            E::StreamForbidden(Kind::Ping),
        ),
        (
            raw(kind(Kind::Hello), 0, 1, b""),
            E::StreamForbidden(Kind::Hello),
        ),
        (
            raw(kind(Kind::Accept), 0, 1, &long),
            E::TextTooLong {
                kind: Kind::Accept,
                len: 4097,
            },
        ),
        (
            raw(kind(Kind::Accept), 0, 1, &[0xff]),
            E::NotUtf8(Kind::Accept),
        ),
        (
            raw(kind(Kind::Close), 0, 0, &[0, 0, 0xff]),
            E::NotUtf8(Kind::Close),
        ),
        (raw(kind(Kind::Hello), 0, 0, b"GET / HTTP/1.1"), E::BadMagic),
        (
            raw(kind(Kind::Hello), 0, 0, b"STRAIT"),
            E::WrongLength {
                kind: Kind::Hello,
                len: 6,
            },
        ),
    ];
    for (bytes, refusal) in cases {
        assert_eq!(Frame::decode(&bytes), Err(refusal), "{bytes:02x?}");
    }
}

#[test]
fn every_refused_hello_has_its_name() {
    let cases = [
        (
            Hello {
                version_min: 3,
                version_max: 2,
                ..hello()
            },
            "version range",
        ),
        (
            Hello {
                max_frame: 8191,
                ..hello()
            },
            "frame size",
        ),
        (
            Hello {
                max_frame: 16_385,
                ..hello()
            },
            "frame size",
        ),
        (
            Hello {
                session_window: 1,
                ..hello()
            },
            "session window",
        ),
        (
            Hello {
                software: "x".repeat(65).into(),
                ..hello()
            },
            "software",
        ),
    ];
    for (hello, what) in cases {
        let bytes = encode(&Frame::Hello(hello));
        assert_eq!(Frame::decode(&bytes), Err(DecodeError::BadHello(what)));
    }
    let mut bytes = encode(&Frame::Hello(hello()));
    bytes[HEADER_LEN + 10] = 2;
    assert_eq!(Frame::decode(&bytes), Err(DecodeError::BadHello("side")));
}

#[test]
fn a_name_of_software_that_cannot_be_read_is_refused() {
    let payload = |frame: &Frame<'_>| encode(frame)[HEADER_LEN..].to_vec();
    let kind = Kind::Hello.wire();
    for rest in [&[65][..], &[1], &[1, 0xff]] {
        let payload = [payload(&Frame::Hello(hello())), rest.to_vec()].concat();
        let bytes = raw(kind, 0, 0, &payload);
        let decoded = Frame::decode(&bytes);
        assert_eq!(decoded, Err(DecodeError::BadHello("software")), "{rest:?}");
    }
}

#[test]
fn every_refused_open_has_its_name() {
    use InvalidOpen as E;
    let long = |tag: u8, len: u16| {
        let [high, low] = len.to_be_bytes();
        let mut field = vec![tag, high, low];
        field.resize(3 + usize::from(len), b'a');
        field
    };
    let target = [1, 0, 1, b'x'];
    let cases: Vec<(Vec<u8>, E)> = vec![
        (vec![], E::NoTarget),
        (vec![1, 0, 0], E::NoTarget),
        (vec![1, 0], E::Truncated),
        (vec![1, 0, 5, b'x'], E::Truncated),
        ([target, target].concat(), E::Duplicate(1)),
        (vec![1, 0, 1, 0xff], E::NotUtf8(1)),
        (long(1, 1025), E::TooLong { tag: 1, len: 1025 }),
        (long(2, 4097), E::TooLong { tag: 2, len: 4097 }),
        (long(3, 1025), E::TooLong { tag: 3, len: 1025 }),
        (vec![4, 0, 1, 0], E::BadGeneration(1)),
    ];
    for (payload, source) in cases {
        let bytes = raw(Kind::Open.wire(), 0, 1, &payload);
        assert_eq!(Frame::decode(&bytes), Err(DecodeError::BadOpen { source }));
    }
}

proptest! {
    #[test]
    fn a_frame_that_is_encoded_is_decoded_to_the_same(message in message()) {
        let frame = message.frame();
        let bytes = encode(&frame);
        prop_assert_eq!(Frame::decode(&bytes), Ok(Some((Decoded::Frame(frame), bytes.len()))));
    }

    #[test]
    fn a_frame_that_is_cut_off_asks_for_more(message in message(), cut in any::<proptest::sample::Index>()) {
        let bytes = encode(&message.frame());
        prop_assert_eq!(Frame::decode(&bytes[..cut.index(bytes.len())]), Ok(None));
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes in vec(any::<u8>(), 0..200), kind in 0_u8..0x10) {
        let _any = Frame::decode(&bytes);
        let len = bytes.len().min(150);
        let _any = Frame::decode(&raw(kind, 0, u32::from(kind % 2), &bytes[..len]));
    }
}

/// What a frame borrows, owned.
#[derive(Clone, Debug)]
struct Message {
    which: u8,
    stream: u32,
    code: u16,
    number: u32,
    opaque: [u8; 8],
    text: String,
    payload: Vec<u8>,
    open: Open,
    hello: Hello,
}

impl Message {
    fn frame(&self) -> Frame<'_> {
        let stream = id(self.stream);
        match self.which {
            0 => Frame::Hello(self.hello.clone()),
            1 => Frame::Open {
                stream,
                open: self.open.clone(),
            },
            2 => Frame::Accept {
                stream,
                detail: &self.text,
            },
            3 => Frame::Reject {
                stream,
                code: self.code,
                text: &self.text,
            },
            4 => Frame::Data {
                stream,
                payload: &self.payload,
            },
            5 => Frame::Fin { stream },
            6 => Frame::Done { stream },
            7 => Frame::Reset {
                stream,
                code: self.code,
            },
            8 => Frame::Credit {
                stream: StreamId::new(self.stream - 1),
                bytes: self.number,
            },
            9 => Frame::Ping(self.opaque),
            10 => Frame::Pong(self.opaque),
            11 => Frame::Drain {
                answer: self.code % 2 == 1,
                deadline_ms: self.number,
            },
            12 => Frame::Datagram {
                stream,
                payload: &self.payload,
            },
            _ => Frame::Close {
                code: CloseCode::from_wire(self.code),
                text: &self.text,
            },
        }
    }
}

prop_compose! {
    fn message()(
        which in 0_u8..14,
        stream in 1_u32..,
        code in any::<u16>(),
        number in 1_u32..,
        opaque in uniform8(any::<u8>()),
        text in ".{0,100}",
        payload in vec(any::<u8>(), 1..300),
        open in open(),
        hello in any_hello(),
    ) -> Message {
        Message { which, stream, code, number, opaque, text, payload, open, hello }
    }
}

prop_compose! {
    fn open()(
        target in ".{1,100}",
        caller in ".{0,100}",
        trace_context in ".{0,50}",
        policy_generation in any::<u64>(),
    ) -> Open {
        Open { target, caller, trace_context, policy_generation }
    }
}

prop_compose! {
    fn any_hello()(
        versions in (any::<u16>(), any::<u16>()),
        side in prop_oneof![Just(Side::Dialer), Just(Side::Acceptor)],
        features in any::<u64>(),
        instance in uniform16(any::<u8>()),
        windows in (any::<u32>(), any::<u32>()),
        max_frame in 8192_u16..=16_384,
        max_streams in any::<u32>(),
        software in "[a-z0-9./ é]{0,32}",
    ) -> Hello {
        Hello {
            version_min: versions.0.min(versions.1),
            version_max: versions.0.max(versions.1),
            side,
            features,
            instance: InstanceId(instance),
            stream_window: windows.0.min(windows.1),
            session_window: windows.0.max(windows.1),
            max_frame,
            max_streams,
            software: software.into(),
        }
    }
}

fn hello() -> Hello {
    Hello {
        version_min: 1,
        version_max: 1,
        side: Side::Dialer,
        features: 0,
        instance: InstanceId(*b"0123456789abcdef"),
        stream_window: 131_072,
        session_window: 67_108_864,
        max_frame: 16_384,
        max_streams: 16_384,
        software: Box::default(),
    }
}

#[expect(clippy::too_many_lines, reason = "a list of messages")]
fn messages() -> Vec<(&'static str, Frame<'static>)> {
    let open = Open {
        target: "tcp:search.default:443".to_owned(),
        caller: "jane".to_owned(),
        trace_context: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
        policy_generation: 7,
    };
    vec![
        ("hello", Frame::Hello(hello())),
        (
            "hello from the acceptor",
            Frame::Hello(Hello {
                side: Side::Acceptor,
                ..hello()
            }),
        ),
        (
            "hello of a named software",
            Frame::Hello(Hello {
                software: "strait/0.1.0".into(),
                ..hello()
            }),
        ),
        (
            "open",
            Frame::Open {
                stream: id(1),
                open,
            },
        ),
        (
            "open of a target only",
            Frame::Open {
                stream: id(2),
                open: Open::target("probe:"),
            },
        ),
        (
            "accept",
            Frame::Accept {
                stream: id(1),
                detail: "{\"port\":443}",
            },
        ),
        (
            "reject",
            Frame::Reject {
                stream: id(1),
                code: 5,
                text: "not exposed",
            },
        ),
        (
            "data",
            Frame::Data {
                stream: id(1),
                payload: b"hello",
            },
        ),
        ("fin", Frame::Fin { stream: id(1) }),
        ("done", Frame::Done { stream: id(1) }),
        (
            "reset",
            Frame::Reset {
                stream: id(1),
                code: 4,
            },
        ),
        (
            "credit for a stream",
            Frame::Credit {
                stream: Some(id(1)),
                bytes: 65_536,
            },
        ),
        (
            "credit for the session",
            Frame::Credit {
                stream: None,
                bytes: 65_536,
            },
        ),
        ("ping", Frame::Ping(*b"\0\0\0\0\0\0\0\x01")),
        ("pong", Frame::Pong(*b"\0\0\0\0\0\0\0\x01")),
        (
            "drain",
            Frame::Drain {
                answer: false,
                deadline_ms: 30_000,
            },
        ),
        (
            "drain, answered",
            Frame::Drain {
                answer: true,
                deadline_ms: 30_000,
            },
        ),
        (
            "datagram",
            Frame::Datagram {
                stream: id(1),
                payload: b"query",
            },
        ),
        (
            "close",
            Frame::Close {
                code: CloseCode::Shutdown,
                text: "rolling update",
            },
        ),
    ]
}

fn id(number: u32) -> StreamId {
    StreamId::new(number).expect("not zero")
}

fn encode(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = BytesMut::new();
    frame.encode(&mut out).expect("the payload fits");
    out.to_vec()
}

fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).expect("the payload fits");
    let mut bytes = vec![kind, flags];
    bytes.extend(len.to_be_bytes());
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().collect();
    let pairs = digits.chunks(2).map(String::from_iter);
    pairs
        .map(|pair| u8::from_str_radix(&pair, 16).expect("hexadecimal"))
        .collect()
}
