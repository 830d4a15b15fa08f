//! Real Kubernetes clusters on one machine, for the demo and for tests.
//!
//! A [`Fleet`] is a hub and its members: whole clusters (etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler, kubelet, kube-proxy, CoreDNS, containerd), each alone in a *cell* of namespaces, all
//! with the same pod and service addresses. Killing the first process of a cell ends everything in it, so
//! nothing outlives a fleet, not even one whose maker crashed.
//!
//! Nothing can open a connection into a cluster but the machine itself, which plays the administrator,
//! and, at the hub, whoever dials TCP port [`HUB_PORT`].
#![warn(missing_docs)]

mod api_server;
mod cell;
mod cgroup;
mod cluster;
mod command;
mod components;
mod error;
mod firewall;
mod fleet;
mod given;
mod image;
mod images;
mod kube_build;
mod network;
mod packages;
mod paths;
mod pki;
mod plan;
mod process;
mod progress;
mod record;
mod set_lock;
mod wait;

pub use cluster::Cluster;
pub use error::Error;
pub use fleet::{ClusterStatus, Fleet, FleetSpec};
pub use given::{GivenCluster, GivenFleet};
pub use image::{Image, ImageFile};
pub use images::{BuildProfile, Images, StaticBuild};
pub use kube_build::{KUBERNETES_VERSION, Kube};
pub use plan::{ClusterPlan, HUB_PORT, Role, Set};
pub use progress::{Progress, Step};
