//! Requests that the hub makes to a service for a caller.

use std::sync::Arc;

use http::{HeaderValue, Request, Response, StatusCode, Uri, Version, header::HOST};
use hyper::{
    body::{Body as _, Incoming},
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use strait_api::Protocol;
use strait_types::{PortChoice, Refusal, RefusalCode};

use super::{
    Body, Connection,
    body::{RequestBody, Sent},
    refuse,
    service_connection::{Exchange, Metered, ServiceConnection, Unsent, Way},
    trace_context, whole,
};
use crate::{
    audit::{AuditLine, End, Meter, Via},
    caller::Caller,
    headers,
    live::Place,
    problem::{self, Role},
    reach::{Ask, cut_refusal},
    snapshot::Destination,
    upstream,
};

/// A request on its way, and what is needed to account for it.
struct Answered {
    response: Response<Incoming>,
    connection: ServiceConnection,
    place: Place,
    sent: Sent,
    /// The caller's side of an upgrade that was asked for.
    upgrade: Option<OnUpgrade>,
    /// The name that the caller asked for, without a port.
    host: String,
}

impl Connection {
    pub(super) async fn forward(
        self: &Arc<Self>,
        request: Request<Incoming>,
        via: Via,
        host: String,
        port: PortChoice,
    ) -> Response<Body> {
        let name = match &port {
            PortChoice::Default | PortChoice::DefaultHttp => host.clone(),
            PortChoice::Port(port) => format!("{host}:{port}"),
        };
        let mut audit = AuditLine::begin(&self.frontend.metrics, self.source, via, &name);
        let ask = Ask {
            host,
            port,
            trace: trace_context(&request),
        };
        match self.ask_service(request, via, &ask, &mut audit).await {
            Ok(answered) => self.pass_on(answered, audit),
            Err(refusal) => refuse(audit, &refusal, via),
        }
    }

    async fn ask_service(
        &self,
        mut request: Request<Incoming>,
        via: Via,
        ask: &Ask,
        audit: &mut AuditLine,
    ) -> Result<Answered, Refusal> {
        let (caller, credential) = self.identify(via, &request).await?;
        audit.caller(&caller.user().name);
        let destination = self.frontend.reach.find(&caller, &ask.host, audit).await?;
        speaks_http(&destination)?;
        let host = host_of(&request)?;
        let wanted = headers::to_service(
            request.headers_mut(),
            credential.as_ref(),
            &host,
            self.source,
        );
        *request.uri_mut() = origin_form(request.uri());
        *request.version_mut() = Version::HTTP_11;
        let upgrade = wanted.map(|_| hyper::upgrade::on(&mut request));
        let sent = Sent::of(request.body());
        let request = request.map(|body| RequestBody::Caller(body, sent.clone()));
        let (response, connection, place) =
            self.send(&caller, destination, ask, request, audit).await?;
        Ok(Answered {
            response,
            connection,
            place,
            sent,
            upgrade,
            host: ask.host.clone(),
        })
    }

    /// Sends the request on the connection that is there, else on a new one.
    async fn send(
        &self,
        caller: &Arc<Caller>,
        destination: Arc<Destination>,
        ask: &Ask,
        mut request: Request<RequestBody>,
        audit: &mut AuditLine,
    ) -> Result<(Response<Incoming>, ServiceConnection, Place), Refusal> {
        let way = Way {
            destination: Arc::clone(&destination),
            port: ask.port.clone(),
        };
        if let Some(mut connection) = self.idle.take(&way) {
            let place = self.frontend.reach.enter(caller, &destination)?;
            audit.counted_by(connection.meter());
            audit.allowed();
            let again = repeatable(&request);
            match cuttable(&mut connection, request, &place, &destination).await? {
                Ok(response) => return Ok((response, connection, place)),
                Err(Unsent::Untouched(untouched)) => request = *untouched,
                // The service closed its side at the moment at which we wrote.
                Err(Unsent::Failed(error)) => match again {
                    Some(again) if !error.is_parse() => request = again,
                    _ => return Err(not_http(&destination, &error)),
                },
            }
        }
        let (mut connection, place) = self
            .connect_to(caller, destination, ask, way.clone())
            .await?;
        audit.counted_by(connection.meter());
        audit.allowed();
        match cuttable(&mut connection, request, &place, &way.destination).await? {
            Ok(response) => Ok((response, connection, place)),
            Err(Unsent::Untouched(_)) => Err(broke_off(&way.destination)),
            Err(Unsent::Failed(error)) => Err(not_http(&way.destination, &error)),
        }
    }

    async fn connect_to(
        &self,
        caller: &Arc<Caller>,
        destination: Arc<Destination>,
        ask: &Ask,
        way: Way,
    ) -> Result<(ServiceConnection, Place), Refusal> {
        let frontend = &self.frontend;
        let opened = frontend.reach.open(caller, destination, ask).await?;
        let (meter, handle) = (Meter::default(), opened.stream.resetter());
        let stream = Metered::new(opened.stream, meter.clone());
        let transport = if upstream::speaks_tls(&opened.destination, &opened.detail) {
            tokio::select! {
                biased;
                code = opened.place.cut().wait() => {
                    return Err(cut_refusal(code, &opened.destination));
                }
                encrypted = frontend.upstream.encrypt(stream, &opened.destination) => encrypted?,
            }
        } else {
            Box::new(stream)
        };
        let head = frontend.limits.head_bytes;
        let parts = (transport, handle, meter);
        ServiceConnection::start(way, parts, head, &frontend.tasks)
            .await
            .map(|connection| (connection, opened.place))
            .map_err(|error| not_http(&opened.destination, &error))
    }

    /// Gives the caller the service's answer.
    fn pass_on(self: &Arc<Self>, answered: Answered, audit: AuditLine) -> Response<Body> {
        let Answered {
            mut response,
            connection,
            place,
            sent,
            upgrade,
            host,
        } = answered;
        let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        let exchange = connection.exchange(place, audit, sent);
        headers::to_caller(response.headers_mut(), &host, switching);
        *response.version_mut() = Version::HTTP_11;
        match (switching, upgrade) {
            (true, Some(caller)) => {
                let service = hyper::upgrade::on(&mut response);
                let exchange = carry(caller, service, exchange, connection);
                self.frontend.tasks.spawn_one(exchange);
                response.map(|_| Body::empty())
            }
            (true, None) => {
                connection.kill();
                exchange.finish(&End::TargetGone);
                let message = "the service switched protocols without being asked to";
                let refusal = Refusal::new(RefusalCode::DialFailed, message);
                whole(problem::render(&refusal, Role::Origin))
            }
            _ => {
                let watching = exchange.watch(self.abort.clone());
                self.frontend.tasks.spawn_one(watching);
                self.idle.put(connection);
                response.map(|body| Body::service(body, exchange))
            }
        }
    }
}

/// Sends a request, until the stream is cut.
async fn cuttable(
    connection: &mut ServiceConnection,
    request: Request<RequestBody>,
    place: &Place,
    destination: &Destination,
) -> Result<Result<Response<Incoming>, Unsent>, Refusal> {
    tokio::select! {
        biased;
        code = place.cut().wait() => {
            connection.kill();
            Err(cut_refusal(code, destination))
        }
        sent = connection.send(request) => Ok(sent),
    }
}

/// The same request once more, when sending it twice does no harm (RFC 9110, 9.2.2): nothing is in
/// its body, and its method changes nothing or changes it to the same.
fn repeatable(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    let harmless = request.method().is_idempotent() && request.body().is_end_stream();
    let upgrade = request.headers().contains_key(http::header::UPGRADE);
    (harmless && !upgrade).then(|| {
        let mut again = Request::new(RequestBody::Nothing);
        again.method_mut().clone_from(request.method());
        again.uri_mut().clone_from(request.uri());
        again.headers_mut().clone_from(request.headers());
        again
    })
}

/// Carries the bytes of an upgraded connection until either side ends or the stream is cut.
async fn carry(
    caller: OnUpgrade,
    service: OnUpgrade,
    exchange: Exchange,
    connection: ServiceConnection,
) {
    let cut = exchange.cut();
    let stream = connection.stream();
    let end = tokio::select! {
        biased;
        code = cut.wait() => End::Cut(code),
        // Also when the caller takes nothing, so that nobody looks at the service's side.
        () = stream.broken() => End::TargetGone,
        end = join(caller, service, connection.meter()) => end,
    };
    exchange.finish(&end);
    drop(connection);
}

async fn join(caller: OnUpgrade, service: OnUpgrade, meter: &Meter) -> End {
    let (caller, service): (Upgraded, Upgraded) = match tokio::join!(caller, service) {
        (Ok(caller), Ok(service)) => (caller, service),
        (Err(_), _) => return End::CallerGone,
        (_, Err(_)) => return End::TargetGone,
    };
    let (mut caller, mut service) = (TokioIo::new(caller), TokioIo::new(service));
    match tokio::io::copy_bidirectional(&mut caller, &mut service).await {
        Ok(_) => End::Complete,
        Err(error) => {
            tracing::debug!(%error, "an upgraded connection broke");
            meter.broken()
        }
    }
}

/// What `Host` the service gets: the one that the caller asked for.
fn host_of(request: &Request<Incoming>) -> Result<HeaderValue, Refusal> {
    let host = match request.uri().authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => request.headers().get(HOST).cloned(),
    };
    host.ok_or_else(|| Refusal::new(RefusalCode::BadRequest, "the request names no host"))
}

