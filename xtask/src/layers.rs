pub(crate) fn check() -> anyhow::Result<()> {
    Ok(())
}
