//! Which of the hub's parts a request is for. Pure.

use http::{
    Method, Request, Uri,
    header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING},
};
use strait_types::{JOIN_PATH, PortChoice, Refusal, RefusalCode, SESSION_PATH, STATUS_PATH};

use crate::audit::Via;

/// What a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// An agent's request to join.
    Join,
    /// A question how the hub is.
    Status,
    /// The hub's port once more, in a WebSocket.
    Session,
    /// A stream of bytes.
    Connect {
        /// To this host.
        host: String,
        /// At this port.
        port: PortChoice,
    },
    /// A request to a forward proxy.
    Forward {
        /// To this host.
        host: String,
        /// At this port.
        port: PortChoice,
    },
    /// A request to a service by its name.
    ByHost {
        /// To this host.
        host: String,
        /// At this port.
        port: PortChoice,
    },
}

/// Reads what a request is from its first line and its `Host`. `own` says whether a host is a name
/// of the hub itself: under every other one, known or not, all paths are a service's.
pub(super) fn route<B>(
    request: &Request<B>,
    own: impl Fn(&str) -> bool,
) -> Result<Route, (Via, Refusal)> {
    let uri = request.uri();
    if request.method() == Method::CONNECT {
        let connect = no_content(request).and_then(|()| connect(uri));
        return connect.map_err(|refusal| (Via::Connect, refusal));
    }
    if uri.authority().is_some() {
        return absolute(uri).map_err(|refusal| (Via::ForwardProxy, refusal));
    }
    let host = by_host(request).map_err(|refusal| (Via::HttpsByHost, refusal))?;
    match uri.path() {
        JOIN_PATH if own(&host) => return Ok(Route::Join),
        STATUS_PATH if own(&host) => return Ok(Route::Status),
        SESSION_PATH if own(&host) => return Ok(Route::Session),
        _ => {}
    }
    // The port in `Host` is the hub's.
    Ok(Route::ByHost {
        host,
        port: PortChoice::Default,
    })
}

/// What follows the head of a CONNECT is the stream's. A body would take its first bytes away
/// (RFC 9110, 9.3.6 gives it no meaning).
fn no_content<B>(request: &Request<B>) -> Result<(), Refusal> {
    let headers = request.headers();
    let lengths = headers.get_all(CONTENT_LENGTH);
    if headers.contains_key(TRANSFER_ENCODING) || lengths.iter().any(|length| length != "0") {
        return Err(bad("a CONNECT has no body")
            .with_hint("leave out `Content-Length` and `Transfer-Encoding`"));
    }
    Ok(())
}

fn connect(uri: &Uri) -> Result<Route, Refusal> {
    let authority = uri
        .authority()
        .map(http::uri::Authority::as_str)
        .unwrap_or_default();
    let shown = without_user(authority);
    let form = || bad(format!("CONNECT wants `host:port`, not `{shown}`"));
    if shown != authority {
        return Err(form());
    }
    let (host, port) = authority.rsplit_once(':').ok_or_else(form)?;
    let port = port
        .parse()
        .map_err(|error| bad(format!("CONNECT to `{shown}`: {error}")))?;
    Ok(Route::Connect {
        host: plain_host(host).ok_or_else(form)?,
        port: PortChoice::Port(port),
    })
}

/// `http://host[:port]/…`; the port is 80 when there is none, as the scheme says.
fn absolute(uri: &Uri) -> Result<Route, Refusal> {
    if uri.scheme_str() != Some("http") {
        return Err(bad("only http:// can be asked for in this form")
            .with_hint("clients use CONNECT for https:// through a proxy"));
    }
    let authority = uri
        .authority()
        .map(http::uri::Authority::as_str)
        .unwrap_or_default();
    let shown = without_user(authority);
    let form = || {
        bad(format!(
            "`{shown}` is not of the form `host[:port]`, without a user"
        ))
    };
    if shown != authority {
        return Err(form());
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, "80"),
    };
    let port = port
        .parse()
        .map_err(|error| bad(format!("`{shown}`: {error}")))?;
    Ok(Route::Forward {
        host: plain_host(host).ok_or_else(form)?,
        port: PortChoice::Port(port),
    })
}

fn by_host<B>(request: &Request<B>) -> Result<String, Refusal> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(bad("a request needs one `Host` header"));
    };
    let text = host.to_str().unwrap_or_default();
    let host = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => text,
    };
    plain_host(host).ok_or_else(|| bad(format!("`{}` is not a host", without_user(text))))
}

/// What may be said of an authority: not the user information, which may be a secret.
fn without_user(authority: &str) -> &str {
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, rest)| rest)
}

/// A host without user information.
fn plain_host(host: &str) -> Option<String> {
    (!host.is_empty() && !host.contains(['@', '/', ' '])).then(|| host.to_owned())
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, uri: &str, host: Option<&str>) -> Result<Route, (Via, Refusal)> {
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        route(&request.body(()).unwrap(), |host| host == "172.30.0.11")
    }

    fn port(text: &str) -> PortChoice {
        PortChoice::Port(text.parse().unwrap())
    }

    #[test]
    fn the_first_line_says_what_a_request_is() {
        let host = || "search.default.cluster1".to_owned();
        assert_eq!(
            of("CONNECT", "search.default.cluster1:443", None),
            Ok(Route::Connect {
                host: host(),
                port: port("443")
            })
        );
        assert_eq!(
            of("GET", "http://search.default.cluster1/x", Some("other")),
            Ok(Route::Forward {
                host: host(),
                port: port("80")
            }),
            "the first line counts, not Host"
        );
        assert_eq!(
            of("GET", "http://search.default.cluster1:8080/", None),
            Ok(Route::Forward {
                host: host(),
                port: port("8080")
            })
        );
        assert_eq!(
            of("GET", "/x", Some("search.default.cluster1:8443")),
            Ok(Route::ByHost {
                host: host(),
                port: PortChoice::Default
            })
        );
    }

    #[test]
    fn a_service_owns_all_of_its_paths() {
        assert_eq!(
            of("POST", JOIN_PATH, Some("172.30.0.11:8443")),
            Ok(Route::Join)
        );
        assert_eq!(
            of("GET", STATUS_PATH, Some("172.30.0.11:8443")),
            Ok(Route::Status)
        );
        for path in [JOIN_PATH, STATUS_PATH] {
            assert!(matches!(
                of("POST", path, Some("search.default.cluster1")),
                Ok(Route::ByHost { .. })
            ));
        }
    }

    #[test]
    fn a_connect_has_no_body() {
        for (name, value, good) in [
            ("content-length", "0", true),
            ("content-length", "5", false),
            ("content-length", "x", false),
            ("transfer-encoding", "chunked", false),
        ] {
            let request = Request::connect("search.default.cluster1:443")
                .header(name, value)
                .body(())
                .unwrap();
            assert_eq!(route(&request, |_| true).is_ok(), good, "{name}: {value}");
        }
    }

    #[test]
    fn what_is_none_of_these_is_refused() {
        for (method, uri, host) in [
            ("CONNECT", "search.default.cluster1", None),
            ("GET", "https://search.default.cluster1/", None),
            ("GET", "http://user@search/", None),
            ("GET", "/", None),
            ("GET", "/", Some("")),
        ] {
            let refused = of(method, uri, host).unwrap_err();
            assert_eq!(refused.1.code, RefusalCode::BadRequest, "{method} {uri}");
        }
        let twice = Request::builder()
            .uri("/")
            .header(HOST, "a")
            .header(HOST, "b")
            .body(())
            .unwrap();
        assert!(route(&twice, |_| true).is_err());
    }
}
