//! Headers that must not pass between caller and service, and those that the hub sets. Pure.

use std::net::{IpAddr, SocketAddr};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        CONNECTION, CONTENT_LENGTH, EXPECT, FORWARDED, HOST, PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
};

use crate::problem::CODE_HEADER;

/// Headers that speak of one connection only (RFC 9110, 7.6.1), and what older programs put there.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// What proxies say about the caller. From outside none of it can be believed.
const FORWARDING: [HeaderName; 8] = [
    FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-server"),
    HeaderName::from_static("x-forwarded-by"),
    HeaderName::from_static("x-real-ip"),
];

/// Turns a caller's headers into those that the service gets. Returns the protocol that the
/// connection is to be upgraded to, if the caller asks for that.
///
/// - hop-by-hop headers go, but an upgrade is asked for again;
/// - the hub's own credential goes (`credential` is the header that held it);
/// - what the caller says about where they come from is replaced by what the hub sees;
/// - `Host` stays what the caller asked for, so that links, cookies and virtual hosts fit.
pub(crate) fn to_service(
    headers: &mut HeaderMap,
    credential: Option<&HeaderName>,
    host: &HeaderValue,
    source: SocketAddr,
) -> Option<HeaderValue> {
    let upgrade = wanted_upgrade(headers);
    let chunked = headers.contains_key(TRANSFER_ENCODING);
    drop_hop_by_hop(headers);
    if chunked {
        // Both together are how requests are smuggled; only the chunks count.
        headers.remove(CONTENT_LENGTH);
    }
    headers.remove(EXPECT);
    if let Some(credential) = credential {
        headers.remove(credential);
    }
    for name in &FORWARDING {
        headers.remove(name);
    }
    headers.insert(HOST, host.clone());
    set_forwarded(headers, host, source.ip());
    if let Some(protocol) = &upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol.clone());
    }
    upgrade
}

/// Turns a service's headers into those that the caller gets.
pub(crate) fn to_caller(headers: &mut HeaderMap, switching: bool) {
    let upgrade = headers.get(UPGRADE).filter(|_| switching).cloned();
    let chunked = headers.contains_key(TRANSFER_ENCODING);
    drop_hop_by_hop(headers);
    if chunked {
        headers.remove(CONTENT_LENGTH);
    }
    headers.remove(CODE_HEADER);
    if let Some(protocol) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // Nobody may talk the hub out of the headers that it relies on itself.
        .filter(|name| *name != HOST && *name != CONTENT_LENGTH)
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn wanted_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|option| option.trim().eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| asks).cloned()
}

fn set_forwarded(headers: &mut HeaderMap, host: &HeaderValue, source: IpAddr) {
    let source = source.to_canonical();
    let node = match source {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    };
    let quoted = host.to_str().unwrap_or_default().replace(['"', '\\'], "");
    let values = [
        (
            FORWARDED,
            format!("for={node};host=\"{quoted}\";proto=https"),
        ),
        (
            HeaderName::from_static("x-forwarded-for"),
            source.to_string(),
        ),
        (
            HeaderName::from_static("x-forwarded-proto"),
            "https".to_owned(),
        ),
    ];
    for (name, value) in values {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    headers.insert(HeaderName::from_static("x-forwarded-host"), host.clone());
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn pass(pairs: &[(&'static str, &str)], credential: Option<&HeaderName>) -> HeaderMap {
        let mut headers = headers(pairs);
        let host = HeaderValue::from_static("search.default.cluster1");
        to_service(
            &mut headers,
            credential,
            &host,
            SocketAddr::from(([192, 0, 2, 7], 4711)),
        );
        headers
    }

    #[test]
    fn a_credential_for_the_hub_never_travels_on() {
        let both = [
            ("proxy-authorization", "Bearer p"),
            ("authorization", "Bearer a"),
        ];
        let passed = pass(&both, Some(&PROXY_AUTHORIZATION));
        assert_eq!(passed.get("proxy-authorization"), None);
        assert_eq!(
            passed["authorization"], "Bearer a",
            "that one is the service's"
        );
        assert_eq!(pass(&both, Some(&AUTHORIZATION)).get("authorization"), None);
        assert_eq!(pass(&both, None).get("proxy-authorization"), None, "always");
    }

    #[test]
    fn what_the_caller_says_of_their_origin_is_replaced() {
        let passed = pass(
            &[
                ("x-forwarded-for", "10.0.0.1"),
                ("forwarded", "for=10.0.0.1"),
                ("x-real-ip", "10.0.0.1"),
                ("x-forwarded-host", "evil"),
            ],
            None,
        );
        assert_eq!(passed["x-forwarded-for"], "192.0.2.7");
        assert_eq!(passed["x-forwarded-host"], "search.default.cluster1");
        assert_eq!(passed["x-forwarded-proto"], "https");
        assert_eq!(
            passed["forwarded"],
            "for=192.0.2.7;host=\"search.default.cluster1\";proto=https"
        );
        assert_eq!(passed.get("x-real-ip"), None);
    }

    #[test]
    fn hop_by_hop_headers_end_here_with_those_that_connection_names() {
        let passed = pass(
            &[
                ("connection", "x-secret, keep-alive, host, content-length"),
                ("x-secret", "1"),
                ("keep-alive", "timeout=5"),
                ("te", "trailers"),
                ("content-length", "3"),
                ("accept", "*/*"),
            ],
            None,
        );
        let mut names: Vec<_> = passed.keys().map(HeaderName::as_str).collect();
        names.retain(|name| !name.contains("forwarded"));
        names.sort_unstable();
        assert_eq!(names, ["accept", "content-length", "host"]);
    }

    #[test]
    fn a_length_beside_chunks_is_dropped() {
        let passed = pass(
            &[("content-length", "3"), ("transfer-encoding", "chunked")],
            None,
        );
        assert!(!passed.contains_key(CONTENT_LENGTH) && !passed.contains_key(TRANSFER_ENCODING));
    }

    #[test]
    fn an_upgrade_is_asked_for_again_when_both_headers_ask() {
        let asked = pass(
            &[
                ("connection", "keep-alive, Upgrade"),
                ("upgrade", "websocket"),
            ],
            None,
        );
        assert_eq!(
            (&asked["connection"], &asked["upgrade"]),
            (
                &HeaderValue::from_static("upgrade"),
                &HeaderValue::from_static("websocket"),
            )
        );
        assert!(!pass(&[("upgrade", "h2c")], None).contains_key(UPGRADE));
    }

    #[test]
    fn a_service_cannot_speak_with_the_hubs_voice() {
        let mut answer = headers(&[
            ("strait-code", "not-allowed"),
            ("connection", "close"),
            ("proxy-authenticate", "Basic"),
            ("server", "x"),
        ]);
        to_caller(&mut answer, false);
        assert_eq!(
            answer.keys().map(HeaderName::as_str).collect::<Vec<_>>(),
            ["server"]
        );
    }
}