fn origin_form(uri: &Uri) -> Uri {
    let path = uri.path_and_query().cloned();
    path.map_or_else(Uri::default, Uri::from)
}

fn speaks_http(destination: &Destination) -> Result<(), Refusal> {
    if destination.protocol == Some(Protocol::Tcp) && destination.tls.is_none() {
        let message = format!("`{}` is exposed as TCP, not as HTTP", destination.service);
        return Err(Refusal::new(RefusalCode::BadRequest, message)
            .with_hint("reach it with CONNECT, for instance through `strait proxy`"));
    }
    Ok(())
}

fn not_http(destination: &Destination, error: &hyper::Error) -> Refusal {
    tracing::debug!(%error, service = %destination.service, "no answer in HTTP");
    if error.is_user() {
        // What the caller sent of it came to an end before its end.
        Refusal::new(RefusalCode::BadRequest, "the request broke off")
    } else if error.is_parse() || error.is_parse_too_large() {
        failed(destination, "did not answer in HTTP/1.1")
    } else {
        broke_off(destination)
    }
}

fn broke_off(destination: &Destination) -> Refusal {
    failed(destination, "closed the connection without an answer")
}

fn failed(destination: &Destination, what: &str) -> Refusal {
    let message = format!("`{}` {what}", destination.service);
    Refusal::new(RefusalCode::DialFailed, message).with_hint(format!(
        "set spec.protocol of ClusterProxyEntrypoint {}/{} if the service speaks something else",
        destination.service.cluster(),
        destination.object
    ))
}
