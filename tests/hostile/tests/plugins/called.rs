//! The safe face on plugins that misbehave when called, and its own rules.

use std::sync::Arc;
use std::time::Duration;

use cajeta_abi::{Code, MemoryKind, Problem};
use cajeta_plugin_host::{Backend, Device, LaunchSpec, open_path};

use crate::folder::{Folder, probe_options};

fn backend(folder: &Folder, behaviour: &str) -> Backend {
    let manifest = folder.plugin(behaviour, "zebra");
    open_path(&manifest, None).expect("it opens")
}

fn device(folder: &Folder, behaviour: &str) -> Device {
    backend(folder, behaviour).open(0).expect("it opens")
}

fn code<T: std::fmt::Debug>(answer: Result<T, cajeta_plugin_host::DeviceError>) -> Code {
    answer.expect_err("refused").code
}

#[test]
fn a_path_names_a_library_a_manifest_or_a_folder() {
    let folder = Folder::new();
    let manifest = folder.plugin("honest", "zebra");
    let library = folder.path.join("libhonest__zebra.so");
    for path in [&folder.path, &manifest, &library] {
        let backend = open_path(path, Some(&probe_options())).expect("it opens");
        assert_eq!((backend.id(), backend.path()), ("zebra", library.as_path()));
    }
    let bare = Folder::new();
    bare.library("honest", "yak");
    assert_eq!(open_path(&bare.path.join("libhonest__yak.so"), None).expect("no manifest").id(), "yak");
    let crashing = Folder::new();
    crashing.plugin("panics-in-probe", "zebra");
    let refusal = open_path(&crashing.path, Some(&probe_options())).expect_err("the child died of it");
    assert!(refusal.to_string().contains("the card is on fire"), "{refusal}");
    assert!(open_path(&bare.path, None).expect_err("no manifest").reason.contains("holds no manifest"));
    assert!(open_path(&bare.path.join("none"), None).is_err());
}

#[test]
fn copies_lists_and_tickets_work_on_an_honest_one() {
    let folder = Folder::new();
    let device = device(&folder, "honest");
    let mut queue = device.queue().expect("a queue");
    let from = device.alloc(64, MemoryKind::DEVICE, false).expect("memory");
    let to = device.alloc(64, MemoryKind::DEVICE, true).expect("memory");
    queue.upload_all(&[(&from.span(0, 4).unwrap(), b"abcd"), (&from.span(4, 4).unwrap(), b"efgh")]).unwrap();
    queue.upload_owned(&from.span(8, 8).unwrap(), b"ijklmnop".to_vec()).unwrap();
    let spec = LaunchSpec {
        row: 0,
        split: 1,
        problem: Problem { m: 1, n: 1, k: 4, batch: 1, aux: 0 },
        args: vec![Some(from.span(0, 16).unwrap()), Some(to.span(16, 16).unwrap())],
        scalars: vec![],
        scratch: None,
        semaphores: None,
    };
    let list = device.list(&[spec]).expect("a list");
    // The list keeps what it names.
    drop(from);
    let ticket = queue.submit(&list).expect("submitted");
    queue.wait(ticket).expect("done");
    let later = queue.download_later(&to.span(16, 8).unwrap()).expect("started");
    let mut now = [0; 8];
    queue.download(&to.span(24, 8).unwrap(), &mut now).expect("copied");
    assert_eq!(&now, b"ijklmnop");
    assert_eq!(queue.take(later).expect("copied"), b"abcdefgh");
    assert_eq!(code(queue.take(later)), Code::INVALID, "a download is taken once");
    let mut poison = [0; 2];
    queue.download(&to.span(0, 2).unwrap(), &mut poison).expect("copied");
    assert_eq!(poison, [0xff, 0xff]);
    queue.finish().expect("nothing left");
}

#[test]
fn spans_launches_and_tickets_are_checked_here() {
    let folder = Folder::new();
    let device = device(&folder, "honest");
    let other_folder = Folder::new();
    let other = self::device(&other_folder, "honest");
    let buffer = device.alloc(64, MemoryKind::DEVICE, false).expect("memory");
    for (offset, len) in [(0, 65), (64, 1), (65, 0), (u64::MAX, 2), (1, u64::MAX)] {
        assert_eq!(code(buffer.span(offset, len)), Code::INVALID, "{offset} {len}");
    }
    let span = buffer.span(8, 16).unwrap();
    assert_eq!(code(span.part(8, 9)), Code::INVALID);
    assert_eq!(span.part(8, 8).unwrap().offset(), 16);
    assert_eq!(code(device.alloc(0, MemoryKind::DEVICE, false)), Code::INVALID);
    assert_eq!(code(device.alloc(u64::MAX, MemoryKind::DEVICE, false)), Code::OUT_OF_MEMORY);

    let foreign = other.alloc(64, MemoryKind::DEVICE, false).expect("memory").whole();
    let good = LaunchSpec {
        row: 0,
        split: 1,
        problem: Problem::default(),
        args: vec![Some(buffer.whole()), Some(buffer.whole())],
        scalars: vec![],
        scratch: None,
        semaphores: None,
    };
    let bad = [
        LaunchSpec { row: 77, ..good.clone() },
        LaunchSpec { args: vec![], ..good.clone() },
        LaunchSpec { args: vec![Some(buffer.span(2, 8).unwrap()), None], ..good.clone() },
        LaunchSpec { args: vec![Some(foreign.clone()), None], ..good.clone() },
        LaunchSpec { scalars: vec![0; 129], ..good.clone() },
    ];
    for spec in bad {
        let error = device.list(&[good.clone(), spec]).expect_err("refused");
        assert!(error.text.contains("launch 1 of 2"), "{error}");
    }

    let mut queue = device.queue().expect("a queue");
    let mut second = device.queue().expect("a queue");
    let list = device.list(&[good]).expect("a list");
    let ticket = queue.submit(&list).expect("submitted");
    assert_eq!(code(second.wait(ticket)), Code::INVALID, "a ticket of another queue");
    assert_eq!(code(other.queue().unwrap().submit(&list)), Code::INVALID, "a list of another device");
    assert_eq!(code(queue.upload(&foreign, b"a")), Code::INVALID);
    assert_eq!(code(queue.upload(&span, &[0; 17])), Code::INVALID);
    assert_eq!(code(queue.download(&span, &mut [0; 17])), Code::INVALID);
    assert!(queue.upload(&span, &[]).is_ok(), "nothing to copy is no error");
}

