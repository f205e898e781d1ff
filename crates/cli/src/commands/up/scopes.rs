//! Keeps the scopes of running servers in step with the plant file, as the authority in the same process reads it, or
//! as it lies beside the configuration when the authority runs elsewhere.

use std::time::Duration;

use authority::Authority;
use gates::opcua::Enforcing;
use gates::opcua::guard::GuardHandle;
use pdp::plant::Server;
use plant::station::Running;
use ua_proto::server::Input;

use super::layout;
use super::zones::Zoned;
use crate::commands::own::Own;
use crate::commands::policy::Texts;
use crate::config::{Guard, PlantFiles};
use crate::failure::Failure;

/// How often the authority of this process is asked: tokens index the new map from the moment it has it.
const ASK: Duration = Duration::from_millis(50);
/// How often files are read.
const LOOK: Duration = Duration::from_secs(1);

/// Where a changed plant file is seen.
#[derive(Clone)]
pub(super) enum Source {
    /// Here: what the authority decides by, so that both change together.
    Authority(Authority),
    /// In the files.
    Files(PlantFiles),
}

impl Source {
    pub(super) fn of(authority: Option<Authority>, files: &PlantFiles) -> Self {
        authority.map_or_else(|| Self::Files(files.clone()), Self::Authority)
    }

    /// The scopes of a server and the zones that they stand in; none if the plant file has it no more. Files that say what
    /// they said before are not parsed again: then there is no answer.
    fn server(&self, name: &str, zoned: &Zoned, known: &mut Option<Texts>) -> Option<Result<Option<Begun>, Failure>> {
        let of = |plant: &pdp::Plant| begun(plant, name, zoned);
        Some(match self {
            Self::Authority(authority) => Ok(of(authority.snapshot().plant())),
            Self::Files(files) => Texts::read(files.clone())
                .map(Some)
                .and_then(|texts| {
                    if *known == texts {
                        return Ok(None);
                    }
                    *known = texts;
                    known.as_ref().map(Texts::plant).transpose()
                })
                .transpose()?
                .map(|plant| of(&plant)),
        })
    }

    const fn pause(&self) -> Duration {
        match self {
            Self::Authority(_) => ASK,
            Self::Files(_) => LOOK,
        }
    }
}

/// A server of the plant file and the zones that its scopes stand in.
pub(super) type Begun = (Server, Vec<pep::Zone>);

pub(super) fn begun(plant: &pdp::Plant, name: &str, zoned: &Zoned) -> Option<Begun> {
    plant.server(name).map(|(_, server)| (server.clone(), zoned.of(plant, server)))
}

/// What scopes are laid over.
pub(super) enum Laid {
    Station(Running),
    Guard(GuardHandle, Box<Guard>, Own),
}

impl Laid {
    async fn stopped(&self) {
        match self {
            Self::Station(running) => running.handle.stopped().await,
            Self::Guard(guard, ..) => guard.stopped().await,
        }
    }

    /// Zones first: a scope that is new must not be in none for a moment.
    async fn place(&self, zones: Vec<pep::Zone>) {
        let _stopped = match self {
            Self::Station(running) => running.handle.with(|core, now| core.tell(Input::Zones(zones), now)).await,
            Self::Guard(guard, ..) => guard.with(|core, now| core.tell(Input::Zones(zones), now)).await,
        };
    }

    /// Gives whether the map that tokens index is another.
    async fn lay_out(&self, server: &Server) -> Result<bool, String> {
        match self {
            Self::Station(running) => running.lay_out(server.clone()).await.map_err(|error| error.to_string()),
            Self::Guard(guard, role, own) => {
                let offered = super::guard::identities(role, server, own);
                let layout = layout::of(server).map_err(|failure| failure.in_short())?;
                let changed = move |guard: &mut ua_proto::guard::Guard, now| {
                    guard.offer(offered);
                    guard.lay_out(layout, now)
                };
                let laid = guard.with(changed).await;
                laid.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
            }
        }
    }
}

/// Lays a changed plant file over a running server until that stops; `begun` is what it was started with. What cannot be
/// read or does not fit changes nothing and is said once.
pub(super) async fn follow((name, zoned): (String, Zoned), source: Source, running: Laid, begun: Option<Begun>) {
    let mut seen = Ok(begun);
    let mut known = None;
    loop {
        tokio::select! {
            () = running.stopped() => return,
            () = tokio::time::sleep(source.pause()) => {}
        }
        let (here, asked, within) = (source.clone(), name.clone(), zoned.clone());
        // Reading files blocks.
        let looked = tokio::task::spawn_blocking(move || (here.server(&asked, &within, &mut known), known)).await;
        let Ok((answer, texts)) = looked else { return };
        known = texts;
        let Some(read) = answer.map(|read| read.map_err(|failure| failure.in_short())) else { continue };
        if read == seen {
            continue;
        }
        match &read {
            Ok(Some((server, zones))) => {
                running.place(zones.clone()).await;
                match running.lay_out(server).await {
                    Ok(another) => tracing::info!(server = name, another, "the scopes of the changed plant file hold"),
                    Err(error) => tracing::error!(
                        server = name,
                        error,
                        "the changed plant file does not fit: the old scopes hold, and new tokens may be refused"
                    ),
                }
            }
            Ok(None) => tracing::error!(server = name, "the plant file has this server no more; the old scopes hold"),
            Err(error) => tracing::error!(server = name, error, "the plant file cannot be used; the old scopes hold"),
        }
        seen = read;
    }
}
