//! The HTTP server: one request a connection, so many connections at a time, each for so long.
//!
//! It has a thread of its own. A client that sends nothing, or does not take what it is sent, costs a connection for a while and
//! holds nobody else up; readings are taken by the thread that asks for requests.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tokio::net::{TcpListener as Listener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The format before, for whoever does not ask for OpenMetrics.
const PLAIN_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// What clients may take of the server.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Further ones wait until one of these has ended.
    connections: usize,
    /// From the beginning of a connection until its request is there.
    request: Duration,
    /// All of a connection.
    connection: Duration,
}

const LIMITS: Limits = Limits {
    connections: 32,
    request: Duration::from_secs(5),
    connection: Duration::from_secs(30),
};

/// Answers `GET /metrics`.
pub struct Server {
    address: SocketAddr,
    wanted: Receiver<Wanted>,
    /// The server's thread ends when this is dropped.
    _running: oneshot::Sender<Infallible>,
}

/// A request for metrics, and where the answer goes: the text, or why there is none.
type Wanted = oneshot::Sender<Result<String, String>>;

/// The server cannot begin, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is none, or in use.
    #[error("cannot listen on {address}: {reason}; give another with --listen HOST:PORT")]
    Listen {
        /// As it was given.
        address: String,
        /// Why.
        reason: String,
    },
    /// No more requests can be received.
    #[error("cannot receive requests: the server's thread has ended")]
    Ended,
}

/// An address as it is written, which may be in use or lead nowhere.
///
/// # Errors
/// It is not of the form `HOST:PORT`.
pub fn address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(text.to_owned())
        }
        _ => {
            Err("expected HOST:PORT with a port from 0 to 65535, such as localhost:9754".to_owned())
        }
    }
}

