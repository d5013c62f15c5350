//! The HTTP server.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;
use tiny_http::{Header, Method, Request, Response};

const OPEN_METRICS: &str = "application/openmetrics-text";
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The format before, for whoever does not ask for OpenMetrics.
const PLAIN_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers `GET /metrics`.
pub struct Server {
    http: tiny_http::Server,
    address: SocketAddr,
}

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
    #[error("cannot receive requests: {0}")]
    Receive(#[from] io::Error),
}

impl Server {
    /// Listens on `HOST:PORT`; port 0 is any.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn listen(address: &str) -> Result<Server, ServeError> {
        let failed = |reason: String| ServeError::Listen {
            address: address.to_owned(),
            reason,
        };
        let resolved: Vec<SocketAddr> = address
            .to_socket_addrs()
            .map_err(|error| failed(error.to_string()))?
            .collect();
        let http = tiny_http::Server::http(&resolved[..]).map_err(|e| failed(e.to_string()))?;
        let address = http.server_addr().to_ip();
        let address = address.ok_or_else(|| failed("it is no address of a network".into()))?;
        Ok(Server { http, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a request for so long, and answers it with what `text` gives, or with its error.
    /// Who asks for anything else is told what there is.
    ///
    /// # Errors
    /// [`ServeError::Receive`]. That one client went away is none.
    pub fn answer<E: std::fmt::Display>(
        &self,
        wait: Duration,
        text: impl FnOnce() -> Result<String, E>,
    ) -> Result<(), ServeError> {
        let Some(request) = self.http.recv_timeout(wait)? else {
            return Ok(());
        };
        let path = request
            .url()
            .split('?')
            .next()
            .unwrap_or_default()
            .to_owned();
        let readable = matches!(request.method(), Method::Get | Method::Head);
        let response = match (readable, path.as_str()) {
            (false, _) => plain(405, "only GET is answered\n"),
            (true, "/metrics") => match text() {
                Ok(text) if asks_for(&request, OPEN_METRICS) => {
                    with_type(Response::from_string(text), CONTENT_TYPE)
                }
                Ok(text) => with_type(Response::from_string(super::plain(&text)), PLAIN_TYPE),
                Err(error) => plain(500, &format!("{error}\n")),
            },
            (true, "/") => plain(200, "Sidelane's metrics are at /metrics\n"),
            (true, _) => plain(404, "only /metrics is here\n"),
        };
        let _ = request.respond(response); // a client that went away is its own affair
        Ok(())
    }
}

/// Does the client take this type?
fn asks_for(request: &Request, content_type: &str) -> bool {
    let accepts = |header: &Header| header.field.equiv("Accept");
    let mut accepted = request.headers().iter().filter(|header| accepts(header));
    accepted.any(|header| header.value.as_str().contains(content_type))
}

type Text = Response<io::Cursor<Vec<u8>>>;

fn plain(status: u16, text: &str) -> Text {
    with_type(Response::from_string(text), "text/plain; charset=utf-8").with_status_code(status)
}

fn with_type(response: Text, content_type: &str) -> Text {
    match Header::from_bytes("Content-Type", content_type) {
        Ok(header) => response.with_header(header),
        Err(()) => response,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// What one request is answered.
    fn ask(request: &str, text: Result<String, &'static str>) -> String {
        let server = Server::listen("localhost:0").unwrap();
        let mut client = TcpStream::connect(server.address()).unwrap();
        write!(
            client,
            "{request}\r\nHost: here\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        server.answer(Duration::from_secs(10), || text).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_are_handed_out() {
        let request =
            "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1";
        let answer = ask(request, Ok("a 1\n# EOF\n".into()));
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("a 1\n# EOF\n"));
        assert!(answer.contains("application/openmetrics-text; version=1.0.0"));
        let answer = ask("GET /metrics HTTP/1.1", Ok("a 1\n# EOF\n".into()));
        assert!(answer.ends_with("\r\n\r\na 1\n") && answer.contains("text/plain; version=0.0.4"));
    }

    #[test]
    fn what_fails_is_said() {
        assert!(ask("GET /metrics HTTP/1.1", Err("no kernel")).contains("500"));
        assert!(ask("GET /metrics HTTP/1.1", Err("no kernel")).contains("no kernel"));
        assert!(ask("GET /other HTTP/1.1", Ok(String::new())).contains("404"));
        assert!(ask("POST /metrics HTTP/1.1", Ok(String::new())).contains("405"));
    }

    #[test]
    fn a_bad_address_names_the_remedy() {
        let said = Server::listen("nowhere").err().unwrap().to_string();
        assert!(
            said.contains("nowhere") && said.contains("--listen"),
            "{said}"
        );
    }
}
