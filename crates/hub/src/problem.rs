//! Refusals as HTTP answers.

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, PROXY_AUTHENTICATE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde::Serialize;
use strait_types::{Refusal, RefusalCode};

/// The header that carries the stable code of a refusal; no service can set it.
pub(crate) const CODE_HEADER: HeaderName = HeaderName::from_static("strait-code");
/// Media type of RFC 9457.
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// Where the codes are explained.
const TYPE_BASE: &str = "https://strait.dev/errors/";
/// Seconds after which a caller may try again what may work then.
const RETRY_SECONDS: &str = "5";

/// Who answers: a proxy or the service's own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The caller speaks to the hub as to a proxy.
    Proxy,
    /// The caller speaks to the hub as if it were the service.
    Origin,
}

#[derive(Debug, Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    code: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

/// The answer to a request that was refused: status, headers and an RFC 9457 document.
pub(crate) fn render(refusal: &Refusal, role: Role) -> Response<Bytes> {
    let status = status(refusal.code, role);
    document(
        status,
        refusal.code.as_str(),
        &refusal.message,
        refusal.hint.as_deref(),
        role,
    )
}

/// The same for codes of another set.
pub(crate) fn document(
    status: StatusCode,
    code: &'static str,
    detail: &str,
    hint: Option<&str>,
    role: Role,
) -> Response<Bytes> {
    let problem = Problem {
        r#type: format!("{TYPE_BASE}{code}"),
        title: status.canonical_reason().unwrap_or("Error"),
        status: status.as_u16(),
        code,
        detail,
        hint,
    };
    let mut body = serde_json::to_vec(&problem).unwrap_or_default();
    body.push(b'\n');
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, PROBLEM_JSON);
    headers.insert(CODE_HEADER, HeaderValue::from_static(code));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let challenge = match role {
        _ if !matches!(status.as_u16(), 401 | 407) => None,
        Role::Proxy => Some(PROXY_AUTHENTICATE),
        Role::Origin => Some(WWW_AUTHENTICATE),
    };
    if let Some(challenge) = challenge {
        headers.append(
            challenge.clone(),
            HeaderValue::from_static("Bearer realm=\"strait\""),
        );
        headers.append(
            challenge,
            HeaderValue::from_static("Basic realm=\"strait\""),
        );
    }
    if matches!(status.as_u16(), 429 | 503) {
        headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
    }
    response
}

fn status(code: RefusalCode, role: Role) -> StatusCode {
    match (code, role) {
        (RefusalCode::Unauthenticated, Role::Proxy) => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        _ => StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_status_code_and_hint() {
        let refusal = Refusal::new(RefusalCode::EntrypointNotFound, "nothing is there")
            .with_hint("did you mean `a.b.c`?");
        let response = render(&refusal, Role::Origin);
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()["strait-code"], "entrypoint-not-found");
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(
            body,
            serde_json::json!({
                "type": "https://strait.dev/errors/entrypoint-not-found",
                "title": "Not Found",
                "status": 404,
                "code": "entrypoint-not-found",
                "detail": "nothing is there",
                "hint": "did you mean `a.b.c`?",
            })
        );
    }

    #[test]
    fn every_code_says_what_to_do_next_in_headers() {
        for code in RefusalCode::ALL {
            for role in [Role::Proxy, Role::Origin] {
                let response = render(&Refusal::new(*code, "x"), role);
                let (status, headers) = (response.status().as_u16(), response.headers());
                assert!(status >= 400, "{code}");
                assert_eq!(headers.contains_key("retry-after"), status == 503, "{code}");
                assert_eq!(
                    headers.contains_key("www-authenticate"),
                    status == 401,
                    "{code}"
                );
                assert_eq!(
                    headers.contains_key("proxy-authenticate"),
                    status == 407,
                    "{code}"
                );
            }
        }
        let proxy = render(
            &Refusal::new(RefusalCode::Unauthenticated, "x"),
            Role::Proxy,
        );
        assert_eq!(proxy.status(), 407);
    }
}
