//! The connection to the service, and the thread that watches it.
//!
//! That thread sleeps in `recv`: when the service ends, however it ends, the kernel closes the
//! connection and the signal is replaced by zeros, so that naps end. Then it looks for a service four
//! times a second. It has all signals blocked. A forked child begins anew.

use crate::status::{self, Status, set_attached, status};
use crate::wire::{ASK_BOARD, BoardHello, Hello, SOCKET_VARIABLE, SUBSCRIBE};
use crate::{board, cpu, nap, region, wire};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

/// How often a service is looked for while there is none.
const RETRY: Duration = Duration::from_millis(250);
/// How long a service may take to greet.
const GREETING: Duration = Duration::from_millis(200);

const NEW: u32 = 0;
const STARTING: u32 = 1;
const STARTED: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(NEW);
/// The connection, for a forked child to close.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);

/// What a program asks the service for, once a connection, when it first needs it.
pub struct Wish {
    byte: u8,
    wanted: AtomicBool,
    /// A further descriptor of the connection, to ask with: the thread that takes it out owns it.
    asker: AtomicI32,
}

/// A job board.
pub static BOARD: Wish = Wish::of(ASK_BOARD);
/// That its futex words are woken.
static WAKES: Wish = Wish::of(SUBSCRIBE);

impl Wish {
    const fn of(byte: u8) -> Wish {
        Wish {
            byte,
            wanted: AtomicBool::new(false),
            asker: AtomicI32::new(-1),
        }
    }

    /// Whether it is wanted from now on, and was not before: it is to be asked for.
    pub fn is_new(&self) -> bool {
        !self.wanted.load(Ordering::Relaxed) && !self.wanted.swap(true, Ordering::SeqCst)
    }

    /// Asks the service for it, if that was not asked before.
    pub fn ask(&self) {
        if let Some(asker) = self.take_asker() {
            // a service that has just ended takes what it gave with it
            let _ = send_byte(&asker, self.byte);
        }
    }

    /// There is a connection.
    fn connected(&self, stream: &UnixStream) -> io::Result<()> {
        let asker = OwnedFd::from(stream.try_clone()?);
        self.asker.store(asker.into_raw_fd(), Ordering::SeqCst);
        // a thread that wants it from here on asks for itself
        if self.wanted.load(Ordering::SeqCst) {
            self.ask();
        }
        Ok(())
    }

