//! Any protocol over TCP goes through, and each direction ends by itself.

use anyhow::{Context, Result, ensure};
use strait_e2e::Stage;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_server_that_speaks_first_is_heard() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    for _ in 0..50 {
        let mut io = dev.reach("search.default.cluster1:greet").await?;
        let mut greeting = [0; 4];
        io.read_exact(&mut greeting).await?;
        ensure!(&greeting == b"220 ", "{greeting:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_half_closed_upload_gets_its_answer_whole() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let mut io = dev.reach("search.default.cluster1:sum").await?;
    let bytes = vec![7; 3 << 20];
    io.write_all(&bytes).await?;
    io.shutdown().await?;
    let mut answer = String::new();
    io.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("3145728 "), "{answer}");
    Ok(())
}

#[tokio::test]
async fn what_is_sent_right_before_the_end_arrives() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    for size in [0u32, 1, 16 * 1024, 70_001, 1 << 20] {
        let mut io = dev.reach("search.default.cluster1:source").await?;
        io.write_all(format!("{size}\n").as_bytes()).await?;
        let mut all = vec![];
        io.read_to_end(&mut all).await?;
        ensure!(
            all.len() == usize::try_from(size)?,
            "{} of {size}",
            all.len()
        );
    }
    Ok(())
}

#[tokio::test]
async fn one_who_does_not_read_stops_nobody_else() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let mut stuck = dev.reach("search.default.cluster1:stuck").await?;
    let chunk = vec![0; 1 << 20];
    // Writes until nothing more is taken, and keeps the connection.
    let filled = tokio::time::timeout(std::time::Duration::from_secs(2), async {
        loop {
            stuck.write_all(&chunk).await?;
        }
        #[expect(unreachable_code, reason = "gives the block its type")]
        anyhow::Ok(())
    });
    ensure!(
        filled.await.is_err(),
        "a service that never reads took everything"
    );
    for _ in 0..20 {
        let answer = dev.get("search.default.cluster1:80", "/").await?;
        ensure!(answer.status == 200);
    }
    Ok(())
}

#[tokio::test]
async fn a_page_of_many_bytes_comes_whole() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let answer = dev.get("foo.default.cluster2:http", "/bytes?n=0").await?;
    ensure!(answer.status == 200 && answer.body.is_empty());
    let mut io = dev.reach("foo.default.cluster2:echo").await?;
    let sent: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_be_bytes).collect();
    let (mut reader, mut writer) = tokio::io::split(&mut io);
    let mut received = vec![];
    let (wrote, read) = tokio::join!(
        async {
            writer.write_all(&sent).await?;
            writer.shutdown().await
        },
        reader.read_to_end(&mut received)
    );
    wrote.context("write")?;
    read.context("read")?;
    ensure!(
        received == sent,
        "{} of {} bytes",
        received.len(),
        sent.len()
    );
    Ok(())
}
