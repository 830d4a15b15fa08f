//! Streams over a carrier in memory, on a paused clock.

use std::time::Duration;

use strait_tunnel::{
    CloseCode, Config, Driver, EndReason, Incoming, Lost, Open, OpenError, Request, Session, Side,
    SpliceEnd, StreamReset, reset_code, splice,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    task::JoinHandle,
};

struct End {
    session: Session,
    incoming: Incoming,
    driver: JoinHandle<EndReason>,
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_in_both_directions_and_half_closes_are_kept() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    let served = async {
        let request = acceptor.incoming.next().await.unwrap();
        assert_eq!(request.open().target, "tcp:search.default:443");
        let mut stream = request.accept("port 443").unwrap();
        let mut asked = Vec::new();
        stream.read_to_end(&mut asked).await.unwrap();
        stream.write_all(b"and the answer").await.unwrap();
        stream.shutdown().await.unwrap();
        asked
    };
    let asks = async {
        let (mut stream, detail) = dialer
            .session
            .open(Open::target("tcp:search.default:443"))
            .await
            .unwrap();
        assert_eq!(detail, "port 443");
        stream.write_all(b"the question").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer
    };
    let (asked, answer) = tokio::join!(served, asks);
    assert_eq!(
        (asked.as_slice(), answer.as_slice()),
        (&b"the question"[..], &b"and the answer"[..])
    );
    assert_eq!(dialer.session.stats().streams, 0);
}