    fn take_asker(&self) -> Option<OwnedFd> {
        let fd = self.asker.swap(-1, Ordering::SeqCst);
        // SAFETY: the thread that takes it out of there is its only owner
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// The connection is gone, or about to go.
fn stop_asking() {
    for wish in [&BOARD, &WAKES] {
        drop(wish.take_asker());
    }
}

/// For a program that naps: naps are told to the scheduler, which keeps others off the lane meanwhile, and where they are futex
/// naps the service is to end them.
pub fn want_naps() {
    if BOARD.is_new() {
        BOARD.ask();
    }
    if nap::Method::selected() == nap::Method::Futex && WAKES.is_new() {
        WAKES.ask();
    }
}

/// Begins to watch for the service, once a process; checks do so by themselves. When it returns, a
/// service that runs is attached to.
pub fn start() -> Status {
    let begins = STATE.compare_exchange(NEW, STARTING, Ordering::AcqRel, Ordering::Acquire);
    if begins.is_ok() {
        begin();
        STATE.store(STARTED, Ordering::Release);
    }
    status()
}

fn begin() {
    if region::reserve().is_err() {
        return; // no memory: a no-op for good
    }
    status::at_exit();
    after_fork();
    let connection = attach().inspect_err(status::refused).ok();
    if watch_from_a_thread(connection).is_err() {
        // nobody would notice the service's end; its descriptor is closed already
        CONNECTION.store(-1, Ordering::Release);
        stop_asking();
        let _ = region::hide();
        set_attached(false);
    }
    region::open_fast_path(cpu::find_area());
}

/// In a forked child nobody watches: it begins anew at its first check.
fn after_fork() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    extern "C" fn child() {
        region::open_fast_path(false);
        // SAFETY: the child's copy of a descriptor that only the watching thread used
        unsafe { libc::close(CONNECTION.swap(-1, Ordering::AcqRel)) };
        stop_asking();
        set_attached(false);
        let _ = region::hide();
        let _ = board::hide();
        for wish in [&BOARD, &WAKES] {
            wish.wanted.store(false, Ordering::SeqCst);
        }
        nap::forget();
        STATE.store(NEW, Ordering::Release);
    }
    if !ONCE.swap(true, Ordering::AcqRel) {
        // SAFETY: a function that lives as long as the library, which is never unloaded
        unsafe { libc::pthread_atfork(None, None, Some(child)) };
    }
}

fn watch_from_a_thread(connection: Option<UnixStream>) -> io::Result<()> {
    let name = "sidelane-watch".to_owned();
    // SAFETY: both sets are filled before they are read; the thread inherits the full one
    let before = unsafe {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before
    };
    let thread = std::thread::Builder::new().name(name).stack_size(64 << 10);
    let spawned = thread.spawn(move || watch(connection));
    // SAFETY: filled above
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    spawned.map(drop)
}

fn watch(mut connection: Option<UnixStream>) {
    loop {
        match connection.take() {
            Some(stream) => {
                until_closed(&stream);
                stop_asking();
                CONNECTION.store(-1, Ordering::Release);
                set_attached(false);
                let _ = board::hide();
                if region::hide().is_err() {
                    return; // what is shown may never change again; naps are bounded
                }
            }
            None => std::thread::sleep(RETRY),
        }
        connection = attach().ok();
    }
}

/// Hears what the service says, which is nothing but a job board, until it closes the connection.
fn until_closed(stream: &UnixStream) {
    let mut said = [0u8; BoardHello::LEN];
    loop {
        match receive(stream, &mut said) {
            Ok((0, _)) => return,
            Ok((length, fds)) => {
                if let (Some(_), [board]) = (BoardHello::from_bytes(&said[..length]), &fds[..]) {
                    // without memory for it, marks stay unseen
                    let _ = board::show(board.as_fd());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Says something of one byte, and gets no signal where nobody listens any more.
fn send_byte(to: &OwnedFd, byte: u8) -> io::Result<()> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: one byte that outlives the call
    match unsafe { libc::send(to.as_raw_fd(), (&raw const byte).cast(), 1, flags) } {
        1 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Connects, and puts the signal in place.
fn attach() -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket_path())?;
    check_peer(&stream)?;
    stream.set_read_timeout(Some(GREETING))?;
    let (hello, lines, words) = greeting(&stream)?;
    stream.set_read_timeout(None)?;
    let [lines, words] = [&lines, &words].map(|fd| {
        // SAFETY: borrowed for as long as its owner
        unsafe { BorrowedFd::borrow_raw(fd.as_raw_fd()) }
    });
    region::show(lines, words, hello.lanes)?;
    let asked = BOARD.connected(&stream);
    let asked = asked.and_then(|()| WAKES.connected(&stream));
    asked.inspect_err(|_| {
        stop_asking();
        let _ = region::hide();
    })?;
    CONNECTION.store(stream.as_raw_fd(), Ordering::Release);
    set_attached(true);
    Ok(stream)
}

/// The socket's path; a program with raised privileges does not take it from its environment. That is read once, by a thread of the
/// program's: it may be changed while ours runs, which looks for a service again and again.
fn socket_path() -> &'static OsStr {
    static PATH: OnceLock<OsString> = OnceLock::new();
    PATH.get_or_init(|| {
        // SAFETY: no pointer is involved
        let raised = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
        let named = std::env::var_os(SOCKET_VARIABLE).filter(|_| !raised);
        named.unwrap_or_else(|| wire::DEFAULT_SOCKET.into())
    })
}

/// The memory behind the descriptors is trusted: the service has to be root's, or our own.
fn check_peer(stream: &UnixStream) -> io::Result<()> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: libc::uid_t::MAX,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: room for the structure whose length is given
    let result = unsafe {
        let to = (&raw mut peer).cast();
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        libc::getsockopt(stream.as_raw_fd(), level, name, to, &mut length)
    };
    // SAFETY: no arguments
    let own = unsafe { libc::geteuid() };
    match result {
        0 if peer.uid == 0 || peer.uid == own => Ok(()),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Receives the greeting with its two descriptors.
fn greeting(stream: &UnixStream) -> io::Result<(Hello, OwnedFd, OwnedFd)> {
    let mut bytes = [0u8; Hello::LEN];
    let (got, fds) = receive(stream, &mut bytes)?;
    let [lines, words] = <[OwnedFd; 2]>::try_from(fds).map_err(|_| invalid())?;
    let hello = Hello::from_bytes(&bytes).filter(|_| got == Hello::LEN);
    Ok((hello.ok_or_else(invalid)?, lines, words))
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// Receives bytes, and the descriptors that come with them.
fn receive(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    /// Room for a header and two descriptors, aligned as the header is.
    #[repr(align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut fds = Vec::new();
    // SAFETY: the header points to memory that outlives the call; the CMSG functions stay within
    // the control data that the kernel has filled; each descriptor is new, and ours
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = control.0.len() as _;
        let got = libc::recvmsg(stream.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC);
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        let mut part = libc::CMSG_FIRSTHDR(&header);
        while !part.is_null() {
            let data = libc::CMSG_DATA(part);
            let length = (*part).cmsg_len as usize - (data as usize - part as usize);
            let kind = ((*part).cmsg_level, (*part).cmsg_type);
            if kind == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                for i in 0..length / size_of::<i32>() {
                    let fd = data.cast::<i32>().add(i).read_unaligned();
                    fds.push(OwnedFd::from_raw_fd(fd));
                }
            }
            part = libc::CMSG_NXTHDR(&header, part);
        }
        Ok((got, fds))
    }
}
