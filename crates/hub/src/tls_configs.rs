//! The TLS configurations of now: made anew when what they are made of has changed.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::ServerConfig;
use strait_pki::{
    ClientVerifier, PkiError, Reloadable, ServingCerts, agent_server_config, caller_server_config,
};

use crate::callers_trust::CallersTrust;

/// Makes the server's configurations, for agents and for callers.
#[derive(Debug)]
pub(crate) struct TlsConfigs {
    certificates: Arc<ServingCerts>,
    agents: Reloadable<ClientVerifier>,
    callers: CallersTrust,
    for_agents: Made<u64>,
    for_callers: Made<(u64, u64)>,
}

/// The newest configuration, and the generation of what it was made of.
type Made<G> = Mutex<Option<(G, Arc<ServerConfig>)>>;

// === impl TlsConfigs ===

impl TlsConfigs {
    pub(crate) fn new(
        certificates: Arc<ServingCerts>,
        agents: Reloadable<ClientVerifier>,
        callers: CallersTrust,
    ) -> Self {
        Self {
            certificates,
            agents,
            callers,
            for_agents: Mutex::default(),
            for_callers: Mutex::default(),
        }
    }

    /// For who speaks the session protocol.
    pub(crate) fn for_agents(&self) -> Result<Arc<ServerConfig>, PkiError> {
        let (generation, verifier) = self.agents.get_with_generation();
        let mut made = self.for_agents.lock();
        if let Some((of, config)) = &*made
            && *of == generation
        {
            return Ok(Arc::clone(config));
        }
        let config = agent_server_config(Arc::clone(&self.certificates) as _, &verifier)?;
        let config = Arc::new(config);
        *made = Some((generation, Arc::clone(&config)));
        Ok(config)
    }

    /// For everybody else. A new configuration forgets the TLS sessions of the old one, so that
    /// none is resumed under authorities that do not count any more.
    pub(crate) fn for_callers(&self) -> Result<Arc<ServerConfig>, PkiError> {
        let generations = self.callers.generations();
        let mut made = self.for_callers.lock();
        if let Some((of, config)) = &*made
            && *of == generations
        {
            return Ok(Arc::clone(config));
        }
        let verifier = self.callers.verifier()?;
        let config = caller_server_config(Arc::clone(&self.certificates) as _, verifier.as_ref())?;
        let config = Arc::new(config);
        *made = Some((generations, Arc::clone(&config)));
        Ok(config)
    }
}