impl Server {
    /// Listens on `HOST:PORT`; port 0 is any.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn listen(address: &str) -> Result<Server, ServeError> {
        Server::listen_within(address, LIMITS).map_err(|error| ServeError::Listen {
            address: address.to_owned(),
            reason: error.to_string(),
        })
    }

    fn listen_within(address: &str, limits: Limits) -> io::Result<Server> {
        let resolved: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        let socket = TcpListener::bind(&resolved[..])?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (wants, wanted) = channel();
        let (running, ended) = oneshot::channel();
        let serving = move || {
            let _ = runtime.block_on(async {
                tokio::spawn(accept(socket, wants, limits));
                ended.await
            });
        };
        std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(serving)?;
        Ok(Server {
            address,
            wanted,
            _running: running,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a request for so long, and answers it with what `text` gives, in OpenMetrics, or with its error.
    ///
    /// # Errors
    /// [`ServeError::Ended`]. That one client went away is none.
    pub fn answer<E: std::fmt::Display>(
        &self,
        wait: Duration,
        text: impl FnOnce() -> Result<String, E>,
    ) -> Result<(), ServeError> {
        match self.wanted.recv_timeout(wait) {
            // one that went away meanwhile needs no reading
            Ok(wanted) if !wanted.is_closed() => {
                let _ = wanted.send(text().map_err(|error| error.to_string()));
                Ok(())
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(ServeError::Ended),
        }
    }
}

/// Takes connections for ever.
async fn accept(socket: TcpListener, wants: Sender<Wanted>, limits: Limits) {
    let Ok(listener) = Listener::from_std(socket) else {
        return;
    };
    let room = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let wants = wants.clone();
                tokio::spawn(async move {
                    // how a connection ends is the client's affair
                    let _ = timeout(limits.connection, converse(stream, wants, limits)).await;
                    drop(place);
                });
            }
            // no descriptor is left, for instance: others may end
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(stream: TcpStream, wants: Sender<Wanted>, limits: Limits) {
    let answer = service_fn(|request| {
        let wants = wants.clone();
        async move { Ok::<_, Infallible>(respond(request, &wants).await) }
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

/// Whoever asks for anything else than metrics is told what there is.
async fn respond(request: Request<Incoming>, wants: &Sender<Wanted>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT_TYPE,
            "only GET is answered\n",
        );
        (refused.headers_mut()).insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/metrics" => {}
        "/" => {
            return text(
                StatusCode::OK,
                TEXT_TYPE,
                "Sidelane's metrics are at /metrics\n",
            );
        }
        _ => return text(StatusCode::NOT_FOUND, TEXT_TYPE, "only /metrics is here\n"),
    }
    let (wanted, reading) = oneshot::channel();
    let asked = wants.send(wanted).is_ok();
    let reading = if asked { reading.await.ok() } else { None };
    match reading {
        Some(Ok(reading)) if asks_for(&request, OPEN_METRICS) => {
            text(StatusCode::OK, OPEN_METRICS_TYPE, reading)
        }
        Some(Ok(reading)) => text(StatusCode::OK, PLAIN_TYPE, super::plain(&reading)),
        Some(Err(error)) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            TEXT_TYPE,
            format!("{error}\n"),
        ),
        None => text(StatusCode::SERVICE_UNAVAILABLE, TEXT_TYPE, "it is ending\n"),
    }
}

/// Does the client take this type?
fn asks_for(request: &Request<Incoming>, content_type: &str) -> bool {
    let mut accepted = request.headers().get_all(ACCEPT).iter();
    accepted.any(|value| {
        value
            .to_str()
            .is_ok_and(|value| value.contains(content_type))
    })
}

fn text(
    status: StatusCode,
    content_type: &'static str,
    text: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    /// What one request is answered.
    fn ask(server: &Server, request: &str, text: Result<String, &'static str>) -> String {
        let mut client = send(server, request);
        // nothing else is for the reader to answer
        let patience = match request.starts_with("GET /metrics") {
            true => Duration::from_secs(20),
            false => Duration::ZERO,
        };
        server.answer(patience, || text).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    fn send(server: &Server, request: &str) -> TcpStream {
        let mut client = TcpStream::connect(server.address()).unwrap();
        write!(client, "{request}\r\nHost: here\r\n\r\n").unwrap();
        client
    }

    fn ask_once(request: &str, text: Result<String, &'static str>) -> String {
        ask(&Server::listen("localhost:0").unwrap(), request, text)
    }

    #[test]
    fn metrics_are_handed_out() {
        let request =
            "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1";
        let answer = ask_once(request, Ok("a 1\n# EOF\n".into()));
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("a 1\n# EOF\n"));
        assert!(answer.contains("application/openmetrics-text; version=1.0.0"));
        let answer = ask_once("GET /metrics?a=b HTTP/1.1", Ok("a 1\n# EOF\n".into()));
        assert!(answer.ends_with("\r\n\r\na 1\n") && answer.contains("text/plain; version=0.0.4"));
    }

    #[test]
    fn what_fails_is_said() {
        let failed = ask_once("GET /metrics HTTP/1.1", Err("no kernel"));
        assert!(failed.contains("500") && failed.contains("no kernel"));
        assert!(ask_once("GET /other HTTP/1.1", Ok(String::new())).contains("404"));
        assert!(ask_once("POST /metrics HTTP/1.1", Ok(String::new())).contains("405"));
    }

    #[test]
    fn a_bad_address_names_the_remedy() {
        let said = Server::listen("nowhere").err().unwrap().to_string();
        assert!(
            said.contains("nowhere") && said.contains("--listen"),
            "{said}"
        );
        let first = Server::listen("localhost:0").unwrap();
        let taken = Server::listen(&first.address().to_string());
        assert!(taken.err().unwrap().to_string().contains("in use"));
    }

    const HASTY: Limits = Limits {
        connections: 4,
        request: Duration::from_millis(100),
        connection: Duration::from_millis(500),
    };

    /// Sends nothing: is hung up on. Others get their answer, also when all connections are taken by such clients.
    #[test]
    fn silent_clients_are_hung_up_on() {
        let server = Server::listen_within("localhost:0", HASTY).unwrap();
        let connect = |_| TcpStream::connect(server.address()).unwrap();
        let silent: Vec<TcpStream> = (0..3 * HASTY.connections).map(connect).collect();
        let mut client = send(&server, "GET /metrics HTTP/1.1");
        let begun = Instant::now();
        let answered = std::cell::Cell::new(false);
        while !answered.get() && begun.elapsed() < Duration::from_secs(20) {
            let text = || {
                answered.set(true);
                Ok::<_, Infallible>("a 1\n".to_owned())
            };
            server.answer(Duration::from_millis(100), text).unwrap();
        }
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("a 1\n"), "{answer}");
        for mut silent in silent {
            let mut rest = Vec::new();
            silent
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            // the end, or a reset: not the time-out
            let ended = silent.read_to_end(&mut rest);
            assert!(ended.is_ok_and(|_| rest.is_empty() || rest.starts_with(b"HTTP/1.1 408")));
        }
    }

    /// Takes nothing of a long answer: neither the next client nor the reader waits for it, and it is hung up on.
    #[test]
    fn a_client_that_does_not_read_holds_nobody_up() {
        let server = Server::listen_within("localhost:0", HASTY).unwrap();
        let long = "a 1\n".repeat(8 << 20);
        let request = "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text";
        let mut stuck = send(&server, request);
        let mut begun = Instant::now();
        server
            .answer(Duration::from_secs(20), || {
                Ok::<_, Infallible>(long.clone())
            })
            .unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
        let answer = ask(&server, "GET /metrics HTTP/1.1", Ok("b 1\n".into()));
        assert!(answer.ends_with("b 1\n"), "{answer}");
        begun = Instant::now();
        std::thread::sleep(2 * HASTY.connection);
        stuck
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut got = Vec::new();
        let _ = stuck.read_to_end(&mut got);
        assert!(got.len() < long.len(), "all of it");
        assert!(begun.elapsed() < Duration::from_secs(15), "not hung up on");
    }
}
