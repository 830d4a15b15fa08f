//! Which credential a request brings, and which headers must not travel on. Pure.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{
    HeaderMap, HeaderName,
    header::{AUTHORIZATION, PROXY_AUTHORIZATION},
};
use strait_types::{Redacted, Refusal, RefusalCode};

use crate::audit::Via;

/// The longest token that is looked at, in bytes. Tokens of API servers have one or two KiB.
const MAX_TOKEN: usize = 16 << 10;

/// What a request says about who sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// A token, in this header, which is for the hub and for nobody else.
    Token(Redacted, HeaderName),
    /// What the connection itself shows: a client certificate, or that it is local.
    Connection,
    /// Nothing.
    Nothing,
}

/// The credential that counts. `Proxy-Authorization` counts always, a client certificate next;
/// `Authorization` counts only where the hub speaks as the service itself and nothing else was
/// given, for it belongs to the service otherwise. A credential that counts and is wrong is never
/// replaced by another one.
pub(crate) fn given(via: Via, headers: &HeaderMap, shows_somebody: bool) -> Result<Given, Refusal> {
    if let Some(token) = token(headers, &PROXY_AUTHORIZATION)? {
        return Ok(Given::Token(token, PROXY_AUTHORIZATION));
    }
    if shows_somebody {
        return Ok(Given::Connection);
    }
    match via {
        Via::HttpsByHost => Ok(token(headers, &AUTHORIZATION)?
            .map_or(Given::Nothing, |token| Given::Token(token, AUTHORIZATION))),
        Via::Connect | Via::ForwardProxy => Ok(Given::Nothing),
    }
}

/// The token of a header: `Bearer <token>`, or `Basic` with the token as the password.
fn token(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Redacted>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let (value, more) = (values.next(), values.next());
    let Some(value) = value else {
        return Ok(None);
    };
    if more.is_some() {
        return Err(Refusal::new(
            RefusalCode::BadRequest,
            format!("`{name}` was given twice"),
        ));
    }
    let wrong = || {
        Refusal::new(
            RefusalCode::Unauthenticated,
            format!("`{name}` is neither `Bearer <token>` nor `Basic` with the token as password"),
        )
    };
    let Ok(text) = value.to_str() else {
        return Err(wrong());
    };
    let (scheme, rest) = text.split_once(' ').ok_or_else(wrong)?;
    let rest = rest.trim();
    let token = if scheme.eq_ignore_ascii_case("bearer") {
        rest.to_owned()
    } else if scheme.eq_ignore_ascii_case("basic") {
        basic_password(rest).ok_or_else(wrong)?
    } else {
        return Err(wrong());
    };
    if token.is_empty() || token.len() > MAX_TOKEN {
        return Err(wrong());
    }
    Ok(Some(Redacted::new(token)))
}

fn basic_password(encoded: &str) -> Option<String> {
    let text = String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()?;
    text.split_once(':')
        .map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    fn token(text: &str, name: HeaderName) -> Given {
        Given::Token(Redacted::new(text), name)
    }

    #[test]
    fn the_proxy_header_counts_first_then_the_certificate_then_the_services_header() {
        let both = headers(&[
            (PROXY_AUTHORIZATION, "Bearer p"),
            (AUTHORIZATION, "Bearer a"),
        ]);
        let own = headers(&[(AUTHORIZATION, "Bearer a")]);
        let by_host = Via::HttpsByHost;
        assert_eq!(
            given(by_host, &both, true),
            Ok(token("p", PROXY_AUTHORIZATION))
        );
        assert_eq!(given(by_host, &own, true), Ok(Given::Connection));
        assert_eq!(given(by_host, &own, false), Ok(token("a", AUTHORIZATION)));
        assert_eq!(given(Via::ForwardProxy, &own, false), Ok(Given::Nothing));
        assert_eq!(
            given(Via::Connect, &HeaderMap::new(), false),
            Ok(Given::Nothing)
        );
    }

    #[test]
    fn basic_carries_the_token_as_password() {
        let value = format!(
            "basic {}",
            BASE64_STANDARD.encode("anything:secret:with:colons")
        );
        let basic = headers(&[(PROXY_AUTHORIZATION, &value)]);
        let expected = token("secret:with:colons", PROXY_AUTHORIZATION);
        assert_eq!(given(Via::Connect, &basic, false), Ok(expected));
    }

    #[test]
    fn a_wrong_header_is_not_as_if_there_were_none() {
        let long = format!("Bearer {}", "x".repeat(MAX_TOKEN + 1));
        for wrong in [
            "Bearer",
            "Bearer ",
            "Basic !",
            "Basic YQ==",
            "Digest x",
            long.as_str(),
        ] {
            let headers = headers(&[(PROXY_AUTHORIZATION, wrong)]);
            let refusal = given(Via::Connect, &headers, true).unwrap_err();
            assert_eq!(refusal.code, RefusalCode::Unauthenticated, "{wrong}");
        }
        let mut twice = headers(&[(PROXY_AUTHORIZATION, "Bearer a")]);
        twice.append(PROXY_AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        let refusal = given(Via::Connect, &twice, false).unwrap_err();
        assert_eq!(refusal.code, RefusalCode::BadRequest);
    }
}
