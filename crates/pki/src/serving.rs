//! Which certificate the hub shows under which name.

use std::{fmt, sync::Arc, time::Duration};

use cover::covers;
use jiff::{SignedDuration, Timestamp};
use moka::sync::Cache;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use rustls_pki_types::ServerName;

use crate::{Ca, Identity, PkiError, Reloadable};

mod cover;

/// How long a certificate that the hub makes for itself is valid.
const VALIDITY: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How long it is shown before the next one is made.
const SHOWN_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// The most names that have a certificate at one time. One takes about 1 KiB.
const MAX_NAMES: u64 = 10_000;

/// Tells the present time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
/// Tells whether a name, in lower case, is one that the hub serves.
pub type NameCheck = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What [`ServingCerts`] is made of.
pub struct ServingConfig {
    /// Certificates from files. They win wherever they cover the name.
    pub files: Reloadable<Vec<Identity>>,
    /// The authority for the rest; it may be missing when the files cover everything.
    pub ca: Option<Reloadable<Ca>>,
    /// The hub's own names, DNS or IP: they share the default certificate, which is also shown to
    /// clients that ask for no name or for one that nobody serves.
    pub own_names: Vec<String>,
    /// Names beyond those that get a certificate of their own. Nobody else's do, so asking for
    /// random names costs the hub nothing.
    pub serves: NameCheck,
    /// The present time.
    pub clock: Clock,
}

/// Chooses the certificate for each handshake.
pub struct ServingCerts {
    config: ServingConfig,
    made: Cache<(u64, Box<str>), Arc<CertifiedKey>>,
}

// === impl ServingCerts ===

impl ServingCerts {
    /// Makes no certificate yet, except the default one, to see that it can.
    ///
    /// # Errors
    /// When there is neither a file nor an authority that works.
    pub fn new(config: ServingConfig) -> Result<Self, PkiError> {
        let made = Cache::builder()
            .max_capacity(MAX_NAMES)
            .time_to_live(SHOWN_FOR)
            .build();
        let certs = Self { config, made };
        certs.choose(None)?;
        Ok(certs)
    }

    /// The certificate for a name that a client asked for.
    ///
    /// # Errors
    /// When there is no default certificate and none could be made.
    pub fn choose(&self, name: Option<&str>) -> Result<Arc<CertifiedKey>, PkiError> {
        let name = name.map(|n| n.trim_end_matches('.').to_ascii_lowercase());
        let files = self.config.files.get();
        if let Some(name) = &name
            && let Ok(asked) = ServerName::try_from(name.as_str())
            && let Some(found) = files.iter().find(|file| covers(file, &asked))
        {
            return Ok(Arc::clone(found.certified_key()));
        }
        if let (Some(name), Some(_)) = (&name, &self.config.ca)
            && !self.config.own_names.contains(name)
            && (self.config.serves)(name)
        {
            return self.make(name, std::slice::from_ref(name));
        }
        match files.first() {
            Some(first) if self.config.ca.is_none() || self.config.own_names.is_empty() => {
                Ok(Arc::clone(first.certified_key()))
            }
            _ => self.make("", &self.config.own_names),
        }
    }

    /// A certificate of the hub's authority. At most one is made at a time for one name.
    fn make(&self, key: &str, names: &[String]) -> Result<Arc<CertifiedKey>, PkiError> {
        let Some(ca) = &self.config.ca else {
            return Err(PkiError::NotCa);
        };
        let (generation, ca) = ca.get_with_generation();
        let made = self.made.try_get_with((generation, key.into()), || {
            let identity = ca.server_identity(names, VALIDITY, (self.config.clock)())?;
            Ok(Arc::clone(identity.certified_key()))
        });
        made.map_err(|error: Arc<PkiError>| {
            Arc::into_inner(error).unwrap_or_else(|| PkiError::Name(key.to_owned()))
        })
    }
}

impl ResolvesServerCert for ServingCerts {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match self.choose(client_hello.server_name()) {
            Ok(certificate) => Some(certificate),
            Err(error) => {
                tracing::warn!(error = %crate::reload::chain(&error), "no certificate to show");
                None
            }
        }
    }
}

impl fmt::Debug for ServingCerts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCerts")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ServingConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingConfig")
            .field("files", &self.files)
            .field("ca", &self.ca)
            .field("own_names", &self.own_names)
            .finish_non_exhaustive()
    }
}
