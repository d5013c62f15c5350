//! What the kernel must offer, and what it must allow.

use super::Finding;
use super::source::{Source, Unreadable};
use crate::cgroups;
use crate::error::{KERNEL_MIN, boot_a_kernel, kernels};
use sidelane_kernel::{Capabilities, Need, Refusal};
use std::path::Path;

/// The first kernel that may stop for ever when it frees storage of tasks while a CPU goes offline, and the first that no longer
/// does (`TaskStorage`).
const KERNELS_STUCK: std::ops::Range<(u32, u32)> = (6, 14)..(7, 0);

/// The first kernel that counts BPF memory in cgroups instead of against the memlock limit.
const KERNEL_WITHOUT_MEMLOCK: (u32, u32) = (5, 11);

const STATE: &str = "sys/kernel/sched_ext/state";
/// The name of the scheduler that is attached; not there without one.
const OPS: &str = "sys/kernel/sched_ext/root/ops";

/// What to do where the kernel is new enough, and sched_ext was left out of it.
const ANOTHER_BUILD: &str = "this kernel is new enough, but was built without CONFIG_SCHED_CLASS_EXT: install one \
                             that has it, such as the distribution's usual one";

/// The name under which the kernel shows this scheduler.
const OURS: &str = "sidelane";

/// The kernel's release, for instance `6.12.9-cloud-amd64`.
fn release(source: &Source) -> Result<Option<String>, Unreadable> {
    source.text("proc/sys/kernel/osrelease")
}

/// Major and minor number of a release.
fn parse_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Major and minor number of the kernel; `None` if they cannot be told.
pub(super) fn version_of(source: &Source) -> Result<Option<(u32, u32)>, Unreadable> {
    Ok(release(source)?.as_deref().and_then(parse_version))
}

pub(super) fn version(source: &Source) -> Result<Finding, Unreadable> {
    let Some(release) = release(source)? else {
        let remedy = format!("see `uname -r`: {} is needed", kernels());
        return Ok(Finding::unknown(
            "/proc/sys/kernel/osrelease is missing",
            remedy,
        ));
    };
    let seen = format!("Linux {release}");
    Ok(match parse_version(&release) {
        None => Finding::unknown(
            seen,
            format!("{} is needed; the release cannot be understood", kernels()),
        ),
        Some(version) if version < KERNEL_MIN => match source.readable(STATE)? {
            true => Finding::warning(
                format!(
                    "{seen}, with sched_ext; Sidelane is tested on {}",
                    kernels()
                ),
                boot_a_kernel(),
            ),
            false => Finding::fail(format!("{seen}, which has no sched_ext"), boot_a_kernel()),
        },
        Some(version) if KERNELS_STUCK.contains(&version) => Finding::warning(
            format!(
                "{seen}, which may hang if a lane goes offline within a second after a BPF program that keeps data of tasks ended"
            ),
            "boot Linux 7.0 or later. Sidelane waits by itself where its own programs end; wait a second before \
             lanes go offline after `kill -9` of one, or after another BPF program has ended",
        ),
        Some(_) => Finding::ok(seen),
    })
}

pub(super) fn sched_ext(source: &Source) -> Result<Finding, Unreadable> {
    Ok(match source.text(STATE)? {
        Some(state) => Finding::ok(format!("/{STATE}: {state}")),
        None => {
            let remedy = match version_of(source)? {
                Some(version) if version >= KERNEL_MIN => ANOTHER_BUILD.to_owned(),
                _ => boot_a_kernel(),
            };
            Finding::fail(format!("/{STATE} is missing"), remedy)
        }
    })
}

pub(super) fn btf(source: &Source) -> Result<Finding, Unreadable> {
    const BTF: &str = "sys/kernel/btf/vmlinux";
    Ok(match source.readable(BTF)? {
        true => Finding::ok(format!("/{BTF} is readable")),
        false => Finding::fail(
            format!("/{BTF} is missing"),
            "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y: programs are fitted to it by BTF",
        ),
    })
}

pub(super) fn jit(source: &Source) -> Result<Finding, Unreadable> {
    const JIT: &str = "proc/sys/net/core/bpf_jit_enable";
    Ok(match source.text(JIT)?.as_deref() {
        Some("0") => Finding::fail(
            format!("/{JIT} is 0: BPF programs are interpreted"),
            "sysctl net.core.bpf_jit_enable=1; a scheduler's programs must be compiled",
        ),
        Some(value) => Finding::ok(format!("/{JIT} is {value}")),
        // The file is there only where a kernel could also interpret.
        None => Finding::ok(format!("/{JIT} is missing: nothing to switch")),
    })
}

