//! What the hub says of its own certificate files.

use std::time::Duration;

use strait_hub::FileReport;
use strait_pki::PkiError;

use crate::{
    caller::Caller,
    world::{World, eventually},
};

#[tokio::test]
async fn a_broken_file_is_told_and_the_last_good_one_stays() {
    let world = World::start_with(|config| {
        config.callers_ca = Some("/tls/callers.crt".into());
        config.times.certificates = Duration::from_millis(20);
    })
    .await;
    let told = || world.notices.files();
    let good = FileReport {
        given: true,
        problems: vec![],
    };
    eventually("good", || told().as_ref() == Some(&good)).await;
    world
        .material
        .callers_file
        .offer(Err::<_, PkiError>(PkiError::Mismatch));
    eventually("told", || {
        told().is_some_and(|report| report.problems.len() == 1)
    })
    .await;
    let problem = told().unwrap().problems.remove(0);
    assert!(problem.starts_with("--callers-ca: "), "{problem}");
    Caller::new(&world).await;
    world.material.callers_file.offer(Ok::<_, PkiError>(None));
    eventually("good again", || told().as_ref() == Some(&good)).await;
}

#[tokio::test]
async fn a_hub_without_files_says_nothing_of_them() {
    let world =
        World::start_with(|config| config.times.certificates = Duration::from_millis(20)).await;
    let nothing = Some(FileReport::default());
    eventually("nothing", || world.notices.files() == nothing).await;
}
