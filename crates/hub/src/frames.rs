//! JSON in a stream: a big-endian `u32` length, then the text.

use std::io;

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Writes one value.
///
/// # Errors
/// When the stream breaks, or the value has more than `max` bytes.
pub(crate) async fn write<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    value: &T,
    max: u32,
) -> io::Result<()> {
    let json = serde_json::to_vec(value)?;
    let len = u32::try_from(json.len())
        .ok()
        .filter(|len| *len <= max)
        .ok_or_else(too_long)?;
    let mut bytes = Vec::with_capacity(json.len() + 4);
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(&json);
    stream.write_all(&bytes).await?;
    stream.flush().await
}

/// Reads one value.
///
/// # Errors
/// When the stream breaks or ends, what it says is longer than `max`, or is not such a value.
pub(crate) async fn read<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    max: u32,
) -> io::Result<T> {
    let len = stream.read_u32().await?;
    if len > max {
        return Err(too_long());
    }
    let mut json = Vec::new();
    // Grows with what arrives, not with what is announced.
    let read = stream.take(u64::from(len)).read_to_end(&mut json).await?;
    if u32::try_from(read).ok() != Some(len) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&json)?)
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "longer than allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_value_survives_and_an_endless_one_is_refused() {
        let mut bytes = Vec::new();
        write(&mut bytes, &vec!["a", "b"], 100).await.unwrap();
        assert_eq!(
            read::<Vec<String>>(&mut bytes.as_slice(), 100)
                .await
                .unwrap(),
            ["a", "b"]
        );
        assert!(read::<Vec<String>>(&mut bytes.as_slice(), 3).await.is_err());
        let cut = &bytes[..bytes.len() - 1];
        assert!(read::<Vec<String>>(&mut &*cut, 100).await.is_err());
        assert!(write(&mut bytes, &"x".repeat(100), 50).await.is_err());
    }
}
