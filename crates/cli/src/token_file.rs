//! Reading and writing the token file.

use std::{
    fs::OpenOptions,
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use anyhow::Context;
use jiff::SignedDuration;
use strait_types::JoinToken;

use crate::{
    age,
    failure::{Failure, WithHint},
};

/// No token file is longer, with room for a hundred certificates.
const MAX_BYTES: u64 = 256 << 10;

/// Reads the file, or standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<JoinToken, Failure> {
    let name = path.display();
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin()
            .lock()
            .take(MAX_BYTES)
            .read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text))
    };
    read.with_context(|| format!("failed to read the token file `{name}`"))?;
    parse(&text)
        .with_context(|| format!("`{name}` is not a token file"))
        .hint("`strait token create --cluster NAME -o token.yaml`, at the hub, makes one")
}

fn parse(text: &str) -> anyhow::Result<JoinToken> {
    match serde_saphyr::from_str(text) {
        Ok(token) => Ok(token),
        // The parser's own message may quote the text, and the text is a secret.
        Err(wrong) => match wrong.location() {
            Some(at) => anyhow::bail!("line {} is not what it should be", at.line()),
            None => anyhow::bail!("it is not what it should be"),
        },
    }
}

/// The token as YAML.
pub(crate) fn to_yaml(token: &JoinToken) -> Result<String, Failure> {
    Ok(serde_saphyr::to_string(token).context("failed to write the token")?)
}

/// The file's text: YAML, with a few words for whoever opens it. `life` is how long it is good.
pub(crate) fn render(token: &JoinToken, life: SignedDuration) -> Result<String, Failure> {
    Ok(format!(
        "# Lets cluster {} join, once, within {}. Keep it secret until then.\n\
         # At that cluster:  strait join --token-file FILE\n{}",
        token.cluster,
        age::span(life),
        to_yaml(token)?,
    ))
}

/// Writes a file that only its owner can read. One that is there is replaced.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let doing = || format!("failed to write `{}`", path.display());
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    let _ = std::fs::remove_file(new);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(new)
        .with_context(doing)?;
    file.write_all(text.as_bytes()).with_context(doing)?;
    file.sync_all().with_context(doing)?;
    std::fs::rename(new, path).with_context(doing)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use jiff::Timestamp;
    use strait_types::JoinCredential;

    use super::*;

    #[test]
    fn a_token_survives_its_file_which_only_its_owner_can_read() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let dir = std::env::temp_dir().join(format!("strait-token-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("token.yaml");
        std::fs::write(&path, "old").unwrap();
        let token = token(now);
        let text = render(&token, SignedDuration::from_hours(1)).unwrap();
        write(&path, &text).unwrap();
        assert_eq!(read(&path).unwrap(), token);
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(
            text.starts_with("# Lets cluster cluster1 join, once, within 1h."),
            "{text}"
        );
    }

    #[test]
    fn a_wrong_file_is_not_quoted() {
        for text in [
            "",
            "hunter2",
            "cluster: hunter2\nwhat: hunter2\n",
            "[hunter2",
        ] {
            let wrong = format!("{:#}", parse(text).unwrap_err());
            assert!(!wrong.contains("hunter2"), "{wrong}");
        }
    }

    fn token(now: Timestamp) -> JoinToken {
        JoinToken {
            cluster: "cluster1".parse().unwrap(),
            expires: now + SignedDuration::from_hours(1),
            hubs: vec!["hub.example.com:8443".to_owned()],
            ca_bundle: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
            token: JoinCredential::from_random([1; 8], [2; 32]),
        }
    }
}
