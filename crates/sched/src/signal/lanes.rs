//! The lane signal on a kernel that keeps its own scheduler: a tracer of context switches.

use super::service::{Maps, Service};
use super::{fill_lines, socket_path};
use crate::Error;
use crate::bpf::lanes::{LanesSkel, LanesSkelBuilder};
use crate::cgroups;
use crate::error::load_error;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};
use sidelane_kernel::{Need, allowed, switch_everywhere};
use sidelane_topology::Topology;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the end is looked for.
const POLL: Duration = Duration::from_millis(50);

/// Which cgroups are critical and batch: paths from the cgroup root, `/` first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Work that somebody waits for.
    pub critical: String,
    /// Work that may wait.
    pub batch: String,
}

/// Where cgroup v2 is mounted.
///
/// # Errors
/// [`Error::Signal`]: it is not.
pub fn mount_point(root: &Path) -> Result<PathBuf, Error> {
    let found = cgroups::mount_point(root).ok().flatten();
    found.ok_or_else(|| Error::Signal("cgroup v2 is not mounted".to_owned()))
}

/// Keeps the signal and serves it until `stop` is set; `serving` is called once that has begun.
///
/// # Errors
/// What prevented it.
pub fn run(groups: &Groups, stop: &AtomicBool, serving: &mut dyn FnMut()) -> Result<(), Error> {
    allowed(Need::Load).map_err(sidelane_kernel::Error::from)?;
    sidelane_kernel::prepare();
    let mut object = MaybeUninit::uninit();
    let tracer = Tracer::attach(groups, &mut object)?;
    serving();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(POLL);
    }
    drop(tracer);
    Ok(())
}

/// An attached tracer, and the service of its signal.
struct Tracer<'a> {
    _service: Service,
    _link: Link,
    _skel: LanesSkel<'a>,
}

impl<'a> Tracer<'a> {
    fn attach(
        groups: &Groups,
        object: &'a mut MaybeUninit<OpenObject>,
    ) -> Result<Tracer<'a>, Error> {
        let topology = Topology::read(Path::new("/"))?;
        let failed = load_error;
        let mut open = LanesSkelBuilder::default()
            .open(object)
            .map_err(failed("open the tracer of"))?;
        let lanes = topology.nr_cpu_ids() as u32;
        let sized = open.maps.lane_signals.set_max_entries(lanes);
        sized.map_err(failed("size the tables of"))?;
        if let Some(rodata) = open.maps.rodata_data.as_mut() {
            rodata.critical_cgroup = id_of(&groups.critical)?;
            rodata.batch_cgroup = id_of(&groups.batch)?;
        }
        let skel = open.load().map_err(failed("load the tracer of"))?;
        fill_lines(&skel.maps.lane_signals, &topology)?;
        let link = skel.progs.sidelane_switch.attach_trace();
        let link = link.map_err(failed("attach the tracer of"))?;
        switch_everywhere(&topology);
        let maps = &skel.maps;
        let maps = Maps::new(
            &maps.lane_signals,
            &maps.signal_events,
            &maps.signal_waiters,
            None,
        )?;
        Ok(Tracer {
            _service: Service::start(maps, &socket_path())?,
            _link: link,
            _skel: skel,
        })
    }
}

/// The id of a cgroup: on 64-bit kernels, its inode number.
fn id_of(path: &str) -> Result<u64, Error> {
    let folder = cgroups::folder(&mount_point(Path::new("/"))?, path);
    let metadata = std::fs::metadata(&folder)
        .map_err(|e| Error::Signal(format!("no cgroup {}: {e}", folder.display())))?;
    Ok(metadata.ino())
}
