//! The two gRPC services on their unix sockets. The kernel says who calls.

mod market;
mod plugin;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use market_api::v1::market_server::MarketServer;
use market_api::v1::plugin_server::PluginServer;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};

pub(crate) use self::market::MarketService;
pub(crate) use self::plugin::PluginService;
use crate::query::Caller;

/// slurmctld's plugins run as SlurmUser, as the daemon does.
const PLUGIN_SOCKET_MODE: u32 = 0o600;
/// Every user may ask; what they may see and do is decided by uid.
const MARKET_SOCKET_MODE: u32 = 0o666;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("cannot listen on {path}: {source}{}", crate::remedy(source))]
    Listen { path: std::path::PathBuf, source: std::io::Error },
    #[error("gRPC: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// Serves both sockets until `stop` resolves.
pub(crate) async fn serve(
    plugin_socket: &Path,
    market_socket: &Path,
    plugins: PluginService,
    market: MarketService,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let plugin_listener = listen(plugin_socket, PLUGIN_SOCKET_MODE)?;
    let market_listener = listen(market_socket, MARKET_SOCKET_MODE)?;
    let plugins = Server::builder()
        .add_service(PluginServer::new(plugins))
        .serve_with_incoming(UnixListenerStream::new(plugin_listener));
    let market = Server::builder()
        .add_service(MarketServer::new(market))
        .serve_with_incoming(UnixListenerStream::new(market_listener));
    tokio::select! {
        served = plugins => Ok(served?),
        served = market => Ok(served?),
        () = stop => Ok(()),
    }
}

/// A socket left behind by a daemon that was killed is replaced; that none runs is sure by now.
fn listen(path: &Path, mode: u32) -> Result<UnixListener, ServeError> {
    let listen = || {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        Ok(listener)
    };
    listen().map_err(|source| ServeError::Listen { path: path.into(), source })
}

fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    let credentials = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
    let credentials =
        credentials.ok_or_else(|| Status::unauthenticated("the socket does not tell who calls"))?;
    Ok(Caller { uid: credentials.uid() })
}
