//! `strait token create`.

use anyhow::Context;
use rand::Rng;
use strait_install::JoinRecord;
use strait_runtime::clock;
use strait_types::{JoinCredential, JoinToken};

use crate::{
    age,
    args::{GlobalArgs, TokenCreateArgs},
    cluster::Cluster,
    command::version::VERSION,
    failure::Failure,
    printer::Printer,
    token_file,
};

pub(crate) async fn create(
    global: &GlobalArgs,
    args: &TokenCreateArgs,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let cluster = Cluster::connect(global).await?;
    let Some(info) = cluster.hub_info().await? else {
        return Err(Failure::new("this cluster has no hub, or the hub is not ready yet")
            .with_hint("`strait install hub --wait` installs one; `--context NAME` chooses another cluster"));
    };
    let hubs = if args.hubs.is_empty() {
        info.addresses
    } else {
        args.hubs.clone()
    };
    if hubs.is_empty() {
        return Err(Failure::new("the hub does not know where members reach it")
            .with_hint("`--hub HOST:PORT` says it for this token, `strait install hub --address HOST:PORT` for all"));
    }
    let now = clock::timestamp();
    let expires = now
        .checked_add(args.ttl)
        .context("the token would outlive the calendar")?
        .round(jiff::Unit::Second)
        .context("the token would outlive the calendar")?;
    let secret = random_credential();
    let record = JoinRecord::new(args.cluster.clone(), &secret, expires);
    cluster.apply(&record.secret(secret.id(), VERSION)).await?;
    let token = JoinToken {
        cluster: args.cluster.clone(),
        expires,
        hubs,
        ca_bundle: info.ca_bundle,
        token: secret,
    };
    let text = token_file::render(&token, args.ttl)?;
    let Some(path) = &args.output else {
        return printer.data(&text);
    };
    token_file::write(path, &text)?;
    printer.say(&format!(
        "{} may join within {} with `strait join --token-file {}`",
        args.cluster,
        age::span(args.ttl),
        path.display()
    ))
}

fn random_credential() -> JoinCredential {
    let (mut id, mut secret) = ([0; 8], [0; 32]);
    let mut random = rand::rng();
    random.fill_bytes(&mut id);
    random.fill_bytes(&mut secret);
    JoinCredential::from_random(id, secret)
}
