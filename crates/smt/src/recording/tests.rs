use super::*;
use crate::snapshot::{TaskTotals, Usage};
use proptest::prelude::*;

fn interval(from_ns: u64) -> Interval {
    let task = |pid| TaskTotals {
        pid,
        comm: format!("worker-{pid}"),
        usage: Usage {
            raw_ns: u64::from(pid) * 1000,
            ..Usage::default()
        },
        ..TaskTotals::default()
    };
    Interval {
        from_ns,
        to_ns: from_ns + 1,
        tasks: (0..20).map(task).collect(),
        ..Interval::default()
    }
}

fn recording(intervals: u64) -> Vec<u8> {
    let header = Header {
        program: "test".to_owned(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    for at in 0..intervals {
        writer.write(&Frame::Interval(interval(at))).unwrap();
    }
    writer.finish(Some(0)).unwrap()
}

/// Beginnings of intervals that could be read, faults, and whether the end is there.
fn read(bytes: &[u8]) -> (Vec<u64>, Vec<Fault>, bool) {
    let (_, frames) = open(bytes).unwrap();
    let (mut intervals, mut faults, mut ended) = (Vec::new(), Vec::new(), false);
    for frame in frames {
        match frame {
            Ok(Frame::Interval(interval)) => intervals.push(interval.from_ns),
            Ok(Frame::End(_)) => ended = true,
            Ok(_) => {}
            Err(fault) => faults.push(fault),
        }
    }
    (intervals, faults, ended)
}

#[test]
fn what_is_written_is_read() {
    let bytes = recording(3);
    let (header, frames) = open(&bytes).unwrap();
    assert_eq!(header.program, "test");
    let frames: Vec<Frame> = frames.map(Result::unwrap).collect();
    assert_eq!(frames.len(), 4);
    assert_eq!(frames[1], Frame::Interval(interval(1)));
    assert_eq!(
        frames[3],
        Frame::End(End {
            status: Some(0),
            frames: 4
        })
    );
}

#[test]
fn a_cut_file_gives_what_is_whole() {
    let bytes = recording(3);
    for length in 0..bytes.len() {
        let cut = &bytes[..length];
        let Ok((_, frames)) = open(cut) else { continue };
        let frames: Vec<_> = frames.collect();
        let (last, whole) = frames
            .split_last()
            .map_or((None, &[][..]), |(l, w)| (Some(l), w));
        assert!(whole.iter().all(Result::is_ok));
        if let Some(Err(fault)) = last {
            assert!(
                matches!(fault, Fault::Truncated { .. }),
                "{length}: {fault}"
            );
        }
        assert!(!read(cut).2);
    }
}

#[test]
fn a_damaged_frame_costs_one_interval() {
    let sound = recording(3);
    let second = {
        let marks: Vec<usize> = (0..sound.len())
            .filter(|&at| sound[at..].starts_with(MARKER))
            .collect();
        marks[2]
    };
    // in the payload, in the length, in the checksum, in the marker
    for offset in [20, 4, 6, 8, 0] {
        let mut bytes = sound.clone();
        bytes[second + offset] ^= 0x55;
        let (intervals, faults, ended) = read(&bytes);
        assert_eq!((intervals.as_slice(), ended), (&[0, 2][..], true));
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].to_string().contains("missing"));
    }
}

#[test]
fn other_files_are_refused() {
    let said = |bytes: &[u8]| open(bytes).map(|_| ()).unwrap_err().to_string();
    assert!(said(b"").contains("no recording"));
    assert!(said(b"SIDELREC").contains("no recording"));
    let mut newer = recording(1);
    newer[8] = 9;
    assert!(said(&newer).contains("version 9"));
    assert!(said(&recording(1)[..20]).contains("beginning is damaged"));
    let mut damaged = recording(1);
    damaged[30] ^= 1;
    assert!(said(&damaged).contains("beginning is damaged"));
}

proptest! {
    #[test]
    fn damage_never_adds_or_changes_intervals(
        at in 40usize..2000, value: u8, cut in 0usize..3000
    ) {
        let mut bytes = recording(3);
        bytes.truncate(cut.max(40));
        let place = at % bytes.len();
        bytes[place] = value;
        if let Ok((_, frames)) = open(&bytes) {
            for frame in frames.flatten() {
                if let Frame::Interval(found) = frame {
                    prop_assert_eq!(&found, &interval(found.from_ns));
                }
            }
        }
    }
}

#[test]
fn of_two_collectors_the_longer_stretch_counts() {
    let interval = |from_ns, to_ns| {
        Frame::Interval(Interval {
            from_ns,
            to_ns,
            ..Interval::default()
        })
    };
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, Header::default()).unwrap();
    for frame in [
        interval(0, 5),
        Frame::Restarted("why".to_owned()),
        interval(6, 10),
        interval(10, 14),
    ] {
        writer.write(&frame).unwrap();
    }
    writer.finish(None).unwrap();
    let (all, notes) = intervals(&file).unwrap();
    assert_eq!(all.iter().map(|i| i.from_ns).collect::<Vec<_>>(), [6, 10]);
    assert!(notes.len() == 1 && notes[0].contains("why"), "{notes:?}");
    let (all, notes) = intervals(&file[..file.len() - 9]).unwrap();
    assert_eq!((all.len(), notes.len()), (2, 2), "the end is missing");
}
