//! JSON values in a stream: a big-endian `u32` length, then the text.

use std::io;

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Writes one value and flushes it.
///
/// # Errors
/// When the stream breaks, or the value has more than `max` bytes as JSON.
pub async fn write_value<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    value: &T,
    max: u32,
) -> io::Result<()> {
    let json = serde_json::to_vec(value)?;
    let len = u32::try_from(json.len())
        .ok()
        .filter(|len| *len <= max)
        .ok_or_else(too_long)?;
    stream
        .write_all(&[&len.to_be_bytes()[..], &json].concat())
        .await?;
    stream.flush().await
}

/// Reads one value; `None` when the stream ends before it begins.
///
/// # Errors
/// When the stream breaks or ends within it, what it announces is longer than `max`, or is not
/// such a value.
pub async fn read_value<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    max: u32,
) -> io::Result<Option<T>> {
    let len = match stream.read_u32().await {
        Ok(len) => len,
        Err(end) if end.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if len > max {
        return Err(too_long());
    }
    let mut json = Vec::new();
    // Grows with what arrives, not with what is announced.
    let read = stream.take(u64::from(len)).read_to_end(&mut json).await?;
    if u32::try_from(read).ok() != Some(len) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&json)?))
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "longer than allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_value_survives_and_an_endless_or_a_cut_one_is_refused() {
        let mut bytes = vec![];
        write_value(&mut bytes, &["a", "b"], 9).await.unwrap();
        assert!(write_value(&mut vec![], &["a", "b"], 8).await.is_err());
        let read = async |mut bytes: &[u8], max| read_value::<Vec<String>>(&mut bytes, max).await;
        assert_eq!(read(&bytes, 9).await.unwrap().unwrap(), ["a", "b"]);
        assert!(read(&bytes, 8).await.is_err());
        assert!(read(&bytes[..bytes.len() - 1], 9).await.is_err());
        assert_eq!(read(&[], 9).await.unwrap(), None);
    }
}
