//! JSON in a stream: a big-endian `u32` length, then the text.

use std::io;

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Reads one value of at most `max` bytes; `None` at the end of the stream.
pub(crate) async fn read<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    max: u32,
) -> io::Result<Option<T>> {
    let len = match stream.read_u32().await {
        Ok(len) => len,
        Err(end) if end.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if len > max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "longer than allowed",
        ));
    }
    let mut json = Vec::new();
    // Grows with what arrives, not with what is announced.
    let read = stream.take(u64::from(len)).read_to_end(&mut json).await?;
    if u32::try_from(read).ok() != Some(len) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&json)?))
}

/// Writes one value.
pub(crate) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    value: &impl Serialize,
) -> io::Result<()> {
    let json = serde_json::to_vec(value)?;
    let Ok(len) = u32::try_from(json.len()) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "longer than 4 GiB",
        ));
    };
    stream
        .write_all(&[&len.to_be_bytes()[..], &json].concat())
        .await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn values_survive_and_what_is_too_long_is_refused() {
        let mut bytes = vec![];
        write(&mut bytes, &vec!["a", "b"]).await.unwrap();
        assert_eq!(
            read::<Vec<String>>(&mut bytes.as_slice(), 9).await.unwrap(),
            Some(vec!["a".to_owned(), "b".to_owned()])
        );
        assert!(read::<Vec<String>>(&mut bytes.as_slice(), 8).await.is_err());
        assert!(read::<Vec<String>>(&mut &bytes[..5], 9).await.is_err());
        assert_eq!(
            read::<Vec<String>>(&mut &bytes[..0], 9).await.unwrap(),
            None
        );
    }
}
