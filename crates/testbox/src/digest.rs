//! Bytes that can be checked, and what checks them.

use std::io;

use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How much is read or written at once.
pub(crate) const CHUNK: usize = 64 * 1024;

/// Reads to the end; says how many bytes there were and their SHA-256 in hex.
pub(crate) async fn sum(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let mut count = 0;
    let mut buffer = vec![0; CHUNK];
    loop {
        let n = reader.read(&mut buffer).await?;
        let Some(read) = buffer.get(..n).filter(|read| !read.is_empty()) else {
            break;
        };
        hash.update(read);
        count += n as u64;
    }
    Ok((count, hex(&hash.finalize())))
}

/// Writes `count` bytes that differ from place to place; returns their SHA-256 in hex.
pub(crate) async fn send(writer: &mut (impl AsyncWrite + Unpin), count: u64) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut sent = 0;
    while sent < count {
        let n = (count - sent).min(CHUNK as u64);
        let chunk: Vec<u8> = (sent..sent + n).map(byte_at).collect();
        hash.update(&chunk);
        writer.write_all(&chunk).await?;
        sent += n;
    }
    writer.flush().await?;
    Ok(hex(&hash.finalize()))
}

/// The byte at a place: a multiplicative hash, so that a shifted or repeated piece is noticed.
pub(crate) fn byte_at(place: u64) -> u8 {
    place.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0]
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_sent_is_what_is_summed() {
        let mut bytes = vec![];
        let sent = send(&mut bytes, 100_001).await.unwrap();
        assert_eq!(sum(&mut bytes.as_slice()).await.unwrap(), (100_001, sent));
    }
}