#[test]
fn imported_pages_are_kept_and_not_written() {
    let folder = Folder::new();
    let device = device(&folder, "honest");
    let mut pages = memmap2::MmapMut::map_anon(4096).expect("pages");
    pages[..3].copy_from_slice(b"abc");
    let pages = Arc::new(pages.make_read_only().expect("read-only"));
    let held = Arc::downgrade(&pages);
    let buffer = device.import(pages).expect("imported");
    let mut queue = device.queue().expect("a queue");
    let mut read = [0; 3];
    queue.download(&buffer.span(0, 3).unwrap(), &mut read).expect("copied");
    assert_eq!(&read, b"abc");
    assert_eq!(code(queue.upload(&buffer.whole(), b"x")), Code::INVALID);
    drop(buffer);
    assert!(held.upgrade().is_some(), "work that names the pages may still run");
    drop(queue);
    drop(device);
    assert!(held.upgrade().is_none(), "the device closed");
}

#[test]
fn loss_is_remembered() {
    let folder = Folder::new();
    let device = device(&folder, "is-lost-on-upload");
    let mut queue = device.queue().expect("a queue");
    let buffer = device.alloc(8, MemoryKind::DEVICE, false).expect("memory");
    let error = queue.upload(&buffer.whole(), b"a").expect_err("lost");
    assert!(error.is_lost() && error.text == "fell off the bus in row 3", "{error}");
    let after = device.mem_info().expect_err("lost is lost");
    assert!(after.is_lost() && after.text == error.text, "{after}");
    assert_eq!(device.lost(), Some("fell off the bus in row 3"));
    assert_eq!(code(queue.finish().and_then(|()| device.queue().map(drop))), Code::LOST);
}

#[test]
fn waiting_does_not_spin_and_polling_returns() {
    let folder = Folder::new();
    let device = device(&folder, "is-never-done");
    let mut queue = device.queue().expect("a queue");
    let buffer = device.alloc(8, MemoryKind::DEVICE, false).expect("memory");
    let ticket = queue.upload_owned(&buffer.whole(), vec![1; 8]).expect("started");
    assert_eq!(queue.poll(ticket, Duration::ZERO), Ok(false));
    drop(queue);
}

#[test]
fn answers_that_lie_are_errors() {
    let folder = Folder::new();
    let same = device(&folder, "gives-the-same-ticket");
    let mut queue = same.queue().expect("a queue");
    let buffer = same.alloc(8, MemoryKind::DEVICE, false).expect("memory");
    queue.upload(&buffer.whole(), b"a").expect("the first ticket rises");
    assert_eq!(code(queue.upload_owned(&buffer.whole(), vec![1])), Code::INTERNAL);
    assert_eq!(code(queue.download_later(&buffer.whole())), Code::INTERNAL);

    let folder = Folder::new();
    let backend = self::backend(&folder, "has-a-broken-kernel-manifest");
    assert_eq!(code(backend.manifest(0, "any")), Code::INTERNAL);
    assert_eq!(code(backend.manifest(9, "any")), Code::INVALID);
    assert_eq!(
        code(backend.geometry(9, &cajeta_abi::DeviceFacts::NONE, &Problem::default(), &[])),
        Code::INVALID
    );

    let folder = Folder::new();
    let nowhere = device(&folder, "maps-nowhere");
    let buffer = nowhere.alloc(8, MemoryKind::DEVICE, false).expect("memory");
    assert_eq!(code(buffer.map()), Code::INTERNAL);

    let folder = Folder::new();
    let pending = device(&folder, "answers-pending-to-everything");
    let mut queue = pending.queue().expect("a queue");
    let buffer = pending.alloc(8, MemoryKind::DEVICE, false).expect("memory");
    let ticket = queue.upload_owned(&buffer.whole(), vec![1]).expect("started");
    assert!(queue.elapsed(ticket, ticket).is_err());

    let folder = Folder::new();
    let counting = device(&folder, "counts-spans-it-lacks");
    let mut queue = counting.queue().expect("a queue");
    let buffer = counting.alloc(8, MemoryKind::DEVICE, false).expect("memory");
    let ticket = queue.upload_owned(&buffer.whole(), vec![1]).expect("started");
    assert_eq!(queue.spans(ticket, 3).expect("no more than asked for").len(), 3);
}

#[test]
fn a_scratch_buffer_of_all_memory_is_refused_by_the_device() {
    let folder = Folder::new();
    let backend = self::backend(&folder, "wants-all-memory");
    let facts = backend.devices().expect("facts")[0];
    let geometry = backend.geometry(0, &facts, &Problem::default(), &[]).expect("an answer");
    let device = backend.open(0).expect("it opens");
    assert_eq!(code(device.alloc(geometry.scratch_bytes, MemoryKind::DEVICE, false)), Code::OUT_OF_MEMORY);
}
