//! Headers that must not pass between caller and service, and those that the hub sets. Pure.

use std::net::{IpAddr, SocketAddr};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        CONNECTION, CONTENT_LENGTH, EXPECT, FORWARDED, HOST, PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION, SET_COOKIE, TE, TRANSFER_ENCODING, UPGRADE,
    },
};

use crate::problem::CODE_HEADER;

/// Headers that speak of one connection only (RFC 9110, 7.6.1), and what older programs put there.
/// `Trailer` is not among them: what it announces passes, so it does.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// What proxies say about the caller, besides everything that begins with `x-forwarded`. From
/// outside none of it can be believed.
const FORWARDING: [&str; 14] = [
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-originating-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-envoy-external-address",
    "client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    // Programs that get headers as variables take it for `HTTP_PROXY`.
    "proxy",
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
    let trailers = takes_trailers(headers);
    drop_hop_by_hop(headers);
    if chunked {
        // Both together are how requests are smuggled; only the chunks count.
        headers.remove(CONTENT_LENGTH);
    }
    headers.remove(EXPECT);
    if let Some(credential) = credential {
        headers.remove(credential);
    }
    drop_forwarding(headers);
    headers.insert(HOST, host.clone());
    set_forwarded(headers, host, source.ip());
    if let Some(protocol) = &upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol.clone());
    } else if trailers {
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    upgrade
}

/// Turns a service's headers into those that the caller gets, who asked for `host`. Cookies are for
/// that host and what is below it: the hub's domain has the services of all members.
pub(crate) fn to_caller(headers: &mut HeaderMap, host: &str, switching: bool) {
    let upgrade = headers.get(UPGRADE).filter(|_| switching).cloned();
    let chunked = headers.contains_key(TRANSFER_ENCODING);
    drop_hop_by_hop(headers);
    if chunked {
        headers.remove(CONTENT_LENGTH);
    }
    headers.remove(CODE_HEADER);
    narrow_cookies(headers, host);
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

fn drop_forwarding(headers: &mut HeaderMap) {
    // Who gets headers as variables cannot tell `_` from `-`.
    let speaks_of_origin = |name: &&HeaderName| {
        let folded = name.as_str().replace('_', "-");
        folded.starts_with("x-forwarded") || FORWARDING.contains(&folded.as_str())
    };
    let found: Vec<HeaderName> = headers.keys().filter(speaks_of_origin).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

fn takes_trailers(headers: &HeaderMap) -> bool {
    let values = headers
        .get_all(TE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut codings = values.flat_map(|value| value.split(','));
    codings.any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// Takes the `Domain` off cookies that are for more than `host`; they are then for `host` alone.
fn narrow_cookies(headers: &mut HeaderMap, host: &str) {
    if !headers.contains_key(SET_COOKIE) {
        return;
    }
    let wide = |attribute: &str| {
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        let domain = value.trim().trim_start_matches('.');
        name.trim().eq_ignore_ascii_case("domain") && !domain.eq_ignore_ascii_case(host)
    };
    let narrow = |cookie: &HeaderValue| {
        let text = std::str::from_utf8(cookie.as_bytes()).ok()?;
        let kept: Vec<&str> = text
            .split(';')
            .enumerate()
            .filter(|(nth, attribute)| *nth == 0 || !wide(attribute))
            .map(|(_, attribute)| attribute)
            .collect();
        HeaderValue::try_from(kept.join(";")).ok()
    };
    let cookies: Vec<HeaderValue> = headers
        .get_all(SET_COOKIE)
        .iter()
        .filter_map(narrow)
        .collect();
    headers.remove(SET_COOKIE);
    for cookie in cookies {
        headers.append(SET_COOKIE, cookie);
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
                ("x_forwarded_for", "10.0.0.1"),
                ("x-forwarded-client-cert", "evil"),
                ("true_client_ip", "10.0.0.1"),
                ("proxy", "http://evil"),
            ],
            None,
        );
        for gone in [
            "x_forwarded_for",
            "x-forwarded-client-cert",
            "true_client_ip",
            "proxy",
        ] {
            assert_eq!(passed.get(gone), None, "{gone}");
        }
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
                ("te", "gzip"),
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
    fn what_trailers_need_passes() {
        let passed = pass(&[("te", "gzip, Trailers"), ("trailer", "x-sum")], None);
        assert_eq!(
            (&passed["te"], &passed["connection"]),
            (
                &HeaderValue::from_static("trailers"),
                &HeaderValue::from_static("te")
            )
        );
        assert_eq!(passed["trailer"], "x-sum");
        let mut answer = headers(&[("trailer", "x-sum"), ("transfer-encoding", "chunked")]);
        to_caller(&mut answer, "a.b.c", false);
        assert_eq!(answer["trailer"], "x-sum");
    }

    #[test]
    fn a_cookie_is_for_the_host_that_was_asked_for() {
        let host = "search.default.cluster1.apps.example.com";
        for (set, passed) in [
            (
                "a=1; Path=/; Domain=apps.example.com; Secure",
                "a=1; Path=/; Secure",
            ),
            ("a=1;domain=.EXAMPLE.com", "a=1"),
            ("domain=1; HttpOnly", "domain=1; HttpOnly"),
            (
                "a=1; Domain=Search.default.cluster1.apps.example.com",
                "a=1; Domain=Search.default.cluster1.apps.example.com",
            ),
            ("a=1; Domain", "a=1"),
        ] {
            let mut answer = headers(&[("set-cookie", set), ("set-cookie", "b=2")]);
            to_caller(&mut answer, host, false);
            let cookies: Vec<_> = answer.get_all(SET_COOKIE).iter().collect();
            assert_eq!(cookies, [passed, "b=2"]);
        }
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
        to_caller(&mut answer, "a.b.c", false);
        assert_eq!(
            answer.keys().map(HeaderName::as_str).collect::<Vec<_>>(),
            ["server"]
        );
    }
}
