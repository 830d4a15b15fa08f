//! `strait token create`.

use std::path::Path;

use anyhow::Context;
use jiff::Timestamp;
use rand::Rng;
use strait_api::is_reserved_cluster;
use strait_file_kit::{HubFile, State};
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

/// Where tokens of a hub go, and what is to be in their files.
enum Hub {
    Cluster(Box<Cluster>),
    Files(State),
}

pub(crate) async fn create(
    global: &GlobalArgs,
    args: &TokenCreateArgs,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    if is_reserved_cluster(args.cluster.as_str()) {
        let what = "is a namespace of the hub itself, so no member can be called so";
        return Err(Failure::usage(format!("`{}` {what}", args.cluster)));
    }
    let now = clock::timestamp();
    let (hub, addresses, ca_bundle) = match &args.config {
        Some(path) => of_files(path, now)?,
        None => of_cluster(global).await?,
    };
    let hubs = if args.hubs.is_empty() {
        addresses
    } else {
        args.hubs.clone()
    };
    if hubs.is_empty() {
        return Err(Failure::new("the hub does not know where members reach it")
            .with_hint("`--hub HOST:PORT` says it for this token, `strait install hub --address HOST:PORT` for all"));
    }
    let expires = now
        .checked_add(args.ttl)
        .context("the token would outlive the calendar")?
        .round(jiff::Unit::Second)
        .context("the token would outlive the calendar")?;
    let secret = random_credential();
    let record = JoinRecord::new(args.cluster.clone(), &secret, expires);
    match hub {
        Hub::Cluster(cluster) => {
            cluster.apply(&record.secret(secret.id(), VERSION)).await?;
        }
        Hub::Files(state) => state
            .write_token(secret.id(), &record)
            .context("failed to keep the token")?,
    }
    let token = JoinToken {
        cluster: args.cluster.clone(),
        expires,
        hubs,
        ca_bundle,
        token: secret,
    };
    let text = token_file::render(&token, args.ttl)?;
    let Some(path) = &args.output else {
        return printer.data(&text);
    };
    token_file::write(path, &text)?;
    printer.say(&how_to_join(args, path))
}

/// What to do with the file. Who has a hub without a cluster may well have members without one.
fn how_to_join(args: &TokenCreateArgs, path: &Path) -> String {
    let (cluster, ttl, path) = (&args.cluster, age::span(args.ttl), path.display());
    let join = format!("{cluster} may join within {ttl} with `strait join --token-file {path}`");
    match &args.config {
        None => join,
        Some(_) => format!(
            "{join};\na machine without a cluster joins as `strait agent --services FILE --identity-dir DIR \
             --token-file {path}`"
        ),
    }
}

/// The hub of a cluster, its addresses, and the certificates that its own chains to.
async fn of_cluster(global: &GlobalArgs) -> Result<(Hub, Vec<String>, String), Failure> {
    let cluster = Cluster::connect(global).await?;
    let Some(info) = cluster.hub_info().await? else {
        return Err(Failure::new("this cluster has no hub, or the hub is not ready yet")
            .with_hint("`strait install hub --wait` installs one; `--context NAME` chooses another cluster"));
    };
    Ok((
        Hub::Cluster(Box::new(cluster)),
        info.addresses,
        info.ca_bundle,
    ))
}

/// The same of a hub that runs from a file.
fn of_files(path: &Path, now: Timestamp) -> Result<(Hub, Vec<String>, String), Failure> {
    let doing = || format!("failed to read `{}`", path.display());
    let text = std::fs::read_to_string(path).with_context(doing)?;
    let spec = HubFile::parse(&text, path).with_context(doing)?.spec;
    let directory = spec.state_directory.unwrap_or_default();
    let state = State::open(&directory, now).context("the hub's directory cannot be used")?;
    let [.., bundle] = state.hub_ca();
    let bundle = std::fs::read_to_string(&bundle)
        .with_context(|| format!("failed to read `{}`", bundle.display()))?;
    Ok((Hub::Files(state), spec.addresses, bundle))
}

fn random_credential() -> JoinCredential {
    let (mut id, mut secret) = ([0; 8], [0; 32]);
    let mut random = rand::rng();
    random.fill_bytes(&mut id);
    random.fill_bytes(&mut secret);
    JoinCredential::from_random(id, secret)
}
