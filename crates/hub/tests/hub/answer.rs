//! An answer in HTTP/1.1.

use serde_json::Value;

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

// === impl Answer ===

impl Answer {
    pub(crate) fn parse(head: &str) -> Self {
        let mut lines = head.trim_end().split("\r\n");
        let status = lines
            .next()
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Self {
            status,
            headers,
            body: String::new(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The stable code of a refusal, after checking that it is told everywhere it should be.
    pub(crate) fn code(&self) -> String {
        let problem = self.json();
        let code = problem["code"].as_str().unwrap().to_owned();
        assert_eq!(self.header("strait-code"), Some(code.as_str()));
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(problem["status"], self.status);
        assert_eq!(problem["type"], format!("https://strait.dev/errors/{code}"));
        code
    }

    pub(crate) fn hint(&self) -> String {
        self.json()["hint"].as_str().unwrap_or_default().to_owned()
    }
}
