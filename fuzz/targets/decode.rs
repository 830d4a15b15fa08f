//! The decoder is total, and what it reads is what it would write.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use strait_tunnel_proto::{Decoded, Frame, HEADER_LEN};

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    while let Ok(Some((decoded, len))) = Frame::decode(rest) {
        let (bytes, after) = rest.split_at(len);
        if let Decoded::Frame(frame) = decoded {
            check(&frame, bytes);
        }
        rest = after;
    }
});

fn check(frame: &Frame<'_>, bytes: &[u8]) {
    let mut written = BytesMut::new();
    frame.encode(&mut written).expect("what fit a frame fits again");
    let again = Frame::decode(&written).expect("what is written can be read");
    assert_eq!(again, Some((Decoded::Frame(frame.clone()), written.len())));
    // Fields and flags that a newer version added are read over; all else comes back as it was.
    let exact = !matches!(frame, Frame::Open { .. } | Frame::Hello(_)) && bytes[1] & 0xf0 == 0;
    if exact {
        assert_eq!(&written[..], bytes);
    }
    assert!(bytes.len() >= HEADER_LEN);
    // The start of a frame asks for more and is no error.
    assert_eq!(Frame::decode(&bytes[..bytes.len() - 1]), Ok(None));
}
