//! Manners of plain TCP.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy},
    net::TcpStream,
};

use crate::{digest, ports};

/// Serves one connection as its port says.
pub(crate) async fn serve(tcp: TcpStream, port: u16, name: &str) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    match port {
        ports::GREET => greet(tcp, name).await,
        ports::SUM => sum(tcp).await,
        ports::STUCK => stuck(tcp).await,
        ports::DRIP => drip(tcp).await,
        ports::SOURCE => source(tcp).await,
        _ => echo(tcp).await,
    }
}

async fn echo(mut tcp: TcpStream) -> io::Result<()> {
    let (mut reader, mut writer) = tcp.split();
    copy(&mut reader, &mut writer).await?;
    writer.shutdown().await
}

async fn greet(mut tcp: TcpStream, name: &str) -> io::Result<()> {
    tcp.write_all(format!("220 {name}\n").as_bytes()).await?;
    echo(tcp).await
}

async fn sum(mut tcp: TcpStream) -> io::Result<()> {
    let (count, hash) = digest::sum(&mut tcp).await?;
    tcp.write_all(format!("{count} {hash}\n").as_bytes())
        .await?;
    tcp.shutdown().await
}

/// Holds the connection until the peer resets it; readiness for errors needs no read.
async fn stuck(tcp: TcpStream) -> io::Result<()> {
    tcp.ready(tokio::io::Interest::ERROR).await?;
    Ok(())
}

async fn drip(mut tcp: TcpStream) -> io::Result<()> {
    let mut beat = tokio::time::interval(Duration::from_millis(100));
    loop {
        beat.tick().await;
        tcp.write_all(b".").await?;
    }
}

async fn source(mut tcp: TcpStream) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new((&mut tcp).take(32))
        .read_line(&mut line)
        .await?;
    let count = line.trim().parse().map_err(io::Error::other)?;
    digest::send(&mut tcp, count).await?;
    tcp.shutdown().await
}
