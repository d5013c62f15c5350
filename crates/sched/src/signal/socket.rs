//! The socket of the service, and what a program is given on it.

use crate::Error;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use sidelane_kernel::public_folder;
use sidelane_runtime::wire::{BoardHello, Hello};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The listening socket; its file goes with it.
pub struct Socket {
    pub listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Listens, for everybody. A file that a killed service left is replaced.
    pub fn listen(path: &Path) -> Result<Socket, Error> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |e: io::Error| Error::Signal(format!("{what} {}: {e}", path.display()))
        };
        if let Some(folder) = path.parent() {
            public_folder(folder).map_err(failed("create the folder of"))?;
        }
        match UnixStream::connect(path) {
            Ok(_) => {
                let problem =
                    "another service listens there; stop it, or set SIDELANE_SIGNAL_SOCKET";
                return Err(Error::Signal(format!("{}: {problem}", path.display())));
            }
            // a file of another kind refuses, too: binding tells of it
            Err(e) if e.kind() == ErrorKind::ConnectionRefused && is_socket(path) => {
                fs::remove_file(path).map_err(failed("remove"))?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(failed("listen on"))?;
        listener
            .set_nonblocking(true)
            .map_err(failed("listen on"))?;
        fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(failed("open"))?;
        Ok(Socket {
            listener,
            path: path.to_owned(),
        })
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|of| of.file_type().is_socket())
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Zeros in memory, one word a lane: the service's file, and the one for programs, which can only be read.
pub fn futex_words(lanes: u32) -> io::Result<(File, File)> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create(c"sidelane-signal", flags)?);
    file.set_len(u64::from(lanes) * size_of::<u32>() as u64)?;
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let readable = OpenOptions::new().read(true).open(own)?;
    file.set_permissions(Permissions::from_mode(0o400))?;
    Ok((file, readable))
}

/// Greets a program. It has to take the greeting at once: the service waits for nobody.
pub fn greet(
    program: &UnixStream,
    lanes: u32,
    lines: BorrowedFd<'_>,
    words: &File,
) -> io::Result<()> {
    program.set_nonblocking(true)?;
    let hello = Hello { lanes }.to_bytes();
    send(program, &hello, &[lines, words.as_fd()])
}

/// Hands a program its job board.
pub fn hand_board(program: &UnixStream, board: BorrowedFd<'_>) -> io::Result<()> {
    send(program, &BoardHello.to_bytes(), &[board])
}

fn send(program: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let flags = MsgFlags::MSG_NOSIGNAL;
    let parts = [IoSlice::new(bytes)];
    sendmsg::<()>(program.as_raw_fd(), &parts, &rights, flags, None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_file_left_by_a_killed_service_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/signal.sock");
        let socket = Socket::listen(&path).unwrap();
        assert!(Socket::listen(&path).is_err());
        let left = socket.listener.try_clone().unwrap();
        std::mem::forget(socket); // killed: the file stays
        drop(left);
        // the forgotten listener still listens, so its file is in use
        assert!(path.exists());
        let other = folder.path().join("other.sock");
        drop(UnixListener::bind(&other).unwrap());
        let socket = Socket::listen(&other).unwrap();
        let mode = fs::metadata(&other).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
        drop(socket);
        assert!(!other.exists());
    }

    #[test]
    fn programs_cannot_write_the_words() {
        use std::io::Write;
        let (mut own, mut readable) = futex_words(4).unwrap();
        assert!(own.write(&[1]).is_ok());
        assert!(readable.write(&[1]).is_err());
        assert!(own.set_len(1).is_err(), "sealed");
    }
}