pub(super) fn config(source: &Source) -> Result<Finding, Unreadable> {
    let boot = match release(source)? {
        Some(release) => format!("boot/config-{release}"),
        None => "boot/config-RELEASE".to_owned(),
    };
    for file in [boot.as_str(), "proc/config.gz"] {
        if source.readable(file)? {
            return Ok(Finding::ok(format!("/{file} is readable")));
        }
    }
    Ok(Finding::warning(
        format!("neither /{boot} nor /proc/config.gz is there"),
        "the scheduler loads without; only if loading fails for want of a kernel setting, put the \
         kernel's configuration there",
    ))
}

pub(super) fn privileges(source: &Source) -> Result<Finding, Unreadable> {
    const REMEDY: &str = "run as root, or with CAP_SYS_ADMIN, or with CAP_BPF and CAP_PERFMON";
    let status = source.text("proc/self/status")?.unwrap_or_default();
    let uid_map = source.text("proc/self/uid_map")?.unwrap_or_default();
    let Some(own) = Capabilities::parse(&status, &uid_map) else {
        return Ok(Finding::unknown(
            "/proc/self/status tells no capabilities",
            REMEDY,
        ));
    };
    let seen = match own.has_sys_admin() {
        true => "CAP_SYS_ADMIN",
        false => "CAP_BPF and CAP_PERFMON",
    };
    Ok(match (own.suffice(Need::Load), own.suffice(Need::Find)) {
        (Ok(()), Ok(())) => Finding::ok(seen),
        (Ok(()), Err(_)) => Finding::ok(format!(
            "{seen}: they load programs; to find what an attached scheduler counts takes CAP_SYS_ADMIN"
        )),
        (Err(Refusal { missing: None, .. }), _) => Finding::fail(
            format!("{seen}, but only inside a user namespace, where the kernel ignores them"),
            "run outside the container, or in one that shares the host's users",
        ),
        (Err(refusal), _) => Finding::fail(
            format!(
                "neither CAP_SYS_ADMIN nor {}",
                refusal
                    .missing
                    .unwrap_or_default()
                    .replace(" and ", " nor ")
            ),
            REMEDY,
        ),
    })
}

pub(super) fn lockdown(source: &Source) -> Result<Finding, Unreadable> {
    const LOCKDOWN: &str = "sys/kernel/security/lockdown";
    let Some(modes) = source.text(LOCKDOWN)? else {
        return Ok(Finding::ok(format!(
            "/{LOCKDOWN} is missing: nothing is locked down"
        )));
    };
    // The active mode stands in brackets: none [integrity] confidentiality
    let mode = modes
        .split_whitespace()
        .find_map(|mode| mode.strip_prefix('[')?.strip_suffix(']'));
    Ok(match mode {
        Some("confidentiality") => Finding::warning(
            "confidentiality: BPF programs may not read kernel memory",
            "if the kernel refuses the scheduler, boot with lockdown=integrity",
        ),
        Some(mode) => Finding::ok(mode),
        None => Finding::unknown(
            format!("/{LOCKDOWN} holds \"{modes}\""),
            "one mode in brackets is expected; any but confidentiality will do",
        ),
    })
}

pub(super) fn memlock(source: &Source) -> Result<Finding, Unreadable> {
    let limits = source.text("proc/self/limits")?.unwrap_or_default();
    let locked = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"));
    let limit = locked.and_then(|rest| rest.split_whitespace().next());
    let version = version_of(source)?;
    Ok(match (limit, version) {
        (Some("unlimited"), _) => Finding::ok("unlimited"),
        (Some(bytes), Some(version)) if version >= KERNEL_WITHOUT_MEMLOCK => Finding::ok(format!(
            "{bytes} bytes; this kernel does not count BPF memory against it"
        )),
        (Some(bytes), _) => Finding::warning(
            format!("{bytes} bytes, and this kernel may count BPF memory against it"),
            "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service",
        ),
        (None, _) => Finding::unknown(
            "/proc/self/limits tells no limit of locked memory",
            "see `ulimit -l`: unlimited is safe",
        ),
    })
}