#[tokio::test(start_paused = true)]
async fn the_acceptor_opens_streams_too() {
    let (mut dialer, acceptor) = pair(Config::default()).await;
    let (opened, accepted) = tokio::join!(
        acceptor.session.open(Open::target("control:table")),
        async { dialer.incoming.next().await.unwrap().accept("").unwrap() }
    );
    let (mut stream, mut accepted) = (opened.unwrap().0, accepted);
    stream.write_all(b"snapshot").await.unwrap();
    let mut got = [0; 8];
    accepted.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"snapshot");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_carries_its_code_and_text() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    let (opened, ()) = tokio::join!(dialer.session.open(Open::target("tcp:a.b:1")), async {
        acceptor
            .incoming
            .next()
            .await
            .unwrap()
            .reject(5, "not exposed");
    });
    let expected = OpenError::Rejected {
        code: 5,
        text: "not exposed".to_owned(),
    };
    assert_eq!(opened.unwrap_err(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_is_refused_as_internal() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    let (opened, ()) = tokio::join!(dialer.session.open(Open::target("tcp:a.b:1")), async {
        drop(acceptor.incoming.next().await.unwrap());
    });
    assert!(matches!(
        opened.unwrap_err(),
        OpenError::Rejected { code: 20, .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_open_cancels_the_request_at_the_peer() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    let request = {
        let mut open = Box::pin(dialer.session.open(Open::target("tcp:a.b:1")));
        tokio::select! {
            _ = &mut open => panic!("nobody answered"),
            request = acceptor.incoming.next() => request.unwrap(),
        }
    };
    request.cancelled().await;
    assert_eq!(request.accept("").unwrap_err(), Lost::Cancelled);
    assert_eq!(dialer.session.stats().streams, 0);
}

#[tokio::test(start_paused = true)]
async fn requests_that_were_given_up_are_forgotten() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    // Far more than may wait at a time.
    for _ in 0..10_000 {
        let given_up = dialer.session.open(Open::target("tcp:a.b:1"));
        let opened = tokio::time::timeout(Duration::ZERO, given_up).await;
        assert!(opened.is_err(), "nobody answers");
    }
    let asking = dialer.session.open(Open::target("tcp:c.d:1"));
    let (opened, ()) = tokio::join!(asking, async {
        let mut waiting = 0;
        loop {
            let request = acceptor.incoming.next().await.unwrap();
            if request.open().target == "tcp:c.d:1" {
                request.accept("").unwrap();
                break;
            }
            // It is here, and its end is under way.
            waiting += 1;
        }
        let most = usize::try_from(Config::default().max_pending).unwrap();
        assert!(waiting <= most, "{waiting} of them were kept");
    });
    assert!(opened.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_reset_is_seen_by_both_ends_with_its_code() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    let (mut ours, mut theirs) = stream_pair(&dialer, &mut acceptor).await;
    let resetter = ours.resetter();
    ours.write_all(b"half a mess").await.unwrap();
    resetter.reset(reset_code::REVOKED);
    for (stream, by_peer) in [(&mut ours, false), (&mut theirs, true)] {
        let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        let reset = error
            .get_ref()
            .unwrap()
            .downcast_ref::<StreamReset>()
            .unwrap();
        assert_eq!(
            *reset,
            StreamReset {
                code: reset_code::REVOKED,
                by_peer
            }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_splice_is_complete_when_the_peer_has_read_everything() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    for peer_reads in [true, false] {
        let (ours, mut theirs) = stream_pair(&dialer, &mut acceptor).await;
        let (mut client, socket) = duplex(1024);
        let mut splicing = std::pin::pin!(splice(ours, socket));
        theirs.shutdown().await.unwrap();
        client.write_all(b"the last byte").await.unwrap();
        client.shutdown().await.unwrap();
        let early = tokio::time::timeout(Duration::from_secs(60), &mut splicing).await;
        assert!(early.is_err(), "nobody has read it: {early:?}");
        if peer_reads {
            let mut all = String::new();
            theirs.read_to_string(&mut all).await.unwrap();
            assert_eq!(all, "the last byte");
            let spliced = splicing.await;
            assert!(matches!(spliced.end, SpliceEnd::Complete), "{spliced:?}");
        } else {
            // What a splice at the peer does whose connection breaks.
            theirs.reset(reset_code::IO);
            let spliced = splicing.await;
            let told = matches!(spliced.end, SpliceEnd::Reset(r) if r.code == reset_code::IO);
            assert!(told, "{spliced:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_is_cut_at_the_peer() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    let (ours, mut theirs) = stream_pair(&dialer, &mut acceptor).await;
    drop(ours);
    let error = theirs.read_to_end(&mut Vec::new()).await.unwrap_err();
    let reset = error
        .get_ref()
        .unwrap()
        .downcast_ref::<StreamReset>()
        .unwrap();
    assert_eq!(
        *reset,
        StreamReset {
            code: reset_code::DROPPED,
            by_peer: true
        }
    );
}

#[tokio::test(start_paused = true)]
async fn readers_that_stop_do_not_stop_others() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    let mut stopped = Vec::new();
    for _ in 0..40 {
        let (mut ours, theirs) = stream_pair(&dialer, &mut acceptor).await;
        let sender = tokio::time::timeout(Duration::from_millis(10), async {
            loop {
                ours.write_all(&[7; 4096]).await.unwrap();
            }
        });
        sender.await.unwrap_err();
        stopped.push((ours, theirs));
    }
    let (mut ours, mut theirs) = stream_pair(&dialer, &mut acceptor).await;
    let size = 4 << 20;
    let (sent, received) = tokio::join!(
        async {
            ours.write_all(&vec![1; size]).await.unwrap();
            ours.shutdown().await.unwrap();
        },
        async {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).await.unwrap();
            all
        }
    );
    assert_eq!(((), size), (sent, received.len()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_wakes_everybody() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    let (mut ours, mut theirs) = stream_pair(&dialer, &mut acceptor).await;
    let session = dialer.session.clone();
    let pending = async { session.open(Open::target("tcp:a.b:1")).await };
    let (read, opened, ended, closed, ()) = tokio::join!(
        ours.read_u8(),
        pending,
        dialer.driver,
        session.closed(),
        async {
            let request = acceptor.incoming.next().await.unwrap();
            acceptor.driver.abort();
            request.cancelled().await;
        }
    );
    assert!(matches!(ended.unwrap(), EndReason::Carrier(_)));
    assert!(matches!(closed, EndReason::Carrier(_)));
    assert!(matches!(
        opened.unwrap_err(),
        OpenError::Lost(EndReason::Carrier(_))
    ));
    assert_eq!(
        read.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionAborted
    );
    assert_eq!(
        theirs.read_u8().await.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionAborted
    );
    assert!(acceptor.incoming.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_drained_session_ends_with_its_last_stream() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    let (mut ours, mut theirs) = stream_pair(&dialer, &mut acceptor).await;
    acceptor.session.drain(Duration::from_secs(30));
    dialer.session.draining().await;
    let refused = dialer.session.open(Open::target("tcp:a.b:1")).await;
    assert_eq!(refused.unwrap_err(), OpenError::Draining);
    for stream in [&mut ours, &mut theirs] {
        stream.write_all(b"last words").await.unwrap();
        stream.shutdown().await.unwrap();
    }
    for stream in [&mut ours, &mut theirs] {
        let mut words = String::new();
        stream.read_to_string(&mut words).await.unwrap();
        assert_eq!(words, "last words");
    }
    assert!(dialer.driver.await.unwrap().is_drained());
    assert!(acceptor.driver.await.unwrap().is_drained());
}

#[tokio::test(start_paused = true)]
async fn a_drained_session_ends_at_the_deadline() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    let (_ours, _theirs) = stream_pair(&dialer, &mut acceptor).await;
    let before = tokio::time::Instant::now();
    dialer.session.drain(Duration::from_secs(30));
    let reason = acceptor.session.closed().await;
    assert_eq!(before.elapsed(), Duration::from_secs(30));
    assert!(matches!(reason, EndReason::ClosedByPeer(r) if r.code == CloseCode::DrainDeadline));
}

#[tokio::test(start_paused = true)]
async fn of_two_deadlines_of_a_drain_the_nearer_counts() {
    let (dialer, mut acceptor) = pair(Config::default()).await;
    let (_ours, _theirs) = stream_pair(&dialer, &mut acceptor).await;
    let before = tokio::time::Instant::now();
    dialer.session.drain(Duration::from_secs(49 * 24 * 3600));
    dialer.session.drain(Duration::from_secs(5));
    dialer.session.drain(Duration::from_secs(60));
    acceptor.session.closed().await;
    assert_eq!(before.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_session_drains_before_its_numbers_are_used_up() {
    let config = Config {
        most_opened: 3,
        ..Config::default()
    };
    let (dialer, mut acceptor) = pair(config).await;
    for _ in 0..2 {
        stream_pair(&dialer, &mut acceptor).await;
        assert!(!dialer.session.is_draining());
    }
    let (mut ours, mut theirs) = stream_pair(&dialer, &mut acceptor).await;
    acceptor.session.draining().await;
    let refused = dialer.session.open(Open::target("tcp:a.b:1")).await;
    assert_eq!(refused.unwrap_err(), OpenError::Draining);
    ours.write_all(b"still here").await.unwrap();
    ours.shutdown().await.unwrap();
    let mut words = String::new();
    theirs.read_to_string(&mut words).await.unwrap();
    assert_eq!(words, "still here");
}

#[tokio::test(start_paused = true)]
async fn a_close_tells_the_peer_why() {
    let (dialer, acceptor) = pair(Config::default()).await;
    acceptor.session.close(CloseCode::Replaced);
    let reason = dialer.driver.await.unwrap();
    assert!(matches!(reason, EndReason::ClosedByPeer(r) if r.code == CloseCode::Replaced));
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_noticed_after_interval_and_grace() {
    let (carrier, theirs) = duplex(1 << 16);
    let (ours, frozen) = tokio::join!(
        Session::establish(carrier, Side::Dialer, Config::default()),
        Session::establish(theirs, Side::Acceptor, Config::default())
    );
    let (_session, _incoming, driver) = ours.unwrap();
    let _never_driven = frozen.unwrap();
    let before = tokio::time::Instant::now();
    assert_eq!(driver.run().await, EndReason::PeerSilent);
    assert!(before.elapsed() <= Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_greet_is_given_up() {
    let (carrier, _theirs) = duplex(1 << 16);
    let before = tokio::time::Instant::now();
    Session::establish(carrier, Side::Dialer, Config::default())
        .await
        .unwrap_err();
    assert!(before.elapsed() <= Duration::from_secs(11));
}

async fn pair(config: Config) -> (End, End) {
    let (one, other) = duplex(64 << 10);
    tokio::join!(
        end(one, Side::Dialer, config.clone()),
        end(other, Side::Acceptor, config)
    )
}

async fn end(carrier: DuplexStream, side: Side, config: Config) -> End {
    let (session, incoming, driver) = Session::establish(carrier, side, config)
        .await
        .expect("the peer greets");
    End {
        session,
        incoming,
        driver: spawn(driver),
    }
}

#[expect(clippy::disallowed_methods, reason = "the test ends with its runtime")]
fn spawn(driver: Driver) -> JoinHandle<EndReason> {
    tokio::spawn(driver.run())
}

async fn stream_pair(from: &End, to: &mut End) -> (strait_tunnel::Stream, strait_tunnel::Stream) {
    let (opened, request) = tokio::join!(from.session.open(Open::target("tcp:a.b:1")), async {
        to.incoming
            .next()
            .await
            .map(|request: Request| request.accept("").expect("the opener waits"))
    });
    (
        opened.expect("the peer accepts").0,
        request.expect("the session is up"),
    )
}