pub(super) fn other_scheduler(source: &Source) -> Result<Finding, Unreadable> {
    let Some(state) = source.text(STATE)? else {
        return Ok(Finding::ok("none: the kernel has no sched_ext"));
    };
    if state == "disabled" {
        return Ok(Finding::ok("none is attached"));
    }
    let name = source.text(OPS)?.unwrap_or_default();
    Ok(match state.as_str() {
        "enabled" | "enabling" if is_ours(&name) => {
            let all = source.text("sys/kernel/sched_ext/switch_all")?;
            let scope = match all.as_deref() {
                Some("0") => ", for batch alone",
                _ => "",
            };
            Finding::ok(format!("{name}: this scheduler itself is attached{scope}"))
        }
        "enabled" | "enabling" => Finding::fail(
            format!(
                "{} is attached",
                if name.is_empty() {
                    "another scheduler"
                } else {
                    &name
                }
            ),
            "stop it first (for instance `systemctl stop scx`): only one can be attached",
        ),
        "disabling" => Finding::warning("one is being detached", "try again in a moment"),
        _ => Finding::unknown(
            format!("/{STATE} holds \"{state}\""),
            "the state disabled is expected; see that no other scheduler is attached",
        ),
    })
}

/// Is a scheduler of ours attached?
pub(super) fn is_attached(source: &Source) -> Result<bool, Unreadable> {
    let name = source.text(OPS)?;
    Ok(name.is_some_and(|name| is_ours(&name)))
}

/// Whether a name under `sched_ext/root/ops` is this scheduler's; the kernel shows a name that
/// begins with ours, perhaps with a version behind it.
fn is_ours(name: &str) -> bool {
    name.strip_prefix(OURS)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '-']))
}

pub(super) fn cgroup_v2(source: &Source) -> Result<Finding, Unreadable> {
    let Some(mounts) = source.text("proc/self/mounts")? else {
        let remedy = "see `findmnt -t cgroup2`: a mount is needed by cgroup: and unit: rules";
        return Ok(Finding::unknown("/proc/self/mounts is missing", remedy));
    };
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    let Some(unified) = mounts.iter().find(|mount| mount.kind == "cgroup2") else {
        return Ok(Finding::warning(
            "not mounted: rules by cgroup: and unit: match nothing",
            "mount -t cgroup2 none /sys/fs/cgroup, or boot with systemd.unified_cgroup_hierarchy=1",
        ));
    };
    let controllers = format!("{}/cgroup.controllers", unified.at.trim_matches('/'));
    let lacks_cpu = source
        .text(&controllers)?
        .is_some_and(|names| names.split_whitespace().all(|name| name != "cpu"));
    let elsewhere = mounts
        .iter()
        .find(|mount| mount.kind == "cgroup" && mount.options.split(',').any(|o| o == "cpu"));
    let why = match elsewhere {
        Some(old) => format!("the cpu controller belongs to cgroup v1 at {}", old.at),
        None if lacks_cpu => format!("/{controllers} names no cpu controller"),
        None => {
            let limits = limits(&source.root().join(unified.at.trim_matches('/')));
            return Ok(Finding::ok(format!("mounted at {}{limits}", unified.at)));
        }
    };
    Ok(Finding::warning(
        format!(
            "mounted at {}, but {why}: there is no cpu.weight and no cpu.max for cgroup_weights and cgroup_quotas",
            unified.at
        ),
        "boot with systemd.unified_cgroup_hierarchy=1 if weights and quotas of cgroups are to count; rules work as they are",
    ))
}

/// What cgroups there are to whose weights and limits the scheduler sees while it is attached; nothing if there are none.
fn limits(mount: &Path) -> String {
    let found = cgroups::list(mount);
    let limits = cgroups::quotas(mount, found.values()).len();
    let weights = cgroups::weighed(mount, found.values());
    match (limits, weights) {
        (0, 0) => String::new(),
        _ => format!(
            "; {limits} cgroups with a cpu.max, {weights} with a cpu.weight other than 100: both hold unless the configuration says otherwise"
        ),
    }
}

/// A line of `/proc/self/mounts`.
struct Mount<'a> {
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl Mount<'_> {
    fn parse(line: &str) -> Option<Mount<'_>> {
        let mut fields = line.split(' ').skip(1);
        Some(Mount {
            at: fields.next()?,
            kind: fields.next()?,
            options: fields.next()?,
        })
    }
}
